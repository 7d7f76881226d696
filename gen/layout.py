"""Where every byte of a streamed operand lies: the packer, and its inverse.

A beat is ``16·P`` bytes, P being the number of pseudo-channels: P blocks of 32 nibbles, for P
columns of the matrix engine. Weights (and K, whose positions are neurons) are cut into groups of
``acc_depth·P`` neurons. A group is

1. the greatest scale of each neuron, one byte each, padded to whole beats; left out when a row is a
   single block, whose own scale then is the greatest;
2. superblocks of 16 block rows, a block row being one block of each of P neurons: a beat with the
   scales, then per block row one beat of nibbles (MXFP4) or two (MXINT8: high plane, low plane).

Block rows run through the neurons of the group first and along K last, so an activation block is
loaded once per group and consecutive beats meet different accumulators. The last superblock of a
group ends with its last block row.

V is position-major too, but bare: groups of 32 positions, the nibbles of P positions per beat, no
scales. Its scales are an array of their own.

The classes give the place of anything as (beat, byte). Packing writes there and unpacking reads
there; an append to the KV cache, a roofline or a test may ask as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gen.mx import Bytes, MXTensor, join_planes, nibble_planes, pack_nibbles, unpack_nibbles
from rtl.formats import BLOCK, Format

BLOCK_BYTES = 16
"""Bytes of a block of nibbles: one column's share of a beat."""

SUPERBLOCK = 16
"""Block rows that share a beat of scales."""


class Place(NamedTuple):
    """A byte of an operand, or an array of them: beat from the start, and byte in the beat."""

    beat: NDArray[np.int64]
    byte: NDArray[np.int64]


class Beats(NamedTuple):
    """Beats of a group or an operand, by what they hold."""

    maximum: int
    scale: int
    element: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


