"""What the parts of a message engine tell each other, and tiles each other."""

from __future__ import annotations

from amaranth.hdl import Mux, Value
from amaranth.lib import data
from amaranth.utils import exact_log2

from rtl.config import TILES_MAX, Mesh
from rtl.core.fields import WORD_BITS
from rtl.core.isa import MESSAGES, OPCODES
from rtl.core.layout import InstructionLayout
from rtl.message.geometry import MessageGeometry
from rtl.noc.link import HeaderLayout as PlaceLayout
from rtl.ring.layouts import BlockLayout

SEND, RECEIVE, REMOTE = (InstructionLayout(name) for name in ("send", "receive", "remote"))

OPERATION_BITS = WORD_BITS * max(OPCODES[name].words for name in ("send", "receive", "remote"))
"""Bits of an instruction of this engine."""

TILE_BITS = (TILES_MAX - 1).bit_length()
TAG_BITS = SEND["tag"].width
SLOT_BITS = exact_log2(MESSAGES)


def place(mesh: Mesh, tile: Value) -> tuple[Value, Value]:
    """Return x and y of a tile that there is; the bits of a coordinate above are of no meaning."""
    x, y = tile, Value.cast(0)
    for row in range(1, mesh.y):
        reached = tile >= row * mesh.x
        x = Mux(reached, tile - row * mesh.x, x)
        y = Mux(reached, row, y)
    return x, y


class AnnouncementLayout(data.StructLayout):
    """A message that waits where it was sent from.

    Members
    -------
    source : unsigned
        The tile that sent it.
    slot : unsigned
        Where in its outbox it is.
    tag : unsigned
        Its tag.
    blocks : unsigned(1)
        Its units are blocks, not words.
    count : unsigned
        Units.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        super().__init__(
            {
                "source": TILE_BITS,
                "slot": SLOT_BITS,
                "tag": TAG_BITS,
                "blocks": 1,
                "count": geometry.count_bits,
            }
        )


class AskLayout(data.StructLayout):
    """Data that a tile asks for.

    Members
    -------
    source : unsigned
        The tile that asks.
    memory : unsigned(1)
        It wants words of memory; otherwise a message.
    where : unsigned(32)
        Byte address of the first word, or where in the outbox the message is.
    count : unsigned
        Words of memory, or blocks of the message.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        super().__init__(
            {"source": TILE_BITS, "memory": 1, "where": 32, "count": geometry.count_bits}
        )


class RequestLayout(data.StructLayout):
    """A packet of the request network: an announcement, or data that is asked for.

    Members
    -------
    place : rtl.noc.link.HeaderLayout
        Where it goes.
    asks : unsigned(1)
        Which of both.
    about : union of AnnouncementLayout and AskLayout
        What it says.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        about = data.UnionLayout(
            {"announcement": AnnouncementLayout(geometry), "ask": AskLayout(geometry)}
        )
        super().__init__({"place": PlaceLayout(), "asks": 1, "about": about})


class HeadLayout(data.StructLayout):
    """The head of a packet of the reply network.

    Members
    -------
    place : rtl.noc.link.HeaderLayout
        Where it goes.
    error : unsigned(1)
        Something of it could not be read.
    scales : array of unsigned(8)
        Of its blocks.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        super().__init__(
            {
                "place": PlaceLayout(),
                "error": 1,
                "scales": data.ArrayLayout(8, geometry.packet_blocks),
            }
        )


class PieceLayout(data.StructLayout):
    """A block on its way into a packet.

    Members
    -------
    block : BlockLayout
        The block.
    present : unsigned(1)
        There is one; of nothing, not even the first block is there.
    error : unsigned(1)
        Something of it could not be read.
    last : unsigned(1)
        It is the last one that was asked for.
    """

    def __init__(self) -> None:
        super().__init__({"block": BlockLayout(), "present": 1, "error": 1, "last": 1})
