"""Sums of rows: 32 partial sums, and the fold that adds them up.

Column j is added to partial sum ``j mod 32`` in the order of columns. The partials of a transfer
are a *group*, ``32 / vec_lanes`` of them there are, and a row's transfers come by them in turn. An
addition takes two cycles; with fewer than two groups a transfer waits for the one before.

A row that resumes gets its state as it goes: the first element of a partial is added to the state
instead of +0. If the row ends before all groups had an element, the rest of the state follows
alone.

There are two sets of partials: while one takes a row, the other one is folded, or written as the
state of the sum. Adding -0 changes nothing, which is how lanes without an element are left alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import exact_log2

from rtl.vec.add import Adder
from rtl.vec.fold import Fold
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import TransferLayout, words

MINUS_ZERO = 0x80000000
SETS = 2


class SumRowLayout(data.StructLayout):
    """What is done with the partials of a row.

    Members
    -------
    resume : unsigned(1)
        They begin with a state.
    suspend : unsigned(1)
        They are the result.
    """

    def __init__(self) -> None:
        super().__init__({"resume": 1, "suspend": 1})


class Sums(wiring.Component):
    """Sum rows.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    rows : In
        For each row, what is done with its partials.
    x : In
        Transfers; what is not selected is added as +0.
    state : In
        Partials of rows that resume, group by group.
    totals : Out
        The sum of each row that does not suspend.
    partials : Out
        The partials of each row that does, group by group.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        self.geometry = geometry
        lanes = words(geometry.lanes)
        super().__init__(
            {
                "rows": In(stream.Signature(SumRowLayout())),
                "x": In(stream.Signature(TransferLayout(geometry))),
                "state": In(stream.Signature(lanes)),
                "totals": Out(stream.Signature(32)),
                "partials": Out(stream.Signature(lanes)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return partials, their adders, and the fold."""
        m = Module()
        g = self.geometry
        groups = g.slot_transfers
        group_bits = exact_log2(groups)
        lanes = words(g.lanes)

        # A set is written by its row only, and read at two places: by its row, or by the fold.
        writes, reads = [], []
        for s in range(SETS):
            m.submodules[f"partials{s}"] = memory = Memory(shape=lanes, depth=groups, init=[])
            writes.append(memory.write_port())
            reads.append([memory.read_port(domain="comb") for _ in range(2)])
        touched = Array(Signal(groups, name=f"touched{s}") for s in range(SETS))  # else they are +0
        taken = Signal(SETS)  # the row is complete, or will be when what is under way has come
        complete = Signal(SETS)
        suspends = Signal(SETS)

        # --- take rows ---
        filling = Signal()
        group = Signal(max(1, group_bits))
        once = Signal()  # every group has had an element of the row
        resting = Signal()  # the row has ended, but not all of its state is here
        flight = [Signal(_FlightLayout(group), name=f"flight{i}") for i in range(Adder.LATENCY)]
        x, row = self.x.payload, self.rows.payload
        free, step, ends = Signal(), Signal(), Signal()
        wants_state = (row.resume | resting) & ~once
        last_group = group == groups - 1
        m.d.comb += [
            # A sum that is wanted has come out of the adder.
            free.eq(
                ~taken.bit_select(filling, 1)
                & ~Cat(f.valid & (f.group == group) & (f.set == filling) for f in flight[:-1]).any()
                & (self.state.valid | ~wants_state)
            ),
            self.x.ready.eq(self.rows.valid & free & ~resting),
            self.rows.ready.eq(self.x.valid & self.x.ready & x.mark.row_last),
            step.eq(Mux(resting, free, self.x.valid & self.x.ready)),
            self.state.ready.eq(step & wants_state),
            ends.eq(Mux(resting, last_group, x.mark.row_last & (~wants_state | last_group))),
        ]
        with m.If(step):
            m.d.sync += [
                group.eq(Mux(ends | last_group, 0, group + 1)),
                once.eq(~ends & (once | last_group)),
                resting.eq(~ends & (resting | x.mark.row_last)),
            ]
            with m.If(ends):
                m.d.sync += [filling.eq(~filling), taken.bit_select(filling, 1).eq(1)]
        with m.If(self.rows.ready):
            m.d.sync += suspends.bit_select(filling, 1).eq(row.suspend)

        landing = flight[-1]
        results, base = (Signal(lanes, name=name) for name in ("results", "base"))
        stored = Mux(filling, reads[1][0].data.as_value(), reads[0][0].data.as_value())
        with m.If(wants_state):
            m.d.comb += base.eq(self.state.payload)
        with m.Elif(landing.valid & (landing.group == group) & (landing.set == filling)):
            m.d.comb += base.eq(results)
        with m.Elif(once):
            m.d.comb += base.eq(stored)
        for lane in range(g.lanes):
            m.submodules[f"adder{lane}"] = adder = Adder()
            element = Mux(x.mark.inside[lane], x.words[lane], 0)
            counts = x.mark.keep[lane] & ~resting
            m.d.comb += [
                adder.advance.eq(1),
                adder.a.eq(Mux(step, base[lane], 0)),
                adder.b.eq(Mux(step, Mux(counts, element, MINUS_ZERO), 0)),
                results[lane].eq(adder.value),
            ]
        m.d.sync += [
            flight[0].valid.eq(step),
            flight[0].group.eq(group),
            flight[0].set.eq(filling),
            flight[0].last.eq(ends),
            *(later.eq(before) for before, later in pairwise(flight)),
        ]

        # --- give what is complete: to the fold, or as it is ---
        giving, out_group, given = Signal(), Signal.like(group), Signal()
        have, suspended, done = Signal(), Signal(), Signal()
        half = groups // 2
        found = []
        for port in range(2):
            at = Signal.like(group, name=f"at{port}")
            words_there = Signal(lanes, name=f"found{port}")
            m.d.comb += at.eq(out_group + port * half)
            chosen = Mux(giving, reads[1][port].data.as_value(), reads[0][port].data.as_value())
            m.d.comb += words_there.eq(Mux(touched[giving].bit_select(at, 1), chosen, 0))
            found.append((at, words_there))
        m.submodules.fold = fold = Fold(g)
        m.d.comb += [
            have.eq(complete.bit_select(giving, 1)),
            suspended.eq(suspends.bit_select(giving, 1)),
            self.partials.payload.eq(found[0][1]),
            self.partials.valid.eq(have & suspended),
            fold.pairs.payload.low.eq(found[0][1]),
            fold.pairs.payload.high.eq(found[1][1]),
            fold.pairs.valid.eq(have & ~suspended),
            given.eq(have & Mux(suspended, self.partials.ready, fold.pairs.ready)),
            done.eq(given & (out_group == Mux(suspended, groups, max(1, half)) - 1)),
        ]
        connect(m, fold.totals, wiring.flipped(self.totals))
        with m.If(given):
            m.d.sync += out_group.eq(Mux(done, 0, out_group + 1))
        with m.If(done):
            m.d.sync += giving.eq(~giving)

        for s in range(SETS):
            lands = landing.valid & (landing.set == s)
            m.d.comb += [
                reads[s][0].addr.eq(Mux(taken[s], found[0][0], group)),
                reads[s][1].addr.eq(found[1][0]),
                writes[s].en.eq(lands),
                writes[s].addr.eq(landing.group),
                writes[s].data.eq(results),
            ]
            with m.If(lands):
                m.d.sync += touched[s].bit_select(landing.group, 1).eq(1)
            with m.If(lands & landing.last):
                m.d.sync += complete[s].eq(1)
            with m.If(done & (giving == s)):
                m.d.sync += [taken[s].eq(0), complete[s].eq(0), touched[s].eq(0)]
        return m


class _FlightLayout(data.StructLayout):
    """An addition that is under way: where it lands, and whether the row is complete then."""

    def __init__(self, group: Signal) -> None:
        super().__init__({"valid": 1, "group": len(group), "set": 1, "last": 1})
