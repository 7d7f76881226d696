"""A queue of commands."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Shape
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out


class CommandQueue(wiring.Component):
    """Commands wait for who follows them.

    Parameters
    ----------
    shape
        Of a command.
    depth
        How many can wait.

    Members
    -------
    commands : In
        What comes in.
    head : Out
        What is next.
    """

    def __init__(self, shape: Any, depth: int = 2) -> None:
        self.shape, self.depth = shape, depth
        super().__init__(
            {"commands": In(stream.Signature(shape)), "head": Out(stream.Signature(shape))}
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a FIFO between two streams."""
        m = Module()
        width = Shape.cast(self.shape).width
        m.submodules.fifo = fifo = SyncFIFO(width=width, depth=self.depth)
        m.d.comb += [
            fifo.w_data.eq(self.commands.payload),
            fifo.w_en.eq(self.commands.valid),
            self.commands.ready.eq(fifo.w_rdy),
            self.head.payload.eq(fifo.r_data),
            self.head.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.head.ready),
        ]
        return m
