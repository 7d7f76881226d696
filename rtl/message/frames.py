"""Between what tiles say to each other and flits."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.noc.link import FlitLayout


def flits_of(shape: data.Layout, flit_bits: int) -> int:
    """Return how many flits something takes."""
    return -(-shape.size // flit_bits)


class Framer(wiring.Component):
    """Send packets of nothing but one layout.

    Parameters
    ----------
    shape
        The layout, with the place where it goes in its lowest bits.
    flit_bytes
        Bytes of a flit.

    Members
    -------
    frames : In
        What is sent.
    flits : Out
        To the network.
    """

    def __init__(self, shape: data.Layout, flit_bytes: int) -> None:
        self.shape, self.flit_bytes = shape, flit_bytes
        super().__init__(
            {
                "frames": In(stream.Signature(shape)),
                "flits": Out(stream.Signature(FlitLayout(flit_bytes))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a choice among the parts."""
        m = Module()
        bits = 8 * self.flit_bytes
        count = flits_of(self.shape, bits)
        part, last = Signal(range(max(2, count))), Signal()
        m.d.comb += [
            last.eq(part == count - 1),
            self.flits.payload.data.eq(
                Value.cast(self.frames.payload).word_select(part, min(bits, self.shape.size))
            ),
            self.flits.payload.last.eq(last),
            self.flits.valid.eq(self.frames.valid),
            self.frames.ready.eq(self.flits.ready & last),
        ]
        with m.If(self.flits.valid & self.flits.ready):
            m.d.sync += part.eq(part + 1)
            with m.If(last):
                m.d.sync += part.eq(0)
        return m


class Deframer(wiring.Component):
    """Take them apart again; a packet takes no longer than its flits.

    Parameters
    ----------
    shape
        The layout.
    flit_bytes
        Bytes of a flit.

    Members
    -------
    flits : In
        From the network.
    frames : Out
        What was sent.
    """

    def __init__(self, shape: data.Layout, flit_bytes: int) -> None:
        self.shape, self.flit_bytes = shape, flit_bytes
        super().__init__(
            {
                "flits": In(stream.Signature(FlitLayout(flit_bytes))),
                "frames": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the parts that came before."""
        m = Module()
        flit = self.flits.payload
        before = flits_of(self.shape, 8 * self.flit_bytes) - 1
        parts = [Signal(8 * self.flit_bytes, name=f"part{i}") for i in range(before)]
        m.d.comb += [
            self.frames.payload.eq(Cat(*parts, flit.data)),
            self.frames.valid.eq(self.flits.valid & flit.last),
            self.flits.ready.eq(~flit.last | self.frames.ready),
        ]
        with m.If(self.flits.valid & ~flit.last):
            for part, following in zip(parts, [*parts, flit.data][1:], strict=True):
                m.d.sync += part.eq(following)
        return m
