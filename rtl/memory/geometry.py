"""What the configuration means for the shape of the memory engine, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.utils import ceil_log2, exact_log2

from rtl.config import TileConfig
from rtl.core.isa import SLOT
from rtl.l1.geometry import L1Geometry
from rtl.vec.geometry import VectorGeometry


@dataclass(frozen=True)
class MemoryGeometry:
    """Sizes of the memory engine, derived from a configuration.

    A *line* is what a vector register takes at a time here, and a *beat* what the memory does.

    Parameters
    ----------
    config
        The configuration of the tile.
    """

    config: TileConfig

    @property
    def vectors(self) -> VectorGeometry:
        """Sizes of the registers."""
        return VectorGeometry(self.config)

    @property
    def cache(self) -> L1Geometry:
        """Sizes of the cache."""
        return L1Geometry(self.config)

    @property
    def line_words(self) -> int:
        """Words of a line of a register."""
        return self.vectors.line_words

    @property
    def word_bits(self) -> int:
        """Bits of the number of a word of a line."""
        return exact_log2(self.line_words)

    @property
    def slot_lines(self) -> int:
        """Lines of a slot."""
        return SLOT // self.line_words

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return self.config.beat_bytes

    @property
    def beat_words(self) -> int:
        """Words of a beat."""
        return self.config.beat_bytes // 4

    @property
    def count_bits(self) -> int:
        """Bits of a number of bytes of a beat."""
        return ceil_log2(self.beat_bytes + 1)

    @property
    def element_bits(self) -> int:
        """Bits of a number of elements of a row, or of a row register."""
        return ceil_log2(max(self.config.vector_length, self.config.row_length) + 1)

    @property
    def run_bits(self) -> int:
        """Bits of the number of bytes that a row takes in memory."""
        return self.element_bits + 2

    @property
    def place_bits(self) -> int:
        """Bits of the number of a line of a register, or of a row."""
        return max(self.vectors.line_bits, self.vectors.row_bits)
