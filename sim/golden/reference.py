"""The same models in float64 and without quantisation: what accuracy is measured against.

MX weights count as exactly what they are worth; no operand is quantised, nothing is rounded on the
way but float64 itself, and sums have any order. It shares only the model description with the rest
of the golden model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gen.models.model import (
    Attention,
    Expert,
    FeedForward,
    Gate,
    Layer,
    Linear,
    Model,
    Pairing,
    Rope,
    Router,
    RouterKind,
    Weights,
)
from gen.mx import MXTensor
from sim.golden.formats import element_values, scale_values

Reals = NDArray[np.float64]


def forward(model: Model, tokens: ArrayLike) -> Reals:
    """Return the logits of every token of a sequence, float64 [tokens, vocabulary]."""
    return logits(model, hidden_states(model, tokens)[-1])


def hidden_states(model: Model, tokens: ArrayLike) -> list[Reals]:
    """Return the residual stream [tokens, width]: the embeddings, then what each layer leaves."""
    states = [values(model.embedding[np.asarray(tokens)])]
    for layer in model.layers:
        states.append(apply_layer(model, layer, states[-1]))
    return states


def logits(model: Model, x: Reals) -> Reals:
    """Return the logits of a residual stream [tokens, width] after the last layer."""
    return linear(model.head, rms_norm(x, model.norm, model.eps))


def values(weights: Weights) -> Reals:
    """Return what a matrix is worth; a NaN block is NaN."""
    if not isinstance(weights, MXTensor):
        return weights.astype(np.float64)
    blocks = element_values(weights.codes, weights.format) * scale_values(weights.scales)[..., None]
    return blocks.reshape(*weights.shape[:-1], -1)[..., : weights.length]


def linear(matrix: Linear, x: Reals) -> Reals:
    """Return ``x @ weights.T + bias``."""
    result: Reals = x @ values(matrix.weights).T
    return result if matrix.bias is None else result + matrix.bias


def rms_norm(x: Reals, weight: Any, eps: Any) -> Reals:
    """Return ``x / sqrt(mean(x²) + eps) * weight`` along the last axis."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def sigmoid(x: Any) -> Reals:
    """Return ``1 / (1 + exp(-x))``, which is right at both ends."""
    return np.exp(-np.logaddexp(0, -np.asarray(x, np.float64)))


def softmax(x: Reals) -> Reals:
    """Return ``exp(x)`` over its sum along the last axis."""
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def rope(x: Reals, rotation: Rope) -> Reals:
    """Rotate heads [tokens, heads, head] of the first positions."""
    turn = (rotation.cos[: len(x), None] + 1j * rotation.sin[: len(x), None]).astype(np.complex128)
    if rotation.pairing is Pairing.ADJACENT:
        turned = (x[..., ::2] + 1j * x[..., 1::2]) * turn
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)
    first, second = np.split(x, 2, axis=-1)
    turned = (first + 1j * second) * turn
    return np.concatenate([turned.real, turned.imag], axis=-1)


def self_attention(attention: Attention, rotation: Rope, x: Reals) -> Reals:
    """Attend from all tokens [tokens, width] of a sequence."""

    def heads(projection: Linear) -> Reals:
        return linear(projection, x).reshape(len(x), -1, attention.head)

    queries, keys = (rope(heads(p), rotation) for p in (attention.query, attention.key))
    keys, cached = (
        np.repeat(rows, attention.group, axis=1) for rows in (keys, heads(attention.value))
    )
    scores = np.einsum("thd,jhd->htj", queries, keys) * float(attention.scale)
    distance = np.arange(len(x))[:, None] - np.arange(len(x))
    visible = (distance >= 0) & (distance < (attention.window or len(x)))
    scores = np.where(visible, scores, -np.inf)
    if attention.sinks is not None:
        sinks = np.broadcast_to(attention.sinks[:, None, None], (*scores.shape[:2], 1))
        scores = np.concatenate([scores, sinks], axis=-1)
    p = softmax(scores)[..., : len(x)]
    return linear(attention.output, np.einsum("htj,jhd->thd", p, cached).reshape(len(x), -1))


def gated(gate: Reals, up: Reals, form: Gate) -> Reals:
    """Return either form of SwiGLU."""
    if form.limit is None or form.alpha is None:
        return gate * sigmoid(gate) * up
    limit, alpha = float(form.limit), float(form.alpha)
    gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return gate * sigmoid(alpha * gate) * (up + 1)


def expert(network: Expert, gate: Gate, x: Reals) -> Reals:
    """Run one gated network over rows [rows, width]."""
    return linear(network.down, gated(linear(network.gate, x), linear(network.up, x), gate))


def choose(router: Router, scores: Reals) -> tuple[NDArray[np.intp], Reals]:
    """Choose experts by their logits [rows, experts]; return them and their weights by slot."""
    if router.kind is RouterKind.SOFTMAX:
        experts = np.argsort(-scores, axis=-1, kind="stable")[:, : router.top_k]
        return experts, softmax(np.take_along_axis(scores, experts, axis=-1))
    sigmoids = sigmoid(scores)
    choice = sigmoids if router.correction is None else sigmoids + router.correction
    grouped = choice.reshape(len(scores), router.groups, -1)
    best = np.sort(grouped, axis=-1)[..., -2:].sum(-1)
    rank = np.argsort(np.argsort(-best, axis=-1, kind="stable"), axis=-1)
    choice = np.where(rank[..., None] < router.top_groups, grouped, -np.inf).reshape(choice.shape)
    experts = np.argsort(-choice, axis=-1, kind="stable")[:, : router.top_k]
    chosen = np.take_along_axis(sigmoids, experts, axis=-1)
    return experts, chosen / (chosen.sum(-1, keepdims=True) + 1e-20) * float(router.scale)


def feed_forward(network: FeedForward, x: Reals) -> Reals:
    """Run a dense network or a mixture of experts over rows [rows, width]."""
    if network.router is None:
        y = expert(network.experts[0], network.gate, x)
    else:
        y = np.zeros_like(x)
        experts, weights = choose(network.router, linear(network.router.linear, x))
        for index in np.unique(experts):
            rows, slots = np.nonzero(experts == index)
            result = expert(network.experts[index], network.gate, x[rows])
            y[rows] += weights[rows, slots, None] * result
    return y if network.shared is None else y + expert(network.shared, network.gate, x)


def apply_layer(model: Model, layer: Layer, x: Reals) -> Reals:
    """Run one layer over the residual stream [tokens, width] of a sequence."""
    x = x + self_attention(
        layer.attention, model.rope, rms_norm(x, layer.attention_norm, model.eps)
    )
    return x + feed_forward(layer.feed_forward, rms_norm(x, layer.feed_forward_norm, model.eps))
