"""The host port under Verilator, between bus managers and a memory."""

import pytest

from rtl.config import PRESETS, TileConfig
from tests.tb import simulation
from tests.tb.simulation import SEED, run

CONFIGURATIONS = {
    "nano": PRESETS["nano"],
    # A beat fills three quarters of its address space.
    "six": TileConfig(pseudo_channels=6, lanes=2, stream_bytes=0),
}
NIGHTLY = {
    "base": PRESETS["base"],
    # A beat is two transfers of the widest bus.
    "sixteen": TileConfig(pseudo_channels=16, lanes=2, stream_bytes=0, l1_bytes=64 * 1024),
}
if simulation.CHOSEN:
    CONFIGURATIONS, NIGHTLY = simulation.CONFIGURATIONS, {}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_host(name, tmp_path):
    run("host", CONFIGURATIONS[name], tmp_path).check()
    assert (tmp_path / "coverage.yaml").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 4))
@pytest.mark.parametrize("name", CONFIGURATIONS | NIGHTLY)
def test_host_with_other_seeds(name, seed, tmp_path):
    run("host", (CONFIGURATIONS | NIGHTLY)[name], tmp_path, seed=seed).check()
