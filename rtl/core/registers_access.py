"""Reads of registers by the scalar unit: one word, or a comparison of one word per row."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.config import TileConfig
from rtl.core.fields import OPCODE_BITS, WORD_BITS
from rtl.core.isa import OPCODES, SLOT
from rtl.core.layout import InstructionLayout
from rtl.core.program import MOST_WORDS
from rtl.vec.geometry import VectorGeometry
from rtl.vec.ports import LineReadSignature, WordReadSignature


class RegisterAccess(wiring.Component):
    """Execute `readv`, `readr` and `match`.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    words : In
        The instruction, all of it resolved.
    start : In
        Execute it; stays until it is done.
    done : Out
        The result is there.
    value : Out
        The result.
    lines, rows : Out
        Ports of the registers.
    """

    def __init__(self, config: TileConfig) -> None:
        self.geometry = g = VectorGeometry(config)
        super().__init__(
            {
                "words": In(WORD_BITS * MOST_WORDS),
                "start": In(1),
                "done": Out(1),
                "value": Out(WORD_BITS),
                "lines": Out(LineReadSignature(g)),
                "rows": Out(WordReadSignature(g)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the walk through rows."""
        m = Module()
        g = self.geometry
        word_bits = exact_log2(g.line_words)
        readv, readr, match = (
            data.View(InstructionLayout(name), self.words[: WORD_BITS * OPCODES[name].words])
            for name in ("readv", "readr", "match")
        )
        opcode = self.words[:OPCODE_BITS]
        is_row = opcode == OPCODES["readr"].number
        is_match = opcode == OPCODES["match"].number

        row = Signal.like(match.rows)
        slot, word = Signal(len(match.offset) + 2), Signal(len(match.word))
        asked, held = Signal(), Signal()  # an answer is coming; a request may go out
        place = Signal(g.line_bits + word_bits)
        found, mask = Signal(WORD_BITS), Signal(WORD_BITS)
        first_slot = Mux(is_match, match.offset, readv.slot)
        m.d.comb += [
            word.eq(Mux(is_match, match.word, readv.word)),
            place.eq(Mux(held, slot, first_slot) * SLOT + word),
            self.lines.requests.payload.register.eq(Mux(is_match, match.source, readv.source)),
            self.lines.requests.payload.line.eq(place >> word_bits),
            self.rows.requests.payload.register.eq(readr.source),
            self.rows.requests.payload.row.eq(readr.row),
        ]
        ends = ~is_match | (row + 1 >= match.rows)
        nothing = is_match & (match.rows == 0)
        asks = self.start & ~asked & ~nothing
        granted = Signal()
        m.d.comb += [
            self.lines.requests.valid.eq(asks & ~is_row),
            self.rows.requests.valid.eq(asks & is_row),
            granted.eq(asks & Mux(is_row, self.rows.requests.ready, self.lines.requests.ready)),
            found.eq(
                Mux(
                    is_row,
                    self.rows.word,
                    self.lines.words.as_value().word_select(place[:word_bits], WORD_BITS),
                )
            ),
            self.value.eq(Mux(is_match, mask | ((found == match.equal) << row[:5]), found)),
            self.done.eq(self.start & ((asked & ends) | nothing)),
        ]
        m.d.sync += asked.eq(granted)
        with m.If(nothing):
            m.d.comb += self.value.eq(0)
        with m.If(asked & ~ends):
            m.d.sync += [
                mask.eq(self.value),
                row.eq(row + 1),
                held.eq(1),
                slot.eq(Mux(held, slot, first_slot) + match.stride),
            ]
        with m.If(self.done):
            m.d.sync += [mask.eq(0), row.eq(0), held.eq(0)]
        return m
