"""Command sequences for the timing checker: legal, and one step beyond, rule by rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rtl.hbm.interface import COLUMNS
from rtl.hbm.timing import BURST, Timing
from tb.hbm_script import Command

START = 10
"""Cycle of the first command."""


@dataclass(frozen=True)
class Case:
    """A sequence that keeps a rule, and one that breaks it and no other.

    Attributes
    ----------
    name
        The rule, and what is special.
    legal, illegal
        The sequences.
    breaks
        What the second must be reported for.
    fields
        Run-time fields other than those of the timing set.
    """

    name: str
    legal: list[Command]
    illegal: list[Command]
    breaks: frozenset[str]
    fields: dict[str, int] = field(default_factory=dict)


def early(name: str, setup: list[Command], last: Command, *others: str, **fields: int) -> Case:
    """Return a case whose last command comes at the earliest cycle, and a cycle before that.

    Parameters
    ----------
    name
        Begins with the rule.
    setup
        What comes before.
    last
        The last command.
    others
        Further rules which cannot be kept when this one is broken.
    fields
        Other run-time fields.
    """
    illegal = [*setup, last._replace(cycle=last.cycle - 1)]
    breaks = frozenset({name.split()[0].rstrip(","), *others})
    return Case(name, [*setup, last], illegal, breaks, fields)


def distances(t: Timing) -> Iterator[Case]:
    """Yield cases for the rules that are distances, for every pair of commands they are between."""
    at, groups = START, t.bank_groups
    other = 1  # a bank of another group than bank 0
    same = groups  # another bank of the same group
    opened = [Command(at, "ACT", 0), Command(at + t.rrd_s, "ACT", other)]
    warm = at + t.rrd_s + max(t.rcd_rd, t.rcd_wr, t.ras)  # both may do anything
    closed = [Command(at, "ACT", 0), Command(at + t.rc, "PRE", 0)]

    yield early("RCDRD", [Command(at, "ACT")], Command(at + t.rcd_rd, "RD"))
    yield early("RCDWR", [Command(at, "ACT")], Command(at + t.rcd_wr, "WR"))
    yield early("RAS", [Command(at, "ACT")], Command(at + t.ras, "PRE"))
    yield early("RAS PREA", [Command(at, "ACT")], Command(at + t.ras, "PREA"))

    # Where RC is RAS + RP, nothing can break it alone: RP is made shorter to see it by itself.
    shorter = {"rp": min(t.rp, t.rc - t.ras - 1)}
    quick = [Command(at, "ACT"), Command(at + t.ras, "PRE")]
    yield early("RC", quick, Command(at + t.rc, "ACT"), **shorter)
    yield early("RC REFPB", quick, Command(at + t.rc, "REFPB"), **shorter)
    yield early("RC REFAB", quick, Command(at + t.rc, "REFAB"), **shorter)
    if t.rc == t.ras + t.rp:
        yield early("RC with RP", quick, Command(at + t.rc, "ACT"), "RP")

    for name in ("ACT", "REFPB", "REFAB"):
        yield early(f"RP {name}", closed, Command(at + t.rc + t.rp, name))
    again = [*closed, Command(at + t.rc + 2 * t.ppd, "PRE")]
    yield early("RP counts from the last PRE", again, Command(at + t.rc + 2 * t.ppd + t.rp, "ACT"))
    everywhere = [Command(at, "ACT"), Command(at + t.rc, "PREA")]
    yield early("RP of PREA", everywhere, Command(at + t.rc + t.rp, "ACT"))
    yield early("RP of PREA, bank closed", everywhere, Command(at + t.rc + t.rp, "ACT", other))

    for close in ("PRE", "PREA"):
        yield early(f"RTP {close}", [*opened, Command(warm, "RD")], Command(warm + t.rtp, close))
        yield early(
            f"WR {close}", [*opened, Command(warm, "WR")], Command(warm + t.wr_to_pre, close)
        )

    for name in ("ACT", "PRE", "PREA", "REFAB", "REFPB"):
        last = Command(at + t.rfc_pb, name)
        yield early(f"RFCPB {name}", [Command(at, "REFPB")], last, rotation=0)

    for name in ("ACT", "REFPB"):
        first = [Command(at, "ACT")]
        yield early(f"RRD_S {name}", first, Command(at + t.rrd_s, name, other))
        yield early(f"RRD_L {name}", first, Command(at + t.rrd_l, name, same))
        yield early(f"RREFD {name}", [Command(at, "REFPB")], Command(at + t.rrefd, name, other))
        yield early(f"RREFD {name}, same group", [Command(at, "REFPB")],
                    Command(at + t.rrefd, name, same))  # fmt: skip
    if t.banks > 4:
        rate = max(t.rrd_s, -(-t.rrd_l // 2))  # neighbours differ in group, next neighbours may not
        four = [Command(at + i * rate, "ACT", i) for i in range(4)]
        for name in ("ACT", "REFPB"):
            yield early(f"FAW {name}", four, Command(at + t.faw, name, 5))
        window = [*four, *(Command(at + t.faw + i * rate, "ACT", 4 + i) for i in range(4))]
        yield early("FAW, the second window", window, Command(at + 2 * t.faw, "ACT", 8))

    for name in ("RD", "WR"):
        first = [*opened, Command(warm, name)]
        wider = {"ccd_s": t.ccd_s + 1, "ccd_l": t.ccd_l + 1}
        yield early(f"CCD_L {name}", first, Command(warm + t.ccd_l, name, 0))
        yield early(f"CCD_S {name}", first, Command(warm + t.ccd_s + 1, name, other), **wider)
        yield early(
            f"CCD_S {name} with DATA_BUS", first, Command(warm + t.ccd_s, name, other), "DATA_BUS"
        )
        yield early(f"DATA_BUS {name}", first, Command(warm + 2, name, other), ccd_s=1)
    first = [*opened, Command(warm, "WR")]
    yield early("WTR_S", first, Command(warm + t.wr_to_rd_s, "RD", other))
    yield early("WTR_L", first, Command(warm + t.wr_to_rd_l, "RD", 0))
    for bank in (0, other):
        yield early(f"RTW {bank}", [*opened, Command(warm, "RD")],
                    Command(warm + t.rtw, "WR", bank))  # fmt: skip
    meet = Command(warm + t.cl + 2 - t.wl, "WR", other)
    yield early("DATA_BUS RD, WR", [*opened, Command(warm, "RD")], meet, rtw=0)

    for a, b in (("PRE", "PRE"), ("PRE", "PREA"), ("PREA", "PRE"), ("PREA", "PREA")):
        yield early(f"PPD {a}, {b}", [*opened, Command(warm, a, 0)],
                    Command(warm + t.ppd, b, other))  # fmt: skip

    for name in ("ACT", "PRE", "PREA", "REFPB", "REFAB"):
        yield early(f"RFCAB {name}", [Command(at, "REFAB")], Command(at + t.rfc_ab, name))

    yield early("ROW_BUS", [Command(at, "ACT")], Command(at + 2, "PRE", other))


def deadlines(t: Timing) -> Iterator[Case]:
    """Yield what the refresh deadline asks for: the last cycle that is in time, and the next."""
    for postpone in (0, t.postpone):
        first = (1 + postpone) * t.refi
        for name, good in (
            ("first", [Command(first, "REFAB")]),
            # Late once does not move the second deadline.
            ("second", [Command(first, "REFAB"), Command(first + t.refi, "REFAB")]),
            # Early does: there is no credit.
            ("early", [Command(START, "REFAB"), Command(START + first, "REFAB")]),
        ):
            bad = [*good[:-1], good[-1]._replace(cycle=good[-1].cycle + 1)]
            name = f"LATE {name}, {postpone} postponed"
            yield Case(name, good, bad, frozenset({"LATE"}), {"postpone": postpone})


def states(t: Timing, rows: int) -> Iterator[Case]:
    """Yield cases for the rules that are no distances."""
    at = START
    act, pre = Command(at, "ACT"), Command(at + t.ras, "PRE")
    later = at + t.rc + t.rp
    for rule, last in (
        ("ACT_OPEN", Command(later, "ACT")),
        ("REF_OPEN", Command(later, "REFPB")),
        ("REF_OPEN", Command(later, "REFAB")),
    ):
        yield Case(f"{rule} {last.name}", [act, pre, last], [act, last], frozenset({rule}))
    for name in ("RD", "WR"):
        last = Command(later, name)
        yield Case(f"CLOSED {name}", [act, last], [act, pre, last], frozenset({"CLOSED"}))
        yield Case(f"CLOSED {name}, never opened", [act, last], [last], frozenset({"CLOSED"}))
        ajar = Command(later, name, 1)
        yield Case(f"CLOSED {name}, another is open", [act, last], [act, ajar],
                   frozenset({"CLOSED"}))  # fmt: skip
    round_ = [Command(at + b * t.rfc_pb, "REFPB", b) for b in range(t.banks)]
    after = Command(at + t.banks * t.rfc_pb, "REFPB", 0)
    many = {"refi": 0}
    yield Case("ROTATION", [*round_, after], [*round_[:-1], after], frozenset({"ROTATION"}), many)
    free = [Command(at, "REFPB"), Command(at + t.rfc_pb, "REFAB"),
            Command(at + t.rfc_pb + t.rfc_ab, "REFPB")]  # fmt: skip
    yield Case("ROTATION, REFAB begins anew", free, [free[0], free[2]],
               frozenset({"ROTATION"}), many)  # fmt: skip

    nothing: list[Command] = []
    for name, command in (
        ("RANGE row", act._replace(row=rows)),
        ("ENCODING row", Command(at, "row 6")),
        ("ENCODING row", Command(at, "row 7")),
        ("ENCODING column", Command(at, "column 3")),
    ):
        yield Case(name, nothing, [command], frozenset({name.split()[0].rstrip(",")}))
    yield Case("RANGE, the last row", [act._replace(row=rows - 1)], [act._replace(row=rows + 1)],
               frozenset({"RANGE"}))  # fmt: skip
    if t.banks < 16:
        for name in ("ACT", "PRE", "REFPB", "RD", "WR"):
            yield Case(f"RANGE bank {name}", nothing, [Command(at, name, t.banks)],
                       frozenset({"RANGE"}))  # fmt: skip


def sequential(t: Timing, blocks: int) -> list[Command]:
    """Return a sequential read at the full rate, with refresh where the stream is not.

    A block is a row in one bank of each group. Its rows are opened ahead of it and closed behind
    it, and then one of its banks is refreshed, another in each turn.
    """
    groups, turns = t.bank_groups, t.banks // t.bank_groups
    length = COLUMNS * groups * BURST
    ahead = t.rcd_rd + t.rrd_l * groups
    commands = []
    for block in range(blocks):
        start = START + ahead + block * length
        turn, row = block % turns, block // turns % 2
        banks = range(turn * groups, (turn + 1) * groups)
        for i, bank in enumerate(banks):
            commands.append(Command(start - ahead + i * t.rrd_l, "ACT", bank, row))
            commands.append(Command(start + length + t.rtp + i * t.ppd, "PRE", bank))
        for access in range(COLUMNS * groups):
            place = Command(start + access * BURST, "RD", banks[access % groups], row)
            commands.append(place._replace(column=access // groups))
        refresh = start + length + t.rtp + groups * t.ppd + t.rp
        commands.append(Command(refresh, "REFPB", banks[block // turns % groups]))
    return commands
