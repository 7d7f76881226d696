"""Blocks of registers, ahead of who needs them."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import BlockLayout, RunLayout, RunOfBlockLayout
from rtl.vec.queue import CommandQueue

DEPTH = 3
"""Blocks that wait: a read takes a cycle, and so does passing it on."""

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
        Which block of the whole; ready when it is read.
    found : In
        The block, in the cycle behind the request.
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
                "requests": Out(stream.Signature(g.block_bits)),
                "found": In(BlockLayout()),
                "blocks": Out(stream.Signature(RunOfBlockLayout(g))),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return two queues, and the read between them."""
        m = Module()
        m.submodules.queue = queue = CommandQueue(RunLayout(self.geometry), RUNS)
        connect(m, flipped(self.runs), queue.commands)
        layout = RunOfBlockLayout(self.geometry)
        m.submodules.found = found = SyncFIFO(width=layout.size, depth=DEPTH)
        asked, what, entry = Signal(), Signal(RunLayout(self.geometry)), Signal(layout)
        granted = self.requests.valid & self.requests.ready
        m.d.comb += [
            self.requests.valid.eq(queue.head.valid & (found.level + asked < DEPTH)),
            self.requests.payload.eq(queue.head.payload.block),
            queue.head.ready.eq(granted),
            entry.run.eq(what),
            entry.block.eq(self.found),
            found.w_data.eq(entry),
            found.w_en.eq(asked),
            self.blocks.payload.eq(found.r_data),
            self.blocks.valid.eq(found.r_rdy),
            found.r_en.eq(self.blocks.ready),
            self.idle.eq(~queue.head.valid & ~asked & ~found.r_rdy),
        ]
        m.d.sync += asked.eq(granted)
        with m.If(granted):
            m.d.sync += what.eq(queue.head.payload)
        return m
