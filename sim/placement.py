"""How much of a tile's memory each part of a model takes in the layout that is streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gen.layout import ValueLayout, WeightLayout, key_capacity, key_layout
from gen.models.formats import FP32
from gen.models.model import Attention, Layer, Linear, Model, Weights
from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.formats import BLOCK
from sim.traffic import row_bits


def placement(model: Model, config: TileConfig) -> list[dict[str, Any]]:
    """Return a row per part of the model: what it is, its matrices, their format, and beats.

    Padding, scales and maxima are included. Of keys and values it is the whole context. Vectors and
    RoPE tables are left out, and nothing is given an address here.

    Parameters
    ----------
    model
        Quantised.
    config
        Of the tile.
    """
    rows = [_embedding(model.embedding, config), _matrix_row("head", [model.head], config)]
    for index, layer in enumerate(model.layers):
        for what, linears in _matrices(layer):
            rows.append(_matrix_row(f"layer {index} {what}", linears, config))
        attention = layer.attention
        formats = sorted({str(attention.keys.format), str(attention.values.format)})
        beats = attention.kv_heads * _cache_beats(attention, model.context, config)
        rows.append(_row(f"layer {index} cache", 2 * attention.kv_heads, formats, beats, config))
    return rows


def _embedding(table: Weights, config: TileConfig) -> dict[str, Any]:
    """Return the row of the embedding table, whose rows begin on beats of their own."""
    fmt = table.format if isinstance(table, MXTensor) else None
    count, length = table.shape
    beats = count * -(-row_bits(length, fmt) // config.beat_bits)
    return _row("embedding", 1, [str(fmt or FP32)], beats, config)


def _matrices(layer: Layer) -> Iterator[tuple[str, list[Linear]]]:
    attention, network = layer.attention, layer.feed_forward
    yield "attention", [attention.query, attention.key, attention.value, attention.output]
    if network.router is not None:
        yield "router", [network.router.linear]
    experts = [*network.experts, *([network.shared] if network.shared else [])]
    yield "experts", [part for expert in experts for part in (expert.gate, expert.up, expert.down)]


def _matrix_row(what: str, linears: list[Linear], config: TileConfig) -> dict[str, Any]:
    beats, formats = 0, set()
    for linear in linears:
        assert isinstance(linear.weights, MXTensor), "only quantised models are placed"
        fmt = linear.weights.format
        layout = WeightLayout(*linear.shape, fmt, config.pseudo_channels, config.acc_depth)
        beats += layout.beats.total
        formats.add(str(fmt))
    return _row(what, len(linears), sorted(formats), beats, config)


def _cache_beats(attention: Attention, context: int, config: TileConfig) -> int:
    channels, depth = config.pseudo_channels, config.acc_depth
    capacity = key_capacity(context, pseudo_channels=channels, acc_depth=depth)
    keys = key_layout(
        capacity,
        attention.head,
        attention.keys.format,
        pseudo_channels=channels,
        acc_depth=depth,
    )
    chunks = -(-attention.head // BLOCK)
    positions = -(-context // BLOCK) * BLOCK
    values = ValueLayout(positions, attention.values.format, channels)
    scales = -(-positions // config.beat_bytes)
    return keys.beats.total + chunks * (values.beats + scales)


def _row(
    what: str, matrices: int, formats: list[str], beats: int, config: TileConfig
) -> dict[str, Any]:
    return {
        "part": what,
        "matrices": matrices,
        "format": "+".join(formats),
        "beats": beats,
        "bytes": beats * config.beat_bytes,
    }
