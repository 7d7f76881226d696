"""Proofs of the HBM controller's timing, and faults that they must find.

The bank and the row bus are proved for the timing set `tiny`, by day. At night they are put
together, so that what each assumes of the other is proved too, and the row bus is proved for the
real timing sets.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from rtl.hbm.timing import TIMINGS
from sim import formal
from tb.hbm_proofs import PROOFS
from tests.tb.mutants import ROOT

pytestmark = pytest.mark.skipif(
    not formal.is_installed() and "CI" not in os.environ,
    reason="SymbiYosys is not installed; it is among the development dependencies",
)

DEPTH = 20
"""Cycles in which `tiny` shows everything: its longest distance is 16."""


DAY = ("bank", "row bus")


@functools.cache
def text(proof, timing="tiny"):
    return formal.to_rtlil(PROOFS[proof](TIMINGS[timing]))


def check(verdict):
    assert verdict.holds, f"{verdict.failed}; log {verdict.log}"


@pytest.mark.parametrize("proof", DAY)
def test_no_rule_is_broken_in_the_first_cycles(proof, tmp_path):
    check(formal.prove(text(proof), tmp_path, "bmc", depth=DEPTH))


def test_no_rule_of_a_bank_is_ever_broken(tmp_path):
    check(formal.prove(text("bank"), tmp_path, "prove", engine=formal.REACHABILITY))


def test_no_rule_of_the_row_bus_is_ever_broken(tmp_path):
    check(formal.prove(text("row bus"), tmp_path, "prove", depth=DEPTH))


@pytest.mark.parametrize("proof", DAY)
def test_every_command_comes_as_early_as_it_may(proof, tmp_path):
    check(formal.prove(text(proof), tmp_path, "cover", depth=2 * DEPTH))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("mode", "engine", "depth"),
    [
        ("bmc", formal.INDUCTION, DEPTH),
        ("cover", formal.INDUCTION, 2 * DEPTH),
        ("prove", formal.REACHABILITY, None),
    ],
)
def test_banks_on_their_row_bus(mode, engine, depth, tmp_path):
    check(formal.prove(text("banks on their row bus"), tmp_path, mode, engine=engine, depth=depth))


@pytest.mark.nightly
@pytest.mark.parametrize("timing", ["hbm3-6400", "hbm4-8000"])
def test_the_row_bus_of_real_timing_sets(timing, tmp_path):
    t = TIMINGS[timing]
    depth = max(t.faw, t.rrefd, t.rrd_l) + 2
    check(formal.prove(text("row bus", timing), tmp_path, "prove", depth=depth))


# --- the proofs fire ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """A change of one expression, and the property that it breaks."""

    file: str
    good: str
    bad: str
    breaks: str


def early(file, distance, breaks):
    """Return the fault that a distance is a cycle short."""
    return Fault(file, f"distance.{distance})", f"distance.{distance} - 1)", breaks)


def late(distance, breaks):
    """Return the fault that a distance is a cycle long."""
    return Fault("bank", f"distance.{distance})", f"distance.{distance} + 1)", breaks)


FAULTS = {
    "bank": {
        **{
            f"{rule} a cycle short": early("bank", distance, rule)
            for rule, distance in {
                "RCDRD": "rcd_rd",
                "RCDWR": "rcd_wr",
                "RAS": "ras",
                "RTP": "rtp",
                "WR": "wr_pre",
                "RC": "rc",
                "RP": "rp",
                "RFCPB": "rfc_pb",
                "RFCAB": "rfc_ab",
            }.items()
        },
        "RD later than it may": late("rcd_rd", "may_read_at_once"),
        "WR later than it may": late("rcd_wr", "may_write_at_once"),
        "PRE later than it may": late("rtp", "may_precharge_at_once"),
        "ACT later than it may": late("rc", "may_activate_at_once"),
        "the last event holds, not the longest": Fault(
            "timer", "event & (cycles >= left)", "event", "WR"
        ),
        "a bank stays open": Fault(
            "bank", "self.is_open.eq(0)", "self.is_open.eq(self.is_open)", "CLOSED"
        ),
        "a bank at rest seems closed": Fault(
            "bank",
            "If(self.precharge)",
            "If(self.precharge | (in_time & ~(self.activate | self.read | self.write)))".replace(
                "in_time", "self.may_activate & self.may_precharge"
            ),
            "OPEN",
        ),
        "the row is forgotten": Fault("bank", "self.row.eq(self.new_row)", "self.row.eq(0)", "ROW"),
    },
    "row bus": {
        "a window of five": Fault("rows", "WINDOW = 4", "WINDOW = 5", "FAW"),
        "FAW a cycle short": early("rows", "faw", "FAW"),
        "REFpb outside of the window": Fault(
            "rows", "started.eq(activated | refreshed)", "started.eq(activated)", "FAW"
        ),
        "RRD_S for all groups": Fault(
            "rows", "Mux(same, distance.rrd_l, distance.rrd_s)", "distance.rrd_s", "RRD_L"
        ),
        "RRD_S a cycle short": early("rows", "rrd_s", "RRD_S"),
        "RREFD a cycle short": early("rows", "rrefd", "RREFD"),
        "PPD a cycle short": early("rows", "ppd", "PPD"),
        "ACT takes one cycle": Fault("rows", "busy.eq(activated)", "busy.eq(0)", "ROW_BUS"),
        "two banks at once": Fault("arbiter", "(value & (~value + 1))", "value", "RANGE"),
        "PREA is for open banks": Fault(
            "rows", "self.grant.eq(~0)", "self.grant.eq(self.is_open)", "RANGE_PREA"
        ),
    },
    "banks on their row bus": {
        "PREA for a single bank": Fault(
            "rows", "self.refresh_all & close_all", "self.refresh.any() & close_all", "REST"
        ),
        "REFpb of an open bank": Fault(
            "rows", "self.refresh & ~self.is_open", "self.refresh", "OPEN"
        ),
    },
}
"""By the proof that finds them: the last ones are in how the parts work together."""

EMIT = """
import sys
from rtl.hbm.timing import TIMINGS
from sim import formal
from tb.hbm_proofs import PROOFS
sys.stdout.write(formal.to_rtlil(PROOFS[sys.argv[1]](TIMINGS["tiny"])))
"""


def faulty(proof, fault, folder):
    """Return a design with a fault, made from a copy of the hardware."""
    shutil.copytree(ROOT / "rtl", folder / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "rtl" / "hbm" / f"{fault.file}.py"
    source = path.read_text()
    assert source.count(fault.good) == 1, f"{fault.good} is not once in {fault.file}"
    path.write_text(source.replace(fault.good, fault.bad))
    return subprocess.run(
        [sys.executable, "-c", EMIT, proof],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        check=True,
        text=True,
    ).stdout


def plain(name):
    """Return a property's name, of whichever module and bank group."""
    return re.sub(r"_\d$", "", name.split(".")[-1])


