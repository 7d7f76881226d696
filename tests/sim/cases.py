"""Random models and tiles for the tests of programs, and what golden says of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gen.kernels.program import build
from gen.layout import unpack_values, unpack_weights
from gen.models.model import FeedForward, Gate, Layer, Model, Pairing, Router, RouterKind
from gen.models.quantised import quantise_model
from rtl.config import PRESETS, TileConfig
from sim.golden.transformer import Cache, apply_layer, embed, forward
from sim.session import Session
from tests.sim.golden import models

FORMATS = {
    "mixed": models.ModelFormats(),
    "mxint8": models.EVERYTHING_INT8,
    "mxfp4": models.EVERYTHING_FP4,
}

SMALL = PRESETS["small"]
NANO = PRESETS["nano"]
BASE = PRESETS["base"]


@dataclass(frozen=True)
class Shape:
    """What a random model looks like; the defaults are small and dense."""

    heads: tuple[int, int] = (4, 2)
    head: int = 32
    width: int = 64
    hidden: int = 72
    layers: int = 1
    windows: tuple[int | None, ...] = (None,)
    sinks: bool = False
    bias: bool = False
    clamped: bool = False
    experts: int = 0
    top_k: int = 1
    kind: RouterKind = RouterKind.SOFTMAX
    groups: tuple[int, int] = (1, 1)
    shared: bool = False
    pairing: Pairing = Pairing.HALVES
    vocabulary: int = 70
    context: int = 64
    formats: str = "mixed"

    def model(self, seed: int = 0, formats: bool = True) -> Model:
        """Return a random model, quantised unless `formats` is False."""
        rng = np.random.default_rng(seed)
        layers = []
        for index in range(self.layers):
            attention = models.attention(
                rng,
                self.width,
                *self.heads,
                self.head,
                bias=self.bias,
                window=self.windows[index % len(self.windows)],
                sinks=models.floats(rng, self.heads[0]) if self.sinks else None,
            )
            norms = [1 + models.floats(rng, self.width, scale=0.1) for _ in range(2)]
            layers.append(Layer(norms[0], attention, norms[1], self._feed_forward(rng)))
        model = models.model(
            "random",
            rng,
            self.width,
            self.head,
            layers,
            pairing=self.pairing,
            vocabulary=self.vocabulary,
            context=self.context,
        )
        return quantise_model(model, FORMATS[self.formats]) if formats else model

    def _feed_forward(self, rng) -> FeedForward:
        gate = models.CLAMPED if self.clamped else Gate()
        width, hidden, bias = self.width, self.hidden, self.bias
        if not self.experts:
            return FeedForward((models.expert(rng, width, hidden, bias),), gate)
        sigmoid = self.kind is RouterKind.SIGMOID
        router = Router(
            models.linear(rng, self.experts, width, bias),
            self.kind,
            self.top_k,
            models.floats(rng, self.experts, scale=0.3) if sigmoid else None,
            *self.groups,
            np.float32(2.5 if sigmoid else 1),
        )
        return FeedForward(
            models.experts(rng, self.experts, width, hidden, bias),
            gate,
            router,
            models.expert(rng, width, hidden, bias) if self.shared else None,
        )


def tokens_for(model: Model, count: int, seed: int = 0) -> list[int]:
    """Return random tokens."""
    return np.random.default_rng(seed).integers(0, model.vocabulary, count).tolist()


def bits(values) -> np.ndarray:
    """Return float32 values as integers, so that -0 and NaN compare."""
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def golden_stream(model: Model, tokens, acc_bits: int = 48) -> np.ndarray:
    """Return the residual stream behind the last layer, float32 [tokens, width]."""
    x, cache = embed(model, tokens), Cache(model)
    for layer, own in zip(model.layers, cache.layers, strict=True):
        x = apply_layer(model, layer, x, [own], [len(tokens)], acc_bits)
    return x


def cached_rows(session: Session, layer: int, kv_head: int):
    """Return the keys and values that lie in a session's memory, as golden holds them."""
    stored = session.stored
    model, config = stored.model, stored.plan.config
    index = layer
    for run in stored.runs:
        if index < run.count:
            break
        index -= run.count
    cache = run.layer.cache
    base = run.caches.address + index * cache.bytes
    memory, attention = session.memory, model.layers[layer].attention

    def beats(address, count):
        return memory.peek(address, count * config.beat_bytes).reshape(count, -1)

    # Rows that were never written hold anything, also behind their last element.
    whole = replace(cache.keys, length=32 * cache.keys.blocks)
    packed = beats(base + kv_head * cache.key_stride, whole.beats.total)
    keys = replace(unpack_weights(packed, whole)[: session.length], length=attention.head)
    chunks = -(-attention.head // 32)
    first = kv_head * chunks
    packed = np.stack(
        [
            beats(base + cache.value + (first + c) * cache.value_stride, cache.values.beats)
            for c in range(chunks)
        ]
    )
    scales = np.stack(
        [
            memory.peek(base + cache.scale + (first + c) * cache.scale_stride, stored.capacity)
            for c in range(chunks)
        ]
    )
    values = unpack_values(packed, scales, cache.values, session.length, attention.head)
    return keys, values


def run_and_compare(
    model: Model,
    config: TileConfig,
    sequence,
    requests=None,
    **options,
) -> Session:
    """Run tokens on a tile in requests of these sizes, and compare every bit with golden.

    Logits of every token, the residual stream of the last, and the whole KV cache.
    """
    session = Session(build(model, config, logits=True, **options))
    logits, start = [], 0
    for size in requests or [len(sequence)]:
        logits.append(session.append(sequence[start : start + size]))
        start += size
    assert start == len(sequence)
    cache = Cache(model)
    expected = forward(model, sequence, cache, config.acc_bits)
    np.testing.assert_array_equal(bits(np.concatenate(logits)), bits(expected))

    residual = session.residual
    stream = golden_stream(model, sequence, config.acc_bits)[-len(residual) :]
    np.testing.assert_array_equal(bits(residual), bits(stream))

    for index, layer in enumerate(cache.layers):
        for kv_head in range(model.layers[index].attention.kv_heads):
            keys, values = cached_rows(session, index, kv_head)
            assert keys == layer.keys.of(kv_head)
            assert values == layer.values.of(kv_head)
    return session


__all__ = ["BASE", "NANO", "SMALL", "Shape", "replace", "run_and_compare", "tokens_for"]
