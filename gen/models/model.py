"""What a language model is to this project: its matrices, its shapes, and how it is quantised.

The same classes serve before and after quantisation. An importer fills them with float32 matrices
(or MX tensors, where a checkpoint stores those); `gen.models.quantised.quantise_model` turns every
matrix into an `MXTensor`. Vectors (norm weights, biases, sinks) are float32 in both.

Nothing here computes anything: `sim.golden` does, and so do programs on the hardware.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gen.models.precision import Precision
from gen.mx import MXTensor

Floats: TypeAlias = NDArray[np.float32]

Weights: TypeAlias = Floats | MXTensor
"""A matrix [outputs, inputs], as imported or quantised."""

ONE = np.float32(1)


@dataclass(frozen=True, eq=False)
class Linear:
    """A matrix product, ``x @ weights.T + bias``.

    Attributes
    ----------
    weights : float32 or MXTensor [outputs, inputs]
        The matrix.
    activation
        How the input is quantised.
    bias : float32 [outputs], optional
        What is added.
    """

    weights: Weights
    activation: Precision
    bias: Floats | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        outputs, inputs = self.weights.shape
        return outputs, inputs


@dataclass(frozen=True, eq=False)
class Attention:
    """Multi-head attention with grouped queries.

    Query head h reads key/value head ``h // (heads // kv_heads)``. The outputs of `query`, `key`
    and `value` are the concatenation of their heads, and so is the input of `output`.

    Attributes
    ----------
    query, key, value, output
        Projections.
    heads, kv_heads, head
        Query heads, key/value heads, and elements of a head.
    scale : float32
        What scores are multiplied with.
    queries, keys, values, probabilities
        How the operands of the two products are quantised.
    window : int, optional
        Position j is visible to p only if ``p - window < j``; all up to p if left out.
    sinks : float32 [heads], optional
        Score of a position that has no value.
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int
    kv_heads: int
    head: int
    scale: np.float32
    queries: Precision
    keys: Precision
    values: Precision
    probabilities: Precision
    window: int | None = None
    sinks: Floats | None = None

    @property
    def group(self) -> int:
        """Query heads that share a key/value head."""
        return self.heads // self.kv_heads


@dataclass(frozen=True, eq=False)
class Expert:
    """A gated feed-forward network, ``down(gated(gate(x), up(x)))``; a dense one is one of these.

    Attributes
    ----------
    gate, up : Linear [width, model width]
        They share their input, and so its quantisation.
    down : Linear [model width, width]
        Back again.
    """

    gate: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True)
class Gate:
    """How gate and up are combined.

    Without `limit`: ``(g * sigmoid(g)) * u``. With it, as gpt-oss does: ``g = min(g, limit)``,
    ``u = clamp(u, ±limit)``, ``(g * sigmoid(alpha * g)) * (u + 1)``.

    Attributes
    ----------
    limit, alpha : float32, optional
        Both or neither.
    """

    limit: np.float32 | None = None
    alpha: np.float32 | None = None


class RouterKind(enum.StrEnum):
    """A family of routers.

    ``SOFTMAX``: the `top_k` greatest of logits (+ bias, which is part of the linear), softmax over
    the chosen; gpt-oss, Mixtral. ``SIGMOID``: the `top_k` greatest of sigmoid(logit) + correction
    among the best groups, weights from the sigmoids alone; DeepSeek-V3, Kimi.
    """

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"


@dataclass(frozen=True, eq=False)
class Router:
    """Chooses experts for a token, and their weights.

    Attributes
    ----------
    linear : Linear [experts, model width]
        Gives the logits.
    kind
        Family.
    top_k
        Experts per token, 1 to all of them.
    correction : float32 [experts], optional
        Added to the sigmoids for the choice only.
    groups, top_groups
        Experts are in `groups` equal runs; only those of the `top_groups` best are chosen from.
    scale : float32
        Factor of the weights (``SIGMOID`` only).
    """

    linear: Linear
    kind: RouterKind
    top_k: int
    correction: Floats | None = None
    groups: int = 1
    top_groups: int = 1
    scale: np.float32 = ONE


@dataclass(frozen=True, eq=False)
class FeedForward:
    """The second half of a layer: one dense network, or a mixture of experts.

    Attributes
    ----------
    experts
        At least one; exactly one if there is no `router`.
    gate
        How gate and up are combined, in all of them.
    router, optional
        Chooses among them.
    shared, optional
        An expert that every token takes, added after the chosen ones.
    """

    experts: tuple[Expert, ...]
    gate: Gate = Gate()
    router: Router | None = None
    shared: Expert | None = None


@dataclass(frozen=True, eq=False)
class Layer:
    """``x = x + attention(norm(x))``, then ``x = x + feed_forward(norm(x))``.

    Attributes
    ----------
    attention_norm, feed_forward_norm : float32 [model width]
        Weights of the RMS norms.
    attention, feed_forward
        The two halves.
    """

    attention_norm: Floats
    attention: Attention
    feed_forward_norm: Floats
    feed_forward: FeedForward


class Pairing(enum.StrEnum):
    """Which elements of a head RoPE rotates together.

    ``ADJACENT``: 2i and 2i + 1 (llama2.c, glassllm). ``HALVES``: i and i + head / 2 (Hugging Face).
    """

    ADJACENT = "adjacent"
    HALVES = "halves"


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotary position embedding; all of a head is rotated.

    Attributes
    ----------
    cos, sin : float32 [context, head / 2]
        Computed in float64 and rounded once; scaling of any kind is in them.
    pairing
        Which elements belong together.
    """

    cos: Floats
    sin: Floats
    pairing: Pairing

    @property
    def context(self) -> int:
        """Positions there are."""
        return self.cos.shape[0]


@dataclass(frozen=True, eq=False)
class Model:
    """A decoder-only language model.

    Attributes
    ----------
    name
        For people and for file names.
    embedding : float32 or MXTensor [vocabulary, width]
        A row per token.
    layers
        In order.
    norm : float32 [width]
        Weight of the last RMS norm.
    head : Linear [vocabulary, width]
        Gives the logits; a tied head is a copy of the embedding, packed on its own.
    rope
        One for all layers.
    eps : float32
        Of every RMS norm.
    """

    name: str
    embedding: Weights
    layers: tuple[Layer, ...]
    norm: Floats
    head: Linear
    rope: Rope
    eps: np.float32

    @property
    def width(self) -> int:
        """Elements of the residual stream."""
        return self.embedding.shape[-1]

    @property
    def vocabulary(self) -> int:
        """Tokens there are."""
        return self.embedding.shape[0]

    @property
    def context(self) -> int:
        """Positions there are."""
        return self.rope.context
