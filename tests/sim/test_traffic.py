"""What must move for a token: counted by hand, and the budget of a real model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gen.models import huggingface
from gen.models.formats import ModelFormats
from gen.models.library import open_model
from gen.models.quantised import quantise_model
from rtl.formats import Format
from sim.traffic import DecodeTraffic, array_bits, kv_bits_per_token, row_bits, stored
from tests.gen.models.samples import CONFIGS, state


def sample(kind, **formats):
    model = huggingface.from_state_dict(CONFIGS[kind], state(CONFIGS[kind]))
    return quantise_model(model, ModelFormats.from_dict(formats))


def test_rows_are_not_padded():
    assert row_bits(341, Format.MXFP4) == 341 * 4 + 11 * 8
    assert row_bits(341, Format.MXINT8) == 341 * 8 + 11 * 8
    assert row_bits(341, None) == 341 * 32
    assert array_bits(np.zeros((3, 5), np.float32)) == 3 * 5 * 32
    assert array_bits(np.zeros(5, np.float32)) == 5 * 32
    assert array_bits(None) == 0


def test_glassllm_at_context_64():
    """The budget that the design is made for: 30.7 thousand beats of 16 bytes."""
    traffic = DecodeTraffic(open_model("glassllm").model, 64)
    matrices = 852_608 - 9 * 128 - 1024 * 128  # the head is counted below
    w2 = 4 * 128 * (341 * 4 + 11 * 8)
    rest = (matrices - 4 * 128 * 341) * 17 * 8 // 32
    assert traffic.bits["attention"] + traffic.bits["experts"] == rest + w2
    assert traffic.bits["head"] == 1024 * 128 * 17 * 8 // 32
    assert traffic.bits["vectors"] == 9 * 128 * 32
    assert traffic.bits["embedding"] == 128 * 33 * 8 // 32
    assert traffic.bits["keys and values"] == 64 * 4 * 2 * 2 * 33 * 8
    assert traffic.bytes / 16 == pytest.approx(30_700, abs=50)


def test_only_chosen_experts_count():
    model = sample("mixtral")
    matrix = 32 * (64 * 4 + 2 * 8)  # gate and up; down is 64 rows of one block
    expert = 2 * matrix + 64 * (32 * 4 + 8)
    traffic = DecodeTraffic(model, 1)
    assert traffic.bits["experts"] == 2 * 2 * expert
    assert sum(array_bits(a) for name, a in stored(model) if name == "experts") == 2 * 3 * expert
    assert traffic.bits["router"] == 2 * 3 * (64 * 8 + 2 * 8)
    shared = dataclasses.replace(
        model.layers[0].feed_forward, shared=model.layers[0].feed_forward.experts[0]
    )
    layer = dataclasses.replace(model.layers[0], feed_forward=shared)
    more = dataclasses.replace(model, layers=(layer, *model.layers[1:]))
    assert DecodeTraffic(more, 1).bits["experts"] == (2 * 2 + 1) * expert


def test_biases_and_sinks_count_with_vectors():
    bits = DecodeTraffic(sample("gpt_oss"), 1).bits["vectors"]
    attention = 128 + 64 + 64 + 64 + 4  # biases of q, k, v, o, and sinks
    chosen = 2 * (32 + 32 + 64)
    assert bits == 32 * (64 + 2 * (2 * 64 + attention + 3 + chosen))


def test_a_window_bounds_what_is_read():
    model = sample("gpt_oss", keys="mxfp4")
    position = 2 * (32 * 4 + 8 + 32 * 8 + 8)  # two heads, keys of 4 and values of 8 bits
    assert kv_bits_per_token(model) == 2 * position
    for context, seen in ((1, 2), (5, 10), (6, 11), (40, 45)):  # a window of 5, and none
        assert DecodeTraffic(model, context).bits["keys and values"] == seen * position


def test_stored_is_everything():
    model = sample("gpt_oss")
    numbers = sum(np.prod(array.shape) for _, array in stored(model))
    assert numbers == sum(tensor.size for tensor in state(CONFIGS["gpt_oss"]).values())
