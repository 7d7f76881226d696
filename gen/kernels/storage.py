"""Packing a model into a tile's memory: every operand packed, every address known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gen.kernels.plan import Plan, blocks_of
from gen.kernels.stored import (
    TOKENS,
    UNLIMITED,
    Piece,
    Run,
    Stored,
    StoredAttention,
    StoredCache,
    StoredExpert,
    StoredFeedForward,
    StoredLayer,
    StoredLinear,
    StoredRouter,
)
from gen.layout import ValueLayout, key_layout, pack_weights
from gen.memory_map import DoesNotFit, MemoryMap, Region, align
from gen.models.model import Attention, Expert, FeedForward, Layer, Linear, Model, Router
from gen.mx import Bytes, MXTensor
from gen.table import pack_table, row_bytes
from rtl.config import TileConfig
from rtl.formats import BLOCK
from rtl.hbm.columns import GROUPS
from rtl.hbm.interface import COLUMNS
from rtl.hbm.place import BANKS
from rtl.hbm.timing import BURST


class _Blob:
    """Bytes that are collected, each addition at an even beat."""

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.parts: list[Bytes] = []
        self.size = 0

    def skip(self, size: int) -> None:
        """Leave so many bytes out, as a multiple of what additions are aligned to."""
        self.add(np.zeros(size, np.uint8))

    def add(self, data: Any) -> int:
        """Add the bytes of an array and return where they begin."""
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        start = self.size
        self.size += align(self.config, data.size)
        self.parts.append(np.pad(data, (0, self.size - start - data.size)))
        return start

    def bytes(self) -> Bytes:
        """Return everything."""
        return np.concatenate(self.parts) if self.parts else np.zeros(0, np.uint8)


def store_linear(
    plan: Plan, blob: _Blob, linear: Linear, parts: list[tuple[int, int]], unit: int
) -> StoredLinear:
    """Pack a matrix, see `store_together`."""
    (stored,) = store_together(plan, blob, [linear], parts, unit)
    return stored


def store_together(
    plan: Plan, blob: _Blob, linears: list[Linear], parts: list[tuple[int, int]], unit: int
) -> list[StoredLinear]:
    """Pack matrices of one shape whose parts are read in turn.

    They lie in the order in which they are read, so that memory goes from one to the next without
    leaving its rows.

    Parameters
    ----------
    plan
        Sizes.
    blob
        Where to.
    linears
        The matrices, quantised.
    parts
        Start and count of the outputs of each piece.
    unit
        Blocks of the input that stay together.
    """
    config = plan.config
    pieces: list[list[Piece]] = [[] for _ in linears]
    for start, count in parts:
        packed = [list(_pieces(plan, linear, start, count, unit)) for linear in linears]
        sizes = [sum(align(config, beats.size) for _, _, beats in part) for part in packed]
        for i, part in enumerate(packed):
            for first, outputs, beats in part:
                pieces[i].append(Piece(first, outputs, blob.add(beats), len(beats)))
            if i == 0 and len(linears) > 1:
                blob.skip(_apart(config, sum(sizes)))
    return [
        StoredLinear(
            tuple(pieces[i]),
            linear.shape[1],
            linear.shape[0],
            _stored(linear).format,
            linear.activation,
            None if linear.bias is None else blob.add(linear.bias),
        )
        for i, linear in enumerate(linears)
    ]


def _stored(linear: Linear) -> MXTensor:
    assert isinstance(linear.weights, MXTensor)
    return linear.weights


def _pieces(
    plan: Plan, linear: Linear, start: int, count: int, unit: int
) -> Iterator[tuple[int, int, Bytes]]:
    """Yield start, count and bytes of each operand of a part of a matrix."""
    config = plan.config
    chained = len(plan.block_parts(blocks_of(linear.shape[1]), unit)) > 1
    size = config.group_outputs if chained else count  # K in chunks goes group by group
    for first in range(start, start + count, size):
        outputs = min(size, start + count - first)
        yield (
            first,
            outputs,
            pack_weights(
                _stored(linear)[first : first + outputs],
                pseudo_channels=config.pseudo_channels,
                acc_depth=config.acc_depth,
            ),
        )


def _apart(config: TileConfig, size: int) -> int:
    """Return how many bytes to leave out, so that a stretch ends in other banks than it begins in.

    It may be read again at once, by the other chunk, and would wait for its rows. A stream walks
    through the pages of a bank of each group together, and then through the next ones.
    """
    pages = GROUPS * COLUMNS * BURST * config.beat_stride
    past = size % (BANKS // GROUPS * pages)
    if past < pages:
        return pages - past
    everything = BANKS // GROUPS * pages
    return everything + pages - past if past > everything - pages else 0


def head_parts(heads: int, head: int, per_register: int) -> list[tuple[int, int]]:
    """Return the pieces of a projection to heads.

    Heads of whole blocks lie in a register as they come; others are padded to whole blocks there,
    which takes a piece for each.
    """
    each = per_register if head % BLOCK == 0 else 1
    return [
        (first * head, min(each, heads - first) * head)
        for start in range(0, heads, per_register)
        for first in range(start, min(start + per_register, heads), each)
    ]


def _store_attention(
    plan: Plan, blob: _Blob, attention: Attention, windowed: bool, cache: StoredCache
) -> StoredAttention:
    cut = plan.heads(attention)
    unit = plan.columns // BLOCK
    head = attention.head
    queries = head_parts(attention.heads, head, cut.query_heads)
    keys = head_parts(attention.kv_heads, head, cut.kv_heads)
    width = attention.output.shape[0]
    whole = head % BLOCK == 0
    return StoredAttention(  # in the order in which they are read
        key=store_linear(plan, blob, attention.key, keys, unit),
        value=store_linear(plan, blob, attention.value, keys, unit),
        query=store_linear(plan, blob, attention.query, queries, unit),
        output=store_linear(
            plan,
            blob,
            attention.output,
            plan.parts(width),
            cut.query_heads * cut.blocks if whole else unit,
        ),
        heads=cut,
        sinks=None if attention.sinks is None else blob.add(attention.sinks),
        window=blob.add(_window(attention)) if windowed else None,
        cache=cache,
        shape=attention,
    )


def _window(attention: Attention) -> np.uint32:
    """Return a window in which no number of positions is too large for an instruction."""
    window = UNLIMITED if attention.window is None else attention.window
    return np.uint32(min(max(window, 0), UNLIMITED))


def _numbers(layer: Layer) -> tuple[Any, ...]:
    """Return the numbers of a layer that are part of its program."""
    attention, router = layer.attention, layer.feed_forward.router
    operands = (attention.queries, attention.keys, attention.values, attention.probabilities)
    shape = (attention.heads, attention.kv_heads, attention.head, attention.scale, *operands)
    if router is None:
        return shape
    return (*shape, router.kind, router.top_k, router.groups, router.top_groups, router.scale)


def _store_expert(plan: Plan, blob: _Blob, expert: Expert) -> StoredExpert:
    unit = plan.columns // BLOCK
    hidden, width = expert.gate.shape
    gate, up = store_together(plan, blob, [expert.gate, expert.up], plan.parts(hidden), unit)
    return StoredExpert(
        gate=gate,
        up=up,
        down=store_linear(plan, blob, expert.down, plan.parts(width), unit),
    )


def _store_feed_forward(plan: Plan, blob: _Blob, network: FeedForward) -> StoredFeedForward:
    router = None
    if network.router is not None:
        experts = network.router.linear.shape[0]
        linear = store_linear(
            plan,
            blob,
            network.router.linear,
            router_parts(network.router),
            plan.columns // BLOCK,
        )
        correction = network.router.correction
        router = StoredRouter(
            linear,
            None if correction is None else blob.add(correction),
            experts,
            network.router,
        )
    shared = None if network.shared is None else _store_expert(plan, blob, network.shared)
    first, stride = None, 0
    for expert in network.experts:
        start = blob.size
        stored = _store_expert(plan, blob, expert)
        first = first or stored
        stride = blob.size - start
    assert first is not None
    return StoredFeedForward(first, stride, router, shared, network.gate)


def router_parts(router: Router) -> list[tuple[int, int]]:
    """Return the pieces of a router: one, or one for each group of experts."""
    experts = router.linear.shape[0]
    size = experts // router.groups
    return [(start, size) for start in range(0, experts, size)]


def _store_cache(plan: Plan, attention: Attention, capacity: int) -> StoredCache:
    config = plan.config
    keys = key_layout(
        capacity,
        attention.head,
        attention.keys.format,
        pseudo_channels=config.pseudo_channels,
        acc_depth=config.acc_depth,
    )
    values = ValueLayout(capacity, attention.values.format, config.pseudo_channels)
    chunks = attention.kv_heads * blocks_of(attention.head)
    key_stride = align(config, keys.beats.total * config.beat_stride)
    value_stride = align(config, values.beats * config.beat_stride)
    scale_stride = align(config, capacity)
    value = attention.kv_heads * key_stride
    scale = value + chunks * value_stride
    end = scale + chunks * scale_stride
    return StoredCache(keys, values, key_stride, value, value_stride, scale, scale_stride, end)


def _store_layer(
    plan: Plan, layer: Layer, windowed: bool, capacity: int
) -> tuple[StoredLayer, Bytes]:
    blob = _Blob(plan.config)
    attention_norm = blob.add(layer.attention_norm)
    cache = _store_cache(plan, layer.attention, capacity)
    attention = _store_attention(plan, blob, layer.attention, windowed, cache)
    feed_forward_norm = blob.add(layer.feed_forward_norm)
    feed_forward = _store_feed_forward(plan, blob, layer.feed_forward)
    stored = StoredLayer(
        attention_norm, attention, feed_forward_norm, feed_forward, blob.size, _numbers(layer)
    )
    return stored, blob.bytes()


def rope_rows(model: Model) -> Any:
    """Return what `vector` rotates with, a row per position.

    Each row is the cosine for every element of a head, and the sine with which its partner is
    multiplied: minus it for the first of a pair. Both are padded to whole blocks.
    """
    half = model.rope.cos.shape[1]
    padded = BLOCK * blocks_of(2 * half)
    rows = np.zeros((model.context, 2, padded), np.float32)
    element = np.arange(2 * half)
    if model.rope.pairing == "adjacent":
        pair, second = element // 2, element % 2 == 1
    else:
        pair, second = element % half, element >= half
    rows[:, 0, : 2 * half] = model.rope.cos[:, pair]
    sine = model.rope.sin[:, pair]
    rows[:, 1, : 2 * half] = np.where(second, sine, -sine)
    return rows.reshape(model.context, -1)


def place_rows(cache: StoredCache, stride: int) -> Any:
    """Return where a position's keys and values are written, a row of words per position.

    For each block of a key: where its high plane is, and its scale. Then where the key's greatest
    scale is (unused if a key is one block), and where the value is in each chunk.
    """
    position = np.arange(cache.keys.neurons)
    columns = []

    def add(place: Any) -> None:
        columns.append(place.beat * stride + place.byte)

    for block in range(cache.keys.blocks):
        add(cache.keys.element_place(position, block))
        add(cache.keys.scale_place(position, block))
    if cache.keys.blocks > 1:
        add(cache.keys.maximum_place(position))
    else:
        columns.append(np.zeros_like(position))
    add(cache.values.element_place(position))
    return np.stack(columns, axis=1).astype(np.uint32)


def store(
    plan: Plan,
    model: Model,
    capacity: int | None = None,
    memory: int = 1 << 32,
    logits: int = 0,
) -> Stored:
    """Pack a model and give everything an address.

    Parameters
    ----------
    plan
        Sizes.
    model
        A quantised model.
    capacity
        Positions of the KV cache; by default the model's context.
    memory
        Bytes of the tile's memory.
    logits
        Rows of logits to have room for.

    Raises
    ------
    DoesNotFit
        If memory is too small.
    """
    config = plan.config
    positions = min(capacity or model.context, model.context)
    step = max(BLOCK, config.group_outputs)
    capacity = -(-positions // step) * step
    memory_map = MemoryMap(config, memory)
    contents: dict[str, Bytes] = {}

    def constant(name: str, data: Any, description: str) -> Region:
        blob = _Blob(config)  # whole beats
        blob.add(data)
        contents[name] = blob.bytes()
        return memory_map.add(name, blob.size, description)

    windowed = any(layer.attention.window is not None for layer in model.layers)
    stored = [_store_layer(plan, layer, windowed, capacity) for layer in model.layers]
    spans: list[list[int]] = []
    for index, (layer, _) in enumerate(stored):
        if spans and stored[spans[-1][0]][0] == layer:
            spans[-1].append(index)
        else:
            spans.append([index])

    if positions > UNLIMITED:
        raise DoesNotFit(f"The context is {positions}; programs take at most {UNLIMITED}.")
    if model.head.bias is not None:
        raise DoesNotFit("The head has a bias, which an argmax in the drain cannot add.")
    if len({(layer.cache.keys, layer.cache.values) for layer, _ in stored}) > 1:
        raise DoesNotFit(
            "Layers differ in the elements of a head or in the formats of keys and values."
        )
    constant("embedding", pack_table(config, model.embedding), "a row per token")
    constant("rope", rope_rows(model)[:positions], "cosines and sines, a row per position")
    if stored:
        rows = place_rows(stored[0][0].cache, config.beat_stride)
        constant("places", rows, "where keys and values of a position are written")
    weights = [
        constant(
            f"weights.{span[0]}",
            np.concatenate([stored[index][1] for index in span]),
            f"layers {span[0]} to {span[-1]}, {stored[span[0]][0].bytes:,} bytes each",
        )
        for span in spans
    ]
    constant("norm", model.norm, "weight of the last norm")
    blob = _Blob(config)
    width = plan.registers // plan.tokens // BLOCK * BLOCK
    unit = plan.columns // BLOCK  # refuses registers that are too short for any width
    vocabulary = model.vocabulary
    pieces = (
        [(start, min(width, vocabulary - start)) for start in range(0, vocabulary, width)]
        if logits
        else [(0, vocabulary)]
    )
    head = store_linear(plan, blob, model.head, pieces, unit)
    constant("head", blob.bytes(), "gives the logits")

    memory_map.add("mailbox", 4 * (TOKENS + positions), "what the host asks for and gets")
    caches = [
        memory_map.add(
            f"cache.{span[0]}",
            len(span) * stored[span[0]][0].cache.bytes,
            f"keys and values of layers {span[0]} to {span[-1]}, {capacity} positions",
        )
        for span in spans
    ]
    memory_map.add("scores", 4 * capacity * config.lanes, "scores of long contexts")
    memory_map.add("outputs", 4 * plan.tokens * most_outputs(model), "heads and experts, compacted")
    if logits:
        memory_map.add("logits", 4 * logits * vocabulary, "a row per token")
    runs = tuple(
        Run(stored[span[0]][0], len(span), region, cache)
        for span, region, cache in zip(spans, weights, caches, strict=True)
    )
    return Stored(
        plan,
        model,
        memory_map,
        runs,
        head,
        row_bytes(config, model.embedding),
        positions,
        capacity,
        contents,
    )


def most_outputs(model: Model) -> int:
    """Return the words of a token that pass through memory at once, at most."""
    most = 1
    for layer in model.layers:
        most = max(most, layer.attention.heads * layer.attention.head)
        if layer.feed_forward.router is not None:
            most = max(most, layer.feed_forward.router.top_k * model.width)
    return most
