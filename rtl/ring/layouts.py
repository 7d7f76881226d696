"""What the parts of a node tell each other, and nodes their neighbours."""

from __future__ import annotations

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.config import TILES_MAX
from rtl.core.isa import BLOCK_WORDS
from rtl.core.layout import InstructionLayout
from rtl.l1.geometry import ADDRESS_BITS
from rtl.ring.geometry import RingGeometry
from rtl.vec.geometry import REGISTER_BITS
from rtl.vec.operation import words

COLLECTIVE = InstructionLayout("collective")

RANK_BITS = (TILES_MAX - 1).bit_length()
TILES_BITS = TILES_MAX.bit_length()
SEQUENCE_BITS = 8
WORD_BITS = 3
"""Bits of the number of a word in a block."""


class Mode(enum.Enum, shape=2):  # type: ignore[call-arg]
    """How data goes around."""

    GATHER = 0
    """Each tile's share goes to all others, half of the way around on either side."""
    BROADCAST = 1
    """The root's blocks go all around, every other one on the other side."""
    REDUCE = 2
    """Halves of shares go all around, each tile adds what it has, and end where they belong."""


class PlaceLayout(data.StructLayout):
    """Where on the ring a node is; constant from reset on.

    Members
    -------
    present : unsigned(1)
        The tile takes part; otherwise flits pass it by.
    tiles : unsigned
        Tiles that take part.
    rank : unsigned
        How many of them come before this one: the tile's number.
    """

    def __init__(self) -> None:
        super().__init__({"present": 1, "tiles": TILES_BITS, "rank": RANK_BITS})


class HeaderLayout(data.StructLayout):
    """What all tiles must agree about.

    Members
    -------
    kind, place, count, root
        Fields of the instruction.
    sequence : unsigned
        How many collectives the tile has begun before.
    """

    def __init__(self) -> None:
        fields = {name: COLLECTIVE[name].shape for name in ("kind", "place", "count", "root")}
        super().__init__({**fields, "sequence": SEQUENCE_BITS})


class OperationLayout(data.StructLayout):
    """What a node keeps of an instruction.

    Members
    -------
    kind, place, count, root, source, offset, to, result_slot
        As in the instruction.
    address, result : unsigned
        Byte addresses.
    """

    def __init__(self) -> None:
        names = ("kind", "place", "count", "root", "source", "offset", "to", "result_slot")
        addresses = dict.fromkeys(("address", "result"), ADDRESS_BITS)
        super().__init__({**{name: COLLECTIVE[name].shape for name in names}, **addresses})


class LinkLayout(data.UnionLayout):
    """A flit on a link: a header, or a part of a block.

    Members
    -------
    header : HeaderLayout
        What the tile that it comes from is about to do.
    part : PartLayout
        A part of a block.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        super().__init__({"header": HeaderLayout(), "part": PartLayout(geometry)})


class PartLayout(data.StructLayout):
    """A part of a block.

    Members
    -------
    words : array of unsigned(32)
        Its words.
    scale : unsigned
        Bits of the block's scale byte.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        super().__init__({"words": words(geometry.flit_words), "scale": geometry.scale_bits})


class PlanLayout(data.StructLayout):
    """What an operation means for a tile; constant while data moves.

    Members
    -------
    mode : Mode
        How data goes around.
    maximum : unsigned(1)
        Reductions take the maximum, not the sum.
    flush : unsigned(1)
        A tile that is alone flushes what it copies.
    keep : unsigned(1)
        What the tile gives is copied to its destination.
    blocks : unsigned(1)
        Units are blocks, not words.
    count, each, rest : unsigned
        Units of the whole, of each share, and of shares that have one more.
    first : unsigned
        Where the tile's share begins.
    root : unsigned
        Of a broadcast.
    source, to : unsigned
        Registers.
    source_block, to_block : unsigned
        Where in them the whole begins.
    memory : unsigned(1)
        It is in memory.
    address, result : unsigned
        Where it is read and written, byte addresses.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        g = geometry
        super().__init__(
            {
                "mode": Mode,
                "maximum": 1,
                "flush": 1,
                "keep": 1,
                "blocks": 1,
                "count": g.count_bits,
                "each": g.count_bits,
                "rest": RANK_BITS,
                "first": g.count_bits,
                "root": RANK_BITS,
                "source": REGISTER_BITS,
                "to": REGISTER_BITS,
                "source_block": g.place_bits,
                "to_block": g.place_bits,
                "memory": 1,
                "address": ADDRESS_BITS,
                "result": ADDRESS_BITS,
            }
        )


class RunLayout(data.StructLayout):
    """Words of a block.

    Members
    -------
    block : unsigned
        Which block of the whole.
    low, high : unsigned
        First and last word in there.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        super().__init__({"block": geometry.block_bits, "low": WORD_BITS, "high": WORD_BITS})


class GroupLayout(data.StructLayout):
    """Flits of a block, or a header, at a hop of their way.

    Members
    -------
    header : unsigned(1)
        It is a header.
    own : unsigned(1)
        They begin here; otherwise they come from the neighbour.
    send : unsigned(1)
        They go on from here; otherwise they end.
    run : RunLayout
        Which words.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        super().__init__({"header": 1, "own": 1, "send": 1, "run": RunLayout(geometry)})


class BlockLayout(data.StructLayout):
    """A block of a register.

    Members
    -------
    words : array of unsigned(32)
        Its words.
    scale : unsigned(8)
        Its scale byte.
    """

    def __init__(self) -> None:
        super().__init__({"words": words(BLOCK_WORDS), "scale": unsigned(8)})


class RunOfBlockLayout(data.StructLayout):
    """Words of a block, with what they are.

    Members
    -------
    run : RunLayout
        Which.
    block : BlockLayout
        The block.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        super().__init__({"run": RunLayout(geometry), "block": BlockLayout()})


class ArrivalLayout(data.StructLayout):
    """A flit that has come, and what becomes of it.

    Members
    -------
    flit : LinkLayout
        The flit.
    send : unsigned(1)
        It goes on.
    write : unsigned(1)
        It is written to registers.
    index : unsigned
        Which flit of its block it is.
    last : unsigned(1)
        It is the last one of its group.
    run : RunLayout
        Words of the block.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        super().__init__(
            {
                "flit": LinkLayout(geometry),
                "send": 1,
                "write": 1,
                "index": geometry.index_bits,
                "last": 1,
                "run": RunLayout(geometry),
            }
        )
