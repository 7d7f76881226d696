"""What a model looks like in a tile's memory.

All layers of one shape are stored alike, so that a program reaches any of them with one base
register: addresses in a `StoredLayer` are offsets from the layer's first byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gen.kernels.plan import Heads, Plan, blocks_of
from gen.layout import ValueLayout, WeightLayout
from gen.memory_map import MemoryMap, Region
from gen.models.model import Attention, Gate, Model, Precision, Router
from gen.mx import Bytes
from rtl.formats import Format

POSITION, COUNT, RESULT, TOKENS = range(4)
"""Words of the mailbox: position of the first token, how many there are, the one that is next; then
the tokens themselves, the first ones so in the same line."""

UNLIMITED = 1 << 19
"""Window of a layer that sees everything; no position is beyond it."""


@dataclass(frozen=True)
class Piece:
    """Some outputs of a matrix, an operand of their own.

    Attributes
    ----------
    start, outputs
        Which.
    offset
        Where the operand begins.
    beats
        Beats of it.
    """

    start: int
    outputs: int
    offset: int
    beats: int


@dataclass(frozen=True)
class StoredLinear:
    """A matrix in memory.

    Attributes
    ----------
    pieces
        Its outputs, piece by piece; a piece's results fit one vector register.
    length
        Inputs.
    outputs
        Outputs.
    weight
        Format of the matrix.
    activation
        How its input is quantised.
    bias
        Where its bias is.
    """

    pieces: tuple[Piece, ...]
    length: int
    outputs: int
    weight: Format
    activation: Precision
    bias: int | None

    @property
    def blocks(self) -> int:
        """Blocks along K."""
        return blocks_of(self.length)


@dataclass(frozen=True)
class StoredAttention:
    """An attention layer in memory.

    Attributes
    ----------
    query, key, value, output
        Projections.
    heads
        How its heads are cut.
    sinks
        Where the sinks are.
    window
        Where the window is, a word; None if no layer of this shape has one.
    cache
        Where its keys and values are.
    shape
        The layer itself, for its numbers; its matrices and window are those of the first layer.
    """

    query: StoredLinear
    key: StoredLinear
    value: StoredLinear
    output: StoredLinear
    heads: Heads
    sinks: int | None
    window: int | None
    cache: StoredCache
    shape: Attention = field(compare=False)


@dataclass(frozen=True)
class StoredExpert:
    """An expert in memory."""

    gate: StoredLinear
    up: StoredLinear
    down: StoredLinear


@dataclass(frozen=True)
class StoredRouter:
    """A router in memory."""

    linear: StoredLinear
    correction: int | None
    experts: int
    shape: Router = field(compare=False)


@dataclass(frozen=True)
class StoredFeedForward:
    """A feed-forward network in memory.

    Attributes
    ----------
    expert
        The first expert; the others are stored alike.
    stride
        Bytes from one expert to the next.
    router, shared
        As in the model.
    gate
        How gate and up are combined.
    """

    expert: StoredExpert
    stride: int
    router: StoredRouter | None
    shared: StoredExpert | None
    gate: Gate


@dataclass(frozen=True)
class StoredLayer:
    """A layer in memory.

    Attributes
    ----------
    attention_norm, feed_forward_norm
        Where the weights of its norms are.
    attention, feed_forward
        Its halves.
    bytes
        All of it, the KV cache apart.
    numbers
        What programs for it hold beside addresses, such as the scale of scores.
    """

    attention_norm: int
    attention: StoredAttention
    feed_forward_norm: int
    feed_forward: StoredFeedForward
    bytes: int
    numbers: tuple[Any, ...]

    @property
    def cache(self) -> StoredCache:
        """Its KV cache."""
        return self.attention.cache


@dataclass(frozen=True)
class StoredCache:
    """The KV cache of a layer; addresses are offsets from its first byte.

    Attributes
    ----------
    keys, values
        Layouts of one KV head, of V one chunk.
    key_stride
        Bytes from one KV head's keys to the next.
    value, value_stride
        Where V is, and the bytes from one chunk of a KV head to the next.
    scale, scale_stride
        Where V's scales are, and the bytes from one chunk to the next.
    bytes
        All of it.
    """

    keys: WeightLayout
    values: ValueLayout
    key_stride: int
    value: int
    value_stride: int
    scale: int
    scale_stride: int
    bytes: int


@dataclass(frozen=True)
class Run:
    """Consecutive layers that are stored alike.

    Attributes
    ----------
    layer
        How.
    count
        How many.
    weights, caches
        Where the first one's weights and KV cache are.
    """

    layer: StoredLayer
    count: int
    weights: Region
    caches: Region


@dataclass(frozen=True)
class Stored:
    """A model in memory.

    Attributes
    ----------
    plan
        Sizes it was cut to.
    map
        All regions.
    runs
        Its layers.
    head
        The head; offsets count from the region of that name.
    embedding_bytes
        Bytes of an embedding.
    positions
        Positions that a sequence may have: tables and mailbox are made for so many.
    capacity
        Positions the KV cache holds; at least as many, in whole groups.
    contents
        Bytes of the regions that do not change, by name.
    """

    plan: Plan
    model: Model
    map: MemoryMap
    runs: tuple[Run, ...]
    head: StoredLinear
    embedding_bytes: int
    positions: int
    capacity: int
    contents: dict[str, Bytes]

    @property
    def constant_end(self) -> int:
        """First byte behind everything that does not change."""
        return max(self.map[name].end for name in self.contents)
