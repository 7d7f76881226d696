"""The ways of a node to the registers of its tile: one port to read, one to write."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.core.isa import BLOCK_WORDS
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import BlockLayout, RunOfBlockLayout
from rtl.vec.geometry import REGISTER_BITS
from rtl.vec.ports import LineReadSignature, LineWriteLayout


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
    register : In
        The register.
    base : In
        Its block where the whole begins.
    requests : In
        Which block of the whole, for each reader.
    found : Out
        The block, in the cycle behind a request.
    lines : Out
        Port of the registers.
    """

    def __init__(self, geometry: RingGeometry, readers: int) -> None:
        self.geometry = g = geometry
        self.readers = readers
        super().__init__(
            {
                "register": In(REGISTER_BITS),
                "base": In(g.block_bits),
                "requests": In(stream.Signature(g.block_bits)).array(readers),
                "found": Out(BlockLayout()),
                "lines": Out(LineReadSignature(g.vectors)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a choice, and the part of a line that a block is."""
        m = Module()
        g, port = self.geometry, self.lines.requests
        block = Signal(g.block_bits)
        for request in reversed(self.requests):
            with m.If(request.valid):
                m.d.comb += [port.valid.eq(1), block.eq(request.payload + self.base)]
        taken: Any = 0
        for request in self.requests:
            m.d.comb += request.ready.eq(port.ready & ~taken)
            taken = taken | request.valid
        per_line = exact_log2(g.vectors.line_blocks)
        m.d.comb += [
            port.payload.register.eq(self.register),
            port.payload.line.eq(block >> per_line),
            self.found.words.eq(self.lines.words),
            self.found.scale.eq(self.lines.scales[0]),
        ]
        if per_line:
            within = Signal(per_line)
            m.d.sync += within.eq(block)
            words = self.lines.words.as_value().word_select(within, 32 * BLOCK_WORDS)
            m.d.comb += [
                self.found.words.eq(words),
                self.found.scale.eq(self.lines.scales.as_value().word_select(within, 8)),
            ]
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
    """

    def __init__(self, geometry: RingGeometry, writers: int) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "register": In(REGISTER_BITS),
                "base": In(g.block_bits),
                "scaled": In(1),
                "runs": In(stream.Signature(RunOfBlockLayout(g))).array(writers),
                "lines": Out(stream.Signature(LineWriteLayout(g.vectors))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a choice, and the place of a block in a line."""
        m = Module()
        g, line = self.geometry, self.lines.payload
        chosen = Signal(RunOfBlockLayout(g))
        for run in reversed(self.runs):
            with m.If(run.valid):
                m.d.comb += [self.lines.valid.eq(1), chosen.eq(run.payload)]
        taken: Any = 0
        for run in self.runs:
            m.d.comb += run.ready.eq(self.lines.ready & ~taken)
            taken = taken | run.valid
        block, enable = Signal(g.block_bits), Signal(BLOCK_WORDS)
        m.d.comb += block.eq(chosen.run.block + self.base)
        all_words = Const((1 << BLOCK_WORDS) - 1, BLOCK_WORDS)
        m.d.comb += enable.eq((all_words << chosen.run.low) & (all_words >> ~chosen.run.high))
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
