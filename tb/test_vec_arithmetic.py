"""cocotb tests of the vector unit's arithmetic, every bit against the golden model.

``JALAPENO_PAIRS`` is the number of random operands per operation, ``JALAPENO_STRIDE`` the distance
of the fractions that the elementary functions see, ``JALAPENO_OPERATION`` the only operation.
"""

from __future__ import annotations

import os
import random
from typing import Any

import cocotb
import numpy as np

from rtl.core.isa import Step
from tb.vec_arithmetic import (
    ARITHMETIC,
    OPERATIONS,
    ArithmeticTestbench,
    corner_pairs,
    operands,
)

PAIRS = int(os.environ.get("JALAPENO_PAIRS", "20_000"))
STRIDE = int(os.environ.get("JALAPENO_STRIDE", "101"))
ONLY = os.environ.get("JALAPENO_OPERATION")
NAMES = [ONLY] if ONLY else list(OPERATIONS)
CHUNK = 1 << 16

CURVES = [
    ("function_exp2", 0x07F),
    ("function_exp2", 0x17F),
    ("function_reciprocal", 0x07F),
    ("function_rsqrt", 0x07F),
    ("function_rsqrt", 0x080),
]
"""Signs and exponents with which fractions reach every entry of the tables."""

STEPS = {kind: OPERATIONS[f"step_{kind.name.lower()}"] for kind in Step}


def generator() -> np.random.Generator:
    """Return a source of random operands that follows the seed of the test."""
    return np.random.default_rng(random.getrandbits(64))


@cocotb.test()
@cocotb.parametrize(name=NAMES)
async def corners(dut: Any, name: str) -> None:
    """All pairs of numbers at which arithmetic changes its mind."""
    operation = OPERATIONS[name]
    await ArithmeticTestbench(dut).check(operation, *corner_pairs(operation.relation))


@cocotb.test()
@cocotb.parametrize(name=NAMES)
async def random_operands(dut: Any, name: str) -> None:
    """Random operands with related exponents, ties and long carries."""
    bench, rng, operation = ArithmeticTestbench(dut), generator(), OPERATIONS[name]
    for start in range(0, PAIRS, CHUNK):
        pairs = operands(rng, min(CHUNK, PAIRS - start), operation.relation)
        await bench.check(operation, *pairs)


@cocotb.test()
async def every_fraction(dut: Any) -> None:
    """Each curve at every fraction."""
    bench = ArithmeticTestbench(dut)
    for name, exponent in CURVES:
        # From another first fraction in each run, so that strides leave none out for ever.
        fractions = np.arange(random.randrange(STRIDE), 1 << 23, STRIDE, dtype=np.uint32)
        for start in range(0, fractions.size if name in NAMES else 0, 1 << 20):
            x = fractions[start : start + (1 << 20)] | np.uint32(exponent << 23)
            await bench.check(OPERATIONS[name], x, x)


@cocotb.test()
async def mixed_kinds(dut: Any) -> None:
    """Steps of all kinds one after the other, each pair its own."""
    bench, rng = ArithmeticTestbench(dut), generator()
    kinds = rng.integers(0, len(Step), CHUNK).astype(np.uint32)
    x, y = operands(rng, CHUNK, "sum")
    y = np.where(np.isin(kinds, (Step.LDEXP_MXFP4, Step.LDEXP_MXINT8)), y & 0xFF, y)
    golden = np.choose(kinds, [ARITHMETIC[kind][0](x, y) for kind in Step])
    await bench.check(STEPS[Step.NONE], x, y, kinds=kinds, golden=golden)


@cocotb.test()
@cocotb.parametrize(name=[name for name in NAMES if OPERATIONS[name].latency])
async def stalls(dut: Any, name: str) -> None:
    """Nothing moves while the pipeline must not."""
    operation = OPERATIONS[name]
    x, y = operands(generator(), 2000, operation.relation)
    await ArithmeticTestbench(dut).check(operation, x, y, stalls=random.Random(random.random()))
