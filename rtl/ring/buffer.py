"""Flits that have come over a link and wait."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Shape
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out


class LinkBuffer(wiring.Component):
    """A queue that lets through what nobody is waiting before, so that a hop takes one cycle.

    Whether it takes another flit depends on nothing but how many it holds.

    Parameters
    ----------
    shape
        Of a flit.
    depth
        How many can wait.

    Members
    -------
    link : In
        What comes.
    flits : Out
        What is next.
    """

    def __init__(self, shape: Any, depth: int) -> None:
        self.shape, self.depth = shape, depth
        super().__init__(
            {"link": In(stream.Signature(shape)), "flits": Out(stream.Signature(shape))}
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a FIFO, and a way past it."""
        m = Module()
        width = Shape.cast(self.shape).width
        m.submodules.fifo = fifo = SyncFIFO(width=width, depth=self.depth)
        waiting, passes = fifo.r_rdy, ~fifo.r_rdy & self.flits.ready
        m.d.comb += [
            self.link.ready.eq(fifo.w_rdy),
            fifo.w_data.eq(self.link.payload),
            fifo.w_en.eq(self.link.valid & ~passes),
            self.flits.valid.eq(waiting | self.link.valid),
            self.flits.payload.eq(Mux(waiting, fifo.r_data, self.link.payload)),
            fifo.r_en.eq(self.flits.ready),
        ]
        return m
