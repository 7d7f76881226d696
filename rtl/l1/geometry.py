"""What the configuration means for the shape of the L1 cache, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Value
from amaranth.utils import exact_log2

from rtl.config import ACCESS_BEATS, TileConfig

ADDRESS_BITS = 32
"""Bits of a byte address."""


@dataclass(frozen=True)
class L1Geometry:
    """Sizes of the cache, derived from a configuration.

    The number of a beat is made of, from the lowest bit up, the beat in its line, the set of the
    line, and its tag. A *place* is where a line lies in the cache: a way of a set.

    Parameters
    ----------
    config
        The configuration of the tile.
    """

    config: TileConfig

    @property
    def ways(self) -> int:
        """Lines of a set."""
        return self.config.l1_ways

    @property
    def sets(self) -> int:
        """Sets."""
        return self.config.l1_sets

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return self.config.beat_bytes

    @property
    def line_bytes(self) -> int:
        """Bytes of a line that exist: without holes."""
        return ACCESS_BEATS * self.beat_bytes

    @property
    def offset_bits(self) -> int:
        """Bits of a byte address below the number of its beat."""
        return exact_log2(self.config.beat_stride)

    @property
    def beat_bits(self) -> int:
        """Bits of the number of a beat."""
        return ADDRESS_BITS - self.offset_bits

    @property
    def line_bits(self) -> int:
        """Bits of the number of a line."""
        return self.beat_bits - 1

    @property
    def set_bits(self) -> int:
        """Bits of the number of a set; 0 where there is but one."""
        return exact_log2(self.sets)

    @property
    def tag_bits(self) -> int:
        """Bits of a tag."""
        return self.line_bits - self.set_bits

    @property
    def place_bits(self) -> int:
        """Bits of a place; 1 where there is but one."""
        return max(1, self.set_bits + exact_log2(self.ways))

    def place(self, way: Value, index: Value) -> Value:
        """Return the place of a way, given as a number of just so many bits, in a set."""
        return Cat(way[: exact_log2(self.ways)], index[: self.set_bits])