@pytest.mark.parametrize(
    ("proof", "name"),
    [
        pytest.param(proof, name, marks=[pytest.mark.nightly] if proof not in DAY else [])
        for proof, faults in FAULTS.items()
        for name in faults
    ],
)
def test_the_proof_finds(proof, name, tmp_path):
    fault = FAULTS[proof][name]
    design = faulty(proof, fault, tmp_path)
    verdict = formal.prove(design, tmp_path / "proof", "bmc", depth=DEPTH)
    assert fault.breaks in map(plain, verdict.failed)
    assert list(tmp_path.rglob("trace*.vcd"))


def test_a_bus_that_comes_to_rest_is_noticed(tmp_path):
    """It breaks no rule, but its commands do not come."""
    fault = Fault("rows", "Signal(range(WINDOW))", "Signal(range(WINDOW + 1))", "")
    verdict = formal.prove(faulty("row bus", fault, tmp_path), tmp_path, "cover", depth=DEPTH)
    assert "bus.FAW_at_its_limit" in verdict.failed


def test_every_property_is_broken_by_a_fault():
    texts = "".join(text(proof) for proof in DAY)
    names = {plain(name) for name in re.findall(r"cell \$check \\(\w+)\n", texts)}
    asserted = {name for name in names if not name.endswith("_at_its_limit")}
    assert asserted == {fault.breaks for faults in FAULTS.values() for fault in faults.values()}
