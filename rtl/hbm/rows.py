"""The row bus: which bank is opened, closed or refreshed next."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import lowest, oldest, round_robin
from rtl.hbm.columns import GROUPS
from rtl.hbm.distances import TIMER_BITS, DistanceLayout
from rtl.hbm.interface import RowCommand
from rtl.hbm.lane import AGES
from rtl.hbm.place import GeometryLayout, group_of
from rtl.hbm.timer import countdown

WINDOW = 4
"""ACT and REFpb that the four-activate window allows."""


class Rows(wiring.Component):
    """Choose row commands.

    First refreshes, and what those that cannot wait need; then what opens a row, then what closes
    one. Of several banks those come first that wait for long, then those for which someone waits,
    then the others; in turn.

    Parameters
    ----------
    banks
        Banks.

    Members
    -------
    distances, geometry : In
        See `DistanceLayout`, `GeometryLayout`.
    asks_activate, asks_precharge, guess, is_open, may_activate, may_precharge : In
        Of each bank, see `rtl.hbm.lane.Lane`.
    ages : In
        For each of `rtl.hbm.lane.AGES`, which banks' first accesses have it.
    overdue : In
        See `rtl.hbm.waiting.Waiting`.
    refresh : In
        Banks that should be refreshed.
    held : In
        Banks that may get nothing else.
    refresh_all : In
        All should be, together.
    command : Out
        The command.
    grant : Out
        The bank that it is for.
    """

    def __init__(self, banks: int) -> None:
        self.banks = banks
        vectors = (
            *("asks_activate", "asks_precharge", "guess"),
            *("is_open", "may_activate", "may_precharge", "refresh", "held", "overdue"),
        )
        super().__init__(
            {
                "distances": In(DistanceLayout()),
                "geometry": In(GeometryLayout()),
                **dict.fromkeys(vectors, In(banks)),
                "ages": In(banks).array(len(AGES)),
                "refresh_all": In(1),
                "command": Out(RowCommand),
                "grant": Out(banks),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the choices, and the timers of what holds between banks."""
        m = Module()
        distance, groups = self.distances, self.geometry.groups
        banks = range(self.banks)
        size = self.banks
        activated, refreshed, closed = Signal(), Signal(), Signal()
        m.d.comb += [
            activated.eq(self.command == RowCommand.ACT),
            refreshed.eq(self.command == RowCommand.REFPB),
            closed.eq((self.command == RowCommand.PRE) | (self.command == RowCommand.PREA)),
        ]
        may_close = countdown(m, "to_close", TIMER_BITS, (closed, distance.ppd))
        busy = Signal()  # the second cycle of an ACT
        m.d.sync += busy.eq(activated)

        # The start that lies four back must be out of the window.
        four_back = Signal(range(WINDOW))
        window = Signal(WINDOW)
        started = Signal()
        m.d.comb += started.eq(activated | refreshed)
        m.d.sync += four_back.eq(four_back + started)
        for i in range(WINDOW):
            mine = started & (four_back == i)
            m.d.comb += window[i].eq(countdown(m, f"faw_{i}", TIMER_BITS, (mine, distance.faw)))
        in_window = window.bit_select(four_back, 1)

        group = [Signal(2, name=f"group_{b}") for b in banks]
        m.d.comb += [group[b].eq(group_of(groups, b)) for b in banks]
        may_start = Signal(GROUPS)
        for g in range(GROUPS):
            same = Signal(name=f"same_{g}")
            rrd = Signal(TIMER_BITS, name=f"rrd_{g}")
            m.d.comb += [
                same.eq(Cat(self.grant[b] & (group[b] == g) for b in banks).any()),
                rrd.eq(Mux(same, distance.rrd_l, distance.rrd_s)),
            ]
            over = countdown(
                m, f"to_start_{g}", TIMER_BITS, (activated, rrd), (refreshed, distance.rrefd)
            )
            m.d.comb += may_start[g].eq(over & in_window & ~busy)
        startable = Signal(size)
        m.d.comb += startable.eq(Cat(may_start.bit_select(group[b], 1) for b in banks))

        def choose(name: str, candidates: Signal, advance: Signal) -> Signal:
            ages = [~self.guess, *self.ages, self.overdue]
            first = oldest(m, name, candidates, ages)
            return round_robin(m, name, first, advance)

        opening, closing = Signal(size), Signal(size)
        m.d.comb += [
            opening.eq(self.asks_activate & startable & ~self.held),
            closing.eq(Mux(may_close & ~busy, self.asks_precharge & ~self.held & ~self.refresh, 0)),
        ]
        open_choice, close_choice = Signal(), Signal()
        opened = choose("opened", opening, open_choice)
        shut = choose("shut", closing, close_choice)

        refreshing, emptying = Signal(size), Signal(size)
        m.d.comb += [
            refreshing.eq(self.refresh & ~self.is_open & self.may_activate & startable),
            emptying.eq(
                Mux(may_close & ~busy, self.refresh & self.is_open & self.may_precharge, 0)
            ),
        ]
        any_open, close_all, refresh_now = Signal(), Signal(), Signal()
        m.d.comb += [
            any_open.eq(self.is_open.any()),
            close_all.eq(any_open & (self.may_precharge | ~self.is_open).all() & may_close),
            refresh_now.eq(~any_open & self.may_activate.all()),
        ]
        with m.If(self.refresh_all & close_all & ~busy):
            # It counts for closed banks too.
            m.d.comb += [self.command.eq(RowCommand.PREA), self.grant.eq(~0)]
        with m.Elif(self.refresh_all & refresh_now & ~busy):
            m.d.comb += self.command.eq(RowCommand.REFAB)
        with m.Elif(refreshing.any()):
            m.d.comb += [self.command.eq(RowCommand.REFPB), self.grant.eq(lowest(refreshing))]
        with m.Elif((emptying & self.held).any()):
            m.d.comb += [
                self.command.eq(RowCommand.PRE),
                self.grant.eq(lowest(emptying & self.held)),
            ]
        with m.Elif(opening.any()):
            m.d.comb += [
                open_choice.eq(1),
                self.command.eq(RowCommand.ACT),
                self.grant.eq(opened),
            ]
        with m.Elif(emptying.any()):
            m.d.comb += [self.command.eq(RowCommand.PRE), self.grant.eq(lowest(emptying))]
        with m.Elif(closing.any()):
            m.d.comb += [close_choice.eq(1), self.command.eq(RowCommand.PRE), self.grant.eq(shut)]
        return m
