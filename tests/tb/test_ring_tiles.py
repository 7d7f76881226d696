"""Tiles in a ring under Verilator, each with its memory, against the interpreter."""

import functools

import pytest

from rtl.config import TileConfig
from sim import verilator
from sim.hbm.harness import Harness, attach
from sim.tile import ROWS
from sim.tiles import ring_of
from tests.tb import simulation
from tests.tb.simulation import SEED, WAVES, emitted

CONFIG = TileConfig(**next(iter(simulation.CONFIGURATIONS.values())).to_dict())

TILES = 3
"""Two that take part, and one between them that may be absent."""


@functools.cache
def harness() -> Harness:
    """Return the design: tiles with their memories."""
    return ring_of(attach(emitted("tile", CONFIG), rows=ROWS), TILES)


def run(work_dir, *, seed=SEED, testcases=None, env=None) -> verilator.Results:
    """Run the cocotb tests."""
    print(f"seed {seed}; again with JALAPENO_SEED={seed}")
    bench = harness()
    return verilator.build(bench.sources, bench.top, bench.ports, waves=WAVES).run(
        "tb.test_ring_tiles",
        seed=seed,
        work_dir=work_dir,
        testcases=testcases,
        env={
            "JALAPENO_CONFIG": CONFIG.to_json(),
            "JALAPENO_HBM_ROWS": str(ROWS),
            "JALAPENO_TILES": str(TILES),
            **(env or {}),
        },
        waves=WAVES,
        timeout=1200,
    )


def test_tiles_in_a_ring(tmp_path):
    run(tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 6))
def test_tiles_in_a_ring_with_other_seeds(seed, tmp_path):
    run(tmp_path, seed=seed).check()


def test_the_checker_fires(tmp_path):
    results = run(tmp_path, testcases=["a_wrong_byte_is_noticed"], env={"JALAPENO_FIRE": "1"})
    (message,) = results.failed.values()
    assert "memory of tile 1 at 0x4d is wrong" in message
