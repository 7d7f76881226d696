"""Accuracy is measured as it is said, and quantisation costs what it should."""

from __future__ import annotations

import numpy as np
import pytest

from gen.models.formats import ModelFormats
from gen.models.library import import_model
from sim.accuracy import accuracy, sample
from sim.golden import reference


@pytest.fixture(scope="module")
def model():
    return import_model("glassllm")[0]


@pytest.fixture(scope="module")
def texts(model):
    return [sample(model, [30 + seed], 24, seed) for seed in range(3)]


def test_samples(model, texts):
    assert all(len(text) == 24 for text in texts)
    assert sample(model, [30], 24, 0) == texts[0]
    assert sample(model, [30], 24, 1) != texts[0]
    end = texts[0][10]
    assert sample(model, [30], 24, 0, end=[end]) == texts[0][: texts[0][1:].index(end) + 1]


def test_float64_is_measured_exactly(model, texts):
    found = accuracy(model, texts)
    nll = []
    for text in texts:
        p = np.exp(reference.forward(model, text))
        p /= p.sum(-1, keepdims=True)
        nll += [-np.log(p[at, text[at + 1]]) for at in range(23)]
    assert found == pytest.approx((np.mean(nll), 0, 1))


def test_fewer_bits_cost_more(model, texts):
    everything = ModelFormats.describe()
    eight, four = (
        accuracy(model, texts, ModelFormats.from_dict(dict.fromkeys(everything, fmt)))
        for fmt in ("mxint8", "mxfp4")
    )
    usual = accuracy(model, texts, ModelFormats())
    assert 0 < eight.divergence < usual.divergence < four.divergence
    assert eight.divergence < 0.005
    assert usual.divergence < 0.08
    assert eight.agreement > usual.agreement > four.agreement
