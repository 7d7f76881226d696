"""The matrix unit under Verilator against the interpreter."""

import pytest

from rtl.config import PRESETS
from tests.tb.simulation import CONFIGURATIONS, SEED, run

SHAPES = {
    name: CONFIGURATIONS[name]
    for name in ("nano", "odd", "bare", "chosen")
    if name in CONFIGURATIONS
}
"""What the unit is verified for; each is a build of its own."""

WIDE = PRESETS["nano"].replace(vec_lanes=16, pseudo_channels=2, lanes=6, act_blocks=5)
"""A line is two blocks, and rows have several tokens of several heads."""


@pytest.mark.parametrize("name", SHAPES)
def test_unit(name, tmp_path):
    run("matrix", SHAPES[name], tmp_path).check()
    assert (tmp_path / "coverage.yaml").exists()


@pytest.mark.nightly
def test_unit_with_wide_lines(tmp_path):
    run("matrix", WIDE, tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@pytest.mark.parametrize("name", SHAPES)
def test_unit_with_other_seeds(name, seed, tmp_path):
    run("matrix", SHAPES[name], tmp_path, seed=seed).check()


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("a_wrong_result_is_noticed", "v12 at 7"),
        ("an_instruction_without_its_operand_is_noticed", "does not end"),
    ],
)
def test_the_checkers_fire(case, complaint, tmp_path):
    results = run("matrix", next(iter(SHAPES.values())), tmp_path, testcases=[case])
    assert list(results.failed) == [f"tb.test_matrix.{case}"]
    assert complaint in results.failed[f"tb.test_matrix.{case}"]
