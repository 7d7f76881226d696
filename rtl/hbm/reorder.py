"""Beats that come in any order, and leave in that in which they were asked for."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.hbm.interface import BEAT_BYTES
from rtl.hbm.ports import POISON, ReadBeatLayout


def advanced(slot: Value, by: Value, depth: int) -> Value:
    """Return the slot a few behind another, in a ring of `depth`."""
    after = slot + by
    return Mux(after >= depth, after - depth, after)


class ReorderBuffer(wiring.Component):
    """A ring of beats.

    Parameters
    ----------
    depth
        Beats that it holds.

    Members
    -------
    reserve : In
        Take this many slots, at most two. Only with `room`.
    slot : Out
        The first of them.
    room : Out
        Two are free.
    fill, fill_slot, beat : In
        A beat came.
    beats : Out
        The beats. Those with an error are poison.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__(
            {
                "reserve": In(2),
                "slot": Out(range(depth)),
                "room": Out(1),
                "fill": In(1),
                "fill_slot": In(range(depth)),
                "beat": In(ReadBeatLayout()),
                "beats": Out(stream.Signature(ReadBeatLayout())),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the memory, and a bit for each slot that is filled."""
        m = Module()
        depth = self.depth
        m.submodules.memory = memory = Memory(shape=ReadBeatLayout(), depth=depth, init=[])
        write = memory.write_port()
        read = memory.read_port(transparent_for=(write,))
        filled = Signal(depth)
        used = Signal(range(depth + 1))
        first = Signal(range(depth))
        following = Signal(range(depth))
        taken = Signal()
        offered = Signal()
        m.d.comb += [
            taken.eq(self.beats.valid & self.beats.ready),
            following.eq(advanced(first, taken, depth)),
            self.room.eq(used <= depth - 2),
            write.addr.eq(self.fill_slot),
            write.data.eq(self.beat),
            write.en.eq(self.fill),
            read.addr.eq(following),
            self.beats.valid.eq(offered),
            self.beats.payload.error.eq(read.data.error),
            self.beats.payload.data.eq(
                Mux(
                    read.data.error,
                    Const(int.from_bytes([POISON] * BEAT_BYTES, "little"), 8 * BEAT_BYTES),
                    read.data.data,
                )
            ),
        ]
        filling = (self.fill << self.fill_slot)[:depth]
        m.d.sync += [
            first.eq(following),
            self.slot.eq(advanced(self.slot, self.reserve, depth)),
            used.eq(used + self.reserve - taken),
            filled.eq((filled | filling) & ~(taken << first)[:depth]),
            offered.eq(
                filled.bit_select(following, 1) | (self.fill & (self.fill_slot == following))
            ),
            Assert(used <= depth),
            Assert(~self.fill | ~filled.bit_select(self.fill_slot, 1)),
        ]
        return m
