"""The float64 model: against the package that trained one, and against the golden model."""

from __future__ import annotations

import numpy as np
import pytest

from gen.models import glassllm
from gen.models.quantised import quantise_model
from gen.mx import MXTensor
from gen.quantise import quantise
from rtl.formats import Format
from sim.golden import dequantise, moe, reference
from sim.golden.transformer import Cache, forward
from tests.sim.golden import models

TOKENS = np.random.default_rng(0).integers(0, 50, 40)


def test_a_trained_model_against_the_package_that_trained_it():
    source = glassllm.load()
    tokens = source.tokenizer.encode("The old man lived in a small house near the river.")
    wanted = source.capture(tokens)["E"].outputs
    got = reference.forward(source.to_model(), tokens)
    assert np.abs(got - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_mx_matrices_count_as_what_they_are_worth():
    rng = np.random.default_rng(1)
    for fmt in Format:
        tensor = quantise(rng.standard_normal((5, 70)).astype("f4"), fmt)
        assert np.array_equal(reference.values(tensor), dequantise(tensor))
    assert np.array_equal(reference.values(np.float32([[1, 2]])), [[1, 2]])
    nan = MXTensor(np.zeros((1, 1, 32), np.uint8), np.full((1, 1), 255, np.uint8), fmt, 3)
    assert np.isnan(reference.values(nan)).all()


def relative(got, wanted) -> float:
    return float(np.sqrt(((got - wanted) ** 2).mean() / (wanted**2).mean()))


MEASURED = {
    "mxint8": (0.0113, 0.0093, 0.984),
    "mxfp4 weights": (0.0849, 0.0096, 0.922),
    "mxfp4": (0.1489, 0.1175, 0.844),
}
"""Distance of logits to the float path, and to the same with MX weights; equal first choices."""

TEXT = (
    "The old man lived in a small house near the river, and he was not happy. Alice was beginning "
    "to get very tired of sitting by her sister on the bank, and of having nothing to do: once or "
    "twice she had peeped into the book her sister was reading."
)


@pytest.mark.parametrize("formats", MEASURED)
def test_a_trained_model_is_as_far_away_as_stated(formats):
    source = glassllm.load()
    plain, tokens = source.to_model(), np.array(source.tokenizer.encode(TEXT)[:64])
    model = quantise_model(plain, models.FORMATS[formats])
    got, wanted = forward(model, tokens, Cache(model)), reference.forward(plain, tokens)
    distances = relative(got, wanted), relative(got, reference.forward(model, tokens))
    same = float((got.argmax(-1) == wanted.argmax(-1)).mean())
    assert (*distances, same) == pytest.approx(MEASURED[formats], rel=0.01)


@pytest.mark.parametrize("family", ["llama", "mixtral", "deepseek", "gptoss"])
def test_the_golden_model_stays_near(family, monkeypatch):
    """With weights that are MXINT8 already, all that differs are operands in 8 bits.

    Routers are forced to agree: where two experts are nearly equal the choice is a coin's.
    """
    model = quantise_model(models.FAMILIES[family](), models.EVERYTHING_INT8)
    chosen: list = []

    def record(router, logits):
        result = original(router, logits)
        chosen.append(result[0])
        return result

    def follow(router, scores):
        experts = chosen.pop(0)
        slots = np.take_along_axis(scores, experts, axis=-1)
        if router.kind == "softmax":
            return experts, reference.softmax(slots)
        sigmoids = reference.sigmoid(slots)
        return experts, sigmoids / sigmoids.sum(-1, keepdims=True) * float(router.scale)

    original = moe.choose
    monkeypatch.setattr(moe, "choose", record)
    got = forward(model, TOKENS, Cache(model))
    monkeypatch.setattr(reference, "choose", follow)
    assert relative(got, reference.forward(model, TOKENS)) < 0.05


@pytest.mark.parametrize("kind", ["gptoss", "deepseek"])
def test_both_routers_choose_alike(kind):
    router = models.FAMILIES[kind]().layers[0].feed_forward.router
    logits = np.random.default_rng(2).standard_normal((300, router.linear.shape[0]))
    logits = logits.astype(np.float32)
    experts, weights = moe.choose(router, logits)
    wanted, ideal = reference.choose(router, logits.astype(np.float64))
    assert np.array_equal(experts, wanted)
    assert np.abs(weights - ideal).max() < 1e-6


def test_hidden_states_lead_to_the_logits():
    model = models.gptoss()
    states = reference.hidden_states(model, TOKENS)
    assert len(states) == 1 + len(model.layers)
    assert np.array_equal(reference.logits(model, states[-1]), reference.forward(model, TOKENS))
    assert np.array_equal(states[0], model.embedding[TOKENS])


def test_sigmoid_is_right_at_both_ends():
    assert reference.sigmoid([-1000, 0, 1000]).tolist() == [0, 0.5, 1]
