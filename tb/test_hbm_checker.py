"""cocotb tests of the HBM timing checker: every rule, to the cycle."""

from __future__ import annotations

import os
import random

import cocotb

from rtl.hbm.interface import COLUMNS
from rtl.hbm.timing import BURST, TIMINGS, Timing
from sim.hbm.rules import RULES
from tb.hbm import HbmSlice
from tb.hbm_cases import START, Case, deadlines, distances, sequential, states
from tb.hbm_oracle import violations
from tb.hbm_script import Command, Script

ROWS = int(os.environ["JALAPENO_HBM_ROWS"])
SETTLE = 2
"""Cycles after the last command until everything is reported."""


async def reported(dut, script: Script, hbm: HbmSlice, commands: list[Command]):
    """Return the report after `commands`, from reset."""
    await script.reset()
    await script.play(commands)
    await script.reach(script.cycle + SETTLE)
    return hbm.report()


async def examine(dut, script: Script, hbm: HbmSlice, timing, case: Case) -> None:
    """Demand that a case's legal sequence passes and the other breaks just what it should."""
    hbm.set_timing(timing.to_dict() | case.fields)
    report = await reported(dut, script, hbm, case.legal)
    assert not report.violations, f"{timing.name}, {case.name}, legal: {report}"
    report = await reported(dut, script, hbm, case.illegal)
    assert report.broken == case.breaks, f"{timing.name}, {case.name}, illegal: {report}"
    if len(case.breaks) == 1 and "LATE" not in case.breaks:
        assert report.violations == 1, f"{timing.name}, {case.name}: {report}"
    if len(case.legal) == len(case.illegal) and case.legal[-1].cycle == report.cycle + 1:
        assert report.distance == report.required - 1 or "DATA_BUS" in case.breaks, report


@cocotb.test()
@cocotb.parametrize(name=list(TIMINGS))
async def every_rule_to_the_cycle(dut, name):
    """Each rule is kept by one sequence, and broken by another: it alone is reported."""
    timing = TIMINGS[name]
    script, hbm = Script(dut), HbmSlice(dut, timing, fatal=False)
    seen: set[str] = set()
    for cases in (distances(timing), deadlines(timing), states(timing, ROWS)):
        for case in cases:
            await examine(dut, script, hbm, timing, case)
            seen |= case.breaks
    missing = set(RULES) - seen
    assert missing <= ({"FAW"} if timing.banks <= 4 else set()), f"no case for {missing}"


def random_commands(rng: random.Random, timing: Timing, count: int) -> list[Command]:
    """Return commands of which many come too early, or to a bank in the wrong state."""
    cycle, commands = START, []
    names = ("ACT", "RD", "WR", "PRE", "PREA", "REFPB", "REFAB")
    weights = rng.choice([(8, 8, 8, 4, 1, 2, 1), (8, 8, 8, 8, 0, 0, 0), (4, 0, 0, 4, 2, 8, 1)])
    gap = rng.choice((2, 8, 24))
    for _ in range(count):
        name = rng.choices(names, weights)[0]
        commands.append(Command(cycle, name, rng.randrange(timing.banks), rng.randrange(ROWS)))
        if name in ("ACT", "PRE") and rng.random() < 0.3:
            cycle -= 1  # a column command in the same cycle, see below
        cycle += rng.choice((1, 1 + rng.randrange(gap), 1 + rng.randrange(4 * gap)))
    taken: set[tuple[int, bool]] = set()
    return [
        command
        # Columns first where both buses carry a command, as in the checker.
        for command in sorted(commands, key=lambda c: (c.cycle, c.name not in ("RD", "WR")))
        if (slot := (command.cycle, command.name in ("RD", "WR"))) not in taken
        and not taken.add(slot)  # type: ignore[func-returns-value]
    ]


@cocotb.test()
@cocotb.parametrize(name=list(TIMINGS))
async def as_found_pair_by_pair(dut, name):
    """Random commands, mostly illegal, break what looking at every pair of them says."""
    timing = TIMINGS[name]
    script, hbm = Script(dut), HbmSlice(dut, timing, fatal=False)
    hbm.set_timing(timing.to_dict() | {"refi": 0})
    rng = random.Random(random.getrandbits(32))
    seen: set[str] = set()
    for _ in range(60):
        commands = random_commands(rng, timing, 40)
        expected = violations(commands, timing)
        report = await reported(dut, script, hbm, commands)
        rules = {violation.rule for violation in expected}
        assert report.broken == rules, f"{report}; expected {sorted(expected)} of {commands}"
        assert report.violations == len(expected), f"{report}; expected {sorted(expected)}"
        if expected:
            assert report.cycle == min(expected).cycle, f"{report}; expected {min(expected)}"
        seen |= rules
    unseen = set(RULES) - seen - {"LATE", "RANGE", "ENCODING"}
    assert not unseen, f"never broken: {unseen}"
    cocotb.log.info("%s: all rules broken at random", name)


@cocotb.test()
@cocotb.parametrize(name=["hbm3-6400", "hbm4-8000"])
async def hidden_refresh_is_legal(dut, name):
    """A sequential read never pauses, although every bank is refreshed and none even once late."""
    timing = TIMINGS[name].replace(postpone=0)
    script, hbm = Script(dut), HbmSlice(dut, timing, fatal=False)
    commands = sequential(timing, 3 * timing.refi // (COLUMNS * timing.bank_groups * BURST))
    await script.reset()
    await script.play(commands)
    assert not hbm.report().violations, hbm.report()
    assert hbm.report(1).broken == {"LATE"}  # nobody refreshes the other channel
    reads = [command.cycle for command in commands if command.name == "RD"]
    assert reads[-1] - reads[0] == BURST * (len(reads) - 1)
    assert hbm.tally()["rd"] == len(reads)
    assert hbm.tally()["refpb"] >= 3 * timing.banks


@cocotb.test(skip=True)
async def a_violation_is_fatal(dut):
    """The simulation must end at the first violation unless told otherwise."""
    script, hbm = Script(dut), HbmSlice(dut, TIMINGS["tiny"])
    await reported(dut, script, hbm, [Command(START, "ACT"), Command(START + 1, "RD")])
    await script.reach(100)


@cocotb.test(skip=True)
async def a_violation_fails_the_test(dut):
    """`HbmSlice.check` must object."""
    script, hbm = Script(dut), HbmSlice(dut, TIMINGS["tiny"], fatal=False)
    await reported(dut, script, hbm, [Command(START, "ACT"), Command(START + 1, "RD")])
    hbm.check()
