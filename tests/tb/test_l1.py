"""The L1 cache under Verilator against plain bytes."""

import pytest

from rtl.config import PRESETS, TileConfig
from tests.tb.simulation import CONFIGURATIONS, SEED, run

SHAPES = {
    "nano": PRESETS["nano"],
    # Beats with holes between them, more ways, and few sets.
    "odd": TileConfig(pseudo_channels=3, l1_bytes=2048, l1_ways=4),
}
"""What the cache is verified for; each is a build of its own."""

MORE = {
    "direct": PRESETS["nano"].replace(l1_ways=1),
    "associative": PRESETS["nano"].replace(l1_bytes=256, l1_ways=8),
    "least": PRESETS["nano"].replace(l1_bytes=64, l1_ways=1),
}

if "chosen" in CONFIGURATIONS:
    SHAPES = MORE = CONFIGURATIONS


@pytest.mark.parametrize("name", SHAPES)
def test_cache(name, tmp_path):
    run("l1", SHAPES[name], tmp_path).check()
    assert (tmp_path / "coverage.yaml").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("name", MORE)
def test_cache_of_other_shapes(name, tmp_path):
    run("l1", MORE[name], tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@pytest.mark.parametrize("name", SHAPES)
def test_cache_with_other_seeds(name, seed, tmp_path):
    run("l1", SHAPES[name], tmp_path, seed=seed).check()
