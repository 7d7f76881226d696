"""Parts of the HBM controller in surroundings that ask for anything, with the rules beside them."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Assume, Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from rtl.hbm.bank import Bank
from rtl.hbm.distances import PLAIN, SUMS, DistanceLayout
from rtl.hbm.interface import ROW_BITS, RowCommand
from rtl.hbm.lane import AGES
from rtl.hbm.rows import Rows
from rtl.hbm.timing import BURST, Timing
from tb.hbm_properties import COMMANDS, BankProperties, RowBusProperties

VECTORS = (
    *("asks_activate", "asks_precharge", "guess", "is_open"),
    *("may_activate", "may_precharge", "refresh", "held", "overdue"),
)
PERMISSIONS = ("may_activate", "may_precharge", "may_read", "may_write")


def constants(timing: Timing) -> dict[str, int]:
    """Return what `DistanceLayout` holds for a timing set."""
    plain = {name: getattr(timing, name) - 1 for name in PLAIN}
    after_data = {
        name: timing.wl + BURST + getattr(timing, field) - 1 for name, field in SUMS.items()
    }
    return plain | after_data


def one_of(commands: Value) -> Value:
    """Return whether no two bits are set."""
    return (commands & (commands - 1)) == 0


def scheduler(m: Module, timing: Timing) -> Rows:
    """Return the choice of row commands for a timing set."""
    rows = Rows(timing.banks)
    m.d.comb += [
        rows.distances.eq(DistanceLayout().const(constants(timing))),
        rows.geometry.groups.eq(timing.bank_groups),
        rows.geometry.within.eq(timing.banks // timing.bank_groups),
    ]
    return rows


class BankProof(wiring.Component):
    """A bank that is given any commands that it allows.

    Then no rule of the bank is broken; and it allows each in the first cycle in which the rules do,
    so no bandwidth is lost to caution.

    Parameters
    ----------
    timing
        The timing set.
    """

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        super().__init__({**dict.fromkeys(COMMANDS, In(1)), "new_row": In(ROW_BITS)})

    def elaborate(self, platform: Any) -> Module:
        """Return the bank, its rules, and what the schedulers see to."""
        m = Module()
        m.submodules.bank = bank = Bank()
        m.submodules.rules = rules = BankProperties(self.timing)
        m.d.comb += bank.distances.eq(DistanceLayout().const(constants(self.timing)))
        for name in (*COMMANDS, "new_row"):
            m.d.comb += [getattr(part, name).eq(getattr(self, name)) for part in (bank, rules)]
        starts = self.activate | self.refresh | self.refresh_all
        m.d.comb += [
            Assume(~ResetSignal()),
            Assume(one_of(Cat(self.activate, self.precharge, self.refresh, self.refresh_all))),
            Assume(~starts | (~bank.is_open & bank.may_activate)),
            Assume(~self.precharge | Mux(bank.is_open, bank.may_precharge, ~rules.refreshing)),
            Assume(~self.read | (bank.is_open & bank.may_read)),
            Assume(~self.write | (bank.is_open & bank.may_write)),
            # One access at a time, and none as the row is closed.
            Assume(one_of(Cat(self.read, self.write, self.precharge))),
            Assert(~bank.is_open | (bank.row == rules.row), "ROW"),
            *(
                Assert(getattr(bank, name) | ~getattr(rules, name), f"{name}_at_once")
                for name in PERMISSIONS
            ),
        ]
        return m


class RowBusProof(wiring.Component):
    """The choice of row commands, whatever the banks say and ask for.

    Then no rule between banks is broken: four-activate window, bank groups, refreshes, the bus.

    Parameters
    ----------
    timing
        The timing set.
    """

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        super().__init__(
            {
                **dict.fromkeys(VECTORS, In(timing.banks)),
                "ages": In(timing.banks).array(len(AGES)),
                "refresh_all": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the scheduler and its rules."""
        m = Module()
        m.submodules.rows = rows = scheduler(m, self.timing)
        m.submodules.bus = bus = RowBusProperties(self.timing)
        m.d.comb += [bus.command.eq(rows.command), bus.bank.eq(rows.grant)]
        m.d.comb += [getattr(rows, name).eq(getattr(self, name)) for name in VECTORS]
        m.d.comb += rows.refresh_all.eq(self.refresh_all)
        m.d.comb += [mine.eq(given) for mine, given in zip(rows.ages, self.ages, strict=True)]
        m.d.comb += Assume(~ResetSignal())
        return m


