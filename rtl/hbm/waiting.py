"""That nobody waits for ever: which banks have waited for long, and how long that can be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.distances import PLAIN, SUMS, DistanceLayout
from rtl.hbm.place import BANKS
from rtl.hbm.timing import ACTIVATE_CYCLES

PATIENCE_BITS = 12
LIMIT_BITS = 16


def _largest(*values: Any) -> Any:
    """Return the largest of numbers, or of values in hardware."""
    return reduce(lambda a, b: Mux(a > b, a, b) if isinstance(a, Value) else max(a, b), values)


def longest_wait(distance: Mapping[str, Any], patience: Any) -> Any:
    """Return for how many cycles the first access of a bank and direction can wait.

    ``docs/hbm.md`` derives it. Numbers and values in hardware will do.

    Parameters
    ----------
    distance
        Cycles, by the names of `rtl.hbm.distances.DistanceLayout`.
    patience
        See `Waiting`.
    """
    d = distance
    turn = _largest(d["wr_rd_l"], d["rtw"])
    close = _largest(d["ras"], d["rtp"], d["wr_pre"])
    four = _largest(d["faw"], 4 * _largest(d["rrd_l"], d["rrefd"]))
    slots = BANKS * (d["ppd"] + ACTIVATE_CYCLES)
    starts = 2 * BANKS // 4 * four  # an ACT and a REFpb for every bank
    row = d["rp"] + _largest(d["rcd_rd"], d["rcd_wr"])
    phase = turn + close + slots + starts + row + (BANKS + 1) * d["ccd_l"]
    refresh = close + d["rp"] + four + _largest(d["rfc_pb"], d["rfc_ab"])
    return 2 * patience + 3 * (phase + refresh)


class Waiting(wiring.Component):
    """Note which banks' first accesses have waited for long, in each direction.

    That is so after one to two times `patience`. A turn of the column bus does not end before all
    are served for which that was so when it began.

    Members
    -------
    distances : In
        See `DistanceLayout`; for the assertion.
    patience : In
        Cycles.
    reads, writes : In
        Of each bank: one waits.
    served : In
        The bank whose access is given.
    writing, turned : In
        Direction of the column bus; it changes.
    overdue : Out
        Banks whose first access of this direction has waited for long.
    here : Out
        The turn must not end yet.
    there : Out
        Some have waited for long in the other direction.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "distances": In(DistanceLayout()),
                "patience": In(PATIENCE_BITS),
                **dict.fromkeys(("reads", "writes", "served"), In(BANKS)),
                "writing": In(1),
                "turned": In(1),
                "overdue": Out(BANKS),
                "here": Out(1),
                "there": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return two bits for each bank and direction, and what the assertion counts."""
        m = Module()
        time, tick = Signal(PATIENCE_BITS), Signal()
        m.d.comb += tick.eq(time + 1 >= self.patience)
        m.d.sync += time.eq(Mux(tick, 0, time + 1))
        limit = Signal(LIMIT_BITS)
        names = (*PLAIN, *SUMS)
        m.d.sync += limit.eq(
            longest_wait({name: self.distances[name] + 1 for name in names}, self.patience)
        )
        late = []
        for direction, waits in enumerate((self.reads, self.writes)):
            kind = ("read", "write")[direction]
            stays = Signal(BANKS, name=f"{kind}_stays")  # it waits on, in this cycle
            marked = Signal(BANKS, name=f"{kind}_marked")  # it waited at the last tick
            overdue = Signal(BANKS, name=f"{kind}_overdue")
            m.d.comb += stays.eq(waits & ~Mux(self.writing == direction, self.served, 0))
            m.d.sync += [
                marked.eq(stays & (marked | tick.replicate(BANKS))),
                overdue.eq(stays & (overdue | (marked & tick.replicate(BANKS)))),
            ]
            late.append(overdue)
            for b in range(BANKS):
                waited = Signal(LIMIT_BITS, name=f"{kind}_waited_{b}")
                m.d.sync += [
                    waited.eq(Mux(stays[b], waited + ~waited.all(), 0)),
                    Assert(waited <= limit, f"bank {b} has waited too long to {kind}"),
                ]
        left = Signal(BANKS)  # those that this turn has to serve yet
        m.d.comb += [
            self.overdue.eq(Mux(self.writing, late[1], late[0])),
            self.here.eq(left.any()),
            self.there.eq(Mux(self.writing, late[0], late[1]).any()),
        ]
        m.d.sync += left.eq(
            Mux(self.turned, Mux(self.writing, late[0], late[1]), left & ~self.served)
        )
        return m
