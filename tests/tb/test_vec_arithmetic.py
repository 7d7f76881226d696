"""The vector unit's arithmetic under Verilator against the golden model, and faults put into it.

By day every operation sees all pairs of corners, 20,000 random pairs and every 101st fraction; at
night ten million pairs and every fraction.
"""

import functools
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gen.verilog import VerilogDesign, emit
from rtl.config import PRESETS
from sim import verilator
from tb.vec_arithmetic import OPERATIONS, ArithmeticLane
from tests.tb.mutants import ROOT, Mutant, params
from tests.tb.simulation import SEED, WAVES

CONFIG = PRESETS["nano"]
EMIT = """
import pickle, sys
from gen.verilog import emit
from rtl.config import PRESETS
from tb.vec_arithmetic import ArithmeticLane
sys.stdout.buffer.write(pickle.dumps(emit(ArithmeticLane(), "vec_arithmetic", PRESETS["nano"])))
"""


def build(design: VerilogDesign) -> verilator.Build:
    ports = [port.name for port in design.ports]
    return verilator.build({f"{design.top}.sv": design.text}, design.top, ports, waves=WAVES)


@functools.cache
def lane() -> verilator.Build:
    return build(emit(ArithmeticLane(), "vec_arithmetic", CONFIG, fields=WAVES))


def run(build, work_dir, testcases=None, **environment):
    print(f"seed {SEED}; again with JALAPENO_SEED={SEED}")
    return build.run(
        "tb.test_vec_arithmetic",
        seed=SEED,
        work_dir=work_dir,
        testcases=testcases,
        env={f"JALAPENO_{name}": value for name, value in environment.items()},
        waves=WAVES,
        timeout=1800,
    )


def test_every_operation(tmp_path):
    run(lane(), tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("operation", OPERATIONS)
def test_ten_million_pairs(operation, tmp_path):
    run(lane(), tmp_path, ["random_operands"], PAIRS="10_000_000", OPERATION=operation).check()


@pytest.mark.nightly
@pytest.mark.parametrize("function", ["exp2", "reciprocal", "rsqrt"])
def test_every_fraction(function, tmp_path):
    run(lane(), tmp_path, ["every_fraction"], STRIDE="1", OPERATION=f"function_{function}").check()


MUTANTS = [
    Mutant("ties rounded away", "vec/binary32.py", "half & (rest | significand[0])", "half"),
    Mutant(
        "all of the last binade becomes the smallest normal number",
        "vec/binary32.py",
        "(exponent == 0) & significand.all()",
        "exponent == 0",
    ),
    Mutant(
        "subnormals vanish altogether",
        "vec/binary32.py",
        "Mux(smallest, 1 << 23, 0)",
        "0",
    ),
    Mutant("subnormal operands count", "vec/binary32.py", "(~self.is_zero).replicate(23)", "~0"),
    Mutant(
        "sum of opposites is minus zero",
        "vec/add.py",
        "Cat(a.negative, b.magnitude) > Cat(b.negative, a.magnitude)",
        "b.magnitude > a.magnitude",
    ),
    Mutant(
        "nothing remembers what is shifted out", "vec/add.py", "value[: by + 1].any()", "value[by]"
    ),
    Mutant(
        "difference of infinities", "vec/add.py", "a.is_infinite & b.is_infinite & subtract", "0"
    ),
    Mutant(
        "a bit of a product forgotten",
        "vec/multiply.py",
        "product[:22].any()",
        "product[1:22].any()",
    ),
    Mutant("rest of a product that carries", "vec/multiply.py", "rest | (carry & kept[0])", "rest"),
    Mutant("infinity times zero", "vec/multiply.py", "(a.is_zero & b.is_infinite)", "0"),
    Mutant("log2 e an ulp off", "vec/function.py", "0x3FB8AA3B", "0x3FB8AA3C"),
    Mutant(
        "minus zero above plus zero",
        "vec/compare.py",
        "a[31] ^ b[31], a[31],",
        "a[31] ^ b[31], b[31],",
    ),
    Mutant("zeros differ to top-k", "vec/compare.py", "x.negative & ~x.is_zero", "x.negative"),
    Mutant(
        "scale of the other format", "vec/ldexp.py", "MatrixFormat.MXINT8,", "MatrixFormat.MXFP4,"
    ),
    Mutant(
        "NaN scale forgotten", "vec/ldexp.py", "x.is_nan | (self.scale == SCALE_NAN)", "x.is_nan"
    ),
    Mutant("negative bound not swapped", "vec/step.py", "outside = y[31] | ", "outside = "),
    Mutant(
        "idle adder sees operands",
        "vec/step.py",
        "adder.a.eq(self.x & used(*_ADDS))",
        "adder.a.eq(self.x)",
    ),
    Mutant(
        "exp2 rounds halves down", "vec/elementary.py", "(halves[0] ^ x.negative)", "x.negative"
    ),
    Mutant("exp2 of -126 is zero", "vec/elementary.py", "place <= 0", "place <= 1"),
    Mutant("parities of rsqrt swapped", "vec/elementary.py", "Mux(even, 1, 2)", "Mux(even, 2, 1)"),
    Mutant(
        "curves truncated early",
        "vec/elementary.py",
        "inner * position",
        "(inner & ~1) * position",
    ),
    Mutant(
        "reciprocal of 2**126 is zero", "vec/elementary.py", "self.x[:31] > (2", "self.x[:31] >= (2"
    ),
    Mutant(
        "subnormal amax counts", "vec/code.py", "x.magnitude[:23] > largest", "x.fraction > largest"
    ),
    Mutant("127.5 does not saturate", "vec/code.py", "(binade > 0) | integer.all()", "binade > 0"),
    Mutant(
        "ties of MXFP4 rounded away",
        "vec/code.py",
        "word[6] & (word[:6].any() | word[7])",
        "word[6]",
    ),
    Mutant(
        "factor of GATE a step early",
        "vec/function.py",
        "LATENCIES[Function.GATE] - Multiplier.LATENCY",
        "LATENCIES[Function.GATE] - Multiplier.LATENCY - 1",
    ),
    Mutant(
        "pipeline does not wait",
        "vec/multiply.py",
        "    with m.If(advance):\n        m.d.sync += [\n            kept",
        "    with m.If(1):\n        m.d.sync += [\n            kept",
    ),
]

SAMPLE = 2
"""Faults that also run by day."""


def emit_mutant(mutant: Mutant, folder: Path) -> VerilogDesign:
    """Return the lane with the fault."""
    shutil.copytree(ROOT / "rtl", folder / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "rtl" / mutant.file
    text = path.read_text()
    assert text.count(mutant.good) == 1, f"{mutant.good} is not once in {mutant.file}"
    path.write_text(text.replace(mutant.good, mutant.bad))
    output = subprocess.run(
        [sys.executable, "-c", EMIT],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        check=True,
    ).stdout
    return pickle.loads(output)


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_arithmetic_tests_notice(mutant, tmp_path, monkeypatch):
    monkeypatch.setenv("COCOTB_MAX_FAILURES", "1")  # one is enough
    faulty = build(emit_mutant(mutant, tmp_path))
    results = run(faulty, tmp_path / "run", PAIRS="10_000", STRIDE="1009")
    assert results.failed, f"no test noticed: {mutant.name}"
    print("noticed by", next(iter(results.failed)))
