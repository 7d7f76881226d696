"""The way of a message engine to the registers of its tile, block by block."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.core.isa import BLOCK_WORDS
from rtl.message.geometry import MessageGeometry
from rtl.ring.layouts import BlockLayout
from rtl.vec.geometry import REGISTER_BITS
from rtl.vec.ports import LineReadSignature, LineWriteLayout


class WrittenLayout(data.StructLayout):
    """A block that is written.

    Members
    -------
    number : unsigned
        Which block.
    last : unsigned
        Number of the last word that is written.
    block : BlockLayout
        What.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        super().__init__(
            {"number": geometry.block_bits, "last": range(BLOCK_WORDS), "block": BlockLayout()}
        )


class RegisterBlocks(wiring.Component):
    """Read and write blocks of registers, which are parts of lines.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    source, to : In
        Register that is read, and that is written.
    base : In
        Block from which blocks are counted.
    scaled : In
        Scale bytes are written too.
    reads : In
        Which block; ready when it is read.
    found : Out
        The block, in the cycle behind.
    writes : In
        What is written.
    lines_read, lines_write : Out
        Ports of the registers.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "source": In(REGISTER_BITS),
                "to": In(REGISTER_BITS),
                "base": In(g.block_bits),
                "scaled": In(1),
                "reads": In(stream.Signature(g.block_bits)),
                "found": Out(BlockLayout()),
                "writes": In(stream.Signature(WrittenLayout(g))),
                "lines_read": Out(LineReadSignature(g.vectors)),
                "lines_write": Out(stream.Signature(LineWriteLayout(g.vectors))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return which line, and which part of it."""
        m = Module()
        g, port, line, written = (
            self.geometry,
            self.lines_read,
            self.lines_write.payload,
            self.writes.payload,
        )
        per_line = exact_log2(g.vectors.line_blocks)
        wanted, within = Signal(g.block_bits), Signal(max(1, per_line))
        m.d.sync += within.eq(wanted[:per_line])
        m.d.comb += [
            wanted.eq(self.base + self.reads.payload),
            port.requests.valid.eq(self.reads.valid),
            self.reads.ready.eq(port.requests.ready),
            port.requests.payload.register.eq(self.source),
            port.requests.payload.line.eq(wanted >> per_line),
            self.found.words.eq(port.words.as_value().word_select(within, 32 * BLOCK_WORDS)),
            self.found.scale.eq(port.scales.as_value().word_select(within, 8)),
        ]
        block = Signal(g.block_bits)
        m.d.comb += [
            block.eq(self.base + written.number),
            self.lines_write.valid.eq(self.writes.valid),
            self.writes.ready.eq(self.lines_write.ready),
            line.address.register.eq(self.to),
            line.address.line.eq(block >> per_line),
        ]
        for i in range(g.vectors.line_blocks):
            here = block[:per_line] == i if per_line else 1
            for j in range(BLOCK_WORDS):
                word = i * BLOCK_WORDS + j
                m.d.comb += [
                    line.words[word].eq(written.block.words[j]),
                    line.enable[word].eq(here & (written.last >= j if j else 1)),
                ]
            m.d.comb += [
                line.scales[i].eq(written.block.scale),
                line.scale_enable[i].eq(self.scaled & here),
            ]
        return m
