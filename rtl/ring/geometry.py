"""Sizes of the ring, derived from a configuration."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.utils import ceil_log2, exact_log2

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, OPCODES
from rtl.l1.geometry import L1Geometry
from rtl.vec.geometry import VectorGeometry

WORD_BYTES = 4


@dataclass(frozen=True)
class RingGeometry:
    """Sizes of a node.

    A *block* is what a group of flits carries: 8 words of a register from a multiple of 8 on, and
    the scale byte beside them; or as many words of memory. Blocks have numbers, counted from the
    start of a register or of what is moved, the *whole*.

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
    def flit_words(self) -> int:
        """Words of a flit; never more than a block, which is what a register gives at a time."""
        return min(self.config.ring_bytes // WORD_BYTES, BLOCK_WORDS)

    @property
    def word_bits(self) -> int:
        """Bits of the number of a word in a flit."""
        return exact_log2(self.flit_words)

    @property
    def block_flits(self) -> int:
        """Flits of a block."""
        return BLOCK_WORDS // self.flit_words

    @property
    def scale_bits(self) -> int:
        """Bits of a flit that are its part of the block's scale byte."""
        return 8 // self.block_flits

    @property
    def flit_bits(self) -> int:
        """Bits of a flit."""
        return 32 * self.flit_words + self.scale_bits

    @property
    def buffer_flits(self) -> int:
        """Flits that a node takes from its neighbour before it must pass one on: two blocks."""
        return 2 * self.block_flits

    @property
    def index_bits(self) -> int:
        """Bits of the number of a flit in its block."""
        return max(1, ceil_log2(self.block_flits))

    @property
    def blocks(self) -> int:
        """Blocks of a register."""
        return self.config.vector_length // BLOCK_WORDS

    @property
    def place_bits(self) -> int:
        """Bits of the number of a block of a register."""
        return ceil_log2(self.blocks)

    @property
    def count_bits(self) -> int:
        """Bits of a number of units, as an instruction has it: more than a register holds."""
        return next(field.bits for field in OPCODES["collective"].fields if field.name == "count")

    @property
    def block_bits(self) -> int:
        """Bits of the number of a block of the whole."""
        return self.count_bits - exact_log2(BLOCK_WORDS)

    @property
    def cache(self) -> L1Geometry:
        """Sizes of the L1 cache."""
        return L1Geometry(self.config)
