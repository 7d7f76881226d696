"""Writes that can still be added to: their places, and which of their words are whole."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.hbm.interface import ACCESS_BYTES
from rtl.hbm.place import PlaceLayout
from rtl.hbm.pool import SLOT_BITS

WORD_BYTES = 8
"""Bytes that are protected together."""

RECENT = 16
"""Writes that are remembered, of those that wait."""


def words(enable: Value) -> tuple[Value, Value]:
    """Return which words are written at all, and which of them whole.

    Parameters
    ----------
    enable
        Enables of the bytes of an access.
    """
    parts = [enable.word_select(i, WORD_BYTES) for i in range(len(enable) // WORD_BYTES)]
    return Cat(part.any() for part in parts), Cat(part.all() for part in parts)


class Combiner(wiring.Component):
    """Find the waiting write that a new one can be added to, so that both are one access.

    That needs the same place, and, if words are protected, where the new one has some bytes of a
    word, all of that word in the one that waits: then nothing has to be read. So bytes that are
    appended one after the other, such as the scales of keys, are read once and written once.

    Members
    -------
    place, enable : In
        A write, and its bytes.
    unprotected : In
        Words may be written in part.
    found, slot : Out
        It can be added to the one in this slot of the pool.
    take, take_slot : In
        It is not, and gets a slot of its own.
    add : In
        It is.
    issue, issue_slot : In
        The write of this slot is given to the device, and is whole.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "place": In(PlaceLayout()),
                "enable": In(ACCESS_BYTES),
                "unprotected": In(1),
                "found": Out(1),
                "slot": Out(SLOT_BITS),
                "take": In(1),
                "take_slot": In(SLOT_BITS),
                "add": In(1),
                "issue": In(1),
                "issue_slot": In(SLOT_BITS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a memory that is searched, the oldest replaced."""
        m = Module()
        some, whole = Signal(ACCESS_BYTES // WORD_BYTES), Signal(ACCESS_BYTES // WORD_BYTES)
        next_one = Signal(ceil_log2(RECENT))
        some_words, whole_words = words(self.enable)
        m.d.comb += [some.eq(some_words), whole.eq(whole_words)]
        slots: Value = Const(0, SLOT_BITS)
        found: list[Value] = []
        places: list[Value] = []
        for i in range(RECENT):
            valid, place = Signal(name=f"valid_{i}"), Signal(PlaceLayout(), name=f"place_{i}")
            slot, kept = Signal(SLOT_BITS, name=f"slot_{i}"), Signal.like(whole, name=f"whole_{i}")
            same, fits = Signal(name=f"same_{i}"), Signal(name=f"fits_{i}")
            given = Signal(name=f"given_{i}")
            m.d.comb += [
                same.eq(valid & (Value.cast(place) == Value.cast(self.place))),
                fits.eq(same & (self.unprotected | ~(some & ~whole & ~kept).any())),
                given.eq(self.issue & (self.issue_slot == slot)),
            ]
            found.append(fits)
            slots = slots | (slot & fits.replicate(SLOT_BITS))
            with m.If(given):
                m.d.sync += valid.eq(0)
            places.append(same & ~given)
            with m.If(self.add & fits):
                m.d.sync += kept.eq(kept | whole)
            with m.If(self.take & (next_one == i)):
                m.d.sync += [
                    valid.eq(1),
                    Value.cast(place).eq(Value.cast(self.place)),
                    slot.eq(self.take_slot),
                    kept.eq(whole),
                ]
        m.d.sync += next_one.eq(next_one + self.take)
        # What is taken either joins, or has waited until nothing at its place was left.
        m.d.sync += Assert(~self.take | ~Cat(places).any())
        m.d.comb += [self.found.eq(Cat(found).any()), self.slot.eq(slots)]
        return m
