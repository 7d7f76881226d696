"""The timing rules of HBM as properties to be proved, as the rules are written: cycle by cycle.

They share nothing with the controller's timers, which count down: here the cycles *since* each
command are counted, and compared with the timing set. Every distance is asserted, and covered at
its limit: a proof that no command is early says nothing if none could ever come.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Cover, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.interface import ROW_BITS, RowCommand
from rtl.hbm.timing import ACTIVATE_CYCLES, BURST, Timing

COMMANDS = ("activate", "precharge", "refresh", "refresh_all", "read", "write")
"""Commands of a bank, as `rtl.hbm.bank.Bank` calls them."""


def longest(timing: Timing) -> int:
    """Return the longest distance between two commands, refresh intervals apart."""
    return max(timing.rfc_ab, timing.rfc_pb, timing.rc, timing.faw, timing.wr_to_pre)


def since(m: Module, name: str, event: Value, timing: Timing) -> Signal:
    """Return how many cycles ago an event was last, or more than any rule asks for."""
    never = longest(timing) + 1
    cycles = Signal(range(never + 1), name=f"since_{name}", init=never)
    with m.If(event):
        m.d.sync += cycles.eq(1)
    with m.Elif(cycles < never):
        m.d.sync += cycles.eq(cycles + 1)
    return cycles


def distance(m: Module, rule: str, cycles: Value, command: Value, required: int) -> Value:
    """Demand that a command comes no earlier than a rule allows; return whether it may come."""
    in_time = Signal(name=f"in_time_{rule}")
    m.d.comb += [
        in_time.eq(cycles >= required),
        Assert(~command | in_time, rule),
        Cover(command & (cycles == required), f"{rule}_at_its_limit"),
    ]
    return in_time


class BankProperties(wiring.Component):
    """What must hold for a bank.

    Parameters
    ----------
    timing
        The timing set.

    Members
    -------
    activate, precharge, refresh, refresh_all, read, write, new_row : In
        See `rtl.hbm.bank.Bank`.
    is_open, row : Out
        Its open row.
    may_activate, may_precharge, may_read, may_write : Out
        The commands would be in time.
    refreshing : Out
        A refresh goes on.
    """

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        super().__init__(
            {
                **dict.fromkeys(COMMANDS, In(1)),
                "new_row": In(ROW_BITS),
                "is_open": Out(1),
                "row": Out(ROW_BITS),
                **dict.fromkeys(("may_activate", "may_precharge", "may_read", "may_write"), Out(1)),
                "refreshing": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the rules of one bank."""
        m = Module()
        t = self.timing
        ago = {name: since(m, name, getattr(self, name), t) for name in COMMANDS}
        with m.If(self.activate):
            m.d.sync += [self.is_open.eq(1), self.row.eq(self.new_row)]
        with m.If(self.precharge):
            m.d.sync += self.is_open.eq(0)

        starts = Signal()  # what needs a bank that is closed and at rest
        closes = Signal()  # PRE and PREA of a closed bank change nothing
        m.d.comb += [
            starts.eq(self.activate | self.refresh | self.refresh_all),
            closes.eq(self.precharge & self.is_open),
        ]
        m.d.comb += [
            self.may_read.eq(distance(m, "RCDRD", ago["activate"], self.read, t.rcd_rd)),
            self.may_write.eq(distance(m, "RCDWR", ago["activate"], self.write, t.rcd_wr)),
            self.may_precharge.eq(
                distance(m, "RAS", ago["activate"], closes, t.ras)
                & distance(m, "RTP", ago["read"], closes, t.rtp)
                & distance(m, "WR", ago["write"], closes, t.wl + BURST + t.wr)
            ),
            self.may_activate.eq(
                distance(m, "RC", ago["activate"], starts, t.rc)
                & distance(m, "RP", ago["precharge"], starts, t.rp)
                & distance(m, "RFCPB", ago["refresh"], starts, t.rfc_pb)
                & distance(m, "RFCAB", ago["refresh_all"], starts, t.rfc_ab)
            ),
            self.refreshing.eq((ago["refresh"] < t.rfc_pb) | (ago["refresh_all"] < t.rfc_ab)),
            Assert(~starts | ~self.is_open, "OPEN"),
            Assert(~(self.read | self.write) | self.is_open, "CLOSED"),
            Assert(~self.precharge | ~self.refreshing, "REST"),
        ]
        return m


class RowBusProperties(wiring.Component):
    """What must hold between the banks of a row bus.

    Parameters
    ----------
    timing
        The timing set.

    Members
    -------
    command : In
        The row command.
    bank : In
        The bank that it is for, one bit each.
    """

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        super().__init__({"command": In(RowCommand), "bank": In(timing.banks)})

    def elaborate(self, platform: Any) -> Module:
        """Return the rules of ACT and refreshes, bank group by bank group, and of PRE."""
        m = Module()
        t = self.timing
        activate, refresh, start, close = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            activate.eq(self.command == RowCommand.ACT),
            refresh.eq(self.command == RowCommand.REFPB),
            start.eq(activate | refresh),
            close.eq((self.command == RowCommand.PRE) | (self.command == RowCommand.PREA)),
        ]
        for g in range(t.bank_groups):
            mine = Signal(name=f"group_{g}")
            m.d.comb += mine.eq(Cat(self.bank[g :: t.bank_groups]).any())
            ago = since(m, f"activate_{g}", activate & mine, t)
            distance(m, f"RRD_L_{g}", ago, start & mine, t.rrd_l)
            distance(m, f"RRD_S_{g}", ago, start & ~mine, t.rrd_s)
        distance(m, "RREFD", since(m, "refresh", refresh, t), start, t.rrefd)
        distance(m, "PPD", since(m, "close", close, t), close, t.ppd)

        # The start before the last three: a window's length must lie between it and the next.
        ago = since(m, "start", start, t)
        for back in range(1, 4):
            older = Signal.like(ago, name=f"since_{back}_before")
            m.d.sync += older.eq(older + (older < older.init))
            with m.If(start):
                m.d.sync += older.eq(ago + (ago < ago.init))
            ago = older
        distance(m, "FAW", ago, start, t.faw)

        resting = Signal(range(ACTIVATE_CYCLES))
        m.d.sync += resting.eq(activate)
        idle = self.command == RowCommand.NOP
        single = (self.bank & (self.bank - 1)) == 0
        one = self.bank.any() & single
        m.d.comb += [
            Assert(~resting | idle, "ROW_BUS"),
            Assert(~(activate | refresh | (self.command == RowCommand.PRE)) | one, "RANGE"),
            Assert((self.command != RowCommand.PREA) | self.bank.all(), "RANGE_PREA"),
        ]
        return m
