"""A whole language model, from tokens to logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gen.models.model import Layer, Model
from gen.mx import MXTensor
from sim.golden import fp32
from sim.golden.attention import self_attention
from sim.golden.formats import dequantise
from sim.golden.formulas import linear, rms_norm
from sim.golden.kv_cache import LayerCache
from sim.golden.moe import feed_forward
from sim.golden.window import ACC_BITS


class Cache:
    """Keys and values of one sequence, in every layer.

    Parameters
    ----------
    model : Model
        Gives the shapes.

    Attributes
    ----------
    layers : list of LayerCache
        In the model's order.
    """

    def __init__(self, model: Model) -> None:
        self.layers = [LayerCache.empty(layer.attention) for layer in model.layers]

    @property
    def length(self) -> int:
        """Positions that are held; the next token gets this one."""
        return self.layers[0].length if self.layers else 0

    def truncate(self, length: int) -> None:
        """Forget the positions from `length` on, as if they had never been appended."""
        for layer in self.layers:
            layer.truncate(length)


def forward(model: Model, tokens: ArrayLike, cache: Cache, acc_bits: int = ACC_BITS) -> fp32.Floats:
    """Append tokens to a sequence and return the logits of each of them.

    Parameters
    ----------
    model : Model
        With quantised matrices.
    tokens : integer [tokens]
        At least one; the first is at position ``cache.length``.
    cache : Cache
        Of the sequence.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    float32 [tokens, vocabulary]

    Raises
    ------
    ValueError
        If a token is unknown, there are none, or the context is too short for them.
    """
    return forward_batch(model, [tokens], [cache], acc_bits)[0]


def forward_batch(
    model: Model,
    sequences: Sequence[ArrayLike],
    caches: Sequence[Cache],
    acc_bits: int = ACC_BITS,
) -> list[fp32.Floats]:
    """Do what `forward` does for several sequences at once; the bits are those of one by one.

    Parameters
    ----------
    model : Model
        With quantised matrices.
    sequences : sequence of integer arrays
        New tokens of each sequence, any number but zero.
    caches : sequence of Cache
        One per sequence.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    list of float32 [tokens, vocabulary]
    """
    runs = [np.asarray(sequence) for sequence in sequences]
    for run, cache in zip(runs, caches, strict=True):
        _check(model, run, cache)
    counts = [run.size for run in runs]
    x = embed(model, np.concatenate(runs))
    for index, layer in enumerate(model.layers):
        x = apply_layer(
            model, layer, x, [cache.layers[index] for cache in caches], counts, acc_bits
        )
    logits = linear(model.head, rms_norm(x, model.norm, model.eps), acc_bits)
    return np.split(logits, np.cumsum(counts)[:-1])


def embed(model: Model, tokens: ArrayLike) -> fp32.Floats:
    """Return the embeddings of tokens [tokens], float32 [tokens, width]."""
    rows = model.embedding[np.asarray(tokens)]
    return dequantise(rows) if isinstance(rows, MXTensor) else fp32.flush(rows)


def apply_layer(
    model: Model,
    layer: Layer,
    x: fp32.Floats,
    caches: list[LayerCache],
    counts: list[int],
    acc_bits: int = ACC_BITS,
) -> fp32.Floats:
    """Run one layer over the residual stream of some sequences.

    Parameters
    ----------
    model : Model
        Gives RoPE and eps.
    layer : Layer
        The layer.
    x : float32 [tokens, width]
        Residual stream of all sequences, one after the other.
    caches : list of LayerCache
        Of this layer, one per sequence; appended to.
    counts : list of int
        Tokens of each sequence.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    float32 [tokens, width]
    """
    normed = rms_norm(x, layer.attention_norm, model.eps)
    x = fp32.add(x, self_attention(layer.attention, model.rope, normed, caches, counts, acc_bits))
    normed = rms_norm(x, layer.feed_forward_norm, model.eps)
    return fp32.add(x, feed_forward(layer.feed_forward, normed, acc_bits))


def generate(
    model: Model,
    tokens: ArrayLike,
    count: int,
    cache: Cache | None = None,
    acc_bits: int = ACC_BITS,
) -> list[int]:
    """Continue a prompt greedily.

    Parameters
    ----------
    model : Model
        With quantised matrices.
    tokens : integer [tokens]
        Prompt.
    count : int
        Tokens to add.
    cache : Cache, optional
        Of the sequence so far; by default a new one.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    list of int
        The `count` new tokens. The last of them has not been appended to the cache.
    """
    cache = Cache(model) if cache is None else cache
    added: list[int] = []
    for _ in range(count):
        logits = forward(model, added[-1:] or tokens, cache, acc_bits)
        added.append(int(fp32.argmax(logits[-1])))
    return added


def _check(model: Model, tokens: np.ndarray, cache: Cache) -> None:
    if tokens.ndim != 1 or tokens.size == 0:
        raise ValueError(f"tokens has shape {tokens.shape}, it must be a row of at least one.")
    for token in tokens[(tokens < 0) | (tokens >= model.vocabulary)][:1]:
        raise ValueError(f"token is {token}, it must be 0 to {model.vocabulary - 1}.")
    if (end := cache.length + tokens.size) > model.context:
        raise ValueError(f"The sequence would have {end} tokens, the context is {model.context}.")
