"""A queue between two streams."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Shape
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out


class Queue(wiring.Component):
    """A queue of structures.

    Parameters
    ----------
    layout
        Of what.
    depth
        Of how many.

    Members
    -------
    i : In
        What enters.
    o : Out
        What leaves, in that order.
    """

    def __init__(self, layout: data.Layout, depth: int) -> None:
        self.layout, self.depth = layout, depth
        signature = stream.Signature(layout)
        super().__init__({"i": In(signature), "o": Out(signature)})

    def elaborate(self, platform: Any) -> Module:
        """Return the queue."""
        m = Module()
        m.submodules.fifo = fifo = SyncFIFOBuffered(
            width=Shape.cast(self.layout).width, depth=self.depth
        )
        m.d.comb += [
            fifo.w_data.eq(self.i.payload),
            fifo.w_en.eq(self.i.valid),
            self.i.ready.eq(fifo.w_rdy),
            self.o.payload.eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o.ready),
        ]
        return m
