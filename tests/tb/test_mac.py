"""The matrix engine under Verilator against the golden model."""

import pytest

from tests.tb.simulation import CONFIGURATIONS, SEED, run


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_engine(name, tmp_path):
    run("mac", CONFIGURATIONS[name], tmp_path).check()
    assert (tmp_path / "coverage.yaml").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_engine_with_other_seeds(name, seed, tmp_path):
    run("mac", CONFIGURATIONS[name], tmp_path, seed=seed).check()


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("a_wrong_bit_is_noticed", "golden"),
        ("a_missing_result_is_noticed", "have results missing"),
        ("a_malformed_operand_is_noticed", "Assertion"),
        ("an_illegal_operation_is_noticed", "Assertion"),
        ("a_broken_chain_is_noticed", "Assertion"),
    ],
)
def test_the_checkers_fire(case, complaint, tmp_path):
    results = run("mac", next(iter(CONFIGURATIONS.values())), tmp_path, testcases=[case])
    assert list(results.failed) == [f"tb.test_mac.{case}"]
    assert complaint in results.failed[f"tb.test_mac.{case}"]
