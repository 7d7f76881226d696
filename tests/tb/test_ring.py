"""The ring under Verilator against the interpreter."""

import pytest

from rtl.config import PRESETS
from tests.tb.simulation import CONFIGURATIONS, SEED, run

SHAPES = {"nano": PRESETS["nano"].replace(mesh="4x4")}
"""What the ring is verified for: sixteen tiles, any of which may be absent."""

MORE = {
    # Flits of a word, of a whole block, and of less than there is room for on a link.
    "narrow": PRESETS["nano"].replace(mesh="3x1", ring_bytes=4),
    "wide": PRESETS["nano"].replace(mesh="5x1", ring_bytes=64),
    # Lines of four blocks.
    "lines": PRESETS["nano"].replace(mesh="2x2", vec_lanes=32, ring_bytes=16),
    "alone": PRESETS["nano"].replace(mesh="1x1"),
}

if "chosen" in CONFIGURATIONS:
    SHAPES = MORE = CONFIGURATIONS


@pytest.mark.parametrize("name", SHAPES)
def test_ring(name, tmp_path):
    run("ring", SHAPES[name], tmp_path).check()
    assert (tmp_path / "coverage.yaml").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("name", MORE)
def test_ring_of_other_shapes(name, tmp_path):
    run("ring", MORE[name], tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@pytest.mark.parametrize("name", SHAPES)
def test_ring_with_other_seeds(name, seed, tmp_path):
    run("ring", SHAPES[name], tmp_path, seed=seed).check()
