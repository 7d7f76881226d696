"""Lines of vector registers, ahead of who stores them."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.memory.commands import FetchedLayout, FetchLayout
from rtl.memory.geometry import MemoryGeometry
from rtl.vec.ports import LineReadSignature
from rtl.vec.queue import CommandQueue

DEPTH = 3
"""Lines that wait: a read takes a cycle, and so does passing it on."""


class LineFetcher(wiring.Component):
    """Read lines.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    fetches : In
        What to read.
    registers : Out
        Port of the vector registers.
    lines : Out
        What was read, in order.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "fetches": In(stream.Signature(FetchLayout(g))),
                "registers": Out(LineReadSignature(g.vectors)),
                "lines": Out(stream.Signature(FetchedLayout(g))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the walk through lines, and a queue."""
        m = Module()
        g = self.geometry
        m.submodules.queue = queue = CommandQueue(FetchLayout(g))
        connect(m, flipped(self.fetches), queue.commands)
        fetch, request = queue.head.payload, self.registers.requests
        m.submodules.found = found = SyncFIFO(width=len(self.lines.payload.as_value()), depth=DEPTH)
        done = Signal.like(fetch.count)
        granted, asked, append = Signal(), Signal(), Signal()
        last = done + 1 == fetch.count
        m.d.comb += [
            request.payload.register.eq(fetch.register),
            request.payload.line.eq(fetch.line + done),
            request.valid.eq(queue.head.valid & (found.level + asked < DEPTH)),
            granted.eq(request.valid & request.ready),
            queue.head.ready.eq(granted & last),
            found.w_en.eq(asked),
            found.w_data.eq(
                Cat(self.registers.words.as_value(), self.registers.scales.as_value(), append)
            ),
            self.lines.payload.eq(found.r_data),
            self.lines.valid.eq(found.r_rdy),
            found.r_en.eq(self.lines.ready),
        ]
        m.d.sync += asked.eq(granted)
        with m.If(granted):
            m.d.sync += [done.eq(Mux(last, 0, done + 1)), append.eq(fetch.append)]
        return m
