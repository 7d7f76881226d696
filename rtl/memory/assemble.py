"""From words to lines of registers."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.core.isa import SLOT
from rtl.memory.commands import ChunkLayout, What
from rtl.memory.geometry import MemoryGeometry
from rtl.vec.operation import words
from rtl.vec.ports import LineWriteLayout, WordWriteLayout


class Assemble(wiring.Component):
    """Put words side by side until a line is full, or its run has ended.

    A chunk is rotated to where its words belong. Those that do not fit into the line belong to the
    beginning of the next one, which is where the rotation has put them.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    chunks : In
        Words.
    registers, rows : Out
        What is written.
    block : In
        Number of a block.
    scale : Out
        Scale byte of that block, of the run of scales before.
    quiet : Out
        Nothing is on its way.
    loaded : Out
        An instruction has written everything.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        self.geometry = g = geometry
        slots = g.config.vector_length // SLOT
        super().__init__(
            {
                "chunks": In(stream.Signature(ChunkLayout(g))),
                "registers": Out(stream.Signature(LineWriteLayout(g.vectors))),
                "rows": Out(stream.Signature(WordWriteLayout(g.vectors))),
                "block": In(range(max(2, slots))),
                "scale": Out(8),
                "quiet": Out(1),
                "loaded": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the line that is being filled."""
        m = Module()
        g = self.geometry
        chunk = self.chunks.payload
        lanes = g.line_words

        held = Signal(words(lanes))
        filled = Signal(g.word_bits)  # words of the line that are there
        number, next_number = Signal(g.place_bits), Signal(g.place_bits)
        rest = Signal()  # the run has ended, and some words are still here
        rest_register, rest_scales = Signal.like(chunk.register), Signal()

        rotated = _rotated([chunk.words[i] for i in range(lanes)], filled)
        merged, total = Signal(words(lanes)), Signal(g.word_bits + 2)
        full, writes = Signal(), Signal()
        m.d.comb += [
            total.eq(filled + Mux(rest, 0, chunk.count)),
            full.eq(total >= lanes),
            number.eq(Mux(chunk.first & ~rest, chunk.place, next_number)),
        ]
        for i in range(lanes):
            there = filled > i if i + 1 < lanes else Const(0)  # a full line does not wait
            m.d.comb += merged[i].eq(Mux(there | rest, held[i], rotated[i]))

        in_rows = chunk.what == What.ROWS
        to_scales = Mux(rest, rest_scales, chunk.what == What.SCALES)
        to_line = rest | (self.chunks.valid & ~in_rows & (full | (chunk.last & (total != 0))))
        enable = Signal(lanes)
        m.d.comb += [
            writes.eq(to_line & ~to_scales),
            enable.eq(Cat(total > i for i in range(lanes))),
            self.registers.valid.eq(writes),
            self.registers.payload.address.register.eq(Mux(rest, rest_register, chunk.register)),
            self.registers.payload.address.line.eq(number),
            self.registers.payload.words.eq(merged),
            self.registers.payload.enable.eq(enable),
            self.rows.valid.eq(self.chunks.valid & ~rest & in_rows),
            self.rows.payload.address.register.eq(chunk.register),
            self.rows.payload.address.row.eq(number),
            self.rows.payload.word.eq(chunk.words[0]),
        ]

        go = Signal()
        m.d.comb += [
            self.chunks.ready.eq(
                ~rest & (~writes | self.registers.ready) & (~self.rows.valid | self.rows.ready)
            ),
            go.eq(self.chunks.valid & self.chunks.ready),
            self.quiet.eq(~self.chunks.valid & ~rest),
            self.loaded.eq(go & (chunk.what == What.LOADED)),
        ]
        with m.If(go & in_rows):
            m.d.sync += next_number.eq(number + 1)
        with m.Elif(go):
            m.d.sync += [
                held.eq(Mux(full, Cat(rotated), merged.as_value())),
                filled.eq(Mux(chunk.last & ~full, 0, total)),
                next_number.eq(number + full),
                rest.eq(chunk.last & (total > lanes)),
                rest_register.eq(chunk.register),
                rest_scales.eq(chunk.what == What.SCALES),
            ]
        with m.If(rest & (to_scales | self.registers.ready)):
            m.d.sync += [rest.eq(0), filled.eq(0)]

        # The scale bytes of a row of blocks, a line of them in a word.
        depth = max(2, -(-g.config.vector_length // SLOT // lanes))
        m.submodules.scales = scales = Memory(shape=8 * lanes, depth=depth, init=[])
        put, get = scales.write_port(), scales.read_port(domain="comb")
        m.d.comb += [
            put.addr.eq(number),
            put.data.eq(Cat(merged[i][:8] for i in range(lanes))),
            put.en.eq(to_line & to_scales & (rest | go)),
            get.addr.eq(self.block >> g.word_bits),
            self.scale.eq(get.data.word_select(self.block[: g.word_bits], 8)),
        ]
        return m


def _rotated(values: list[Value], by: Value) -> list[Value]:
    """Return words moved up by a number of places, the last ones coming in at the front."""
    count = len(values)
    for bit in range(len(by)):
        distance = 1 << bit
        values = [Mux(by[bit], values[(i - distance) % count], values[i]) for i in range(count)]
    return values