class BanksProof(wiring.Component):
    """The row bus with its banks, while anybody asks for anything.

    No rule is broken, neither between banks nor within one.

    Parameters
    ----------
    timing
        The timing set.

    Members
    -------
    wants_row, wants_access, wants_write, guess, refresh, held, overdue : In
        Of each bank: a row that is not open is needed; an access to the row that is; it writes.
        The others are as in `rtl.hbm.rows.Rows`.
    together : In
        Banks are refreshed all at once; never changes.
    """

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        vectors = (
            *("wants_row", "wants_access", "wants_write"),
            *("guess", "refresh", "held", "overdue"),
        )
        super().__init__(
            {
                **dict.fromkeys(vectors, In(timing.banks)),
                "ages": In(timing.banks).array(len(AGES)),
                "refresh_all": In(1),
                "together": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return schedulers, banks and rules."""
        m = Module()
        t = self.timing
        m.submodules.rows = rows = scheduler(m, t)
        m.submodules.bus = bus = RowBusProperties(t)
        m.d.comb += [bus.command.eq(rows.command), bus.bank.eq(rows.grant)]
        before, started = Signal(), Signal()
        m.d.sync += [before.eq(self.together), started.eq(1)]
        m.d.comb += [
            Assume(~ResetSignal()),
            Assume(~started | (self.together == before)),
            # As the refresher asks: what is held is to be refreshed, and nobody else is served.
            Assume(~self.refresh_all | (self.together & self.held.all())),
            Assume(~self.together | ~self.refresh.any()),
            Assume(self.refresh_all | ((self.held & ~self.refresh) == 0)),
            Assume((self.wants_row & self.wants_access) == 0),
            Assume((self.wants_access & self.refresh) == 0),
        ]
        for name in ("guess", "refresh", "held", "overdue", "refresh_all"):
            m.d.comb += getattr(rows, name).eq(getattr(self, name))
        m.d.comb += [mine.eq(given) for mine, given in zip(rows.ages, self.ages, strict=True)]

        closes = (rows.command == RowCommand.PRE) | (rows.command == RowCommand.PREA)
        access = Signal(t.banks)
        m.d.comb += Assume(one_of(access))
        for b in range(t.banks):
            m.submodules[f"bank{b}"] = bank = Bank()
            m.submodules[f"rules{b}"] = rules = BankProperties(t)
            fits = bank.is_open & Mux(self.wants_write[b], bank.may_write, bank.may_read)
            m.d.comb += [
                access[b].eq(self.wants_access[b] & fits & ~self.held[b]),
                rows.asks_activate[b].eq(self.wants_row[b] & ~bank.is_open & bank.may_activate),
                rows.asks_precharge[b].eq(self.wants_row[b] & bank.is_open & bank.may_precharge),
                rows.is_open[b].eq(bank.is_open),
                rows.may_activate[b].eq(bank.may_activate),
                rows.may_precharge[b].eq(bank.may_precharge),
                bank.distances.eq(rows.distances),
            ]
            for part in (bank, rules):
                m.d.comb += [
                    part.activate.eq(rows.grant[b] & (rows.command == RowCommand.ACT)),
                    part.precharge.eq(rows.grant[b] & closes),
                    part.refresh.eq(rows.grant[b] & (rows.command == RowCommand.REFPB)),
                    part.refresh_all.eq(rows.command == RowCommand.REFAB),
                    part.read.eq(access[b] & ~self.wants_write[b]),
                    part.write.eq(access[b] & self.wants_write[b]),
                ]
        return m


PROOFS = {"bank": BankProof, "row bus": RowBusProof, "banks on their row bus": BanksProof}
"""What is proved."""
