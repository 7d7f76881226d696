"""Proofs of the network on chip, and faults that they must find."""

import functools
import os
import shutil
import subprocess
import sys

import pytest

from rtl.noc.geometry import Side
from sim import formal
from tb.noc_buffer_proof import BufferProof
from tb.noc_proofs import PROOFS
from tests.tb.mutants import ROOT, Mutant

pytestmark = pytest.mark.skipif(
    not formal.is_installed() and "CI" not in os.environ,
    reason="SymbiYosys is not installed; it is among the development dependencies",
)

DEPTH = 10
"""Cycles in which every fault shows."""


@functools.cache
def text(proof):
    return formal.to_rtlil(PROOFS[proof]())


def check(verdict):
    assert verdict.holds, f"{verdict.failed}; log {verdict.log}"


@pytest.mark.parametrize("proof", PROOFS)
def test_it_holds_for_ever(proof, tmp_path):
    check(formal.prove(text(proof), tmp_path, "prove", engine=formal.REACHABILITY))


@pytest.mark.parametrize("proof", PROOFS)
def test_what_may_happen_can(proof, tmp_path):
    check(formal.prove(text(proof), tmp_path, "cover", depth=2 * DEPTH))


@pytest.mark.nightly
@pytest.mark.parametrize("side", [side for side in Side if side is not Side.WEST])
def test_buffers_of_other_sides(side, tmp_path):
    proof = formal.to_rtlil(BufferProof(side))
    check(formal.prove(proof, tmp_path, "prove", engine=formal.REACHABILITY, timeout=600))


# --- the proofs fire ----------------------------------------------------------------------------

FAULTS = {
    "buffer": [
        Mutant("the younger flit goes first", "buffer",
               "routes[t][o] & older[t][s]", "routes[t][o] & older[s][t]"),
        Mutant("ages are those of the slots", "buffer",
               "m.d.sync += first.eq(0)", "m.d.sync += first.eq(1)"),
        Mutant("every flit is a first one", "buffer", "Mux(inside, kept,", "Mux(0, kept,"),
        Mutant("a packet ends with its first flit", "buffer",
               "inside.eq(~self.link.flit.last)", "inside.eq(0)"),
        Mutant("north is south", "buffer", "at_x & ~at_y & beyond", "at_x & ~at_y & ~beyond"),
        Mutant("a slot is not given back while another fills", "buffer",
               "m.Elif(taken[s])", "m.Elif(taken[s] & ~write.any())"),
        Mutant("orders are of the wrong output", "buffer",
               "(following[o] & beaten[p])", "(following[p] & beaten[p])"),
        Mutant("there is always space", "buffer", "link.space.eq(free.any())", "link.space.eq(1)"),
        Mutant("a slot is never used", "buffer",
               "link.space.eq(free.any())", "link.space.eq(free[1:].any())"),
    ],
    "arbiter": [
        Mutant("every other turn is left out", "arbiter", "count + 1", "count + 2"),
        Mutant("the turns of several", "arbiter", "turn.eq(reached & ~(reached >> 1))",
               "turn.eq(reached)"),
        Mutant("nobody wraps around", "arbiter", "lowest(self.requests)", "lowest(following)"),
        Mutant("ranges begin too late", "arbiter",
               "place >= self.starts[i]", "place > self.starts[i]"),
    ],
    "allocator": [
        Mutant("packets are torn apart", "allocator", "(held[n] | idle[o])", "1"),
        Mutant("an output is never free again", "allocator",
               "Mux(self.last[o], 0, granted)", "granted"),
        Mutant("two flits of an input", "allocator", "~served[i] & ~sends[o]", "~sends[o]"),
        Mutant("two flits to an output", "allocator", "~served[i] & ~sends[o]", "~served[i]"),
        Mutant("space does not count", "allocator", "self.space[o] & (", "("),
        Mutant("the youngest flit is preferred", "allocator",
               "~older[i, o, p] if o < p else older[i, p, o]",
               "older[i, o, p] if o < p else ~older[i, p, o]"),
        Mutant("two offers are none", "allocator",
               "~older[i, o, p] if o < p else older[i, p, o]", "1 if o < p else 1"),
    ],
    "ejector": [
        Mutant("what was kept is lost if it is not taken at once", "endpoint",
               "full.eq(self.flits.valid & ~self.flits.ready)",
               "full.eq(self.link.valid & ~self.flits.ready)"),
        Mutant("what was kept is overwritten", "endpoint", "m.If(~full)", "m.If(1)"),
        Mutant("there is always room", "endpoint", "self.link.space.eq(~full)",
               "self.link.space.eq(1)"),
    ],
}  # fmt: skip
"""By the proof that finds them."""

EMIT = """
import sys
from sim import formal
from tb.noc_proofs import PROOFS
sys.stdout.write(formal.to_rtlil(PROOFS[sys.argv[1]]()))
"""


def faulty(proof, fault, folder):
    """Return a design with a fault, made from a copy of the hardware."""
    shutil.copytree(ROOT / "rtl", folder / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "rtl" / "noc" / f"{fault.file}.py"
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


@pytest.mark.parametrize(
    ("proof", "fault"),
    [
        pytest.param(proof, fault, id=fault.name, marks=[pytest.mark.nightly] if n > 1 else [])
        for proof, faults in FAULTS.items()
        for n, fault in enumerate(faults)
    ],
)
def test_the_proof_finds(proof, fault, tmp_path):
    design = faulty(proof, fault, tmp_path)
    verdict = formal.prove(design, tmp_path / "proof", "bmc", depth=DEPTH)
    assert not verdict.holds
    assert verdict.failed
    print("broken:", ", ".join(verdict.failed))
