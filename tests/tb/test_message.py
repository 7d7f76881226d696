"""The message engines under Verilator against the interpreter."""

import pytest

from rtl.config import PRESETS
from tests.tb.simulation import CONFIGURATIONS, SEED, run

SHAPES = {"2x2": PRESETS["nano"].replace(mesh="2x2")}

MORE = {
    "1x1": PRESETS["nano"].replace(mesh="1x1"),
    "1x2": PRESETS["nano"].replace(mesh="1x2"),
    "2x3": PRESETS["nano"].replace(mesh="2x3"),
    # Heads of two flits; beats longer than a block, and with holes.
    "narrow": PRESETS["nano"].replace(mesh="2x1", flit_bytes=4, pseudo_channels=3),
    # Flits wider than a block; lines of four blocks, beats of one.
    "wide": PRESETS["nano"].replace(mesh="2x1", flit_bytes=64, vec_lanes=32, pseudo_channels=2),
}

if "chosen" in CONFIGURATIONS:
    SHAPES = MORE = CONFIGURATIONS


@pytest.mark.parametrize("name", SHAPES)
def test_messages(name, tmp_path):
    run("message", SHAPES[name], tmp_path).check()
    assert (tmp_path / "coverage.yaml").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("name", MORE)
def test_messages_of_other_shapes(name, tmp_path):
    run("message", MORE[name], tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@pytest.mark.parametrize("name", SHAPES)
def test_messages_with_other_seeds(name, seed, tmp_path):
    run("message", SHAPES[name], tmp_path, seed=seed).check()
