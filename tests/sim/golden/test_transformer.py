"""Whole models: against scalars, and the promise that nothing but the tokens shows in the bits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gen.models import glassllm
from gen.models.formats import ModelFormats
from gen.models.model import Model
from gen.models.quantised import quantise_model
from sim.golden import fp32, moe, transformer, window
from sim.golden.transformer import Cache, forward, forward_batch, generate
from tests import scalar
from tests.exact import bits_of
from tests.sim.golden import models

each_family = pytest.mark.parametrize("family", models.FAMILIES)
TOKENS = np.random.default_rng(0).integers(0, 50, 70)


def logits(model: Model, tokens=TOKENS, step=None, acc_bits=48):
    """Bits of all logits, the tokens being fed `step` at a time."""
    cache, step = Cache(model), step or len(tokens)
    runs = [tokens[first : first + step] for first in range(0, len(tokens), step)]
    return bits_of(np.concatenate([forward(model, run, cache, acc_bits) for run in runs]))


def stream(model: Model, step=70, acc_bits=48):
    """Bits of the residual stream after the last layer.

    The head quantises, and small differences do not outlive that; here they show.
    """
    caches, parts = Cache(model), []
    for first in range(0, 70, step):
        x = transformer.embed(model, TOKENS[first : first + step])
        for layer, cache in zip(model.layers, caches.layers, strict=True):
            x = transformer.apply_layer(model, layer, x, [cache], [len(x)], acc_bits)
        parts.append(x)
    return bits_of(np.concatenate(parts))


@each_family
@pytest.mark.parametrize("formats", models.FORMATS)
def test_against_scalars(family, formats):
    model = models.quantised(family, formats)
    expected = scalar.forward(model, TOKENS[:3].tolist())
    assert logits(model)[:3].tolist() == expected


@each_family
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 5))
def test_other_seeds_against_scalars(family, seed):
    model = models.quantised(family, seed=seed)
    tokens = np.random.default_rng(seed).integers(0, 50, 36).tolist()
    assert logits(model, tokens).tolist() == scalar.forward(model, tokens)


@each_family
@pytest.mark.parametrize("formats", models.FORMATS)
def test_chunks_and_decode_give_the_bits_of_prefill(family, formats):
    model = models.quantised(family, formats)
    tokens = TOKENS[:45]
    whole = logits(model, tokens)
    for step in (1, 2, 3, 7, 32, 33):
        assert np.array_equal(logits(model, tokens, step), whole), step


@each_family
def test_sequences_of_a_batch_do_not_see_each_other(family):
    model = models.quantised(family)
    sequences = [TOKENS[:20], TOKENS[30:31], TOKENS[5:45]]
    alone = [logits(model, s) for s in sequences]
    caches = [Cache(model) for _ in sequences]
    parts: list[list[np.ndarray]] = [[], [], []]
    position = [0, 0, 0]
    for counts in ((3, 1, 10), (16, 0, 1), (1, 0, 29)):
        active = [i for i in range(3) if counts[i]]
        runs = [sequences[i][position[i] : position[i] + counts[i]] for i in active]
        results = forward_batch(model, runs, [caches[i] for i in active])
        for i, result in zip(active, results, strict=True):
            parts[i].append(result)
            position[i] += counts[i]
    for part, expected in zip(parts, alone, strict=True):
        assert np.array_equal(bits_of(np.concatenate(part)), expected)


@each_family
def test_rejected_tokens_leave_no_trace(family):
    model = models.quantised(family)
    whole = logits(model)
    cache = Cache(model)
    forward(model, TOKENS[:33], cache)
    for wrong in ([1, 2, 3], [49] * 20):
        forward(model, wrong, cache)
        cache.truncate(33)
    assert cache.length == 33
    assert np.array_equal(bits_of(forward(model, TOKENS[33:], cache)), whole[33:])
    cache.truncate(0)
    assert np.array_equal(bits_of(forward(model, TOKENS, cache)), whole)


@pytest.mark.parametrize("acc_bits", [32, 40, 52])
def test_the_promise_holds_for_any_width_of_accumulators(acc_bits):
    model = models.quantised("gptoss")
    whole = stream(model, acc_bits=acc_bits)
    assert np.array_equal(stream(model, 7, acc_bits), whole)


@pytest.fixture(scope="module")
def glass() -> Model:
    return quantise_model(glassllm.load().to_model(), ModelFormats())


@pytest.fixture(scope="module")
def prompt() -> np.ndarray:
    text = "The old man lived in a small house near the river, and he was not happy."
    return np.array(glassllm.load().tokenizer.encode(text))


def test_a_trained_model_keeps_the_promise(glass, prompt):
    whole = logits(glass, prompt)
    for step in (1, 5, 16):
        assert np.array_equal(logits(glass, prompt, step), whole)


def test_a_trained_model_goes_on_as_it_does_in_full_precision(prompt):
    source = glassllm.load()
    model = quantise_model(source.to_model(), models.EVERYTHING_INT8)
    wanted = source.capture(prompt.tolist())["E"].outputs
    got = forward(model, prompt, Cache(model))
    assert (got.argmax(-1) == wanted.argmax(-1)).mean() > 0.95
    assert np.abs(got - wanted).max() < 0.1 * np.abs(wanted).max()


def test_generation_is_greedy_and_may_be_continued(glass, prompt):
    whole = generate(glass, prompt, 12)
    cache = Cache(glass)
    first = generate(glass, prompt, 5, cache)
    assert first == whole[:5]
    assert generate(glass, first[-1:], 7, cache) == whole[5:]
    assert cache.length == len(prompt) + 11


def test_speculative_verification_is_plain_decode(glass, prompt):
    """A draft that is wrong somewhere: verify it at once, keep what agrees, go on."""
    wanted = generate(glass, prompt, 10)
    draft = [*wanted[:4], wanted[4] ^ 1, *wanted[5:]]
    cache = Cache(glass)
    last = int(fp32.argmax(forward(glass, prompt, cache)[-1]))
    assert last == draft[0]
    verified = fp32.argmax(forward(glass, draft, cache)).tolist()
    assert verified[:3] == draft[1:4]
    assert verified[3] == wanted[4] != draft[4]
    cache.truncate(len(prompt) + 4)
    assert [*draft[:4], wanted[4], *generate(glass, [wanted[4]], 5, cache)] == wanted


def broken(monkeypatch, family, module, name, replacement) -> bool:
    """Whether decode differs from prefill once a function is replaced; prefill does not change."""
    model = models.quantised(family)
    whole = stream(model)
    monkeypatch.setattr(module, name, replacement)
    assert np.array_equal(stream(model), whole)
    return not np.array_equal(stream(model, step=1), whole)


@pytest.mark.parametrize("bit", [20, 30, 40])
def test_one_wrong_bit_of_an_accumulator_breaks_the_promise(bit, monkeypatch):
    original = window.Window.drain

    def drain(self):
        if len(self.acc) == 1:  # decode, in the projections
            self.acc[0, 0] ^= 1 << bit
        return original(self)

    assert broken(monkeypatch, "llama", window.Window, "drain", drain)


def test_float_sums_in_another_order_break_the_promise(monkeypatch):
    original = fp32.reduce_sum

    def reduce_sum(values):
        straight = np.add.accumulate(values, axis=-1)[..., -1]
        return original(values) if len(values) > 10 else straight

    # Those of norms and softmax meet a quantiser, which mostly hides an ulp; the router's does not.
    assert broken(monkeypatch, "deepseek", fp32, "reduce_sum", reduce_sum)


def test_experts_in_the_order_of_arrival_break_the_promise(monkeypatch):
    original = moe.combine

    def combine(weights, outputs):
        turned = slice(None, None, 1 if len(weights) > 10 else -1)
        return original(weights[:, turned], outputs[:, turned])

    assert broken(monkeypatch, "deepseek", moe, "combine", combine)


def test_requantised_values_would_break_the_promise(monkeypatch):
    """Blocks of V along positions, as if quantised anew with the whole prompt in sight."""
    from sim.golden import attention

    model = models.quantised("llama")
    whole, original = logits(model), attention.scaled_probabilities

    def folded(p, visible, scales, fmt):
        scales = scales.copy()
        scales[:] = scales.max()  # one scale for all the positions that are cached
        return original(p, visible, scales, fmt)

    monkeypatch.setattr(attention, "scaled_probabilities", folded)
    assert not np.array_equal(logits(model), whole)
    assert not np.array_equal(logits(model, step=1), logits(model))


def test_embeddings_in_fp32_are_taken_as_they_are():
    model = models.gptoss()
    x = transformer.embed(model, [3, 3, 5])
    assert np.array_equal(x, model.embedding[[3, 3, 5]])


@pytest.mark.parametrize("tokens", [[50], [-1], [], [[1, 2]], [0] * 97])
def test_tokens_that_cannot_be_are_refused(tokens):
    model = models.quantised("llama")
    cache = Cache(model)
    with pytest.raises(ValueError, match=r"token is|tokens has|The sequence"):
        forward(model, np.array(tokens, int), cache)
    assert cache.length == 0


def test_a_nan_in_the_embedding_stays_with_its_token():
    model = models.gptoss()
    embedding = model.embedding.copy()
    embedding[7, 2] = np.nan
    plain = quantise_model(model, ModelFormats())
    broken = quantise_model(dataclasses.replace(model, embedding=embedding), ModelFormats())
    tokens = np.array([1, 2, 3, 7])
    assert np.array_equal(logits(broken, tokens)[:3], logits(plain, tokens)[:3])
    assert np.isnan(forward(broken, tokens, Cache(broken))[3]).all()
