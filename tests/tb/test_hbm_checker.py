"""The HBM timing checker under Verilator."""

import pytest

from tests.tb.hbm import run


def test_checker(tmp_path):
    run("tb.test_hbm_checker", tmp_path).check()


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("a_violation_is_fatal", "HBM0, cycle 11: RCDRD, bank 0: 1 cycles, 4 required"),
        ("a_violation_fails_the_test", "1 violations of RCDRD; the first in cycle 11"),
    ],
)
def test_the_checker_is_heard(case, complaint, tmp_path):
    results = run("tb.test_hbm_checker", tmp_path, testcases=[case])
    assert list(results.failed) == [f"tb.test_hbm_checker.{case}"]
    assert complaint in results.failed[f"tb.test_hbm_checker.{case}"]
