"""What becomes of the elements: words, one word per row, or blocks."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.core import isa
from rtl.vec.blocks import Blocks
from rtl.vec.commands import OutputLayout
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import SidedLayout, words
from rtl.vec.ports import LineWriteLayout, WordWriteLayout
from rtl.vec.queue import CommandQueue
from rtl.vec.reduce import put_transfer


class Output(wiring.Component):
    """Write elements.

    Parameters
    ----------
    geometry
        Sizes.
    depth
        Rows that may be on their way.

    Members
    -------
    commands : In
        What becomes of each row.
    x : In
        Transfers.
    old : In
        Maxima that rows go on from.
    lines : Out
        Writes to vector registers.
    row, maxima : Out
        Writes to row registers.
    done : Out
        An instruction has written everything, in order.
    """

    def __init__(self, geometry: VectorGeometry, depth: int) -> None:
        self.geometry, self.depth = geometry, depth
        super().__init__(
            {
                "commands": In(stream.Signature(OutputLayout(geometry))),
                "x": In(stream.Signature(SidedLayout(geometry))),
                "old": In(stream.Signature(words(geometry.lanes))),
                "lines": Out(stream.Signature(LineWriteLayout(geometry))),
                "row": Out(stream.Signature(WordWriteLayout(geometry))),
                "maxima": Out(stream.Signature(WordWriteLayout(geometry))),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the ways."""
        m = Module()
        g = self.geometry
        m.submodules.queue = queue = CommandQueue(OutputLayout(g), self.depth)
        connect(m, flipped(self.commands), queue.commands)
        m.submodules.blocks = blocks = Blocks(g)
        connect(m, flipped(self.old), blocks.old)
        connect(m, blocks.maxima, flipped(self.maxima))
        row, x = queue.head.payload, self.x.payload
        there, to_blocks = Signal(), Signal()
        transfer = Signal(range(max(2, g.transfers)))
        selected = Signal(words(g.lanes))
        m.d.comb += [
            there.eq(self.x.valid & queue.head.valid),
            to_blocks.eq((row.output == isa.Output.MXFP4) | (row.output == isa.Output.MXINT8)),
            blocks.row.eq(row),
            blocks.x.payload.words.eq(x.words),
            blocks.x.payload.mark.eq(x.mark),
            self.row.payload.address.register.eq(row.register),
            self.row.payload.address.row.eq(row.place),
            self.row.payload.word.eq(selected[0]),
            queue.head.ready.eq(self.x.valid & self.x.ready & x.mark.row_last),
        ]
        for lane in range(g.lanes):
            m.d.comb += selected[lane].eq(Mux(x.mark.inside[lane], x.words[lane], 0))

        # Blocks on their way have the port.
        mine = there & ~to_blocks & blocks.idle
        with m.If(blocks.idle & ~to_blocks):
            m.d.comb += [
                self.lines.payload.address.register.eq(row.register),
                *put_transfer(g, self.lines.payload, row.place, transfer, selected, x.mark.keep),
            ]
        with m.Else():
            m.d.comb += [
                self.lines.payload.eq(blocks.blocks.payload),
                self.lines.valid.eq(blocks.blocks.valid),
                blocks.blocks.ready.eq(self.lines.ready),
            ]
        with m.If(to_blocks):
            m.d.comb += [
                blocks.x.valid.eq(there),
                self.x.ready.eq(queue.head.valid & blocks.x.ready),
            ]
        with m.Elif(mine), m.Switch(row.output):
            with m.Case(isa.Output.WORDS):
                m.d.comb += [self.lines.valid.eq(1), self.x.ready.eq(self.lines.ready)]
            with m.Case(isa.Output.ROW):
                m.d.comb += [self.row.valid.eq(1), self.x.ready.eq(self.row.ready)]
            with m.Default():
                m.d.comb += self.x.ready.eq(1)
        ends = self.x.valid & self.x.ready & x.mark.last & ~to_blocks
        m.d.comb += self.done.eq(ends | blocks.done)
        with m.If(self.x.valid & self.x.ready):
            m.d.sync += transfer.eq(Mux(x.mark.row_last, 0, transfer + 1))
        return m
