"""Who is next, in turn, and no longer in turn once someone has waited for long."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import round_robin

WAIT_BITS = 9
"""Cycles after which one that others overtake comes first: two to this power."""


class Turns(wiring.Component):
    """Choose one of those who ask.

    Parameters
    ----------
    count
        How many may ask.

    Members
    -------
    asks : In
        A bit for each.
    taken : In
        A bit for each: it got what it asked for.
    pick : Out
        The choice.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__({"asks": In(count), "taken": In(count), "pick": Out(count)})

    def elaborate(self, platform: Any) -> Module:
        """Return a counter for each, and the choice."""
        m = Module()
        late, first = Signal(self.count), Signal(self.count)
        for i in range(self.count):
            waited = Signal(WAIT_BITS + 1, name=f"waited_{i}")
            m.d.comb += late[i].eq(waited[-1] & self.asks[i])
            with m.If(~self.asks[i] | self.taken[i]):
                m.d.sync += waited.eq(0)
            with m.Elif(~waited[-1]):
                m.d.sync += waited.eq(waited + 1)
        m.d.comb += [
            first.eq(Mux(late.any(), late, self.asks)),
            self.pick.eq(round_robin(m, "next", first, 1)),
        ]
        return m
