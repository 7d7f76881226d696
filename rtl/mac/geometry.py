"""What the configuration means for the shape of the matrix engine, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from amaranth.hdl import Shape, unsigned
from amaranth.utils import ceil_log2

from rtl.config import TileConfig
from rtl.formats import BLOCK, Format

MAX_PLANES = 2
"""Nibble planes of the widest element."""

SUPERBLOCK_ROWS = 16
"""Block rows whose scales share one beat: 16·P scale bytes, P blocks to a row."""

SHIFT_BITS = 6
"""Bits of a shift distance, saturating: 63 shifts any accumulator (52 bits at most) out."""

OUTPUT_BITS = 20
"""Bits of an output neuron's index: a head of up to a million tokens."""

DEPTH_BITS = 24
"""Bits of an element's index along K, which for attention is a position."""

OPERATIONS = 4
"""Operations in flight between the descriptor port and the last result."""


def index(count: int) -> Shape:
    """Return the shape of an index below `count`; one bit where there is only one."""
    return unsigned(max(1, ceil_log2(count)))


@dataclass(frozen=True)
class MacGeometry:
    """Sizes of the matrix engine, derived from a configuration.

    Parameters
    ----------
    config
        The configuration of the tile.
    """

    config: TileConfig

    @property
    def columns(self) -> int:
        """Columns of the array: the P blocks of a beat."""
        return self.config.pseudo_channels

    @property
    def pairs(self) -> int:
        """Lane pairs."""
        return self.config.lane_pairs

    @property
    def upper(self) -> int:
        """First pair that can hold copies of 8-bit rows."""
        return self.pairs - self.pairs // 2

    def most_rows(self, activation: Format) -> int:
        """Return the rows that the engine takes at a time."""
        return self.pairs * 2 // activation.planes

    def most_paired_rows(self, activation: Format) -> int:
        """Return the rows that leave room for copies of all of them."""
        return self.pairs if activation is Format.MXFP4 else self.pairs - self.upper

    @property
    def int8(self) -> bool:
        """Whether the engine supports MXINT8 beside MXFP4."""
        return Format.MXINT8 in self.config.element_formats

    @property
    def dot_bits(self) -> int:
        """Magnitude bits of the widest block dot product, B of the numerics contract."""
        return 20 if self.int8 else 13

    @property
    def group_rows(self) -> int:
        """Rows of P neurons in a full group."""
        return self.config.acc_depth

    @cached_property
    def drain_rows(self) -> int:
        """Neighbouring accumulators that are read together, S: a power of two.

        Chosen so that S·P results are whole vectors of `vec_lanes`, where `acc_depth` allows.
        """
        wanted = self.config.vec_lanes // gcd(self.config.vec_lanes, self.columns)
        return min(wanted, 1 << ceil_log2(self.group_rows))

    @cached_property
    def drain_words(self) -> int:
        """Words of `drain_rows` accumulators that hold one group."""
        return -(-self.group_rows // self.drain_rows)

    @property
    def drain_width(self) -> int:
        """Results of one row in a word across all columns: S·P."""
        return self.drain_rows * self.columns

    @property
    def drain_slices(self) -> int:
        """Result transfers a word takes."""
        return -(-self.drain_width // self.config.vec_lanes)

    @property
    def max_beats(self) -> int:
        """Maximum beats of a full group; one holds the bytes of 16 rows."""
        return -(-self.group_rows // SUPERBLOCK_ROWS)

    @property
    def tile_rows(self) -> int:
        """Beats of one nibble plane of a 32 x 32 tile of V."""
        return -(-BLOCK // self.columns)

    @property
    def buffer_rows(self) -> int:
        """Depth of each of the two row queues of the stream buffer; three where prefetch is off.

        Two rows are what the array needs: both planes of an MXINT8 row, while it waits for the
        next. A third one is in the output register of the queue.
        """
        return max(3, self.config.stream_beats // 2)
