"""What a controller knows of a bank: its open row, and when it may be given a command."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module
from amaranth.lib.wiring import In, Out

from rtl.hbm.distances import TIMER_BITS, DistanceLayout
from rtl.hbm.interface import ROW_BITS
from rtl.hbm.timer import countdown
from rtl.leaf import Leaf


class Bank(Leaf):
    """State and timers of a bank, for the rules that hold within it.

    Members
    -------
    distances : In
        See `DistanceLayout`.
    activate, precharge, refresh, refresh_all, read, write : In
        Commands given to it in this cycle.
    new_row : In
        The row that `activate` opens.
    is_open, row : Out
        Its open row.
    may_activate : Out
        Neither ACT nor a refresh would come too soon.
    may_precharge, may_read, may_write : Out
        PRE, RD, WR would not come too soon.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "distances": In(DistanceLayout()),
                **dict.fromkeys(
                    ("activate", "precharge", "refresh", "refresh_all", "read", "write"), In(1)
                ),
                "new_row": In(ROW_BITS),
                "is_open": Out(1),
                "row": Out(ROW_BITS),
                **dict.fromkeys(("may_activate", "may_precharge", "may_read", "may_write"), Out(1)),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "hbm_bank"

    def build(self, platform: Any) -> Module:
        """Return the open row and four timers."""
        m = Module()
        distance = self.distances
        with m.If(self.activate):
            m.d.sync += [self.is_open.eq(1), self.row.eq(self.new_row)]
        with m.If(self.precharge):
            m.d.sync += self.is_open.eq(0)

        def timer(name, *loads):
            return countdown(m, name, TIMER_BITS, *loads)

        m.d.comb += [
            self.may_read.eq(timer("to_read", (self.activate, distance.rcd_rd))),
            self.may_write.eq(timer("to_write", (self.activate, distance.rcd_wr))),
            self.may_precharge.eq(
                timer(
                    "to_precharge",
                    (self.activate, distance.ras),
                    (self.read, distance.rtp),
                    (self.write, distance.wr_pre),
                )
            ),
            self.may_activate.eq(
                timer(
                    "to_activate",
                    (self.activate, distance.rc),
                    (self.precharge, distance.rp),
                    (self.refresh, distance.rfc_pb),
                    (self.refresh_all, distance.rfc_ab),
                )
            ),
        ]
        m.d.sync += [
            Assert(~self.activate | (~self.is_open & self.may_activate)),
            Assert(~(self.refresh | self.refresh_all) | (~self.is_open & self.may_activate)),
            Assert(~self.precharge | ~self.is_open | self.may_precharge),
            Assert(~self.read | (self.is_open & self.may_read)),
            Assert(~self.write | (self.is_open & self.may_write)),
            Assert(~(self.read | self.write) | ~self.precharge),
        ]
        return m
