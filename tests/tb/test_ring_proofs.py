"""Proofs that a ring never comes to rest and loses nothing, and faults that they must find."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from sim import formal
from tb.ring_proofs import PROOFS, RingProof
from tests.tb.mutants import ROOT

pytestmark = pytest.mark.skipif(
    not formal.is_installed() and "CI" not in os.environ,
    reason="SymbiYosys is not installed; it is among the development dependencies",
)

DAY = ("two tiles", "all around, single flits")
"""What is proved by day, in half a minute."""

DEPTH = 12
"""Cycles in which faults show."""


def text(name):
    return formal.to_rtlil(RingProof(**PROOFS[name]))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in DAY else [pytest.mark.nightly]) for name in PROOFS],
)
def test_it_never_comes_to_rest_and_loses_nothing(name, tmp_path):
    verdict = formal.prove(text(name), tmp_path, "prove", engine=formal.REACHABILITY)
    assert verdict.holds, f"{verdict.failed}; log {verdict.log}"


@pytest.mark.parametrize("name", DAY)
def test_buffers_get_full(name, tmp_path):
    """Otherwise the proofs would say nothing about waiting."""
    verdict = formal.prove(text(name), tmp_path, "cover", depth=2 * DEPTH)
    assert verdict.holds, f"{verdict.failed}; log {verdict.log}"


@dataclass(frozen=True)
class Fault:
    """A change of one expression, and properties that it breaks, of which the solver finds one."""

    file: str
    good: str
    bad: str
    breaks: tuple[str, ...]


FAULTS = {
    "a flit is offered only to who is ready": Fault(
        "send",
        "self.link.valid.eq(self.groups.valid & some)",
        "self.link.valid.eq(self.groups.valid & some & self.link.ready)",
        ("DEADLOCK", "ORDER"),
    ),
    "a flit overtakes one that waits": Fault(
        "buffer",
        "Mux(waiting, fifo.r_data, self.link.payload)",
        "Mux(waiting & ~self.link.valid, fifo.r_data, self.link.payload)",
        ("ORDER",),
    ),
    "a flit that passes is kept too": Fault(
        "buffer", "self.link.valid & ~passes", "self.link.valid", ("ORDER",)
    ),
    "the link's register does not wait": Fault(
        "send", "room.eq(~self.link.valid | self.link.ready)", "room.eq(1)", ("STABLE",)
    ),
    "a node passes on before it sends its own": Fault(
        "send",
        "Mux(group.own, group.header | self.blocks.valid, self.passing.valid)",
        "Mux(group.own, self.blocks.valid & self.passing.valid, self.passing.valid)",
        ("DEADLOCK",),
    ),
}

EMIT = """
import sys
from sim import formal
from tb.ring_proofs import PROOFS, RingProof
sys.stdout.write(formal.to_rtlil(RingProof(**PROOFS[sys.argv[1]])))
"""


SAMPLE = 2
"""Faults of every run."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if i < SAMPLE else [pytest.mark.nightly])
        for i, name in enumerate(FAULTS)
    ],
)
def test_the_proof_finds(name, tmp_path):
    fault = FAULTS[name]
    shutil.copytree(ROOT / "rtl", tmp_path / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "rtl" / "ring" / f"{fault.file}.py"
    source = path.read_text()
    assert source.count(fault.good) == 1, f"{fault.good} is not once in {fault.file}"
    path.write_text(source.replace(fault.good, fault.bad))
    design = subprocess.run(
        [sys.executable, "-c", EMIT, DAY[1]],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    verdict = formal.prove(design, tmp_path / "proof", "bmc", depth=DEPTH)
    found = {re.sub(r"_\d$", "", name.split(".")[-1]) for name in verdict.failed}
    assert found & {*fault.breaks}, f"{found}; log {verdict.log}"
