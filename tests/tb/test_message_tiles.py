"""Tiles on a ring and a network on chip under Verilator, against the interpreter."""

import pytest

from rtl.config import PRESETS, TileConfig
from sim import verilator
from sim.hbm.harness import attach
from sim.tile import ROWS
from sim.tiles import ring_of
from tests.tb.simulation import SEED, WAVES, emitted

CONFIG = TileConfig(**PRESETS["nano"].replace(mesh="2x1").to_dict())


def run(work_dir, *, seed=SEED) -> verilator.Results:
    """Run the cocotb tests."""
    print(f"seed {seed}; again with JALAPENO_SEED={seed}")
    tile = attach(emitted("tile", CONFIG), rows=ROWS)
    bench = ring_of(tile, CONFIG.tiles, emitted("noc", CONFIG))
    return verilator.build(bench.sources, bench.top, bench.ports, waves=WAVES).run(
        "tb.test_message_tiles",
        seed=seed,
        work_dir=work_dir,
        env={"JALAPENO_CONFIG": CONFIG.to_json(), "JALAPENO_HBM_ROWS": str(ROWS)},
        waves=WAVES,
        timeout=1200,
    )


def test_tiles_with_messages(tmp_path):
    run(tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 6))
def test_tiles_with_messages_with_other_seeds(seed, tmp_path):
    run(tmp_path, seed=seed).check()
