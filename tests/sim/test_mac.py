"""Products on the simulated engine: what they measure, and that nothing wrong goes unnoticed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gen.package import Package, generate
from gen.quantise import quantise
from rtl.config import PRESETS
from rtl.formats import Format
from sim import mac
from sim.mac import HardwareError, Simulation, simulate
from sim.products import Product, load, save

NANO = PRESETS["nano"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Simulation:
    return simulate(generate("mac", NANO, tmp_path_factory.mktemp("build")))


def tensor(rows: int, length: int, fmt: Format = Format.MXFP4):
    rng = np.random.default_rng(rows * length)
    return quantise(rng.standard_normal((rows, length), np.float32), fmt)


def product(name: str, rows: int, outputs: int, length: int, **options) -> Product:
    return Product(name, tensor(rows, length), tensor(outputs, length), **options)


def corrupt(monkeypatch, change) -> None:
    """Let the file carry changed products, but the results that the right ones have."""
    monkeypatch.setattr(
        mac, "save", lambda path, products, values: save(path, map_all(change, products), values)
    )


def map_all(change, products):
    return [change(product) for product in products]


def test_the_file_keeps_everything(tmp_path):
    products = [
        product("first", 3, 5, 70, prefetch=True, pair=False),
        Product("second", tensor(1, 32, Format.MXINT8), tensor(2, 32)),
    ]
    values = [product.golden(NANO) for product in products]
    save(tmp_path / "jobs.npz", products, values)
    loaded, results = zip(*load(tmp_path / "jobs.npz"), strict=True)
    assert list(loaded) == products
    for result, value in zip(results, values, strict=True):
        np.testing.assert_array_equal(result, value, strict=True)


def test_measurements_add_up(engine):
    many = product("five rows, two at a time", 5, 40, 100)
    longer = product("K beyond the activation store", 1, 33, 32 * NANO.act_blocks + 1)
    first, second = engine.run([many, longer])
    assert first.compared == 5 * 40
    np.testing.assert_array_equal(first.values, many.golden(NANO))
    # Two groups of 32 and 8 neurons with 4 blocks each, in three passes.
    assert first.beats == (3 * (2 + 1), 3 * (8 + 2), 3 * 160)
    assert first.counters["beats"] == first.beats.total
    assert first.counters["steps"] + first.counters["paired_steps"] == first.beats.element
    assert first.prefetched == 0
    assert first.beats.total < first.cycles < first.beats.total + 40
    assert first.beats_per_cycle == first.beats.total / first.cycles
    assert second.compared == 33
    assert second.beats_per_cycle > 0.97
    assert list(engine.package.directory.glob("run-*")) == []


def test_prefetching_and_pairing(engine):
    """The buffer of `nano` holds 64 block rows; without pairing the array takes one per cycle."""
    single, double = engine.run(
        [
            product("single", 1, 16, 128, prefetch=True, pair=False),
            product("double", 1, 16, 128, prefetch=True),
        ]
    )
    assert single.prefetched == double.prefetched == single.beats.total == 1 + 4 + 64
    assert single.counters["beats"] == double.counters["beats"] == 0
    assert (single.counters["steps"], double.counters["steps"]) == (64, 32)
    assert single.elements_per_cycle < 1 < 1.4 < double.elements_per_cycle < 2
    assert 30 <= single.cycles - double.cycles <= 34


def flipped(product: Product) -> Product:
    codes = product.activations.codes.copy()
    codes[-1, 0, 0] ^= 4
    return replace(product, activations=replace(product.activations, codes=codes))


def test_a_wrong_operand_is_noticed(engine, monkeypatch):
    corrupt(monkeypatch, lambda product: flipped(product) if product.name == "bad" else product)
    with pytest.raises(HardwareError) as error:
        engine.run([product("good", 1, 8, 64), product("bad", 2, 8, 64)])
    sentence = str(error.value)
    assert sentence.startswith("The hardware failed in bad: result (1, ")
    assert ", golden " in sentence
    log = Path(sentence.rpartition("log ")[2])
    assert "golden" in log.read_text()


def test_an_engine_of_another_configuration_is_refused(engine):
    config = NANO.replace(acc_bits=40)
    manifest = {**engine.package.manifest, "configuration": config.to_dict()}
    other = replace(engine, package=Package(engine.package.directory, manifest))
    with pytest.raises(HardwareError, match=f"has configuration {NANO.hash}, not {config.hash}"):
        other.run([product("any", 1, 8, 64)])
