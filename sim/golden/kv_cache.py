"""The cache of keys and values.

What is in it stays as it was written: each position is quantised by itself, along the head. So it
can be appended, dropped and appended again, with the bits of never having been dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gen.models.model import Attention
from gen.mx import MXTensor
from rtl.formats import BLOCK, Format
from sim.golden import fp32
from sim.golden.formulas import quantised


class Rows:
    """Quantised rows of every KV head, by position; they can be appended and dropped.

    Parameters
    ----------
    kv_heads : int
        Heads.
    head : int
        Elements of a row.
    fmt : Format
        Their format.

    Attributes
    ----------
    length : int
        Positions that are held.
    """

    def __init__(self, kv_heads: int, head: int, fmt: Format) -> None:
        blocks = -(-head // BLOCK)
        self._codes = np.zeros((kv_heads, 0, blocks, BLOCK), np.uint8)
        self._scales = np.zeros((kv_heads, 0, blocks), np.uint8)
        self.head, self.format, self.length = head, fmt, 0

    def append(self, rows: MXTensor) -> None:
        """Add rows [tokens, kv_heads, head] after the last position."""
        end = self.length + rows.shape[0]
        if end > self._codes.shape[1]:  # at least double, so that appending one by one is cheap
            more = [(0, 0), (0, max(end, BLOCK)), (0, 0)]
            self._codes = np.pad(self._codes, [*more, (0, 0)])
            self._scales = np.pad(self._scales, more)
        self._codes[:, self.length : end] = rows.codes.swapaxes(0, 1)
        self._scales[:, self.length : end] = rows.scales.swapaxes(0, 1)
        self.length = end

    def of(self, kv_head: int) -> MXTensor:
        """Return the rows [length, head] of one KV head, as they are until the next append."""
        held = kv_head, slice(self.length)
        return MXTensor(self._codes[held], self._scales[held], self.format, self.head)


@dataclass
class LayerCache:
    """Keys and values of one layer and sequence.

    Attributes
    ----------
    keys, values
        Rows of equal length.
    """

    keys: Rows
    values: Rows

    @classmethod
    def empty(cls, attention: Attention) -> LayerCache:
        """Return a cache for a layer that holds no position."""
        shape = attention.kv_heads, attention.head
        return cls(Rows(*shape, attention.keys.format), Rows(*shape, attention.values.format))

    @property
    def length(self) -> int:
        """Positions that are held."""
        return self.keys.length

    def truncate(self, length: int) -> None:
        """Forget the positions from `length` on.

        Raises
        ------
        ValueError
            If fewer are held.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length is {length}, it must be 0 to {self.length}.")
        self.keys.length = self.values.length = length


def append(
    attention: Attention,
    cache: LayerCache,
    keys: fp32.Floats,
    values: fp32.Floats,
) -> None:
    """Quantise keys and values of new tokens and append them.

    Parameters
    ----------
    attention : Attention
        The layer.
    cache : LayerCache
        What they are appended to.
    keys : float32 [tokens, kv_heads, head]
        After RoPE.
    values : float32 [tokens, kv_heads, head]
        As they are.
    """
    cache.keys.append(quantised(keys, attention.keys))
    cache.values.append(quantised(values, attention.values))
