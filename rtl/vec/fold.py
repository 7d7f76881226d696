"""The fold: from 32 partial sums to their sum, always in the same tree.

Partial i is added to i + 16, then i to i + 8, i + 4, i + 2 and i + 1. A group is the partials of
the lanes at a time. As long as there is more than one group, the two partials of a pair are in the
same lane: the sums of a level come out of the adders one group after the other, the first half of
them waits, and the second half meets them and goes in again. The last levels are between lanes.
Rows follow each other; what goes in again goes first.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.core.isa import SLOT
from rtl.vec.add import Adder
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import words

LEVELS = exact_log2(SLOT)


class PairLayout(data.StructLayout):
    """Groups that are added; where there is but one, it is `low`.

    Members
    -------
    low, high : array of unsigned(32)
        Group g, and the group that is half of them further.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__({"low": words(geometry.lanes), "high": words(geometry.lanes)})


class Fold(wiring.Component):
    """Add up the partial sums of rows.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    pairs : In
        The groups of a row, two at a time.
    totals : Out
        The sum of each row.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        self.geometry = geometry
        super().__init__(
            {
                "pairs": In(stream.Signature(PairLayout(geometry))),
                "totals": Out(stream.Signature(32)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return adders, and what waits for them."""
        m = Module()
        g = self.geometry
        groups, lanes = g.slot_transfers, g.lanes
        in_lane = exact_log2(groups)  # levels within a lane

        tag = data.StructLayout(
            {"valid": 1, "level": range(LEVELS + 1), "index": range(max(2, groups))}
        )
        flight = [Signal(tag, name=f"flight{i}") for i in range(Adder.LATENCY)]
        advance = Signal()
        a, b = (Signal(words(lanes), name=name) for name in ("a", "b"))
        results = Signal(words(lanes))
        for lane in range(lanes):
            m.submodules[f"adder{lane}"] = adder = Adder()
            m.d.comb += [
                adder.advance.eq(advance),
                adder.a.eq(a[lane]),
                adder.b.eq(b[lane]),
                results[lane].eq(adder.value),
            ]

        # What comes out of level n is an operand of level n + 1.
        out = flight[-1]
        go = Signal(tag)
        again = Signal()
        for level in range(LEVELS):
            with m.If(out.valid & (out.level == level)):
                left = groups >> level + 1  # groups of results
                if left > 1:
                    half = left // 2
                    waiting = Array(
                        Signal(words(lanes), name=f"waiting{level}_{i}") for i in range(half)
                    )
                    with m.If(out.index >= half):
                        m.d.comb += [
                            again.eq(1),
                            go.index.eq(out.index - half),
                            a.eq(
                                waiting[out.index[: exact_log2(half)]] if half > 1 else waiting[0]
                            ),
                            b.eq(results),
                        ]
                    with m.Elif(advance):
                        m.d.sync += waiting[out.index[: exact_log2(half)] if half > 1 else 0].eq(
                            results
                        )
                elif level + 1 < LEVELS:
                    m.d.comb += again.eq(1)
                    m.d.comb += self._between_lanes(level + 1, results, a, b)
                m.d.comb += go.level.eq(level + 1)
        with m.If(~again):
            m.d.comb += go.level.eq(0)
            if in_lane:
                m.d.comb += [a.eq(self.pairs.payload.low), b.eq(self.pairs.payload.high)]
            else:
                m.d.comb += self._between_lanes(0, self.pairs.payload.low, a, b)

        taken = Signal(range(max(2, groups)))
        m.d.comb += [
            self.totals.valid.eq(out.valid & (out.level == LEVELS - 1)),
            self.totals.payload.eq(results[0]),
            advance.eq(~self.totals.valid | self.totals.ready),
            self.pairs.ready.eq(advance & ~again),
            go.valid.eq(again | self.pairs.valid),
        ]
        with m.If(~again):
            m.d.comb += go.index.eq(taken)
        with m.If(self.pairs.valid & self.pairs.ready):
            m.d.sync += taken.eq(Mux(taken == max(1, groups // 2) - 1, 0, taken + 1))
        with m.If(advance):
            m.d.sync += [flight[0].eq(go)]
            m.d.sync += [later.eq(before) for before, later in pairwise(flight)]
        return m

    def _between_lanes(self, level: int, source: Any, a: Any, b: Any) -> list[Any]:
        """Add lanes that are half of what is left apart."""
        distance = SLOT >> level + 1
        assert distance < self.geometry.lanes
        return [
            *(a[i].eq(source[i]) for i in range(distance)),
            *(b[i].eq(source[i + distance]) for i in range(distance)),
        ]
