"""The operand reader: from a row's place to its words, ahead of who needs them."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import exact_log2

from rtl.config import TileConfig
from rtl.vec.commands import OperandLayout, Source
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import words
from rtl.vec.ports import LineReadSignature, WordReadSignature
from rtl.vec.queue import CommandQueue

DEPTH = 4
"""Entries that wait for their user: a read takes a cycle, and so does passing it on."""


class OperandReader(wiring.Component):
    """Read the words of rows.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    commands : In
        What to read, row by row.
    lines, rows : Out
        Ports of the registers.
    words : Out
        Transfers, in order.
    side : Out
        Who they are for, see `OperandLayout`.
    """

    def __init__(self, config: TileConfig) -> None:
        self.geometry = geometry = VectorGeometry(config)
        super().__init__(
            {
                "commands": In(stream.Signature(OperandLayout(geometry))),
                "lines": Out(LineReadSignature(geometry)),
                "rows": Out(WordReadSignature(geometry)),
                "words": Out(stream.Signature(words(geometry.lanes))),
                "side": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the reader."""
        m = Module()
        g = self.geometry
        m.submodules.queue = queue = CommandQueue(OperandLayout(g))
        connect(m, wiring.flipped(self.commands), queue.commands)
        command = queue.head.payload

        # An entry is a line, of which some transfers are used, or a word that is used many times.
        part = exact_log2(g.line_transfers)
        entry = data.StructLayout(
            {
                "words": words(g.line_words),
                "side": 1,
                "uses": OperandLayout(g)["transfers"].shape,
            }
        )
        m.submodules.entries = entries = SyncFIFO(width=entry.size, depth=DEPTH)

        # First cycle: ask for a line of the row, or for its word.
        done = Signal.like(command.transfers)  # transfers asked for; rows begin with a line
        left = Signal.like(command.transfers)
        asked = Signal()
        under_way = Signal(entry)
        source = Signal(Source)
        constant = Signal(32)
        whole = command.source == Source.VECTOR
        uses = Signal.like(command.transfers)
        granted = Signal()
        room = Signal()
        m.d.comb += [
            left.eq(command.transfers - done),
            uses.eq(Mux(whole & (left > g.line_transfers), g.line_transfers, left)),
            room.eq(entries.level + asked < DEPTH),
            self.lines.requests.payload.register.eq(command.register),
            self.lines.requests.payload.line.eq(
                command.place * (g.slot_transfers // g.line_transfers) + done[part:]
            ),
            self.rows.requests.payload.register.eq(command.register),
            self.rows.requests.payload.row.eq(command.place),
        ]
        with m.If(queue.head.valid & room), m.Switch(command.source):
            with m.Case(Source.VECTOR):
                m.d.comb += [
                    self.lines.requests.valid.eq(1),
                    granted.eq(self.lines.requests.ready),
                ]
            with m.Case(Source.ROW):
                m.d.comb += [
                    self.rows.requests.valid.eq(1),
                    granted.eq(self.rows.requests.ready),
                ]
            with m.Default():
                m.d.comb += granted.eq(1)
        m.d.comb += queue.head.ready.eq(granted & (uses == left))
        m.d.sync += asked.eq(granted)
        with m.If(granted):
            m.d.sync += [
                done.eq(Mux(uses == left, 0, done + uses)),
                under_way.uses.eq(uses),
                under_way.side.eq(command.side),
                source.eq(command.source),
                constant.eq(command.constant),
            ]

        # Second cycle: it is there.
        word = Mux(source == Source.ROW, self.rows.word, constant)
        m.d.comb += [
            entries.w_en.eq(asked),
            entries.w_data.eq(
                Cat(
                    Mux(
                        source == Source.VECTOR,
                        self.lines.words.as_value(),
                        Cat(word for _ in range(g.line_words)),
                    ),
                    under_way.as_value()[32 * g.line_words :],
                )
            ),
        ]

        # Hand out the transfers of the first entry.
        first = Signal(entry)
        used = Signal.like(first.uses)
        m.d.comb += [
            first.eq(entries.r_data),
            self.words.valid.eq(entries.r_rdy),
            self.words.payload.eq(
                first.words.as_value().word_select(used[:part], 32 * g.lanes)
                if part
                else first.words.as_value()
            ),
            self.side.eq(first.side),
            entries.r_en.eq(self.words.valid & self.words.ready & (used + 1 == first.uses)),
        ]
        with m.If(self.words.valid & self.words.ready):
            m.d.sync += used.eq(Mux(used + 1 == first.uses, 0, used + 1))
        return m
