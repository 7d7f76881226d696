"""The accesses that wait for a bank, in one direction."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.hbm.interface import COLUMN_BITS, ROW_BITS
from rtl.hbm.place import FINGERPRINT_BITS, fingerprint
from rtl.leaf import Leaf

AGE_BITS = 9
"""Bits of the number that an access gets as it enters its queue."""


class EntryLayout(data.StructLayout):
    """An access that waits.

    Fields
    ------
    row, column
        Where.
    born
        Its number among all accesses.
    tag
        What to do with its data.
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__(
            {"row": ROW_BITS, "column": COLUMN_BITS, "born": AGE_BITS, "tag": tag_bits}
        )


class BankQueue(Leaf):
    """A queue whose first entry can be seen in the cycle after it came.

    Parameters
    ----------
    depth
        Entries behind the first, a power of two.
    tag_bits
        Width of an entry's tag.
    searched
        Whether others ask what waits.

    Members
    -------
    push, entry : In
        Add an entry. Only with `room`.
    room : Out
        There is room.
    valid, head : Out
        The first entry.
    pop : In
        Drop it. Only with `valid`.
    wanted : In
        A fingerprint.
    found : Out
        An access with this fingerprint waits. Only if `searched`, as `wanted`.
    """

    def __init__(self, depth: int, tag_bits: int, *, searched: bool) -> None:
        self.depth, self.tag_bits, self.searched = depth, tag_bits, searched
        layout = EntryLayout(tag_bits)
        super().__init__(
            {
                "push": In(1),
                "entry": In(layout),
                "room": Out(1),
                "valid": Out(1),
                "head": Out(layout),
                "pop": In(1),
                **({"wanted": In(FINGERPRINT_BITS), "found": Out(1)} if searched else {}),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        kind = "searched" if self.searched else "plain"
        return f"hbm_queue_{self.depth}_{self.tag_bits}_{kind}"

    def build(self, platform: Any) -> Module:
        """Return a register for the first entry, and a memory for the others."""
        m = Module()
        depth, layout = self.depth, EntryLayout(self.tag_bits)
        m.submodules.rest = rest = Memory(shape=layout, depth=depth, init=[])
        write = rest.write_port()
        read = rest.read_port(transparent_for=(write,))
        count = Signal(range(depth + 1))
        first, last = Signal(ceil_log2(depth)), Signal(ceil_log2(depth))
        refill, direct, behind = Signal(), Signal(), Signal()
        m.d.comb += [
            self.room.eq(count != depth),
            refill.eq(self.pop & (count != 0)),
            direct.eq(self.push & Mux(self.pop, count == 0, ~self.valid)),
            behind.eq(self.push & ~direct),
            write.addr.eq(last),
            write.data.eq(self.entry),
            write.en.eq(behind),
            # It always shows the first entry behind the head.
            read.addr.eq(first + refill),
        ]
        m.d.sync += [first.eq(first + refill), last.eq(last + behind)]
        m.d.sync += count.eq(count + behind - refill)
        with m.If(self.pop | ~self.valid):
            m.d.sync += [
                self.valid.eq(direct | refill),
                self.head.eq(Mux(refill, Value.cast(read.data), Value.cast(self.entry))),
            ]
        if self.searched:
            m.d.comb += self.found.eq(self._search(m, first, last, refill, behind))
        return m

    def _search(self, m: Module, first: Value, last: Value, refill: Value, behind: Value) -> Value:
        """Return whether an access with the wanted fingerprint waits."""
        present = Signal(self.depth)
        matches = [self.valid & (fingerprint(self.head.row, self.head.column) == self.wanted)]
        new = Signal(FINGERPRINT_BITS)
        m.d.comb += new.eq(fingerprint(self.entry.row, self.entry.column))
        for i in range(self.depth):
            kept = Signal(FINGERPRINT_BITS, name=f"kept_{i}")
            with m.If(refill & (first == i)):
                m.d.sync += present[i].eq(0)
            with m.If(behind & (last == i)):
                m.d.sync += [present[i].eq(1), kept.eq(new)]
            matches.append(present[i] & (kept == self.wanted))
        return Cat(matches).any()
