"""Formulas between the matrices: against scalars, and their edge cases."""

from __future__ import annotations

import numpy as np
import pytest

from gen.models.model import Gate, Linear, Pairing
from gen.models.precision import Precision
from gen.models.rope import frequencies, table
from gen.quantise import quantise
from rtl.formats import Format
from sim.golden import fp32
from sim.golden.formulas import (
    combine,
    exp,
    gated,
    linear,
    probabilities,
    rms_norm,
    rope,
    scaled_probabilities,
    sigmoid,
    silu,
)
from tests import scalar
from tests.exact import bits_of

INF, NAN = np.float32(np.inf), np.float32(np.nan)
FORMS = [Gate(), Gate(np.float32(7), np.float32(1.702)), Gate(np.float32(0.5), np.float32(1))]


def floats(seed, *shape, scale=1.0):
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def test_exp_and_sigmoid_against_scalars():
    x = floats(0, 500, scale=9)
    assert bits_of(exp(x)).tolist() == [scalar.exp(a) for a in scalar.row(x)]
    assert bits_of(sigmoid(x)).tolist() == [scalar.sigmoid(a) for a in scalar.row(x)]
    expected = [scalar.mul(a, scalar.sigmoid(a)) for a in scalar.row(x)]
    assert bits_of(silu(x)).tolist() == expected


def test_exp_and_sigmoid_are_close_to_the_functions():
    x = np.linspace(-87, 88, 100_001).astype(np.float32)
    wanted = np.exp(x.astype(np.float64))
    assert np.abs(exp(x) / wanted - 1).max() < 4e-6  # x * LOG2E is rounded: up to 2^-18 at 128
    small = np.linspace(-1, 0, 100_001).astype(np.float32)
    assert np.abs(exp(small) / np.exp(small.astype(np.float64)) - 1).max() < 1.3e-7
    x = np.linspace(-87, 87, 100_001).astype(np.float32)
    wanted = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert np.abs(sigmoid(x) / wanted - 1).max() < 4e-6
    assert np.abs(sigmoid(x) - wanted).max() < 2.5e-7


def test_ends_of_exp_and_sigmoid():
    x = np.array([-INF, -1000, 0, 1000, INF, NAN], np.float32)
    assert np.array_equal(exp(x), [0, 0, 1, INF, INF, NAN], equal_nan=True)
    assert np.array_equal(sigmoid(x), [0, 0, 0.5, 1, 1, NAN], equal_nan=True)
    assert np.array_equal(silu(x), [NAN, -0.0, 0, 1000, INF, NAN], equal_nan=True)


@pytest.mark.parametrize("form", FORMS)
def test_both_forms_of_swiglu_against_scalars(form):
    gate, up = floats(1, 300, scale=4), floats(2, 300, scale=4)
    pairs = zip(scalar.row(gate), scalar.row(up), strict=True)
    assert bits_of(gated(gate, up, form)).tolist() == [scalar.gated(g, u, form) for g, u in pairs]


def test_clamped_swiglu_at_and_beyond_its_limit():
    form = FORMS[1]
    gate = np.array([7, 8, INF, -INF, -100, NAN], np.float32)
    top = gated(np.float32([7]), np.float32([7]), form)[0]
    assert gated(gate, np.float32(9), form)[:3].tolist() == [top] * 3
    assert np.isnan(gated(gate, np.float32(1), form)).tolist() == [0, 0, 0, 1, 0, 1]
    assert gated(np.float32([1]), np.float32([-9]), form) < 0  # u + 1 is -6


@pytest.mark.parametrize("form", [Gate(limit=np.float32(7)), Gate(alpha=np.float32(1))])
def test_half_a_form_is_refused(form):
    with pytest.raises(ValueError, match="both or neither"):
        gated(np.float32([1]), np.float32([1]), form)


@pytest.mark.parametrize("width", [1, 3, 31, 32, 33, 100])
def test_rms_norm_against_scalars(width):
    x, weight, eps = floats(3, 2, width), floats(4, width), np.float32(1e-5)
    expected = [scalar.rms_norm(scalar.row(r), weight, eps) for r in x]
    assert bits_of(rms_norm(x, weight, eps)).tolist() == expected


def test_rms_norm_of_zeros_is_zeros():
    zeros = np.zeros((1, 5), np.float32)
    assert not bits_of(rms_norm(zeros, np.ones(5, np.float32), np.float32(1e-6))).any()


@pytest.mark.parametrize("pairing", Pairing)
def test_rope_against_scalars(pairing):
    rotation = table(frequencies(6, 100.0), 9, pairing)
    x = floats(5, 9, 6)
    expected = [scalar.rotate(scalar.row(r), rotation, p) for p, r in enumerate(x)]
    assert bits_of(rope(x, rotation.cos, rotation.sin, pairing)).tolist() == expected
    assert np.array_equal(rope(x, rotation.cos, rotation.sin, pairing)[0], x[0])


