"""The HBM device model under Verilator."""

from tests.tb.hbm import run


def test_device(tmp_path):
    run("tb.test_hbm_device", tmp_path).check()
