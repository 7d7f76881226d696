"""The column bus: which access is next, and in which direction."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import oldest, round_robin, select
from rtl.hbm.distances import TIMER_BITS, DistanceLayout
from rtl.hbm.lane import AGES
from rtl.hbm.place import GeometryLayout, group_of
from rtl.hbm.timer import countdown

GROUPS = 4

PREPARE = 63
"""Cycles in which rows are opened for writes before the bus turns, at most."""


class Columns(wiring.Component):
    """Choose accesses whose rows are open.

    Reads go on until `urgent` and they had their turn, or until there are none; writes until there
    are none, or until they had their turn and reads wait. Who has waited for long comes first, and
    turns the bus.

    Before writes have their turn their rows are opened, while banks without writes go on reading:
    a turn of a few writes, each to a row of its own, would else leave the bus idle for as long as
    it takes to close and open rows.

    Parameters
    ----------
    banks
        Banks.

    Members
    -------
    distances, geometry : In
        See `DistanceLayout`, `GeometryLayout`.
    fits : In
        The first access of this direction at each bank could be given.
    ages : In
        For each of `rtl.hbm.lane.AGES`, which banks' first accesses have it.
    read_waits, write_waits : In
        Something waits at any bank.
    urgent : In
        There are many writes, or someone waits for one.
    overdue, due_here, due_there : In
        See `rtl.hbm.waiting.Waiting`.
    read_batch, batch, patience : In
        Reads and writes of a turn; cycles of a turn, of either direction, while the other waits.
    armed : In
        All rows that waiting writes want are open.
    prepare : Out
        They should be.
    grant : Out
        The bank whose access is given.
    writing : Out
        Direction.
    turned : Out
        The direction changes.
    """

    def __init__(self, banks: int) -> None:
        self.banks = banks
        super().__init__(
            {
                "distances": In(DistanceLayout()),
                "geometry": In(GeometryLayout()),
                "fits": In(banks),
                "ages": In(banks).array(len(AGES)),
                "read_waits": In(1),
                "write_waits": In(1),
                "urgent": In(1),
                "overdue": In(banks),
                "due_here": In(1),
                "due_there": In(1),
                "read_batch": In(8),
                "batch": In(8),
                "patience": In(12),
                "armed": In(1),
                "prepare": Out(1),
                "grant": Out(banks),
                "writing": Out(1),
                "turned": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the choice, the timers between groups, and the direction."""
        m = Module()
        distance, groups = self.distances, self.geometry.groups
        banks = range(self.banks)
        group = [Signal(2, name=f"group_{b}") for b in banks]
        m.d.comb += [group[b].eq(group_of(groups, b)) for b in banks]
        read, write = Signal(), Signal()
        m.d.comb += [
            read.eq(self.grant.any() & ~self.writing),
            write.eq(self.grant.any() & self.writing),
        ]
        may = []
        for g in range(GROUPS):
            same = Signal(name=f"same_{g}")
            m.d.comb += same.eq(Cat(self.grant[b] & (group[b] == g) for b in banks).any())
            ccd = Signal(TIMER_BITS, name=f"ccd_{g}")
            wtr = Signal(TIMER_BITS, name=f"wtr_{g}")
            m.d.comb += [
                ccd.eq(Mux(same, distance.ccd_l, distance.ccd_s)),
                wtr.eq(Mux(same, distance.wr_rd_l, distance.wr_rd_s)),
            ]
            to_read = countdown(m, f"to_read_{g}", TIMER_BITS, (read, ccd), (write, wtr))
            to_write = countdown(m, f"to_write_{g}", TIMER_BITS, (write, ccd), (read, distance.rtw))
            may.append(Signal(name=f"may_{g}"))
            m.d.comb += may[g].eq(Mux(self.writing, to_write, to_read))
        ready = Signal(self.banks)
        m.d.comb += ready.eq(self.fits & Cat(Cat(may).bit_select(group[b], 1) for b in banks))
        # First the oldest; then the groups take turns, and the banks within them.
        first = oldest(m, "first", ready, [*self.ages, self.overdue])
        turn = Signal(GROUPS)
        choices = []
        for g in range(GROUPS):
            members = Signal(self.banks, name=f"members_{g}")
            m.d.comb += members.eq(first & Cat(group[b] == g for b in banks))
            choices.append(round_robin(m, f"choice_{g}", members, turn[g]))
        m.d.comb += [
            turn.eq(round_robin(m, "next_turn", Cat(choice.any() for choice in choices), 1)),
            self.grant.eq(select(turn, list(choices))),
        ]

        given, passed, ready_to_turn = Signal(8), Signal(12), Signal()
        tired, enough, ends, due = Signal(), Signal(), Signal(), Signal()
        prepared = Signal(range(PREPARE + 1))
        m.d.comb += [
            tired.eq(passed >= self.patience),
            enough.eq(given >= Mux(self.writing, self.batch, self.read_batch)),
            ends.eq(
                Mux(
                    self.writing,
                    ~self.write_waits | (self.read_waits & (enough | tired)),
                    self.write_waits & (~self.read_waits | (self.prepare & ready_to_turn) | tired),
                )
            ),
            due.eq(self.due_here | self.due_there),
            self.prepare.eq(~self.writing & self.write_waits & self.urgent & enough & ~due),
            ready_to_turn.eq(self.armed | ~self.fits.any() | (prepared == PREPARE)),
            self.turned.eq((ends | self.due_there) & ~self.due_here),
        ]
        m.d.sync += given.eq(given + (self.grant.any() & ~enough))
        with m.If(Mux(self.writing, self.read_waits, self.write_waits) & ~tired):
            m.d.sync += passed.eq(passed + 1)
        m.d.sync += prepared.eq(Mux(self.prepare, prepared + (prepared != PREPARE), 0))
        with m.If(self.turned):
            m.d.sync += [self.writing.eq(~self.writing), given.eq(0), passed.eq(0)]
        return m