def test_rope_refuses_a_head_without_pairs():
    with pytest.raises(ValueError, match="takes pairs"):
        rope(floats(0, 1, 5), floats(0, 1, 2), floats(0, 1, 2), Pairing.HALVES)


@pytest.mark.parametrize("sink", [None, 0.5, 9.0])
def test_probabilities_against_scalars(sink):
    scores = floats(6, 3, 70, scale=3)
    visible = np.random.default_rng(7).random((3, 70)) < 0.7
    sinks = None if sink is None else np.full(3, sink, np.float32)
    p, total = probabilities(scores, visible, sinks)
    for row in range(3):
        seen = [s for s, v in zip(scalar.row(scores[row]), visible[row], strict=True) if v]
        last = [] if sink is None else [scalar.bits(sink)]
        top = scalar.greatest(seen + last)
        terms = iter([scalar.exp(scalar.sub(s, top)) for s in seen])
        expected = [next(terms) if v else 0 for v in visible[row]]
        assert bits_of(p[row]).tolist() == expected
        normaliser = scalar.total(expected)
        for s in last:
            normaliser = scalar.add(normaliser, scalar.exp(scalar.sub(s, top)))
        assert bits_of(total)[row] == normaliser


def test_utensor_175_a_logit_of_378_does_not_overflow():
    scores = np.array([[378, 377, -378, 3e38]], np.float32)
    visible = np.array([[True, True, True, False]])
    p, total = probabilities(scores, visible)
    assert p[0, 0] == 1
    assert p[0, 2] == 0
    assert abs(float(p[0, 1]) - np.exp(-1)) < 1e-7
    assert np.isfinite(total).all()


@pytest.mark.parametrize("hidden", [NAN, INF, -INF, np.float32(3e38)])
def test_hidden_scores_are_never_looked_at(hidden):
    scores = floats(8, 1, 40)
    visible = np.arange(40)[None] % 3 > 0
    expected = probabilities(scores, visible)
    scores = np.where(visible, scores, hidden)
    for got, want in zip(probabilities(scores, visible), expected, strict=True):
        assert np.array_equal(bits_of(got), bits_of(want))
    assert not bits_of(expected[0])[~visible].any()


def test_a_visible_nan_spoils_its_row_only():
    scores = floats(9, 2, 5)
    scores[0, 3] = NAN
    p, total = probabilities(scores, np.ones((2, 5), np.bool_))
    assert np.isnan(p[0]).all()
    assert np.isnan(total[0])
    assert np.isfinite(p[1]).all()


def test_scales_of_v_meet_visible_probabilities_only():
    p = np.array([[1, 0.5, 0.25, 1]], np.float32)
    scales = np.array([133, 255, 255, 13], np.uint8)
    visible = np.array([[True, True, False, True]])
    got = scaled_probabilities(p, visible, scales, Format.MXINT8)[0]
    assert got[0] == 1
    assert np.isnan(got[1])
    assert bits_of(got)[2] == 0
    assert got[3] == np.float32(2.0**-120)


def test_combine_goes_by_slots():
    weights, outputs = floats(10, 6, 3), floats(11, 6, 3, 8)
    got = combine(weights, outputs)
    for row in range(6):
        y = None
        for slot in range(3):
            w = scalar.bits(weights[row, slot])
            term = [scalar.mul(w, o) for o in scalar.row(outputs[row, slot])]
            y = term if y is None else [scalar.add(a, b) for a, b in zip(y, term, strict=True)]
        assert bits_of(got[row]).tolist() == y
    turned = combine(weights[:, ::-1], outputs[:, ::-1])
    assert not np.array_equal(bits_of(turned), bits_of(got)), "the order must show in the bits"


def test_one_slot_is_a_product():
    weights, outputs = floats(12, 4, 1), floats(13, 4, 1, 8)
    assert np.array_equal(combine(weights, outputs), fp32.mul(weights, outputs[:, 0]))


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("bias", [False, True])
def test_linear_against_scalars(fmt, bias):
    weights = quantise(floats(14, 7, 45), fmt)
    matrix = Linear(weights, Precision(fmt), floats(15, 7) if bias else None)
    x = floats(16, 3, 45)
    expected = [scalar.linear(matrix, scalar.row(r), 40) for r in x]
    assert bits_of(linear(matrix, x, acc_bits=40)).tolist() == expected


def test_linear_refuses_weights_that_are_not_quantised():
    with pytest.raises(ValueError, match="quantised"):
        linear(Linear(floats(0, 2, 3), Precision(Format.MXINT8)), floats(0, 1, 3))
