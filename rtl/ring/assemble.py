"""From flits to blocks that are written."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import ArrivalLayout, BlockLayout, RunOfBlockLayout


class Assemble(wiring.Component):
    """Put flits side by side until their group is complete.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    arrivals : In
        Flits.
    runs : Out
        What is to be written.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "arrivals": In(stream.Signature(ArrivalLayout(g))),
                "runs": Out(stream.Signature(RunOfBlockLayout(g))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the block that is being filled, and the one that is being written."""
        m = Module()
        g, arrival = self.geometry, self.arrivals.payload
        filling, filled = Signal(BlockLayout()), Signal(BlockLayout())
        room = ~self.runs.valid | self.runs.ready
        part = arrival.flit.part
        for flit in range(g.block_flits):
            here = arrival.index == flit
            for i in range(g.flit_words):
                at = flit * g.flit_words + i
                m.d.comb += filled.words[at].eq(Mux(here, part.words[i], filling.words[at]))
            at, width = flit * g.scale_bits, g.scale_bits
            m.d.comb += filled.scale[at : at + width].eq(
                Mux(here, part.scale, filling.scale[at : at + width])
            )
        m.d.comb += self.arrivals.ready.eq(~arrival.last | room)
        with m.If(room):
            m.d.sync += self.runs.valid.eq(0)
        with m.If(self.arrivals.valid & self.arrivals.ready):
            m.d.sync += filling.eq(filled)
            with m.If(arrival.last):
                m.d.sync += [
                    self.runs.valid.eq(1),
                    self.runs.payload.run.eq(arrival.run),
                    self.runs.payload.block.eq(filled),
                ]
        return m
