"""Routers and experts: against scalars, ties and NaN, and any number of tokens."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gen.models.formats import ModelFormats
from gen.models.model import FeedForward, Router, RouterKind
from gen.models.quantised import quantise_model
from gen.mx import MXTensor
from sim.golden import fp32, moe
from sim.golden.moe import choose, expert, feed_forward, route
from tests import scalar
from tests.exact import bits_of
from tests.sim.golden import models

NAN = np.float32(np.nan)


def floats(seed, *shape, scale=1.0):
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def network(family="gptoss") -> FeedForward:
    return models.quantised(family).layers[0].feed_forward


def router(kind, experts, top_k, **others) -> Router:
    """A router for `choose`, whose matrix does not matter."""
    return Router(models.linear(np.random.default_rng(0), experts, 4), kind, top_k, **others)


SIGMOID = {"correction": floats(0, 12, scale=0.2), "groups": 3, "top_groups": 2}


@pytest.mark.parametrize("top_k", [1, 2, 7, 12])
def test_softmax_routers_against_scalars(top_k):
    chooser, logits = router(RouterKind.SOFTMAX, 12, top_k), floats(1, 40, 12, scale=3)
    experts, weights = choose(chooser, logits)
    for row in range(40):
        expected = scalar.choose(chooser, scalar.row(logits[row]))
        assert (experts[row].tolist(), bits_of(weights)[row].tolist()) == expected


@pytest.mark.parametrize("top_k", [1, 3, 8])
@pytest.mark.parametrize("correction", [None, SIGMOID["correction"]])
def test_sigmoid_routers_against_scalars(top_k, correction):
    others = SIGMOID | {"correction": correction, "scale": np.float32(2.5)}
    chooser, logits = router(RouterKind.SIGMOID, 12, top_k, **others), floats(2, 40, 12, scale=2)
    experts, weights = choose(chooser, logits)
    for row in range(40):
        expected = scalar.choose(chooser, scalar.row(logits[row]))
        assert (experts[row].tolist(), bits_of(weights)[row].tolist()) == expected


@pytest.mark.parametrize("kind", RouterKind)
def test_top_k_of_all_experts(kind):
    logits = floats(3, 30, 8)
    experts, weights = choose(router(kind, 8, 8), logits)
    assert (np.sort(experts) == np.arange(8)).all()
    assert np.abs(weights.sum(-1) - 1).max() < 1e-6
    assert (np.diff(weights) <= 0).all()


@pytest.mark.parametrize("kind", RouterKind)
def test_equal_logits_go_to_the_lowest_index(kind):
    experts, weights = choose(router(kind, 6, 4), np.zeros((1, 6), np.float32))
    assert experts.tolist() == [[0, 1, 2, 3]]
    assert np.abs(weights - 0.25).max() < 1e-7


def test_minus_zero_equals_zero_for_a_router():
    logits = np.array([[-0.0, 0.0, -0.0, 1.0]], np.float32)
    assert choose(router(RouterKind.SOFTMAX, 4, 3), logits)[0].tolist() == [[3, 0, 1]]


def test_astrai_57_one_ulp_decides_between_experts():
    close = np.float32(1.2345678)
    logits = np.array([[close, np.nextafter(close, np.float32(2)), 0, 0]], np.float32)
    assert choose(router(RouterKind.SOFTMAX, 4, 1), logits)[0].tolist() == [[1]]
    assert choose(router(RouterKind.SOFTMAX, 4, 1), logits[:, ::-1].copy())[0].tolist() == [[2]]


@pytest.mark.parametrize("kind", RouterKind)
def test_nan_logits_lose_against_everything(kind):
    logits = np.array([[NAN, -np.inf, 0, -1e30, NAN]], np.float32)
    experts, weights = choose(router(kind, 5, 3), logits)
    # The sigmoids of -1e30 and -inf are equal, so there the lower index comes first.
    assert experts.tolist() == [[2, 3, 1] if kind is RouterKind.SOFTMAX else [2, 1, 3]]
    assert np.isfinite(weights).all()
    experts, weights = choose(router(kind, 5, 4), logits)
    assert experts[0, 3] == 0
    assert np.isnan(weights).all()


def test_experts_of_losing_groups_are_never_chosen_not_even_instead_of_nan():
    logits = np.array([[5, 5, NAN, NAN, 9, -9]], np.float32)
    chooser = router(RouterKind.SIGMOID, 6, 2, groups=3, top_groups=1)
    assert choose(chooser, logits)[0].tolist() == [[0, 1]]
    # A group with a NaN sums to NaN and loses, but wins when there is no other.
    chooser = router(RouterKind.SIGMOID, 6, 4, groups=3, top_groups=2)
    logits = np.array([[NAN, NAN, NAN, NAN, 1, -1]], np.float32)
    assert choose(chooser, logits)[0].tolist() == [[4, 5, 0, 1]]


def test_losing_groups_lose_even_if_every_choice_is_negative():
    """Where implementations mask losing groups with 0.0 instead, they would win here."""
    chooser = router(
        RouterKind.SIGMOID,
        4,
        2,
        correction=np.float32([-2, -2, -3, -3]),
        groups=2,
        top_groups=1,
    )
    assert choose(chooser, np.zeros((1, 4), np.float32))[0].tolist() == [[0, 1]]


def test_the_correction_chooses_but_does_not_weigh():
    logits = floats(4, 20, 4)
    plain = choose(router(RouterKind.SIGMOID, 4, 4), logits)
    moved = choose(router(RouterKind.SIGMOID, 4, 4, correction=floats(5, 4)), logits)
    for row in range(20):
        weights = [dict(zip(e[row], w[row], strict=True)) for e, w in (plain, moved)]
        assert all(abs(weights[0][e] - weights[1][e]) < 1e-6 for e in range(4))
    assert (plain[0] != moved[0]).any()


def test_vanishing_sigmoids_have_finite_weights():
    weights = choose(router(RouterKind.SIGMOID, 3, 2), np.full((1, 3), -200, np.float32))[1]
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_groups_of_any_size(size):
    chooser = router(RouterKind.SIGMOID, 2 * size, 1, groups=2, top_groups=1)
    logits = np.zeros((1, 2 * size), np.float32)
    logits[0, -1] = 1
    assert choose(chooser, logits)[0].tolist() == [[2 * size - 1]]


@pytest.mark.parametrize("others", [{"groups": 5}, {"groups": 4, "top_groups": 1, "top_k": 4}])
def test_groups_that_cannot_be_are_refused(others):
    with pytest.raises(ValueError, match="groups is"):
        choose(router(RouterKind.SIGMOID, 12, **{"top_k": 1} | others), floats(6, 1, 12))


@pytest.mark.parametrize("top_k", [0, 13])
@pytest.mark.parametrize("kind", RouterKind)
def test_more_experts_than_there_are_are_refused(kind, top_k):
    with pytest.raises(ValueError, match=r"must be 1 to|must divide"):
        choose(router(kind, 12, top_k), floats(6, 1, 12))


@pytest.mark.parametrize("family", models.FAMILIES)
def test_feed_forward_against_scalars(family):
    layer = network(family)
    x = floats(7, 3, layer.experts[0].gate.shape[1])
    expected = [scalar.feed_forward(layer, scalar.row(r)) for r in x]
    assert bits_of(feed_forward(layer, x)).tolist() == expected


@pytest.mark.parametrize("tokens", [1, 3, 9, 33, 63, 99])
@pytest.mark.parametrize("family", ["gptoss", "deepseek"])
def test_tt_metal_50669_any_number_of_tokens(family, tokens):
    layer = network(family)
    x = floats(8, tokens, layer.experts[0].gate.shape[1])
    whole = feed_forward(layer, x)
    single = np.concatenate([feed_forward(layer, row[None]) for row in x])
    assert np.array_equal(bits_of(whole), bits_of(single))


def test_vllm_ascend_15640_an_expert_that_everyone_wants_drops_no_one():
    layer = network()
    bias = np.float32([0, 0, 50, 40, 0])
    linear = dataclasses.replace(layer.router.linear, bias=bias)
    layer = dataclasses.replace(layer, router=dataclasses.replace(layer.router, linear=linear))
    x = floats(9, 200, 40)
    experts, weights = route(layer.router, x)
    assert (experts == [2, 3]).all()
    got = feed_forward(layer, x)
    outputs = [expert(layer.experts[e], layer.gate, x) for e in (2, 3)]
    expected = fp32.add(fp32.mul(weights[:, :1], outputs[0]), fp32.mul(weights[:, 1:], outputs[1]))
    assert np.array_equal(bits_of(got), bits_of(expected))


def nan_block(tensor):
    scales = tensor.scales.copy()
    scales[3, 0] = 255
    return MXTensor(tensor.codes, scales, tensor.format, tensor.length)


def test_nan_in_an_expert_reaches_the_tokens_that_chose_it_and_no_others():
    layer = network()
    broken = dataclasses.replace(
        layer.experts[1],
        up=dataclasses.replace(layer.experts[1].up, weights=nan_block(layer.experts[1].up.weights)),
    )
    experts = (layer.experts[0], broken, *layer.experts[2:])
    x = floats(10, 60, 40)
    chosen = (route(layer.router, x)[0] == 1).any(-1)
    assert 0 < chosen.sum() < 60
    got = feed_forward(dataclasses.replace(layer, experts=experts), x)
    assert np.isnan(got[chosen]).all()
    assert np.array_equal(bits_of(got[~chosen]), bits_of(feed_forward(layer, x)[~chosen]))


def test_nan_in_the_router_makes_its_expert_the_last_choice():
    layer = network()
    linear = dataclasses.replace(
        layer.router.linear, weights=nan_block(layer.router.linear.weights)
    )
    experts, weights = route(dataclasses.replace(layer.router, linear=linear), floats(11, 50, 40))
    assert (experts != 3).all()
    assert np.isfinite(weights).all()


def test_a_nan_token_stays_alone():
    layer, x = network(), floats(12, 5, 40)
    expected = feed_forward(layer, x)
    x[2, 7] = NAN
    got = feed_forward(layer, x)
    others = np.arange(5) != 2
    assert np.isnan(got[2]).all()
    assert np.array_equal(bits_of(got[others]), bits_of(expected[others]))


def test_combining_in_the_order_of_experts_would_change_bits(monkeypatch):
    layer, x = network("deepseek"), floats(13, 40, 33)
    expected = feed_forward(layer, x)
    original = moe.combine

    def by_expert(weights, outputs):
        order = np.argsort(route(layer.router, x)[0], axis=-1)
        return original(
            np.take_along_axis(weights, order, -1),
            np.take_along_axis(outputs, order[..., None], 1),
        )

    monkeypatch.setattr(moe, "combine", by_expert)
    assert not np.array_equal(bits_of(feed_forward(layer, x)), bits_of(expected))


def test_experts_without_a_router_are_refused():
    layer = dataclasses.replace(network(), router=None)
    with pytest.raises(ValueError, match="no router"):
        feed_forward(layer, floats(0, 1, 40))


def test_the_width_of_the_accumulators_reaches_every_matrix(monkeypatch):
    seen = set()
    original = moe.linear

    def spy(matrix, x, acc_bits):
        seen.add(acc_bits)
        return original(matrix, x, acc_bits)

    monkeypatch.setattr(moe, "linear", spy)
    feed_forward(network("deepseek"), floats(14, 2, 33), acc_bits=36)
    assert seen == {36}


def test_formats_of_the_router_are_its_own():
    formats = ModelFormats()
    model = quantise_model(models.gptoss(), formats)
    layer = model.layers[0].feed_forward
    assert layer.router.linear.weights.format is formats.router.format
    assert layer.experts[0].gate.weights.format is formats.experts.format
