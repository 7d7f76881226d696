"""What comes to a node from one direction."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import ArrivalLayout, GroupLayout, HeaderLayout, LinkLayout


class Receive(wiring.Component):
    """Take flits for what they are, in the order of the groups.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    groups : In
        What is to come.
    header : In
        The header of this tile.
    reduces : In
        Flits wait for `paired`, and only those that end here are written.
    paired : In
        The own block that belongs to the next group is there.
    flits : In
        From the neighbour.
    arrivals : Out
        Flits, and what becomes of them.
    differs : Out
        A header is not that of this tile.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "groups": In(stream.Signature(GroupLayout(g))),
                "header": In(HeaderLayout()),
                "reduces": In(1),
                "paired": In(1),
                "flits": In(stream.Signature(LinkLayout(g))),
                "arrivals": Out(stream.Signature(ArrivalLayout(g))),
                "differs": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a counter of flits."""
        m = Module()
        g, group, arrival = self.geometry, self.groups.payload, self.arrivals.payload
        begun, count = Signal(), Signal(g.index_bits)
        go, data = Signal(), ~group.header
        m.d.comb += [
            arrival.flit.eq(self.flits.payload),
            arrival.send.eq(group.send),
            arrival.write.eq(data & ~(self.reduces & group.send)),
            arrival.index.eq(Mux(begun, count, group.run.low >> g.word_bits)),
            arrival.last.eq(group.header | (arrival.index == group.run.high >> g.word_bits)),
            arrival.run.eq(group.run),
            self.arrivals.valid.eq(
                self.groups.valid & self.flits.valid & (self.paired | group.header | ~self.reduces)
            ),
            go.eq(self.arrivals.valid & self.arrivals.ready),
            self.flits.ready.eq(go),
            self.groups.ready.eq(go & arrival.last),
            self.differs.eq(
                go & group.header & (self.flits.payload.header.as_value() != self.header.as_value())
            ),
        ]
        with m.If(go):
            m.d.sync += [begun.eq(~arrival.last), count.eq(arrival.index + 1)]
        return m
