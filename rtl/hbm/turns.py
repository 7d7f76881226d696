"""Who is next: in turn, some of them for several turns, and out of turn who has waited for long.

A client that reads a few lines in a row, such as L1, would otherwise have them queued one by one
among those of a stream, and where both want the same bank, every one of them would close a row of
the stream's and be followed by one that opens it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import round_robin

WAIT_BITS = 9
"""Cycles after which one that others overtake comes first: two to this power."""


PAUSE = 3
"""Cycles for which one who may keep its turn is waited for while it asks for nothing."""

BLOCKED = 16
"""The same while it asks for what it cannot have yet: most likely there is no room."""

MOST = 32
"""Turns that one may keep, at most."""


class Turns(wiring.Component):
    """Choose one of those who ask.

    Parameters
    ----------
    count
        How many may ask.
    keeps
        Which of them keep their turn while they go on asking.

    Members
    -------
    asks : In
        A bit for each.
    taken : In
        A bit for each: it got what it asked for.
    pick : Out
        The choice.
    """

    def __init__(self, count: int, keeps: Sequence[int] = ()) -> None:
        self.count, self.keeps = count, tuple(keeps)
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
        keeper = Signal(self.count)  # whose turn it stays
        turns, pause = Signal(range(MOST + 1)), Signal(range(max(PAUSE, BLOCKED) + 1))
        asks = Signal()
        may_keep = Const(sum(1 << i for i in self.keeps), self.count)
        with m.If(self.taken.any()):
            same = (self.taken & keeper).any()
            m.d.sync += [
                keeper.eq(self.taken & may_keep),
                turns.eq(Mux(same, turns - 1, MOST)),
                pause.eq(0),
            ]
        with m.Elif((pause >= Mux(asks, BLOCKED, PAUSE)) | (turns == 0)):
            m.d.sync += keeper.eq(0)
        with m.Else():
            m.d.sync += pause.eq(pause + 1)
        m.d.comb += [
            asks.eq((self.asks & keeper).any()),
            first.eq(
                Mux(
                    late.any(),
                    late,
                    Mux(keeper.any() & (turns != 0), self.asks & keeper, self.asks),
                )
            ),
            self.pick.eq(round_robin(m, "next", first, 1)),
        ]
        return m
