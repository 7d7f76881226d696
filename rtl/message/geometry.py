"""Sizes of the message engine, derived from a configuration."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.utils import ceil_log2

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, MESSAGES
from rtl.l1.geometry import L1Geometry
from rtl.vec.geometry import VectorGeometry


@dataclass(frozen=True)
class MessageGeometry:
    """Sizes of the message engine.

    A *block* is 8 words and a scale byte, the piece in which registers are read and written. Data
    travels in packets of some blocks: a head, then the words of one block after the other.

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
    def blocks(self) -> int:
        """Blocks of a register."""
        return self.config.vector_length // BLOCK_WORDS

    @property
    def cache(self) -> L1Geometry:
        """Sizes of the cache through which others read."""
        return L1Geometry(self.config)

    @property
    def tiles(self) -> int:
        """Tiles there are."""
        return self.config.tiles

    @property
    def flit_bits(self) -> int:
        """Bits of a flit."""
        return 8 * self.config.flit_bytes

    @property
    def flit_words(self) -> int:
        """Words of a flit that are used, no more than a block has."""
        return min(self.config.flit_bytes // 4, BLOCK_WORDS)

    @property
    def block_flits(self) -> int:
        """Flits of a block."""
        return BLOCK_WORDS // self.flit_words

    @property
    def packet_blocks(self) -> int:
        """Blocks of a packet: 16 flits' worth, so that a head costs little and others wait little.

        Their scale bytes fit into the head with which they come.
        """
        return max(4, 16 // self.block_flits)

    @property
    def waiting(self) -> int:
        """Messages that may be announced to a tile and not taken."""
        return self.tiles * MESSAGES

    @property
    def count_bits(self) -> int:
        """Bits of a number of units, at most a register."""
        return self.config.vector_length.bit_length()

    @property
    def blocks_bits(self) -> int:
        """Bits of a number of blocks, at most a register."""
        return self.blocks.bit_length()

    @property
    def block_bits(self) -> int:
        """Bits of the number of a block."""
        return max(1, ceil_log2(self.blocks))
