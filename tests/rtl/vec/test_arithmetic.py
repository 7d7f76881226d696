"""The arithmetic of the vector unit from inside: what is shared, what rests, and its text.

That its bits are right is shown in `tests/tb/test_vec_arithmetic.py`.
"""

import itertools
import random
import re
from collections import Counter

import pytest
from amaranth.sim import Simulator

from gen.verilog import emit
from rtl.config import PRESETS
from rtl.core.isa import Function, Step
from rtl.vec.function import LATENCIES, FunctionLane
from rtl.vec.multiply import signed_digits
from rtl.vec.step import Step as StepLane

CONFIG = PRESETS["nano"]
PERIOD_FS = 10_000_000


@pytest.mark.parametrize("number", [1, 3, 0b1110111, 0xB8AA3B, *range(1000, 1100)])
def test_signed_digits_are_the_number_and_no_two_are_neighbours(number):
    digits = signed_digits(number)
    assert sum(digit << place for place, digit in digits) == number
    assert {digit for _, digit in digits} <= {1, -1}
    places = [place for place, _ in digits]
    assert all(b - a > 1 for a, b in itertools.pairwise(places))


def test_log2_e_takes_ten_terms_instead_of_thirteen():
    assert (len(signed_digits(0xB8AA3B)), 0xB8AA3B.bit_count()) == (10, 13)


def toggles(lane, constant, changing, vcd):
    """Return by submodule how often its signals change while random operands pass."""
    rng = random.Random(1)
    simulator = Simulator(lane)
    simulator.add_clock(PERIOD_FS * 1e-15)

    async def feed(ctx):
        for name, value in constant.items():
            ctx.set(getattr(lane, name), value)
        for _ in range(40):
            for name in changing:
                ctx.set(getattr(lane, name), rng.getrandbits(32))
            await ctx.tick()

    simulator.add_testbench(feed)
    with simulator.write_vcd(str(vcd)):
        simulator.run()
    scopes, owners, changes, started = [], {}, Counter(), False
    for line in vcd.read_text().splitlines():
        words = line.split()
        if line.startswith("$scope"):
            scopes.append(words[2])
        elif line.startswith("$upscope"):
            scopes.pop()
        elif line.startswith("$var") and len(scopes) > 2:
            name = re.sub(r"\[.*", "", words[4])
            if name not in ("clk", "advance"):
                owners.setdefault(words[3], scopes[2])
        elif line.startswith("#"):
            # Signals find their first values at time zero, and constants enter in the first cycles.
            started = int(line[1:]) > 20 * PERIOD_FS
        elif started and words:
            owner = owners.get(words[1] if line[0] in "bs" else line[1:])
            changes[owner] += 1
    return {name for name, count in changes.items() if name}


@pytest.mark.parametrize(
    ("kind", "busy"),
    [
        (Step.ADD, {"adder"}),
        (Step.SUB, {"adder"}),
        (Step.MUL, {"multiplier"}),
        (Step.ROTATE_HALVES, {"multiplier"}),
        (Step.LDEXP_MXINT8, {"ldexp"}),
        (Step.MAXIMUM, set()),
        (Step.NONE, set()),
    ],
)
def test_units_that_a_step_does_not_use_do_not_toggle(kind, busy, tmp_path):
    lane = StepLane()
    constant = {"advance": 1, "kind": kind}
    seen = toggles(lane, constant, ("x", "y"), tmp_path / "waves.vcd")
    assert seen == busy


@pytest.mark.parametrize(
    ("function", "busy"),
    [
        (Function.NONE, set()),
        (Function.EXP2, {"exp2"}),
        (Function.EXP, {"log2e", "exp2"}),
        (Function.RECIPROCAL, {"root"}),
        (Function.RSQRT, {"root"}),
        (Function.SIGMOID, {"log2e", "exp2", "plus_one", "root"}),
        (Function.GATE, {"side", "log2e", "exp2", "plus_one", "root", "gate"}),
    ],
)
def test_units_that_a_function_does_not_use_do_not_toggle(function, busy, tmp_path):
    lane = FunctionLane()
    constant = {"advance": 1, "kind": function, "factor": 0x3F800000}
    seen = toggles(lane, constant, ("x",), tmp_path / "waves.vcd")
    assert seen == busy


def test_latencies():
    """Those that the estimate and the documentation state."""
    assert {f.name.lower(): steps for f, steps in LATENCIES.items()} == {
        "none": 0,
        "exp": 5,
        "exp2": 3,
        "reciprocal": 2,
        "rsqrt": 2,
        "sigmoid": 9,
        "gate": 13,
    }


def test_every_unit_is_emitted_once():
    modules = emit(FunctionLane(), "vec_function", CONFIG).modules
    assert Counter(modules).most_common(1)[0][1] == 1
    assert {"vec_multiplier", "vec_adder", "vec_exp2", "vec_root"} <= set(modules)
