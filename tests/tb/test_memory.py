"""The memory engine under Verilator against the interpreter."""

import pytest

from rtl.config import PRESETS, TileConfig
from tests.tb.simulation import CONFIGURATIONS, SEED, run

SHAPES = {
    "nano": PRESETS["nano"],
    # Beats of twelve words, with holes between them, for lines of eight.
    "odd": TileConfig(pseudo_channels=3, vec_lanes=8, l1_bytes=2048, l1_ways=4),
}
"""What the engine is verified for; each is a build of its own."""

MORE = {
    # Lines of two beats, and of a whole slot.
    "wide": PRESETS["nano"].replace(vec_lanes=32),
    "slice": TileConfig(pseudo_channels=6, vec_lanes=16, vector_bytes=16384, l1_bytes=4096),
    "least": PRESETS["nano"].replace(vec_lanes=1, l1_bytes=64, l1_ways=1),
}

if "chosen" in CONFIGURATIONS:
    SHAPES = MORE = CONFIGURATIONS


@pytest.mark.parametrize("name", SHAPES)
def test_engine(name, tmp_path):
    run("memory", SHAPES[name], tmp_path).check()
    assert (tmp_path / "coverage.yaml").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("name", MORE)
def test_engine_of_other_shapes(name, tmp_path):
    run("memory", MORE[name], tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@pytest.mark.parametrize("name", SHAPES)
def test_engine_with_other_seeds(name, seed, tmp_path):
    run("memory", SHAPES[name], tmp_path, seed=seed).check()
