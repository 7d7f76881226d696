"""Quantised models: every matrix and operand in the format of its class."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gen.models import huggingface
from gen.models.errors import ModelError
from gen.models.formats import ModelFormats
from gen.models.model import Expert, Model
from gen.models.quantised import quantise_model
from gen.mx import MXTensor
from gen.quantise import quantise
from rtl.formats import Format, ScaleRule
from tests.gen.models.samples import CONFIGS, state

NAMES = list(ModelFormats.describe())

DISTINCT = ModelFormats.from_dict(
    {name: f"{fmt}/{rule}" for name, (fmt, rule) in zip(
        NAMES, [(f, r) for _ in range(4) for f in Format for r in ScaleRule], strict=False)}
)  # fmt: skip
"""Neighbouring classes have different formats or rules."""


def sample(kind="gpt_oss", mxfp4=False, **changes) -> Model:
    config = CONFIGS[kind] | changes
    return huggingface.from_state_dict(config, state(config, mxfp4=mxfp4))


def with_shared_expert(model: Model) -> Model:
    layers = tuple(
        dataclasses.replace(
            layer,
            feed_forward=dataclasses.replace(
                layer.feed_forward, shared=layer.feed_forward.experts[0]
            ),
        )
        for layer in model.layers
    )
    return dataclasses.replace(model, layers=layers)


@pytest.mark.parametrize("formats", [ModelFormats(), DISTINCT])
def test_every_class_has_its_format(formats):
    model = with_shared_expert(sample())
    quantised = quantise_model(model, formats)

    def check(linear, original, weights, inputs):
        assert linear.weights == quantise(original.weights, weights.format, weights.rule)
        assert linear.activation == inputs
        assert linear.bias is original.bias

    assert quantised.embedding == quantise(
        model.embedding, formats.embedding.format, formats.embedding.rule
    )
    check(quantised.head, model.head, formats.head, formats.head_inputs)
    for layer, original in zip(quantised.layers, model.layers, strict=True):
        attention, network = layer.attention, layer.feed_forward
        for name in ("query", "key", "value", "output"):
            linear, wanted = getattr(attention, name), getattr(original.attention, name)
            check(linear, wanted, formats.attention, formats.attention_inputs)
        for name in ("queries", "keys", "values", "probabilities"):
            assert getattr(attention, name) == getattr(formats, name)
        assert attention.sinks is original.attention.sinks
        assert attention.window == original.attention.window
        router = original.feed_forward.router
        check(network.router.linear, router.linear, formats.router, formats.router_inputs)
        assert network.router.top_k == router.top_k
        experts = (*network.experts, network.shared)
        originals = (*original.feed_forward.experts, original.feed_forward.shared)
        for expert, wanted in zip(experts, originals, strict=True):
            for field in dataclasses.fields(Expert):
                check(
                    getattr(expert, field.name),
                    getattr(wanted, field.name),
                    formats.experts,
                    formats.expert_inputs,
                )
        assert network.gate is original.feed_forward.gate


def test_a_dense_model_has_no_router():
    network = quantise_model(sample("llama"), ModelFormats()).layers[0].feed_forward
    assert network.router is network.shared is None


def down(model: Model) -> MXTensor:
    return model.layers[1].feed_forward.experts[2].down.weights


def test_codes_of_a_checkpoint_stay_whatever_the_rule():
    model = sample(mxfp4=True)
    for text in ("mxfp4/ceil", "mxfp4/floor"):
        quantised = quantise_model(model, ModelFormats.from_dict({"experts": text}))
        assert down(quantised) is down(model)


def test_another_format_is_made_of_the_values():
    model = sample(mxfp4=True)
    eight = down(quantise_model(model, ModelFormats.from_dict({"experts": "mxint8"})))
    assert eight.format is Format.MXINT8
    # 4 bits fit into 8: q/2 * 2^X is the same number as (q * 2^s) / 64 * 2^(X + 5 - s).
    before = np.ldexp(down(model).elements.astype(float), down(model).exponents[..., None])
    after = np.ldexp(eight.elements.astype(float), eight.exponents[..., None])
    np.testing.assert_array_equal(before, after)


def test_nan_blocks_stay_nan_and_great_ones_become_it():
    codes = np.full((1, 3, 32), 7, np.uint8)
    tensor = MXTensor(codes, np.array([[255, 254, 100]], np.uint8), Format.MXFP4, 96)
    model = dataclasses.replace(sample("llama"), embedding=tensor)
    eight = quantise_model(model, ModelFormats()).embedding
    assert eight.scales[0, :2].tolist() == [255, 255]  # 6 * 2^127 is beyond FP32
    assert eight.elements[0, 2].tolist() == [96] * 32
    four = quantise_model(model, ModelFormats.from_dict({"embedding": "mxfp4"})).embedding
    assert four is tensor


def test_an_embedding_in_fp32():
    model = sample("llama")
    formats = ModelFormats.from_dict({"embedding": "fp32"})
    assert quantise_model(model, formats).embedding is model.embedding
    with pytest.raises(ModelError, match='embedding is "fp32"; this model\'s is stored as mxint8'):
        quantise_model(quantise_model(model, ModelFormats()), formats)
