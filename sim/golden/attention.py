"""Attention over a cache of quantised keys and values.

The scales of V meet the probabilities and not the products. So nothing in the cache is ever touched
again, and neither the chunking of a prompt nor the length of the cache shows in a bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.models.model import Attention, Rope
from gen.models.precision import Precision
from gen.mx import MXTensor
from rtl.formats import BLOCK
from sim.golden import fp32
from sim.golden.elementary import reciprocal
from sim.golden.formulas import linear, probabilities, quantised, rope, scaled_probabilities
from sim.golden.kv_cache import LayerCache, append
from sim.golden.window import ACC_BITS, window_matmul

Positions = NDArray[np.integer[Any]]
"""Absolute positions, from 0."""


def visible_range(positions: Positions, window: int | None = None) -> tuple[Positions, Positions]:
    """Return the range [lo, hi) of positions that each row sees.

    Parameters
    ----------
    positions : integer [rows]
        The rows' own positions.
    window : int, optional
        How many are seen at most, the row's own included; by default all before it.
    """
    positions = np.asarray(positions)
    lo = np.zeros_like(positions) if window is None else (positions - window + 1).clip(0)
    return lo, positions + 1


def attend_head(
    queries: MXTensor,
    keys: MXTensor,
    values: MXTensor,
    positions: Positions,
    lo: Positions,
    hi: Positions,
    scale: np.float32,
    precision: Precision,
    sinks: fp32.Floats | None = None,
    acc_bits: int = ACC_BITS,
) -> fp32.Floats:
    """Attend from any rows to one KV head, from quantised operands to finished outputs.

    Parameters
    ----------
    queries : MXTensor [rows, head]
        Query heads and tokens in any mixture.
    keys, values : MXTensor [cached, head]
        From position 0 on; what no row sees may hold anything.
    positions : integer [rows]
        Each row's own position, which fixes the window of its second product.
    lo, hi : integer [rows]
        It sees positions ``lo <= j < hi``, with ``hi <= position + 1``. If there are none, its
        output is +0.
    scale : float32
        What scores are multiplied with.
    precision : Precision
        How probabilities are quantised.
    sinks : float32 [rows], optional
        Score of a position that has no value.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    float32 [rows, head]

    Raises
    ------
    ValueError
        If a row sees beyond its own position or beyond the cache.
    """
    positions, lo, hi = (np.asarray(array) for array in (positions, lo, hi))
    some = lo < hi
    limit = np.minimum(positions + 1, keys.shape[0])
    for row in np.flatnonzero(some & ((lo < 0) | (hi > limit)))[:1]:
        raise ValueError(
            f"row {row} sees positions {lo[row]} to {hi[row] - 1}, they must be in 0 to "
            f"{limit[row] - 1}: its own and those before it, as far as they are cached."
        )
    if not some.any():
        return np.zeros(queries.shape, np.float32)
    seen = int(hi[some].max())
    keys, values = keys[:seen], values[:seen]
    visible = (lo[:, None] <= np.arange(seen)) & (np.arange(seen) < hi[:, None])

    scores = fp32.mul(window_matmul(queries, keys, acc_bits), scale)
    p, total = probabilities(scores, visible, sinks)
    products = [
        window_matmul(
            quantised(
                scaled_probabilities(p, visible, values.scales[:, chunk], values.format), precision
            ),
            values.column_operand(chunk),
            acc_bits,
            blocks=positions // BLOCK + 1,
        )
        for chunk in range(values.blocks)
    ]
    outputs = fp32.mul(np.concatenate(products, axis=1), reciprocal(total)[:, None])
    return np.where(some[:, None], outputs[:, : values.length], np.float32(0))


def attend(
    attention: Attention,
    queries: fp32.Floats,
    cache: LayerCache,
    positions: Positions,
    lo: Positions | None = None,
    hi: Positions | None = None,
    acc_bits: int = ACC_BITS,
) -> fp32.Floats:
    """Attend from all heads of some tokens to a cache that holds their own positions already.

    Parameters
    ----------
    attention : Attention
        The layer's shape, scale, window, sinks and precisions.
    queries : float32 [tokens, heads, head]
        After RoPE.
    cache : LayerCache
        Keys and values.
    positions : integer [tokens]
        Of the tokens.
    lo, hi : integer [tokens], optional
        What each token sees, by default what `attention` lets it see.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    float32 [tokens, heads · head]
        Heads one after the other, as the output projection takes them.
    """
    positions = np.asarray(positions)
    first, end = visible_range(positions, attention.window)
    lo = first if lo is None else np.asarray(lo)
    hi = end if hi is None else np.asarray(hi)
    tokens, group = positions.size, attention.group
    operand = quantised(queries, attention.queries)
    outputs = np.empty((tokens, attention.heads, attention.head), np.float32)
    for kv_head in range(attention.kv_heads):
        heads = slice(kv_head * group, (kv_head + 1) * group)
        # The heads of a group are rows of the same products, token by token.
        rows = MXTensor(
            operand.codes[:, heads].reshape(tokens * group, -1, BLOCK),
            operand.scales[:, heads].reshape(tokens * group, -1),
            operand.format,
            operand.length,
        )
        sinks = None if attention.sinks is None else np.tile(attention.sinks[heads], tokens)
        result = attend_head(
            rows,
            cache.keys.of(kv_head),
            cache.values.of(kv_head),
            np.repeat(positions, group),
            np.repeat(lo, group),
            np.repeat(hi, group),
            attention.scale,
            attention.probabilities,
            sinks,
            acc_bits,
        )
        outputs[:, heads] = result.reshape(tokens, group, -1)
    return outputs.reshape(tokens, -1)


def self_attention(
    attention: Attention,
    rotation: Rope,
    x: fp32.Floats,
    caches: list[LayerCache],
    counts: list[int],
    acc_bits: int = ACC_BITS,
) -> fp32.Floats:
    """Run the first half of a layer, between its norm and the residual sum.

    Parameters
    ----------
    attention : Attention
        The layer.
    rotation : Rope
        Of queries and keys.
    x : float32 [tokens, width]
        Normed residual stream of all sequences, one after the other.
    caches : list of LayerCache
        One per sequence. Its new tokens follow what is cached, and are appended.
    counts : list of int
        New tokens of each sequence.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    float32 [tokens, width]
    """

    def heads(rows: fp32.Floats) -> fp32.Floats:
        return rows.reshape(x.shape[0], -1, attention.head)

    positions = np.concatenate(
        [cache.length + np.arange(count) for cache, count in zip(caches, counts, strict=True)]
    )
    cos, sin = rotation.cos[positions, None], rotation.sin[positions, None]
    queries = rope(heads(linear(attention.query, x, acc_bits)), cos, sin, rotation.pairing)
    keys = rope(heads(linear(attention.key, x, acc_bits)), cos, sin, rotation.pairing)
    values = heads(linear(attention.value, x, acc_bits))

    outputs, start = [], 0
    for cache, count in zip(caches, counts, strict=True):
        own = slice(start, start + count)
        append(attention, cache, keys[own], values[own])
        outputs.append(attend(attention, queries[own], cache, positions[own], acc_bits=acc_bits))
        start += count
    return linear(attention.output, np.concatenate(outputs), acc_bits)
