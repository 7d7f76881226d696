"""The ways of a node to what it moves: a port of registers to read, one to write, or memory."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.core.isa import BLOCK_WORDS
from rtl.ring.fetch import DEPTH
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import BlockLayout, RunLayout, RunOfBlockLayout
from rtl.vec.geometry import REGISTER_BITS
from rtl.vec.ports import LineReadSignature, LineWriteLayout
from rtl.vec.queue import CommandQueue


def words_of(run: Any) -> Value:
    """Return which words of a block a run has, a bit each."""
    everything = Const((1 << BLOCK_WORDS) - 1, BLOCK_WORDS)
    return ((everything << run.low) & (everything >> ~run.high))[:BLOCK_WORDS]


class BlockReads(wiring.Component):
    """Whoever reads blocks; those that come first go first.

    Nobody waits for ever: who goes first has room for a few blocks only.

    Parameters
    ----------
    geometry
        Sizes.
    readers
        How many there are.

    Members
    -------
    memory : In
        What is read is in memory; it changes only when nothing is under way.
    register : In
        The register.
    base : In
        Its block where the whole begins.
    requests : In
        Words of the whole, for each reader.
    arrives : Out
        For each of them: what it asked for first has come.
    found : Out
        The block that has.
    lines : Out
        Port of the registers.
    memory_reads, memory_arrives, memory_found : Out, In, In
        To who reads memory, and from there, in the same order.
    """

    def __init__(self, geometry: RingGeometry, readers: int) -> None:
        self.geometry = g = geometry
        self.readers = readers
        super().__init__(
            {
                "memory": In(1),
                "register": In(REGISTER_BITS),
                "base": In(g.place_bits),
                "requests": In(stream.Signature(RunLayout(g))).array(readers),
                "arrives": Out(readers),
                "found": Out(BlockLayout()),
                "lines": Out(LineReadSignature(g.vectors)),
                "memory_reads": Out(stream.Signature(RunLayout(g))),
                "memory_arrives": In(1),
                "memory_found": In(BlockLayout()),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a choice, and the part of a line that a block is."""
        m = Module()
        g, port, reads = self.geometry, self.lines.requests, self.memory_reads
        asked_layout = data.StructLayout({"reader": range(self.readers)})
        m.submodules.asked = asked = CommandQueue(asked_layout, self.readers * DEPTH)
        chosen, block, some, ready = (
            Signal(range(self.readers)),
            Signal(g.place_bits),
            Signal(),
            Signal(),
        )
        for i, request in reversed([*enumerate(self.requests)]):
            with m.If(request.valid):
                m.d.comb += [some.eq(1), chosen.eq(i), reads.payload.eq(request.payload)]
        m.d.comb += [
            block.eq(reads.payload.block + self.base),
            port.valid.eq(some & ~self.memory),
            reads.valid.eq(some & self.memory & asked.commands.ready),
            asked.commands.valid.eq(reads.valid & reads.ready),
            asked.commands.payload.reader.eq(chosen),
            asked.head.ready.eq(self.memory_arrives),
            ready.eq(Mux(self.memory, reads.ready & asked.commands.ready, port.ready)),
        ]
        read = Signal(self.readers)  # in the cycle before, from registers
        for i, request in enumerate(self.requests):
            mine = ready & (chosen == i)
            m.d.comb += request.ready.eq(mine)
            m.d.sync += read[i].eq(mine & some & ~self.memory)
            m.d.comb += self.arrives[i].eq(
                read[i] | (self.memory_arrives & (asked.head.payload.reader == i))
            )
        per_line = exact_log2(g.vectors.line_blocks)
        words, scale = self.lines.words.as_value(), self.lines.scales.as_value()
        if per_line:
            within = Signal(per_line)
            m.d.sync += within.eq(block)
            words = words.word_select(within, 32 * BLOCK_WORDS)
            scale = scale.word_select(within, 8)
        m.d.comb += [
            port.payload.register.eq(self.register),
            port.payload.line.eq(block >> per_line),
            self.found.eq(self.memory_found),
        ]
        with m.If(~self.memory):
            m.d.comb += [self.found.words.eq(words), self.found.scale.eq(scale)]
        return m


class BlockWrites(wiring.Component):
    """Whoever writes blocks; those that come first go first.

    Nobody waits for ever: a direction that goes first must assemble the next block before.

    Parameters
    ----------
    geometry
        Sizes.
    writers
        How many there are.

    Members
    -------
    memory : In
        It goes to memory.
    register : In
        The register.
    base : In
        Its block where the whole begins.
    scaled : In
        Scale bytes are written too.
    runs : In
        What is written, of each writer.
    lines : Out
        Port of the registers.
    memory_writes : Out
        To who writes memory.
    """

    def __init__(self, geometry: RingGeometry, writers: int) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "memory": In(1),
                "register": In(REGISTER_BITS),
                "base": In(g.place_bits),
                "scaled": In(1),
                "runs": In(stream.Signature(RunOfBlockLayout(g))).array(writers),
                "lines": Out(stream.Signature(LineWriteLayout(g.vectors))),
                "memory_writes": Out(stream.Signature(RunOfBlockLayout(g))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a choice, and the place of a block in a line."""
        m = Module()
        g, line, writes = self.geometry, self.lines.payload, self.memory_writes
        chosen, some, ready = writes.payload, Signal(), Signal()
        for run in reversed(self.runs):
            with m.If(run.valid):
                m.d.comb += [some.eq(1), chosen.eq(run.payload)]
        m.d.comb += [
            self.lines.valid.eq(some & ~self.memory),
            writes.valid.eq(some & self.memory),
            ready.eq(Mux(self.memory, writes.ready, self.lines.ready)),
        ]
        taken: Any = 0
        for run in self.runs:
            m.d.comb += run.ready.eq(ready & ~taken)
            taken = taken | run.valid
        block, enable = Signal(g.place_bits), words_of(chosen.run)
        m.d.comb += block.eq(chosen.run.block + self.base)
        per_line = exact_log2(g.vectors.line_blocks)
        m.d.comb += [
            line.address.register.eq(self.register),
            line.address.line.eq(block >> per_line),
        ]
        for i in range(g.vectors.line_blocks):
            here = block[:per_line] == i if per_line else 1
            for j in range(BLOCK_WORDS):
                word = i * BLOCK_WORDS + j
                m.d.comb += [
                    line.words[word].eq(chosen.block.words[j]),
                    line.enable[word].eq(enable[j] & here),
                ]
            m.d.comb += [
                line.scales[i].eq(chosen.block.scale),
                line.scale_enable[i].eq(self.scaled & here),
            ]
        return m
