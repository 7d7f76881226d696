"""What the configuration means for the shape of the vector unit, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.utils import ceil_log2, exact_log2

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, PHYSICAL_VECTORS, ROWS, SLOT

REGISTER_BITS = exact_log2(PHYSICAL_VECTORS)
"""Bits of the number of a physical vector register; row registers have as many numbers."""

assert ROWS <= PHYSICAL_VECTORS


@dataclass(frozen=True)
class VectorGeometry:
    """Sizes of the vector unit and its registers, derived from a configuration.

    A *transfer* is what the lanes take in a cycle, `vec_lanes` words. A *line* is what a register
    reads and writes at a time: a transfer, or a block where that is more.

    Parameters
    ----------
    config
        The configuration of the tile.
    """

    config: TileConfig

    @property
    def lanes(self) -> int:
        """Words of a transfer."""
        return self.config.vec_lanes

    @property
    def line_words(self) -> int:
        """Words of a line."""
        return max(BLOCK_WORDS, self.lanes)

    @property
    def line_blocks(self) -> int:
        """Blocks of a line."""
        return self.line_words // BLOCK_WORDS

    @property
    def line_transfers(self) -> int:
        """Transfers of a line."""
        return self.line_words // self.lanes

    @property
    def lines(self) -> int:
        """Lines of a register."""
        return self.config.vector_length // self.line_words

    @property
    def slot_transfers(self) -> int:
        """Transfers of a slot, and of a block of 32 elements."""
        return SLOT // self.lanes

    @property
    def transfers(self) -> int:
        """Transfers of a register, the most a row can have."""
        return self.config.vector_length // self.lanes

    @property
    def line_bits(self) -> int:
        """Bits of the number of a line."""
        return max(1, ceil_log2(self.lines))

    @property
    def row_bits(self) -> int:
        """Bits of a word of a row register."""
        return ceil_log2(self.config.row_length)

    @property
    def place_bits(self) -> int:
        """Bits of a place: a slot or block of a vector register, or a word of a row register."""
        return max(self.row_bits, ceil_log2(self.config.vector_length // BLOCK_WORDS))
