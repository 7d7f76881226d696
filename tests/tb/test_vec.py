"""The vector engine under Verilator against the interpreter."""

import pytest

from rtl.config import PRESETS
from tests.tb.simulation import CONFIGURATIONS, SEED, run

WIDTHS = {
    name: CONFIGURATIONS[name]
    for name in ("small", "odd", "bare", "chosen")
    if name in CONFIGURATIONS
}
"""4, 8 and 1 lanes."""

OTHER_WIDTHS = (2, 16, 32)
"""With 32 a transfer is a slot, and there is one partial sum per lane."""


@pytest.mark.parametrize("name", WIDTHS)
def test_engine(name, tmp_path):
    run("vec", WIDTHS[name], tmp_path).check()
    assert (tmp_path / "coverage.yaml").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("lanes", OTHER_WIDTHS)
def test_engine_of_other_widths(lanes, tmp_path):
    run("vec", PRESETS["nano"].replace(vec_lanes=lanes), tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@pytest.mark.parametrize("name", WIDTHS)
def test_engine_with_other_seeds(name, seed, tmp_path):
    run("vec", WIDTHS[name], tmp_path, seed=seed).check()


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("a_wrong_bit_is_noticed", "v3 at 7"),
        ("a_wrong_row_is_noticed", "r3 at 7"),
        ("an_instruction_that_does_not_end_is_noticed", "does not end"),
    ],
)
def test_the_checkers_fire(case, complaint, tmp_path):
    results = run("vec", next(iter(WIDTHS.values())), tmp_path, testcases=[case])
    assert list(results.failed) == [f"tb.test_vec.{case}"]
    assert complaint in results.failed[f"tb.test_vec.{case}"]
