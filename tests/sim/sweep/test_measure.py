"""Real points: small blocks and a small tile, measured, and caught when something is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtl.config import PRESETS
from sim.products import Product
from sim.sweep import tokens
from sim.sweep.energy import default_table
from sim.sweep.measure import OtherTools, explain, measure
from sim.sweep.points import expand
from sim.sweep.versions import tools_hash
from tests.sim.sweep.fake import spec

TABLE = default_table()
GEMV = {"name": "gemv", "kind": "mac", "outputs": 64, "inputs": 64}
LAYER = {"name": "decode", "kind": "layer", "width": 32, "context": 6}
QUICK = {"area": False, "lint": False}


def one(**changes):
    (point,) = expand(spec(**{"grid": {}, **changes}))
    return measure(point, "test", TABLE, tools_hash())


def test_a_product_on_the_matrix_engine() -> None:
    row = one(workload=[GEMV], measure={"area": False})
    assert (row.status, row.reason) == ("ok", "")
    # 64 outputs of two blocks each: 128 beats of elements, and those of scales and maxima.
    assert row.metrics["least_cycles"] == 140
    assert 140 < row.metrics["cycles"] < 170
    assert row.metrics["compared"] == 64
    assert row.metrics["operations"] == 64 * 64
    assert row.metrics["roofline"] == 140 / row.metrics["cycles"]
    assert row.metrics["throughput"] == 1e6 / row.metrics["cycles"]
    energies = TABLE.picojoules
    assert row.metrics["energy_pj"] == pytest.approx(
        140 * 16 * energies["stream_byte"]
        + 64 * 64 * energies["mac44"]
        + 2 * 64 * energies["window_add"]
    )


def test_a_wrong_bit_fails_the_point(monkeypatch) -> None:
    golden = Product.golden

    def wrong(self: Product, config):
        values = golden(self, config).copy()
        values[0, 63] = np.nextafter(values[0, 63], np.float32(np.inf))
        return values

    monkeypatch.setattr(Product, "golden", wrong)
    row = one(workload=[GEMV], measure=QUICK)
    assert row.status == "failed"
    assert row.reason.startswith("The hardware failed in gemv:")
    assert not row.metrics


def test_a_fault_that_lint_finds_fails_the_point(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("JALAPENO_CACHE", str(tmp_path))
    monkeypatch.setattr("gen.waivers.WAIVERS", ())
    row = one(workload=[GEMV], measure={"area": False})
    assert row.status == "failed"
    assert row.reason.startswith("Verilator found faults:")


def test_the_products_of_a_layer() -> None:
    row = one(workload=[LAYER | {"engine": "mac"}], measure=QUICK)
    assert (row.status, row.reason) == ("ok", "")
    assert row.metrics["compared"] > 1024
    assert 0.5 < row.metrics["roofline"] <= 1


def test_other_tools_are_noticed() -> None:
    (point,) = expand(spec(grid={}))
    with pytest.raises(OtherTools, match="give all the same checkout"):
        measure(point, "test", TABLE, "0" * 12)


def test_a_sequence_that_does_not_fit_is_a_row() -> None:
    row = one(workload=[LAYER | {"context": 200}], measure=QUICK)
    assert row.status == "failed"
    assert "The sequence would have 198 tokens, there is room for 128." in row.reason


def test_reasons_are_short() -> None:
    assert explain(KeyError("x")) == "KeyError: 'x'"
    assert explain(ValueError()) == "ValueError"


# --- a tile, of the build that tests/tb/test_tile.py uses ---------------------------------------


@pytest.fixture(scope="module")
def tile_row():
    return one(workload=[LAYER], measure=QUICK)


def test_a_token_on_a_tile(tile_row) -> None:
    assert (tile_row.status, tile_row.reason) == ("ok", "")
    metrics = tile_row.metrics
    assert metrics["roofline"] == pytest.approx(metrics["needed_bytes"] / 16 / metrics["cycles"])
    assert 0.2 < metrics["roofline"] < 1
    # What was fetched is at least what had to be.
    assert tile_row.events["hbm_byte"] >= metrics["needed_bytes"]
    assert metrics["compared"] > metrics["needed_bytes"]


def test_a_smaller_window_costs_cycles_and_no_bits(tile_row) -> None:
    row = one(workload=[LAYER], measure=QUICK, base={"limits": {"window": 1}})
    assert row.ok
    assert row.key[0] == tile_row.key[0]
    assert row.metrics["cycles"] > 1.1 * tile_row.metrics["cycles"]
    # And a tile that was reset is as good as a new one.
    again = one(workload=[LAYER], measure=QUICK)
    assert again.metrics["cycles"] == tile_row.metrics["cycles"]
    assert again.figures == tile_row.figures


def test_a_prompt_on_a_tile() -> None:
    row = one(workload=[LAYER | {"phase": "prefill"}], measure=QUICK)
    assert row.ok
    assert row.least_is == "array"
    assert row.metrics["work"] == 6
    assert 0.1 < row.metrics["roofline"] < 1


@pytest.mark.usefixtures("tile_row")
@pytest.mark.parametrize("what", ["memory", "token"])
def test_what_a_tile_leaves_is_compared(monkeypatch, what: str) -> None:
    make = tokens.request

    def spoilt(*arguments):
        reference = make(*arguments)
        if what == "token":
            return replace(reference, next_token=reference.next_token + 1)
        after = reference.after.copy()
        after[after.size // 2] ^= 1
        return replace(reference, after=after)

    monkeypatch.setattr(tokens, "request", spoilt)
    row = one(workload=[LAYER], measure=QUICK)
    assert row.status == "failed"
    sentence = {"memory": "Byte ", "token": "The next token is "}[what]
    assert row.reason.startswith(sentence)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"window": 99}, "limits.window is 99; it must be at most issue_window, 4."),
        (
            {"stream_rows": 999},
            "limits.stream_rows is 999; with stream_bytes 1024 it must be at most 32.",
        ),
    ],
)
def test_limits_beyond_what_was_built(limits: dict, sentence: str) -> None:
    row = one(workload=[LAYER], measure=QUICK, base={"limits": limits})
    assert (row.status, row.reason) == ("failed", sentence)
    assert PRESETS["nano"].issue_window == 4
