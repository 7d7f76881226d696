"""Writes that were accepted: their data, and which accesses they are."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import lowest, number
from rtl.hbm.interface import ACCESS_BYTES, BANK_BITS
from rtl.hbm.place import FINGERPRINT_BITS

SLOTS = 96
SLOT_BITS = 7


class WritePool(wiring.Component):
    """Slots for writes. One write has the same slot from acceptance to the data bus.

    Members
    -------
    room, slot : Out
        A free slot.
    take, bank, fingerprint, data, enable : In
        Use it for this write.
    add, add_slot : In
        Or add the bytes of this write to the one that waits there.
    wanted_bank, wanted : In
        Bank and fingerprint of an access.
    found : Out
        A write to this access may be waiting.
    issue, issue_slot : In
        A write is given, and waits no longer.
    fetch, fetch_slot : In
        Its data is needed in the next cycle; then the slot is free.
    out_data, out_enable : Out
        The data fetched last.
    count : Out
        Slots in use.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "room": Out(1),
                "slot": Out(SLOT_BITS),
                "take": In(1),
                "bank": In(BANK_BITS),
                "fingerprint": In(FINGERPRINT_BITS),
                "data": In(8 * ACCESS_BYTES),
                "enable": In(ACCESS_BYTES),
                "add": In(1),
                "add_slot": In(SLOT_BITS),
                "wanted_bank": In(BANK_BITS),
                "wanted": In(FINGERPRINT_BITS),
                "found": Out(1),
                "issue": In(1),
                "issue_slot": In(SLOT_BITS),
                "fetch": In(1),
                "fetch_slot": In(SLOT_BITS),
                "out_data": Out(8 * ACCESS_BYTES),
                "out_enable": Out(ACCESS_BYTES),
                "count": Out(range(SLOTS + 1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the memory, and what identifies each slot's write."""
        m = Module()
        m.submodules.memory = memory = Memory(shape=9 * ACCESS_BYTES, depth=SLOTS, init=[])
        write, read = memory.write_port(granularity=9), memory.read_port()
        m.d.comb += [
            write.en.eq(Mux(self.add, self.enable, self.take.replicate(ACCESS_BYTES))),
            write.addr.eq(Mux(self.add, self.add_slot, self.slot)),
            read.en.eq(self.fetch),
            read.addr.eq(self.fetch_slot),
        ]
        for i in range(ACCESS_BYTES):
            m.d.comb += [
                write.data.word_select(i, 9).eq(Cat(self.data.word_select(i, 8), self.enable[i])),
                Cat(self.out_data.word_select(i, 8), self.out_enable[i]).eq(
                    read.data.word_select(i, 9)
                ),
            ]
        used, taken, freed = Signal(SLOTS), Signal(SLOTS), Signal(SLOTS)
        free, first = Signal(SLOTS), Signal(SLOTS)
        key = Signal(BANK_BITS + FINGERPRINT_BITS)
        sought = Signal(BANK_BITS + FINGERPRINT_BITS)
        m.d.comb += [
            taken.eq((self.take << self.slot)[:SLOTS]),
            freed.eq((self.fetch << self.fetch_slot)[:SLOTS]),
            free.eq(~(used | taken)),
            first.eq(lowest(free)),
            key.eq(Cat(self.fingerprint, self.bank)),
            sought.eq(Cat(self.wanted, self.wanted_bank)),
        ]
        m.d.sync += [
            used.eq((used | taken) & ~freed),
            self.room.eq(free.any()),
            self.slot.eq(number(first)),
            self.count.eq(self.count + self.take - self.fetch),
        ]
        m.d.sync += Assert(~self.add | (used & ~freed).bit_select(self.add_slot, 1))
        matches = []
        for i in range(SLOTS):
            kept = Signal(len(key), name=f"kept_{i}")
            waiting = Signal(name=f"waiting_{i}")
            with m.If(self.issue & (self.issue_slot == i)):
                m.d.sync += waiting.eq(0)
            with m.If(taken[i]):
                m.d.sync += [waiting.eq(1), kept.eq(key)]
            matches.append(waiting & (kept == sought))
        m.d.comb += self.found.eq(Cat(matches).any())
        return m
