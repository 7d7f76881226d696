"""What must move from memory for one decoded token: the roofline of a model.

Counted is every byte that a token needs, once and without padding: all weights that it uses, of the
experts only the chosen ones; norm weights, biases and sinks; one row of the embedding; and the keys
and values of the context. Appended keys and values, RoPE tables and instructions are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gen.models.model import Attention, Expert, FeedForward, Layer, Linear, Model, Precision
from gen.mx import MXTensor
from rtl.formats import BLOCK, Format

CLASSES = ("embedding", "attention", "experts", "router", "head", "vectors", "keys and values")
"""What moves, by the classes of `gen.models.formats.ModelFormats`."""

_SCALE_BITS = 8
_FLOAT_BITS = 32


def row_bits(length: int, fmt: Format | None) -> int:
    """Return the bits of so many numbers in a row: elements and scales, or FP32 for ``None``."""
    if fmt is None:
        return _FLOAT_BITS * length
    return 4 * fmt.planes * length + _SCALE_BITS * -(-length // BLOCK)


def array_bits(array: NDArray[np.float32] | MXTensor | None) -> int:
    """Return the bits of an array, without padding; ``None`` has none."""
    if array is None:
        return 0
    fmt = array.format if isinstance(array, MXTensor) else None
    rows = int(np.prod(array.shape[:-1], dtype=np.int64))
    return rows * row_bits(array.shape[-1], fmt)


def stored(model: Model) -> Iterator[tuple[str, NDArray[np.float32] | MXTensor]]:
    """Yield every matrix and vector that a token can meet, with its class."""
    yield "embedding", model.embedding
    for layer in model.layers:
        yield from _layer(layer, layer.feed_forward.experts)
    yield "vectors", model.norm
    yield from _linear("head", model.head)


def kv_bits_per_token(model: Model) -> int:
    """Return the bits that one position adds to the cache."""
    return sum(_position_bits(layer.attention) for layer in model.layers)


@dataclass(frozen=True)
class DecodeTraffic:
    """Bits that must move for one token.

    Parameters
    ----------
    model : Model
        Quantised.
    context : int
        Positions whose keys and values are read, the token's own included.
    """

    model: Model
    context: int

    @property
    def bits(self) -> dict[str, int]:
        """Bits by class, see `CLASSES`."""
        bits = dict.fromkeys(CLASSES, 0)
        bits["embedding"] = array_bits(self.model.embedding[:1])
        for layer in self.model.layers:
            for name, array in _layer(layer, _chosen(layer.feed_forward)):
                bits[name] += array_bits(array)
            seen = min(self.context, layer.attention.window or self.context)
            bits["keys and values"] += seen * _position_bits(layer.attention)
        bits["vectors"] += array_bits(self.model.norm)
        for name, array in _linear("head", self.model.head):
            bits[name] += array_bits(array)
        return bits

    @property
    def bytes(self) -> float:
        """Bytes of everything; half bytes are possible, as nothing is padded."""
        return sum(self.bits.values()) / 8


def _chosen(network: FeedForward) -> tuple[Expert, ...]:
    """Return as many experts as a token meets; all have the same shape."""
    return network.experts[: network.router.top_k] if network.router else network.experts


def _layer(
    layer: Layer, experts: tuple[Expert, ...]
) -> Iterator[tuple[str, NDArray[np.float32] | MXTensor]]:
    attention, network = layer.attention, layer.feed_forward
    for norm in (layer.attention_norm, layer.feed_forward_norm, attention.sinks):
        if norm is not None:
            yield "vectors", norm
    for linear in (attention.query, attention.key, attention.value, attention.output):
        yield from _linear("attention", linear)
    if network.router is not None:
        yield from _linear("router", network.router.linear)
        if network.router.correction is not None:
            yield "vectors", network.router.correction
    for expert in (*experts, *([network.shared] if network.shared else [])):
        for linear in (expert.gate, expert.up, expert.down):
            yield from _linear("experts", linear)


def _linear(name: str, linear: Linear) -> Iterator[tuple[str, NDArray[np.float32] | MXTensor]]:
    yield name, linear.weights
    if linear.bias is not None:
        yield "vectors", linear.bias


def _position_bits(attention: Attention) -> int:
    def bits(precision: Precision) -> int:
        return row_bits(attention.head, precision.format)

    return attention.kv_heads * (bits(attention.keys) + bits(attention.values))