@dataclass(frozen=True)
class WeightLayout:
    """Layout of a weight matrix, or of one KV head's K cache.

    Parameters
    ----------
    neurons : int
        Output neurons N, at least 1. Stored are `padded_neurons`.
    length : int
        Elements of a row K, at least 1. Stored are whole blocks.
    format : Format
        Element format.
    pseudo_channels : int
        P, at least 1.
    acc_depth : int
        Neurons in flight per column, at least 1.

    Raises
    ------
    ValueError
        If a number is below 1.
    """

    neurons: int
    length: int
    format: Format
    pseudo_channels: int
    acc_depth: int

    def __post_init__(self) -> None:
        _check_positive(self, "neurons", "length", "pseudo_channels", "acc_depth")

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return BLOCK_BYTES * self.pseudo_channels

    @property
    def blocks(self) -> int:
        """Blocks of a row, n."""
        return -(-self.length // BLOCK)

    @property
    def padded_neurons(self) -> int:
        """Neurons, rounded up to a multiple of P with rows of zero blocks."""
        return _round_up(self.neurons, self.pseudo_channels)

    @property
    def group_neurons(self) -> int:
        """Neurons of every group but the last, which has what is left."""
        return self.acc_depth * self.pseudo_channels

    @property
    def groups(self) -> int:
        """Neuron groups."""
        return -(-self.padded_neurons // self.group_neurons)

    @property
    def beats(self) -> Beats:
        """Beats of the operand, by kind."""
        whole, rest = divmod(self.padded_neurons, self.group_neurons)
        full, last = self.group_beats(self.group_neurons), self.group_beats(rest)
        return Beats(*(whole * a + b for a, b in zip(full, last, strict=True)))

    def group_beats(self, neurons: int) -> Beats:
        """Return the beats of a group, by kind.

        Parameters
        ----------
        neurons : int
            Neurons of the group, a multiple of P; 0 has no beats.
        """
        rows = self.blocks * neurons // self.pseudo_channels
        return Beats(
            maximum=-(-neurons // self.beat_bytes) if self.blocks > 1 else 0,
            scale=-(-rows // SUPERBLOCK),
            element=rows * self.format.planes,
        )

    def maximum_place(self, neuron: Any) -> Place:
        """Return the place of a neuron's greatest scale.

        Parameters
        ----------
        neuron : int or integer array
            Row of the matrix.

        Raises
        ------
        ValueError
            If rows are a single block and no maxima are stored, or a row is out of range.
        """
        if self.blocks == 1:
            raise ValueError("blocks is 1, only rows of more than one block store a maximum.")
        _check_index("neuron", neuron, self.padded_neurons)
        group, neuron = np.divmod(neuron, self.group_neurons)
        beat, byte = np.divmod(neuron, self.beat_bytes)
        return Place(self._group_start(group) + beat, byte)

    def scale_place(self, neuron: Any, block: Any) -> Place:
        """Return the place of a block's scale.

        Parameters
        ----------
        neuron, block : int or integer arrays that broadcast
            Row of the matrix, and block index along K.

        Raises
        ------
        ValueError
            If an index is out of range.
        """
        superblock, row, column = self._locate(neuron, block)
        return Place(superblock, self.pseudo_channels * row + column)

    def element_place(self, neuron: Any, block: Any, plane: Any = 0) -> Place:
        """Return the place of the first of a block's 16 bytes.

        Parameters
        ----------
        neuron, block, plane : int or integer arrays that broadcast
            Row of the matrix, block index along K, and nibble plane (0 is the high one).

        Raises
        ------
        ValueError
            If a row or block is out of range.
        """
        superblock, row, column = self._locate(neuron, block)
        return Place(superblock + 1 + row * self.format.planes + plane, BLOCK_BYTES * column)

    def _group_start(self, group: Any) -> Any:
        return group * self.group_beats(self.group_neurons).total

    def _locate(self, neuron: Any, block: Any) -> tuple[Any, Any, Any]:
        """First beat of a block's superblock, its block row in there, and its column."""
        _check_index("neuron", neuron, self.padded_neurons)
        _check_index("block", block, self.blocks)
        group, neuron = np.divmod(neuron, self.group_neurons)
        size = np.minimum(self.group_neurons, self.padded_neurons - group * self.group_neurons)
        row, column = np.divmod(neuron, self.pseudo_channels)
        superblock, row = np.divmod(row + block * (size // self.pseudo_channels), SUPERBLOCK)
        maxima = -(-size // self.beat_bytes) if self.blocks > 1 else 0
        first = self._group_start(group) + maxima
        return first + superblock * (1 + SUPERBLOCK * self.format.planes), row, column


def pack_weights(weights: MXTensor, *, pseudo_channels: int, acc_depth: int) -> Bytes:
    """Pack a weight matrix for streaming.

    Parameters
    ----------
    weights : MXTensor [N, K]
        One row per output neuron.
    pseudo_channels, acc_depth : int
        Of the tile's configuration.

    Returns
    -------
    uint8 [beats, 16·P]

    Raises
    ------
    ValueError
        If `weights` has not two axes or a parameter is below 1.
    """
    _check_axes("weights", weights, 2, "[N, K]")
    neurons, length = weights.shape
    layout = WeightLayout(neurons, length, weights.format, pseudo_channels, acc_depth)
    return _pack(weights, layout)


def unpack_weights(beats: Bytes, layout: WeightLayout) -> MXTensor:
    """Return the matrix that was packed.

    Parameters
    ----------
    beats : uint8 [beats, 16·P]
        As `pack_weights` or `pack_keys` returns.
    layout : WeightLayout
        What was packed. Rows beyond its `neurons` are dropped, maxima are not read.

    Returns
    -------
    MXTensor [neurons, length]

    Raises
    ------
    ValueError
        If `beats` has not the shape of `layout`.
    """
    _check_beats(beats, (layout.beats.total, layout.beat_bytes))
    neuron, block, plane = _indices(layout.neurons, layout.blocks, layout.format.planes)
    scales = beats[layout.scale_place(neuron[..., 0], block[..., 0])]
    beat, byte = layout.element_place(neuron, block, plane)
    packed = beats.reshape(len(beats), -1, BLOCK_BYTES)[beat, byte // BLOCK_BYTES]
    codes = join_planes(unpack_nibbles(packed), layout.format)
    return MXTensor(codes, scales, layout.format, layout.length)


def key_layout(
    capacity: int, head_dim: int, fmt: Format, *, pseudo_channels: int, acc_depth: int
) -> WeightLayout:
    """Return the layout of one KV head's K cache.

    Parameters
    ----------
    capacity : int
        Positions, a multiple of ``acc_depth·P`` and so of whole groups; see `key_capacity`.
    head_dim : int
        Elements of a key.
    fmt : Format
        Element format of K.
    pseudo_channels, acc_depth : int
        Of the tile's configuration.

    Raises
    ------
    ValueError
        If `capacity` is not of whole groups.
    """
    layout = WeightLayout(capacity, head_dim, fmt, pseudo_channels, acc_depth)
    if capacity % layout.group_neurons:
        raise ValueError(
            f"capacity is {capacity}, it must be a multiple of "
            f"acc_depth·pseudo_channels = {layout.group_neurons}."
        )
    return layout


def key_capacity(positions: int, *, pseudo_channels: int, acc_depth: int) -> int:
    """Return the smallest capacity of a K cache that holds so many positions."""
    return _round_up(positions, acc_depth * pseudo_channels)


def pack_keys(keys: MXTensor, layout: WeightLayout) -> Bytes:
    """Pack one KV head's K cache: its first positions, and zero blocks up to the capacity.

    Parameters
    ----------
    keys : MXTensor [positions, D]
        At most as many positions as the layout has.
    layout : WeightLayout
        From `key_layout`.

    Returns
    -------
    uint8 [beats, 16·P]

    Raises
    ------
    ValueError
        If `keys` does not fit `layout`.
    """
    _check_axes("keys", keys, 2, "[positions, D]")
    if (keys.length, keys.format) != (layout.length, layout.format):
        raise ValueError(
            f"keys has {keys.length} elements of {keys.format} in a row, "
            f"the cache has {layout.length} of {layout.format}: they must be equal."
        )
    _check_capacity("keys", keys.shape[0], layout.neurons)
    return _pack(keys, layout)


@dataclass(frozen=True)
class ValueLayout:
    """Layout of V in the cache, for one KV head and one 32-wide chunk of the head.

    Parameters
    ----------
    capacity : int
        Positions, a multiple of 32.
    format : Format
        Element format.
    pseudo_channels : int
        P, at least 1. Where it does not divide 32, each group of 32 positions is padded to a
        multiple.

    Raises
    ------
    ValueError
        If a number is below 1 or `capacity` not of whole groups.
    """

    capacity: int
    format: Format
    pseudo_channels: int

    def __post_init__(self) -> None:
        _check_positive(self, "capacity", "pseudo_channels")
        if self.capacity % BLOCK:
            raise ValueError(f"capacity is {self.capacity}, it must be a multiple of {BLOCK}.")

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return BLOCK_BYTES * self.pseudo_channels

    @property
    def group_beats(self) -> int:
        """Beats of 32 positions."""
        return -(-BLOCK // self.pseudo_channels) * self.format.planes

    @property
    def beats(self) -> int:
        """Beats of the whole operand."""
        return self.capacity // BLOCK * self.group_beats

    def element_place(self, position: Any, plane: Any = 0) -> Place:
        """Return the place of the first of a position's 16 bytes.

        Parameters
        ----------
        position, plane : int or integer arrays that broadcast
            Position in the sequence, and nibble plane (0 is the high one).

        Raises
        ------
        ValueError
            If a position is out of range.
        """
        _check_index("position", position, self.capacity)
        group, position = np.divmod(position, BLOCK)
        row, column = np.divmod(position, self.pseudo_channels)
        beat = group * self.group_beats + row * self.format.planes + plane
        return Place(beat, BLOCK_BYTES * column)


def pack_values(values: MXTensor, layout: ValueLayout) -> tuple[Bytes, Bytes]:
    """Pack V for the cache: its first positions, and zeros up to the capacity.

    Parameters
    ----------
    values : MXTensor [..., positions, D]
        Quantised along the head dimension; leading axes may be KV heads.
    layout : ValueLayout
        Layout of one chunk.

    Returns
    -------
    beats : uint8 [..., chunks, beats, 16·P]
        One operand per 32-wide chunk of the head.
    scales : uint8 [..., chunks, capacity]
        Scale bytes, contiguous along positions.

    Raises
    ------
    ValueError
        If `values` does not fit `layout`.
    """
    if len(values.shape) < 2:
        raise ValueError(f"values has shape {values.shape}, it must be [..., positions, D].")
    if values.format is not layout.format:
        raise ValueError(f"values has format {values.format}, the cache has {layout.format}.")
    positions = values.shape[-2]
    _check_capacity("values", positions, layout.capacity)
    lead = (*values.shape[:-2], values.blocks)
    scales = np.zeros((*lead, layout.capacity), np.uint8)
    scales[..., :positions] = values.scales.swapaxes(-1, -2)
    position, plane = _indices(positions, layout.format.planes)
    beat, byte = layout.element_place(position, plane)
    beats = np.zeros((*lead, layout.beats, layout.pseudo_channels, BLOCK_BYTES), np.uint8)
    planes = nibble_planes(values.codes.swapaxes(-2, -3), layout.format)
    beats[..., beat, byte // BLOCK_BYTES, :] = pack_nibbles(planes)
    return beats.reshape(*lead, layout.beats, layout.beat_bytes), scales


def unpack_values(
    beats: Bytes, scales: Bytes, layout: ValueLayout, positions: int, length: int
) -> MXTensor:
    """Return the V that was packed.

    Parameters
    ----------
    beats, scales : uint8
        As `pack_values` returns.
    layout : ValueLayout
        Layout of one chunk.
    positions : int
        Positions to return, at most the capacity.
    length : int
        Head dimension D.

    Returns
    -------
    MXTensor [..., positions, D]

    Raises
    ------
    ValueError
        If an array has not the shape of `layout`, or `positions` exceeds its capacity.
    """
    _check_beats(beats, (*scales.shape[:-1], layout.beats, layout.beat_bytes))
    _check_capacity("positions", positions, layout.capacity)
    position, plane = _indices(positions, layout.format.planes)
    beat, byte = layout.element_place(position, plane)
    slots = beats.reshape(*beats.shape[:-1], layout.pseudo_channels, BLOCK_BYTES)
    planes = unpack_nibbles(slots[..., beat, byte // BLOCK_BYTES, :])
    codes = join_planes(planes, layout.format).swapaxes(-2, -3)
    return MXTensor(codes, scales[..., :positions].swapaxes(-1, -2), layout.format, length)


def _pack(tensor: MXTensor, layout: WeightLayout) -> Bytes:
    """Write the rows of `tensor` where `layout` wants them; everything else is 0."""
    beats = np.zeros((layout.beats.total, layout.beat_bytes), np.uint8)
    rows = tensor.shape[0]
    neuron, block, plane = _indices(rows, layout.blocks, layout.format.planes)
    if layout.blocks > 1:
        beats[layout.maximum_place(np.arange(rows))] = tensor.maximum_scale
    beats[layout.scale_place(neuron[..., 0], block[..., 0])] = tensor.scales
    beat, byte = layout.element_place(neuron, block, plane)
    slots = beats.reshape(len(beats), layout.pseudo_channels, BLOCK_BYTES)
    slots[beat, byte // BLOCK_BYTES] = pack_nibbles(nibble_planes(tensor.codes, layout.format))
    return beats


def _indices(*shape: int) -> list[NDArray[np.int64]]:
    """Index arrays of an array of that shape, broadcast."""
    return list(np.indices(shape))


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _check_positive(owner: Any, *names: str) -> None:
    for name in names:
        if (value := getattr(owner, name)) < 1:
            raise ValueError(f"{name} is {value}, it must be at least 1.")


def _check_index(name: str, index: Any, count: int) -> None:
    index = np.asarray(index)
    if (outside := (index < 0) | (index >= count)).any():
        raise ValueError(f"{name} is {index[outside].flat[0]}, it must be 0 to {count - 1}.")


def _check_axes(name: str, tensor: MXTensor, axes: int, expected: str) -> None:
    if len(tensor.shape) != axes:
        raise ValueError(f"{name} has shape {tensor.shape}, it must be {expected}.")


def _check_capacity(name: str, positions: int, capacity: int) -> None:
    if positions > capacity:
        raise ValueError(f"{name} has {positions} positions, the cache holds {capacity}.")


def _check_beats(beats: Bytes, shape: tuple[int, ...]) -> None:
    if beats.shape != shape or beats.dtype != np.uint8:
        raise ValueError(
            f"beats is {beats.dtype} {beats.shape}, for this layout it must be uint8 {shape}."
        )
