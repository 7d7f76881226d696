"""The bench of the matrix engine: its figures, and that a missed target is called missed."""

import json

import pytest

from rtl.config import PRESETS
from sim import figures
from sim.bench import find, mac, mac_area
from sim.mac import Measurement
from sim.progress import NoProgress

NANO = PRESETS["nano"]


def by_name(measured):
    return {figure.name: figure for figure in measured}


def test_throughput(tmp_path):
    measured = by_name(mac.streaming(NANO, NoProgress(), tmp_path))
    for name in ("mac.gemm", "mac.gemv"):
        assert measured[name].met
        assert measured[name].target == 0.97
        assert measured[name].workload.startswith("512 × 512 mxfp4, ")
    for name in ("mac.gemm_8x4", "mac.gemm_8x8"):
        assert 0.97 < measured[name].value < 1
    off, on, both = (measured[f"mac.prefetch_{how}"].value for how in ("off", "on", "paired"))
    assert off < on < 1.1
    assert both > 1.5


@pytest.fixture
def slow_engine(monkeypatch):
    """Put an engine that takes two cycles for every beat in the place of the real one.

    Its value is the list of what it ran.
    """
    ran = []

    def measure(config, products, progress, out_dir):
        ran.extend(product.name for product in products)
        beats = [product.beats(config) for product in products]
        return [
            Measurement(product.golden(config), 1, 2 * b.total, b, 0, {}, 1.0)
            for product, b in zip(products, beats, strict=True)
        ]

    monkeypatch.setattr(mac, "_measure", measure)
    monkeypatch.setattr(mac_area, "parts", lambda config: [])
    return ran


def test_a_missed_target_is_reported(slow_engine):
    report = figures.report("mac", NANO, find("mac").run(NANO, NoProgress()))
    assert not report.met
    said = json.loads(json.dumps(report.to_dict()))
    missed = {figure["name"]: figure["value"] for figure in said["figures"] if not figure["met"]}
    assert list(missed) == ["mac.gemm", "mac.gemv", "mac.paired"]
    assert missed["mac.gemm"] == 0.5


def test_an_engine_without_mxint8_does_not_run_it(slow_engine, tmp_path):
    mac.streaming(NANO.replace(formats="mxfp4"), NoProgress(), tmp_path)
    assert "mac.gemm" in slow_engine
    assert not any("8" in name for name in slow_engine)


@pytest.mark.nightly
def test_pairing(tmp_path):
    figure = mac.paired(NANO, NoProgress(), tmp_path)
    assert figure.met
    assert "stream_bytes 131072" in figure.workload


@pytest.mark.nightly
def test_sizes():
    measured = by_name(mac_area.run(NANO, NoProgress()))
    for name in ("mac.dot44_cells", "mac.dot_cells", "mac.accumulator_cells"):
        assert measured[name].target is not None
        assert measured[name].met
    # Two lanes, two group buffers, and for each neuron the sum and two flags.
    assert measured["mac.pair_bits"].value == 2 * 2 * NANO.acc_depth * (NANO.acc_bits + 2)
    two_lanes = 2 * (measured["mac.dot_cells"].value + measured["mac.accumulator_cells"].value)
    assert measured["mac.pair_cells"].value > two_lanes - 100
