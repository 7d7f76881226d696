"""Products whose operands stream from HBM: what they measure, and that nothing wrong goes by."""

from dataclasses import replace

import numpy as np
import pytest

from gen.package import generate
from rtl.config import PRESETS
from sim import mac
from sim.bench.mac import random_product
from sim.products import save
from sim.streaming import HardwareError, StreamingSimulation, simulate

NANO = PRESETS["nano"]


@pytest.fixture(scope="module")
def streaming(tmp_path_factory) -> StreamingSimulation:
    return simulate(generate("streaming", NANO, tmp_path_factory.mktemp("build")))


@pytest.mark.parametrize("timing", [None, "hbm4-8000"])
def test_measurements_add_up(streaming, timing):
    many = random_product("five rows", 5, shape=(40, 100))
    longer = random_product("K beyond the store", 1, shape=(33, 32 * NANO.act_blocks + 1))
    first, second = streaming.run([many, longer], timing)
    assert first.compared == 5 * 40
    np.testing.assert_array_equal(first.values, many.golden(NANO))
    for measured, operands in ((first, 3), (second, 1)):
        assert measured.operands["operands"] == operands  # one for each pass
        assert measured.operands["beats"] == measured.beats.total
        assert measured.counters["beats"] == measured.beats.total
        assert measured.memory["reads"] >= measured.beats.total / 2
        assert measured.commands > measured.memory["reads"]
        assert measured.delivered == measured.beats.total / measured.operands["active"]
        assert measured.beats_per_cycle < measured.delivered < 1
    assert list(streaming.package.directory.glob("run-*")) == []


def test_prefetching_hides_memory(streaming):
    """The stream buffer holds the whole operand before the clock starts."""
    (measured,) = streaming.run([random_product("ahead", 1, shape=(16, 128), prefetch=True)])
    assert measured.prefetched == measured.beats.total == 1 + 4 + 64
    assert measured.counters["beats"] == 0
    assert measured.elements_per_cycle > 1.4


def test_pieces_are_operands_of_their_own(streaming):
    product = random_product("in pieces", 1, shape=(100, 300))
    whole, cut = (streaming.run([product], piece=piece)[0] for piece in (0, 10))
    total = whole.beats.total
    assert (whole.operands["operands"], cut.operands["operands"]) == (1, -(-total // 10))
    assert whole.operands["beats"] == cut.operands["beats"] == total
    assert whole.delivered > cut.delivered


def test_a_wrong_operand_is_noticed(streaming, monkeypatch):
    def save_corrupted(path, products, values):
        codes = products[0].weights.codes.copy()
        codes[-1, 0, 0] ^= 4
        weights = replace(products[0].weights, codes=codes)
        save(path, [replace(products[0], weights=weights)], values)

    monkeypatch.setattr(mac, "save", save_corrupted)
    with pytest.raises(HardwareError, match=r"failed in bad: result \(0, 7\)"):
        streaming.run([random_product("bad", 1, shape=(8, 64))])
