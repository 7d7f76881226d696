"""What the parts of the memory engine tell each other."""

from __future__ import annotations

from typing import Any

from amaranth.lib import data, enum

from rtl.l1.geometry import ADDRESS_BITS
from rtl.memory.geometry import MemoryGeometry
from rtl.vec.geometry import REGISTER_BITS
from rtl.vec.operation import words


class What(enum.IntEnum, shape=4):  # type: ignore[call-arg]
    """What a run of bytes is."""

    WORDS = 0
    """Words for a vector register."""
    BYTES = 1
    """Bytes that become words of one."""
    SCALES = 2
    """Scale bytes of the blocks that follow."""
    MXFP4 = 3
    """Blocks of nibbles."""
    MXINT8 = 4
    """Blocks of two planes."""
    ROWS = 5
    """Words for a row register."""
    LOADED = 6
    """Nothing: the end of an instruction that loads."""
    STORE = 7
    """Words that are to be stored."""
    STORED = 8
    """Nothing: the end of an instruction that stores."""


class RunLayout(data.StructLayout):
    """Bytes that are neighbours in memory.

    Fields
    ------
    what
        What they are.
    streaming
        They are read past L1.
    elements
        How many words they are, or become.
    register, place
        Where these go: a register, and the first line of it, or the first row.
    address
        Of the first byte.
    bytes
        How many.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        super().__init__(
            {
                **_target(geometry),
                "address": ADDRESS_BITS,
                "bytes": geometry.run_bits,
            }
        )


class ComingLayout(data.StructLayout):
    """A run that was asked for: the part of `RunLayout` that is not yet used up."""

    def __init__(self, geometry: MemoryGeometry) -> None:
        super().__init__(_target(geometry))


def _target(geometry: MemoryGeometry) -> dict[str, Any]:
    return {
        "what": What,
        "streaming": 1,
        "elements": geometry.element_bits,
        "register": REGISTER_BITS,
        "place": geometry.place_bits,
    }


class PieceLayout(data.StructLayout):
    """The bytes of a beat that belong to a run.

    Fields
    ------
    offset, count
        The first of them, and how many.
    last
        It is the last beat of the run.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        super().__init__({"offset": geometry.count_bits, "count": geometry.count_bits, "last": 1})


class ChunkLayout(data.StructLayout):
    """Words on their way to a register, a line of them at most.

    Fields
    ------
    what
        Of which kind of run they are.
    register, place
        As in the run.
    first, last
        It is the first, or the last, of its run.
    count
        How many words there are; maybe none.
    words
        The words, from word 0 on.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        super().__init__(
            {
                "what": What,
                "register": REGISTER_BITS,
                "place": geometry.place_bits,
                "first": 1,
                "last": 1,
                "count": geometry.word_bits + 1,
                "words": words(geometry.line_words),
            }
        )


class FetchLayout(data.StructLayout):
    """Lines of a register that are to be read.

    Fields
    ------
    register, line
        The first of them.
    count
        How many.
    append
        They are for who appends.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        super().__init__(
            {
                "register": REGISTER_BITS,
                "line": geometry.vectors.line_bits,
                "count": geometry.vectors.line_bits + 1,
                "append": 1,
            }
        )


class FetchedLayout(data.StructLayout):
    """A line that was read: ``words``, ``scales``, and who it is for."""

    def __init__(self, geometry: MemoryGeometry) -> None:
        super().__init__(
            {
                "words": words(geometry.line_words),
                "scales": data.ArrayLayout(8, geometry.vectors.line_blocks),
                "append": 1,
            }
        )


class AppendLayout(data.StructLayout):
    """Bytes that go past L1.

    Fields
    ------
    maximum
        It is one byte of a row register; else it is a block.
    register, row
        That byte.
    planes
        The block has two planes.
    block
        Which block of its line.
    elements, scale
        Addresses, of the block's nibbles and of its scale, or of the byte.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        super().__init__(
            {
                "maximum": 1,
                "register": REGISTER_BITS,
                "row": geometry.vectors.row_bits,
                "planes": 1,
                "block": max(1, (geometry.vectors.line_blocks - 1).bit_length()),
                "elements": ADDRESS_BITS,
                "scale": ADDRESS_BITS,
            }
        )
