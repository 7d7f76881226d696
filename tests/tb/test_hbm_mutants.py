"""Faults put into the HBM device and its checker on purpose: their tests must notice every one."""

from dataclasses import dataclass

import pytest

from sim import verilator
from tests.tb.hbm import ROWS, harness

CHECKER, DEVICE = "hbm_checker.sv", "hbm_device.sv"


@dataclass(frozen=True)
class Mutant:
    """A fault: in `file`, `good`, which is there once, is replaced by `bad`."""

    name: str
    file: str
    good: str
    bad: str


MUTANTS = [
    Mutant("a cycle is forgiven", CHECKER, "now - since < required", "now - since + 1 < required"),
    Mutant("a cycle too many", CHECKER, "now - since < required", "now - since <= required"),
    Mutant("five activations", CHECKER, "FAW, bank, activated[0]", "FAW, bank, activated[1]"),
    Mutant("windows shifted by PRE", CHECKER, "    any_pre = now;\n        tally.pre =",
           "    any_pre = now; activated[3] = now;\n        tally.pre ="),
    Mutant("RRD_L also for other groups", CHECKER,
           "b != 32'(bank) && group_of(4'(b)) == group_of(bank)", "b != 32'(bank)"),
    Mutant("RRD_L forgets the bank before", CHECKER, "result = latest(result, act[b])",
           "result = act[b]"),
    Mutant("WTR from the command", CHECKER, "64'(timing.wl) + BURST + 64'(timing.wtr_l)",
           "BURST + 64'(timing.wtr_l)"),
    Mutant("last data a cycle early", CHECKER, "64'(timing.wl) + BURST + 64'(timing.wr)",
           "64'(timing.wl) + 1 + 64'(timing.wr)"),
    Mutant("PRE of a closed bank ignored", CHECKER, "    pre[bank] = now;\n    open[bank] = 0;",
           "    if (open[bank]) pre[bank] = now;\n    open[bank] = 0;"),
    Mutant("PREA closes one bank", CHECKER,
           "for (int b = 0; b < BANKS; b++) check_close(4'(b));", "check_close(row_bank);"),
    Mutant("an early refresh earns credit", CHECKER, "(due[bank] < now ? due[bank] : now)",
           "due[bank]"),
    Mutant("what is late is forgotten", CHECKER, "(due[bank] < now ? due[bank] : now)", "now"),
    Mutant("REFab visits", CHECKER, "refab = now;\n        visited = 0;", "refab = now;"),
    Mutant("groups by the high bits", CHECKER, "bank & 4'(timing.bank_groups - 1)",
           "bank >> 2 & 4'(timing.bank_groups - 1)"),
    Mutant("data bus of one cycle", CHECKER, "busy[first] || busy[second]", "busy[first]"),
    Mutant("ACT takes one cycle", CHECKER, "need(ROW_BUS, row_bank, any_act, 2);", ""),
    Mutant("row 0x8000 is row 0", CHECKER, "32'(row_row) >= ROWS", "32'(row_row) > ROWS"),
    Mutant("data a cycle late", DEVICE, "slot = now + timing.cl[5:0];",
           "slot = now + timing.cl[5:0] + 1;"),
    Mutant("write data a cycle late", DEVICE, "slot = now + timing.wl[5:0];",
           "slot = now + timing.wl[5:0] + 1;"),
    Mutant("halves of an access mixed up", DEVICE, "store(write_place[previous] + 1)",
           "store(write_place[previous])"),
    Mutant("check bytes always written", DEVICE, "memory[beat][128+8*(i/8)+:8] = write_check",
           "memory[beat][128+:16] = write_check"),
    Mutant("a reset leaves rows open", DEVICE, "    if (rst) begin\n      open = 0;",
           "    if (rst) begin"),
    Mutant("a reset leaves reads under way", DEVICE, "      reading = 0;\n", ""),
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_notice(mutant, tmp_path):
    bench = harness()
    text = bench.sources[mutant.file]
    assert text.count(mutant.good) == 1, f"{mutant.good} is not once in {mutant.file}"
    sources = {**bench.sources, mutant.file: text.replace(mutant.good, mutant.bad)}
    results = verilator.build(sources, bench.top, bench.ports).run(
        "tb.test_hbm_checker" if mutant.file == CHECKER else "tb.test_hbm_device",
        seed=1,
        work_dir=tmp_path,
        env={"JALAPENO_HBM_ROWS": str(ROWS)},
        timeout=300,
    )
    assert results.failed, f"no test noticed: {mutant.name}"
    print("noticed by", ", ".join(results.failed))
