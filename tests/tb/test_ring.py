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
    # Beats of three quads, so that blocks lie anyhow in them, and holes between beats.
    "holes": PRESETS["nano"].replace(mesh="3x1", pseudo_channels=3),
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


MANY = (
    "sums_are_the_same_bits_everywhere_and_in_order",
    "nobody_leaves_a_barrier_early",
    "a_gather_is_close_to_its_bound",
    "wholes_in_memory_have_any_length",
    "disagreement_is_an_error_of_everyone",
)
"""Tests that also run on rings as long as there are any."""


@pytest.mark.nightly
@pytest.mark.parametrize("mesh", ["8x4", "8x8"])
def test_ring_of_many_tiles(mesh, tmp_path):
    config = PRESETS["nano"].replace(mesh=mesh)
    run("ring", config, tmp_path, testcases=[*MANY]).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@pytest.mark.parametrize("name", SHAPES)
def test_ring_with_other_seeds(name, seed, tmp_path):
    run("ring", SHAPES[name], tmp_path, seed=seed).check()
