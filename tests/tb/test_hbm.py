"""The HBM slice under Verilator: controllers, devices and checkers together."""

import functools
import os

import pytest

from rtl.config import TileConfig
from sim import verilator
from sim.hbm.harness import Harness, attach
from tests.tb.simulation import CONFIGURATIONS, SEED, WAVES, emitted

ROWS = 256

SLICES = {name: config for name, config in CONFIGURATIONS.items() if name != "nano"}
"""`nano` and `small` have the same slice."""

if "small" in CONFIGURATIONS:
    SLICES["plain"] = TileConfig(ecc=False, timing="hbm4-8000")


@functools.cache
def harness(name: str) -> Harness:
    """Return the slice with its memory."""
    return attach(emitted("hbm", SLICES[name]), rows=ROWS)


LONG = 2_000_000
"""Cycles of the long run: over three hundred refresh intervals."""


def run(
    name: str, work_dir, seed: int = SEED, testcases=None, cycles: int = 0
) -> verilator.Results:
    """Run the cocotb tests of the slice."""
    bench = harness(name)
    build = verilator.build(bench.sources, bench.top, bench.ports, waves=WAVES)
    print(f"seed {seed}; again with JALAPENO_SEED={seed}")
    return build.run(
        "tb.test_hbm",
        seed=seed,
        work_dir=work_dir,
        testcases=testcases,
        env={
            "JALAPENO_CONFIG": SLICES[name].to_json(),
            "JALAPENO_HBM_ROWS": str(ROWS),
            "JALAPENO_HBM_CYCLES": str(cycles),
        },
        waves=WAVES,
        timeout=1200,
    )


@pytest.mark.parametrize("name", SLICES)
def test_slice(name, tmp_path):
    cases = os.environ.get("JALAPENO_CASES")
    run(name, tmp_path, testcases=cases.split(",") if cases else None).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 9))
@pytest.mark.parametrize("name", SLICES)
def test_slice_with_other_seeds(name, seed, tmp_path):
    run(name, tmp_path, seed=seed).check()


@pytest.mark.nightly
@pytest.mark.parametrize("name", SLICES)
def test_a_long_run(name, tmp_path):
    run(name, tmp_path, testcases=["a_long_run"], cycles=LONG).check()
