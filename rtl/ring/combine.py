"""Sums and maxima on the way."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.core.isa import BLOCK_WORDS
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import ArrivalLayout, BlockLayout
from rtl.vec.add import Adder
from rtl.vec.compare import flush, maximum


class Combine(wiring.Component):
    """Add own words to what comes by, or take the greater of both; or let everything pass at once.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    combines : In
        Whether to; it changes only when nothing is under way.
    maximum : In
        The greater, not the sum.
    arrivals : In
        What comes by.
    own : In
        The own block that belongs to it.
    out : Out
        What goes on.
    busy : Out
        Something is under way.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "combines": In(1),
                "maximum": In(1),
                "arrivals": In(stream.Signature(ArrivalLayout(g))),
                "own": In(BlockLayout()),
                "out": Out(stream.Signature(ArrivalLayout(g))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a pipeline as long as the adder, and a way past it."""
        m = Module()
        g, arrival = self.geometry, self.arrivals.payload
        advance, last_valid = Signal(), Signal()
        valids, stages = [], []
        valid: Any = self.arrivals.valid & self.combines
        stage: Any = arrival
        for i in range(Adder.LATENCY):
            next_valid = Signal(name=f"valid{i}")
            next_stage = Signal(ArrivalLayout(g), name=f"stage{i}")
            with m.If(advance):
                m.d.sync += [next_valid.eq(valid), next_stage.eq(stage)]
            valid, stage = next_valid, next_stage
            valids.append(valid)
            stages.append(stage)

        m.d.comb += [
            last_valid.eq(valid),
            advance.eq(~last_valid | self.out.ready),
            self.busy.eq(sum(valids) != 0),
            self.out.valid.eq(Mux(self.combines, last_valid, self.arrivals.valid)),
            self.out.payload.eq(Mux(self.combines, stage.as_value(), arrival.as_value())),
            self.arrivals.ready.eq(Mux(self.combines, advance, self.out.ready)),
        ]
        for i in range(g.flit_words):
            mine = Signal(32, name=f"mine{i}")
            for flit, at in enumerate(range(i, BLOCK_WORDS, g.flit_words)):
                with m.If(arrival.index == flit):
                    m.d.comb += mine.eq(self.own.words[at])
            came = arrival.flit.part.words[i]
            m.submodules[f"adder{i}"] = adder = Adder()
            m.d.comb += [adder.advance.eq(advance), adder.a.eq(came), adder.b.eq(mine)]
            # Of what comes, everything is flushed already.
            greater = maximum(came, flush(mine))
            with m.If(advance):
                m.d.sync += stages[0].flit.part.words[i].eq(greater)
            with m.If(self.combines & ~self.maximum):
                m.d.comb += self.out.payload.flit.part.words[i].eq(adder.value)
        return m
