"""Messages that were sent and not taken."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.core.isa import MESSAGES
from rtl.message.geometry import MessageGeometry
from rtl.message.layouts import SLOT_BITS
from rtl.ring.layouts import BlockLayout


class PlaceInOutboxLayout(data.StructLayout):
    """A block of a message.

    Members
    -------
    block : unsigned
        Which.
    slot : unsigned
        Of which message.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        super().__init__({"block": geometry.block_bits, "slot": SLOT_BITS})


class Outbox(wiring.Component):
    """A slot for each message that may be under way, as large as a register.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    room : Out
        There is a free slot.
    slot : Out
        Which.
    take : In
        Use it.
    release, released : In
        Free a slot, and which.
    write, place, block : In
        Write a block.
    read, read_place : In
        Read one; what was read stays until something else is.
    found : Out
        It, in the cycle behind.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        self.geometry = geometry
        where = PlaceInOutboxLayout(geometry)
        super().__init__(
            {
                "room": Out(1),
                "slot": Out(SLOT_BITS),
                "take": In(1),
                "release": In(1),
                "released": In(SLOT_BITS),
                "write": In(1),
                "place": In(where),
                "block": In(BlockLayout()),
                "read": In(1),
                "read_place": In(where),
                "found": Out(BlockLayout()),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the memory, and which slots are used."""
        m = Module()
        depth = MESSAGES << self.geometry.block_bits
        m.submodules.blocks = blocks = Memory(shape=BlockLayout().size, depth=depth, init=[])
        put, get = blocks.write_port(), blocks.read_port()
        used = Signal(MESSAGES)
        m.d.comb += [
            put.addr.eq(self.place),
            put.data.eq(self.block),
            put.en.eq(self.write),
            get.addr.eq(self.read_place),
            get.en.eq(self.read),
            self.found.eq(get.data),
            self.room.eq(~used.all()),
        ]
        for i in reversed(range(MESSAGES)):
            with m.If(~used[i]):
                m.d.comb += self.slot.eq(i)
        takes = Cat(self.take & (self.slot == i) for i in range(MESSAGES))
        frees = Cat(self.release & (self.released == i) for i in range(MESSAGES))
        m.d.sync += used.eq((used | takes) & ~frees)
        return m
