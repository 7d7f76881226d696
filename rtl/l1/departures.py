"""Lines that have left the cache and are not yet in memory."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.l1.geometry import L1Geometry


class Departures(wiring.Component):
    """Keep the numbers of the lines on their way to memory.

    A line is here from the moment its place is given away until the memory has accepted it: a read
    that is sent to memory in between could be faster, and find what was there before.

    Parameters
    ----------
    geometry
        Sizes.
    depth
        Lines that may be on their way, a power of two.

    Members
    -------
    lines : In
        Lines whose place is given away.
    next : Out
        The first of them whose bytes were not yet sent; taken when they are.
    accepted : In
        The memory has accepted the oldest.
    query : In
        A line.
    found : Out
        It is on its way.
    idle : Out
        None is.
    """

    def __init__(self, geometry: L1Geometry, depth: int) -> None:
        self.geometry, self.depth = geometry, depth
        line = geometry.line_bits
        super().__init__(
            {
                "lines": In(stream.Signature(line)),
                "next": Out(stream.Signature(line)),
                "accepted": In(1),
                "query": In(line),
                "found": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a ring of lines."""
        m = Module()
        bits = exact_log2(self.depth)
        lines = Array(Signal(self.geometry.line_bits, name=f"line{i}") for i in range(self.depth))
        live = Signal(self.depth)
        first, unsent, free = Signal(bits), Signal(bits), Signal(bits)
        waiting = Signal(range(self.depth + 1))
        sent, added = self.next.valid & self.next.ready, self.lines.valid & self.lines.ready
        m.d.comb += [
            self.lines.ready.eq(~live.all()),
            self.next.valid.eq(waiting != 0),
            self.next.payload.eq(lines[unsent]),
            self.found.eq(Cat(live[i] & (lines[i] == self.query) for i in range(self.depth)).any()),
            self.idle.eq(~live.any()),
        ]
        m.d.sync += [
            waiting.eq(waiting + added - sent),
            first.eq(first + self.accepted),
            unsent.eq(unsent + sent),
            free.eq(free + added),
        ]
        for i in range(self.depth):
            with m.If(self.accepted & (first == i)):
                m.d.sync += live[i].eq(0)
            with m.If(added & (free == i)):
                m.d.sync += [live[i].eq(1), lines[i].eq(self.lines.payload)]
        with m.If(self.accepted):
            m.d.sync += Assert(live.bit_select(first, 1) & ~((first == unsent) & (waiting != 0)))
        return m
