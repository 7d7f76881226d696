"""GPT-OSS, Mixtral, Llama and DeepSeek-V3's experts as the transformers library computes them.

What it computed is recorded; where the library is installed (``pip install --group references``),
it is also asked again.
"""

from __future__ import annotations

import dataclasses
import importlib.util

import numpy as np
import pytest

from gen.models.quantised import quantise_model
from sim.golden import moe, reference
from sim.golden.transformer import Cache, forward
from tests.references import fixtures, record
from tests.sim.golden import models

live = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")),
    reason="pip install --group references",
)


@pytest.fixture(scope="module", params=record.MODELS)
def recorded(request):
    return fixtures.load(request.param)


def test_the_float_path_agrees(recorded):
    model, arrays = recorded.model(), recorded.arrays
    states = reference.hidden_states(model, arrays["tokens"])
    for state, wanted in zip(states, arrays["hidden"], strict=False):  # the last one is not there
        assert np.abs(state - wanted).max() < 1e-5
    assert np.abs(reference.logits(model, states[-1]) - arrays["logits"]).max() < 1e-5


@pytest.mark.parametrize("recorded", ["gpt_oss", "mixtral"], indirect=True)
def test_the_float_path_chooses_the_same_experts(recorded, monkeypatch):
    chosen, original = [], reference.choose

    def choose(router, scores):
        chosen.append(original(router, scores))
        return chosen[-1]

    monkeypatch.setattr(reference, "choose", choose)
    reference.forward(recorded.model(), recorded.arrays["tokens"])
    assert np.array_equal([experts for experts, _ in chosen], recorded.arrays["experts"])
    assert np.abs(recorded.arrays["weights"] - [w for _, w in chosen]).max() < 1e-6


def distance(got, wanted) -> float:
    """Root mean square of the difference, as a share of that of what is wanted."""
    return float(np.sqrt(((got - wanted) ** 2).mean() / (wanted**2).mean()))


MEASURED = {
    ("gpt_oss", "mxint8"): (0.0233, 0.0127),
    ("gpt_oss", "mxfp4 weights"): (0.1794, 0.0124),
    ("mixtral", "mxint8"): (0.0636, 0.0619),
    ("mixtral", "mxfp4 weights"): (0.3980, 0.0533),
    ("llama", "mxint8"): (0.0521, 0.0409),
    ("llama", "mxfp4 weights"): (0.4376, 0.0428),
}
"""Distance of the logits to the library's, and to the float path with the same MX weights."""


@pytest.mark.parametrize("formats", ["mxint8", "mxfp4 weights"])
def test_the_golden_model_is_as_far_away_as_stated(recorded, formats):
    tokens, wanted = recorded.arrays["tokens"], recorded.arrays["logits"]
    model = quantise_model(recorded.model(), models.FORMATS[formats])
    logits = forward(model, tokens, Cache(model))
    measured = distance(logits, wanted), distance(logits, reference.forward(model, tokens))
    stated = MEASURED[recorded.config["model_type"], formats]
    assert measured == pytest.approx(stated, rel=0.01)


def test_a_window_is_shorter_than_the_sequence_and_clamps_are_reached(monkeypatch):
    """So that the fixtures show what they are there to show."""
    for name in ("gpt_oss", "mixtral"):
        fixture = fixtures.load(name)
        assert fixture.config["sliding_window"] < len(fixture.arrays["tokens"])
    fixture, reached, original = fixtures.load("gpt_oss"), [], reference.gated

    def gated(gate, up, form):
        reached.append([(g > form.limit).mean() for g in (gate, up, -up)])
        return original(gate, up, form)

    monkeypatch.setattr(reference, "gated", gated)
    reference.forward(fixture.model(), fixture.arrays["tokens"])
    assert (np.mean(reached, axis=0) > 0.1).all()
    assert fixture.config["rope_parameters"]["rope_type"] == "yarn"


def test_deepseek_router_and_experts_agree():
    fixture = fixtures.load("deepseek_v3")
    network, x = fixture.network(), fixture.arrays["input"]
    logits = reference.linear(network.router.linear, x.astype(np.float64))
    experts, weights = reference.choose(network.router, logits)
    wanted = fixture.arrays["experts"], fixture.arrays["weights"]
    order = np.argsort(experts), np.argsort(wanted[0])  # the library's are in no order
    assert np.array_equal(
        np.take_along_axis(experts, order[0], 1), np.take_along_axis(wanted[0], order[1], 1)
    )
    difference = np.take_along_axis(weights, order[0], 1) - np.take_along_axis(
        wanted[1], order[1], 1
    )
    assert np.abs(difference).max() < 1e-6
    output = reference.feed_forward(network, x.astype(np.float64))
    assert np.abs(output - fixture.arrays["output"]).max() < 1e-5
    free = dataclasses.replace(network.router, groups=1, top_groups=1)
    assert (reference.choose(free, logits)[0] != experts).any(), "groups have to matter"


def test_deepseek_router_in_fp32_agrees():
    """The golden router, given logits that are not quantised."""
    fixture = fixtures.load("deepseek_v3")
    router = fixture.network().router
    logits = (fixture.arrays["input"].astype("f8") @ router.linear.weights.T).astype(np.float32)
    experts, weights = moe.choose(router, logits)
    order, other = np.argsort(experts), np.argsort(fixture.arrays["experts"])
    assert np.array_equal(
        np.take_along_axis(experts, order, 1),
        np.take_along_axis(fixture.arrays["experts"], other, 1),
    )
    wanted = np.take_along_axis(fixture.arrays["weights"], other, 1)
    assert np.abs(np.take_along_axis(weights, order, 1) - wanted).max() < 2e-6


@live
@pytest.mark.parametrize("name", record.NAMES)
def test_the_library_still_computes_what_was_recorded(name):
    recorded, now = fixtures.load(name), fixtures.parse(record.record(name))
    assert now.config == recorded.config
    assert now.tensors.keys() == recorded.tensors.keys()
    for key, tensor in recorded.tensors.items():
        assert np.array_equal(now.tensors[key], tensor), key
    assert now.arrays.keys() == recorded.arrays.keys()
    for key, array in recorded.arrays.items():
        assert np.allclose(now.arrays[key], array, rtol=0, atol=1e-6), key


@live
@pytest.mark.parametrize("name", record.MODELS)
@pytest.mark.parametrize("seed", [1, 2])
def test_other_weights_agree_with_the_library(name, seed):
    fixture = fixtures.parse(record.record_model(name, seed))
    logits = reference.forward(fixture.model(), fixture.arrays["tokens"])
    assert np.abs(logits - fixture.arrays["logits"]).max() < 1e-5
