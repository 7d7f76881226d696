"""The rules of HBM timing once more, written to be obvious: every command against all before it.

What `sim/hbm/checker.sv` finds by remembering the latest of everything, this finds by looking at
every pair of commands. Ranges, encodings and the refresh deadline are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rtl.hbm.timing import Timing
from tb.hbm_script import Command

ROW = frozenset({"ACT", "PRE", "PREA", "REFPB", "REFAB"})
CLOSES = frozenset({"PRE", "PREA"})
ACTIVATES = frozenset({"ACT", "REFPB"})
WHOLE = frozenset({"PREA", "REFAB"})
"""Commands for all banks."""


class Violation(NamedTuple):
    """A broken rule: when, which, and for which bank."""

    cycle: int
    rule: str
    bank: int


class Pair(NamedTuple):
    """A rule: from a command to a command, in a relation of their banks, so many cycles."""

    rule: str
    earlier: frozenset[str]
    later: frozenset[str]
    banks: Callable[[int, int, int], bool]
    distance: int


def _same(a: int, b: int, groups: int) -> bool:
    return a == b


def _other(a: int, b: int, groups: int) -> bool:
    return a != b


def _any(a: int, b: int, groups: int) -> bool:
    return True


def _group(a: int, b: int, groups: int) -> bool:
    return a % groups == b % groups


def _beside(a: int, b: int, groups: int) -> bool:
    return a != b and a % groups == b % groups


def _elsewhere(a: int, b: int, groups: int) -> bool:
    return a % groups != b % groups


def pairs(t: Timing) -> list[Pair]:
    """Return the rules between two commands for single banks."""
    table = [
        ("RCDRD", "ACT", "RD", _same, t.rcd_rd),
        ("RCDWR", "ACT", "WR", _same, t.rcd_wr),
        ("RAS", "ACT", "PRE", _same, t.ras),
        ("RTP", "RD", "PRE", _same, t.rtp),
        ("WR", "WR", "PRE", _same, t.wl + 2 + t.wr),
        ("RC", "ACT", "ACT REFPB REFAB", _same, t.rc),
        ("RP", "PRE", "ACT REFPB", _same, t.rp),
        ("RFCPB", "REFPB", "ACT PRE REFPB", _same, t.rfc_pb),
        ("RRD_S", "ACT", "ACT REFPB", _elsewhere, t.rrd_s),
        ("RRD_L", "ACT", "ACT REFPB", _beside, t.rrd_l),
        ("RREFD", "REFPB", "ACT REFPB", _other, t.rrefd),
        ("CCD_S", "RD", "RD", _elsewhere, t.ccd_s),
        ("CCD_S", "WR", "WR", _elsewhere, t.ccd_s),
        ("CCD_L", "RD", "RD", _group, t.ccd_l),
        ("CCD_L", "WR", "WR", _group, t.ccd_l),
        ("WTR_S", "WR", "RD", _elsewhere, t.wl + 2 + t.wtr_s),
        ("WTR_L", "WR", "RD", _group, t.wl + 2 + t.wtr_l),
        ("RTW", "RD", "WR", _any, t.rtw),
    ]
    return [
        Pair(rule, frozenset(a.split()), frozenset(b.split()), banks, distance)
        for rule, a, b, banks, distance in table
    ]


def violations(commands: Sequence[Command], t: Timing) -> set[Violation]:
    """Return what `commands`, one per bus and cycle and sorted by cycle, break."""
    table = pairs(t)
    found: set[Violation] = set()
    single: list[Command] = []  # commands for all banks taken apart, a PRE for each bank
    whole: list[Command] = []
    open_banks: set[int] = set()
    visited: set[int] = set()

    def broken(rule: str, command: Command) -> None:
        found.add(Violation(command.cycle, rule, command.bank))

    def recently(names: Iterable[str], command: Command, distance: int) -> bool:
        return any(old.name in names and command.cycle - old.cycle < distance for old in whole)

    def check_bank(command: Command) -> None:
        for pair in table:
            if command.name in pair.later and any(
                old.name in pair.earlier
                and pair.banks(old.bank, command.bank, t.bank_groups)
                and command.cycle - old.cycle < pair.distance
                for old in single
            ):
                # A PRE of a closed bank is nothing to the bank.
                if pair.rule in ("RAS", "RTP", "WR") and command.bank not in open_banks:
                    continue
                if pair.rule in ("RCDRD", "RCDWR") and command.bank not in open_banks:
                    continue
                broken(pair.rule, command)

    for command in commands:
        name, bank, cycle = command.name, command.bank, command.cycle
        if name in ROW:
            if recently({"ACT"}, command, 2):
                broken("ROW_BUS", command)
            if recently({"REFAB"}, command, t.rfc_ab):
                broken("RFCAB", command)
            if name in CLOSES and recently(CLOSES, command, t.ppd):
                broken("PPD", command)
            if name in WHOLE and recently({"REFPB"}, command, t.rfc_pb):
                broken("RFCPB", command)
            if name == "REFAB" and recently(CLOSES, command, t.rp):
                broken("RP", command)
        else:
            first = cycle + (t.cl if name == "RD" else t.wl)
            if any(
                abs(first - (old.cycle + (t.cl if old.name == "RD" else t.wl))) < 2
                for old in whole
                if old.name in ("RD", "WR")
            ):
                broken("DATA_BUS", command)
            if bank not in open_banks:
                broken("CLOSED", command)

        targets = range(t.banks) if name in WHOLE else [bank]
        for target in targets:
            part = command._replace(bank=target, name="PRE" if name == "PREA" else name)
            if name == "PREA":
                # RFCPB and PPD of PREA are those of the whole device.
                before = set(found)
                check_bank(part)
                found.intersection_update(
                    before | {v for v in found if v.rule in ("RAS", "RTP", "WR")}
                )
            else:
                check_bank(part)
            if name == "ACT" and target in open_banks:
                broken("ACT_OPEN", part)
            if name in ("REFPB", "REFAB") and target in open_banks:
                broken("REF_OPEN", part)
        if name in ACTIVATES:
            recent = [old for old in whole if old.name in ACTIVATES][-4:]
            if len(recent) == 4 and cycle - recent[0].cycle < t.faw:
                broken("FAW", command)
        if name == "REFPB":
            if bank in visited:
                broken("ROTATION", command)
            visited.add(bank)
        if name == "REFAB" or len(visited) == t.banks:
            visited = set()

        if name == "ACT":
            open_banks.add(bank)
        if name in CLOSES:
            open_banks -= set(targets)
        whole.append(command)
        single += [
            command._replace(bank=target, name="PRE" if name == "PREA" else name)
            for target in targets
        ]
    return found
