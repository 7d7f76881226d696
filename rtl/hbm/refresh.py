"""When banks are refreshed: in every period each of them once, where nobody waits for it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import lowest

PERIOD_BITS = 16
TICK_BITS = 6


class Refresher(wiring.Component):
    """Choose banks to refresh.

    A bank is refreshed when it was just used, nothing waits for it and no stream is or soon will be
    there: it then has the time of a whole round of the stream. Late in the period any idle bank
    is; in the end they are refreshed one after the other, whoever waits.

    Parameters
    ----------
    banks
        Banks.

    Members
    -------
    enable : In
        The period goes on.
    exist : In
        Banks that there are.
    period, late, last : In
        Cycles of a period; since when any idle bank will do; since when waiting is over.
    together : In
        Refresh all banks with one command instead.
    idle, recent, unused, reserved : In
        Of each bank: see `rtl.hbm.lane.Lane`; a stream is or soon will be there.
    done, done_all : In
        Banks refreshed in this cycle.
    refresh, held, refresh_all : Out
        See `rtl.hbm.rows.Rows`.
    tick : Out
        Every 64 cycles.
    """

    def __init__(self, banks: int) -> None:
        self.banks = banks
        vectors = ("exist", "idle", "recent", "unused", "reserved", "done")
        super().__init__(
            {
                "enable": In(1),
                **dict.fromkeys(("period", "late", "last"), In(PERIOD_BITS)),
                "together": In(1),
                **dict.fromkeys(vectors, In(banks)),
                "done_all": In(1),
                "refresh": Out(banks),
                "held": Out(banks),
                "refresh_all": Out(1),
                "tick": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the period, and the banks that are left in it."""
        m = Module()
        size = self.banks
        time, ticks = Signal(PERIOD_BITS), Signal(TICK_BITS)
        pending = Signal(size)
        running, over = Signal(), Signal()
        m.d.comb += [
            running.eq(self.enable & (self.period != 0)),
            over.eq(time + 1 >= self.period),
            self.tick.eq(ticks == 0),
        ]
        m.d.sync += [ticks.eq(ticks + 1), pending.eq(pending & ~self.done)]
        with m.If(self.done_all):
            m.d.sync += pending.eq(0)
        with m.If(~running):
            m.d.sync += [time.eq(0), pending.eq(self.exist)]
        with m.Elif(over):
            m.d.sync += [
                time.eq(0),
                pending.eq(self.exist),
                Assert(((pending & ~self.done) == 0) | self.done_all),
            ]
        with m.Else():
            m.d.sync += time.eq(time + 1)

        late, last = Signal(), Signal()
        m.d.sync += [late.eq(time >= self.late), last.eq(time >= self.last)]
        idle = Signal(size)
        due = Mux(late, ~self.unused, 0) | self.recent
        m.d.comb += idle.eq(pending & self.idle & ~self.reserved & due)
        with m.If(running & ~self.together):
            m.d.comb += [
                self.held.eq(Mux(last, lowest(pending), 0)),
                self.refresh.eq(idle | self.held),
            ]
        with m.If(running & self.together):
            m.d.comb += self.refresh_all.eq(pending.any() & (last | (late & self.idle.all())))
            m.d.comb += self.held.eq(self.refresh_all.replicate(size))
        return m
