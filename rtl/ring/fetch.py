"""Blocks of registers or memory, ahead of who needs them."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import BlockLayout, RunLayout, RunOfBlockLayout
from rtl.vec.queue import CommandQueue

DEPTH = 8
"""Blocks that are read or wait: from registers three would do, but memory may take long."""

RUNS = 4
"""Runs that wait for their blocks."""


class BlockFetcher(wiring.Component):
    """Read blocks.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    runs : In
        What to read.
    requests : Out
        The same, where there is room for what is read.
    arrives : In
        What was asked for first has come.
    found : In
        That block.
    blocks : Out
        What was read, in order.
    idle : Out
        Nothing is left to read, or to be taken.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "runs": In(stream.Signature(RunLayout(g))),
                "requests": Out(stream.Signature(RunLayout(g))),
                "arrives": In(1),
                "found": In(BlockLayout()),
                "blocks": Out(stream.Signature(RunOfBlockLayout(g))),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return queues of what is wanted, what is read, and what was found."""
        m = Module()
        layout = RunLayout(self.geometry)
        m.submodules.queue = queue = CommandQueue(layout, RUNS)
        m.submodules.asked = asked = CommandQueue(layout, DEPTH)
        m.submodules.found = found = SyncFIFO(width=BlockLayout().size, depth=DEPTH)
        connect(m, flipped(self.runs), queue.commands)
        m.d.comb += [
            self.requests.valid.eq(queue.head.valid & asked.commands.ready),
            self.requests.payload.eq(queue.head.payload),
            queue.head.ready.eq(self.requests.ready & asked.commands.ready),
            asked.commands.valid.eq(queue.head.valid & self.requests.ready),
            asked.commands.payload.eq(queue.head.payload),
            found.w_data.eq(self.found),
            found.w_en.eq(self.arrives),
            self.blocks.payload.run.eq(asked.head.payload),
            self.blocks.payload.block.eq(found.r_data),
            self.blocks.valid.eq(found.r_rdy),
            found.r_en.eq(self.blocks.ready),
            asked.head.ready.eq(found.r_rdy & self.blocks.ready),
            self.idle.eq(~queue.head.valid & ~asked.head.valid),
        ]
        return m
