"""Tiny random models of every family, for tests: shapes that no power of two divides."""

from __future__ import annotations

import numpy as np

from gen.models import rope
from gen.models.formats import ModelFormats
from gen.models.model import (
    Attention,
    Expert,
    FeedForward,
    Gate,
    Layer,
    Linear,
    Model,
    Pairing,
    Router,
    RouterKind,
)
from gen.models.precision import Precision
from gen.models.quantised import quantise_model
from rtl.formats import Format, ScaleRule

INT8 = Precision(Format.MXINT8)
FP4 = Precision(Format.MXFP4, ScaleRule.CEIL)

CLAMPED = Gate(np.float32(1.5), np.float32(1.702))
"""A limit that random values reach."""

EVERYTHING_INT8 = ModelFormats(
    **{name: INT8 for name in ("embedding", "attention", "experts", "router", "head")}
)
EVERYTHING_FP4 = ModelFormats(**{name: FP4 for name in ModelFormats.describe()})


def floats(rng, *shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def linear(rng, outputs, inputs, bias=False):
    weights = floats(rng, outputs, inputs, scale=inputs**-0.5)
    return Linear(weights, INT8, floats(rng, outputs, scale=0.3) if bias else None)


def attention(rng, width, heads, kv_heads, head, *, bias=False, **others):
    return Attention(
        linear(rng, heads * head, width, bias),
        linear(rng, kv_heads * head, width, bias),
        linear(rng, kv_heads * head, width, bias),
        linear(rng, width, heads * head, bias),
        heads,
        kv_heads,
        head,
        np.float32(2 * head**-0.5),
        INT8,
        INT8,
        INT8,
        INT8,
        **others,
    )


def expert(rng, width, hidden, bias=False):
    return Expert(
        linear(rng, hidden, width, bias),
        linear(rng, hidden, width, bias),
        linear(rng, width, hidden, bias),
    )


def experts(rng, count, width, hidden, bias=False):
    return tuple(expert(rng, width, hidden, bias) for _ in range(count))


def model(name, rng, width, head, layers, *, pairing=Pairing.HALVES, vocabulary=50, context=96):
    return Model(
        name,
        floats(rng, vocabulary, width),
        tuple(layers),
        1 + floats(rng, width, scale=0.1),
        linear(rng, vocabulary, width),
        rope.table(rope.frequencies(head, 10000.0), context, pairing),
        np.float32(1e-5),
    )


def _layers(rng, width, halves):
    norms = lambda: 1 + floats(rng, width, scale=0.1)  # noqa: E731
    return [Layer(norms(), first, norms(), second) for first, second in halves]


def gptoss(seed=0):
    """Biases, sinks, a window in one layer of two, clamped experts, softmax over the chosen."""
    rng = np.random.default_rng(seed)
    width, head, count = 40, 10, 5
    halves = []
    for window in (6, None):
        router = Router(linear(rng, count, width, True), RouterKind.SOFTMAX, 2)
        sinks = floats(rng, 4)
        halves.append(
            (
                attention(rng, width, 4, 2, head, bias=True, window=window, sinks=sinks),
                FeedForward(experts(rng, count, width, 36, True), CLAMPED, router),
            )
        )
    return model("gptoss", rng, width, head, _layers(rng, width, halves))


def mixtral(seed=0):
    """Experts without biases; a head wider than a block."""
    rng = np.random.default_rng(seed)
    router = Router(linear(rng, 4, 48), RouterKind.SOFTMAX, 2)
    halves = [
        (attention(rng, 48, 3, 1, 40), FeedForward(experts(rng, 4, 48, 33), router=router)),
        (attention(rng, 48, 3, 3, 40), FeedForward(experts(rng, 4, 48, 33), router=router)),
    ]
    return model("mixtral", rng, 48, 40, _layers(rng, 48, halves))


def llama(seed=0):
    """Dense, grouped queries, adjacent pairs."""
    rng = np.random.default_rng(seed)
    halves = [(attention(rng, 36, 4, 2, 12), FeedForward((expert(rng, 36, 50),))) for _ in range(2)]
    return model("llama", rng, 36, 12, _layers(rng, 36, halves), pairing=Pairing.ADJACENT)


def deepseek(seed=0):
    """Sigmoids with a correction and groups, a shared expert; attention as in the others."""
    rng = np.random.default_rng(seed)
    router = Router(
        linear(rng, 8, 33),
        RouterKind.SIGMOID,
        3,
        floats(rng, 8, scale=0.3),
        groups=4,
        top_groups=2,
        scale=np.float32(2.5),
    )
    network = FeedForward(experts(rng, 8, 33, 20), router=router, shared=expert(rng, 33, 40))
    halves = [(attention(rng, 33, 2, 1, 32), network)]
    return model("deepseek", rng, 33, 32, _layers(rng, 33, halves))


FAMILIES = {"gptoss": gptoss, "mixtral": mixtral, "llama": llama, "deepseek": deepseek}

FORMATS = {
    "mxfp4 weights": ModelFormats(),
    "mxint8": EVERYTHING_INT8,
    "mxfp4": EVERYTHING_FP4,
}


def quantised(family, formats="mxfp4 weights", seed=0):
    return quantise_model(FAMILIES[family](seed), FORMATS[formats])
