"""A bank with the accesses that wait for it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.hbm.bank import Bank
from rtl.hbm.distances import DistanceLayout
from rtl.hbm.interface import COLUMN_BITS, ROW_BITS
from rtl.hbm.place import FINGERPRINT_BITS
from rtl.hbm.queue import AGE_BITS, BankQueue, EntryLayout
from rtl.leaf import Leaf

READ_DEPTH = 16
WRITE_DEPTH = 32
AGES = (16, 32, 48, 64, 96, 128)
"""Accesses that came since, after which one belongs to those that go first."""

RECENT = 3
"""Ticks after its last access for which a bank has just been used."""

COMMANDS = ("activate", "precharge", "refresh", "refresh_all", "column")
STATES = (
    *("read_room", "write_room", "read_found", "read_waits", "write_waits"),
    *("fits", "armed", "asks_activate", "asks_precharge", "guess"),
    *("idle", "recent", "unused", "fresh", "is_open", "may_activate", "may_precharge"),
)


class Lane(Leaf):
    """What the schedulers see of a bank.

    Parameters
    ----------
    read_tag, write_tag
        Widths of the tags of reads and writes.

    Members
    -------
    distances : In
        See `DistanceLayout`.
    push_read, push_write, read_entry, write_entry : In
        A new access.
    now : In
        Number of the next access.
    wanted : In
        Fingerprint to look for among the reads: `read_found`.
    writing : In
        Direction of the column bus.
    prepare : In
        Writes are next: what opens rows for them is done now, meanwhile other banks read.
    hint, hint_row : In
        A row that will be needed.
    tick : In
        Time passes, for `recent`.
    activate, precharge, refresh, refresh_all, column : In
        Commands given in this cycle. `column` is of the present direction.
    read_room, write_room : Out
        There is room for an access.
    read_waits, write_waits : Out
        One waits.
    fits : Out
        The first access of this direction could be given, as far as the bank goes.
    armed : Out
        While preparing: no write waits, or its row is open.
    asks_activate, asks_precharge, row : Out
        What it needs next, and could be given; `guess` if nobody waits for it yet.
    age : Out
        Which of `AGES` the first access has, of the direction that comes first.
    idle, recent, unused : Out
        Nothing waits; the last access was just now; the row was opened on a hint, and there was no
        access yet.
    fresh : Out
        There was no access since the row was opened.
    is_open, may_activate, may_precharge : Out
        See `Bank`.
    read_tag, write_tag, column_address : Out
        Of the first access of each direction, and of this direction.
    """

    def __init__(self, read_tag: int, write_tag: int) -> None:
        self.tags = read_tag, write_tag
        super().__init__(
            {
                "distances": In(DistanceLayout()),
                "push_read": In(1),
                "push_write": In(1),
                "read_entry": In(EntryLayout(read_tag)),
                "write_entry": In(EntryLayout(write_tag)),
                "now": In(AGE_BITS),
                "wanted": In(FINGERPRINT_BITS),
                "writing": In(1),
                "prepare": In(1),
                "hint": In(1),
                "hint_row": In(ROW_BITS),
                "tick": In(1),
                **dict.fromkeys(COMMANDS, In(1)),
                **dict.fromkeys(STATES, Out(1)),
                "row": Out(ROW_BITS),
                "age": Out(len(AGES)),
                "read_tag": Out(read_tag),
                "write_tag": Out(write_tag),
                "column_address": Out(COLUMN_BITS),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return f"hbm_lane_{self.tags[0]}_{self.tags[1]}"

    def build(self, platform: Any) -> Module:
        """Return the bank and its queues."""
        m = Module()
        read_tag, write_tag = self.tags
        m.submodules.bank = bank = Bank()
        m.submodules.reads = reads = BankQueue(READ_DEPTH, read_tag, searched=True)
        m.submodules.writes = writes = BankQueue(WRITE_DEPTH, write_tag, searched=False)
        m.d.comb += [
            reads.push.eq(self.push_read),
            reads.entry.eq(self.read_entry),
            reads.pop.eq(self.column & ~self.writing),
            reads.wanted.eq(self.wanted),
            writes.push.eq(self.push_write),
            writes.entry.eq(self.write_entry),
            writes.pop.eq(self.column & self.writing),
            self.read_room.eq(reads.room),
            self.write_room.eq(writes.room),
            self.read_found.eq(reads.found),
            self.read_waits.eq(reads.valid),
            self.write_waits.eq(writes.valid),
            self.read_tag.eq(reads.head.tag),
            self.write_tag.eq(writes.head.tag),
            bank.distances.eq(self.distances),
            bank.new_row.eq(self.row),
            bank.read.eq(self.column & ~self.writing),
            bank.write.eq(self.column & self.writing),
            self.is_open.eq(bank.is_open),
            self.may_activate.eq(bank.may_activate),
            self.may_precharge.eq(bank.may_precharge),
        ]
        for command in ("activate", "precharge", "refresh", "refresh_all"):
            m.d.comb += getattr(bank, command).eq(getattr(self, command))

        # The present direction comes first, or the one that is prepared, then the other, then what
        # may come.
        present, other, asks, use_writes = Signal(), Signal(), Signal(), Signal()
        prepared = Signal()
        born, age = Signal(AGE_BITS), Signal(AGE_BITS)
        same = Signal()
        m.d.comb += [
            present.eq(Mux(self.writing, writes.valid, reads.valid)),
            other.eq(Mux(self.writing, reads.valid, writes.valid)),
            prepared.eq(self.prepare & writes.valid),
            use_writes.eq((self.writing ^ ~present) | prepared),
            born.eq(Mux(use_writes, writes.head.born, reads.head.born)),
            age.eq(self.now - born),
            self.idle.eq(~present & ~other),
            self.guess.eq(self.idle),
            self.age.eq(Cat(~self.idle & (age >= limit) for limit in AGES)),
            asks.eq(~self.idle | (self.hint & ~self.unused)),
            self.row.eq(
                Mux(
                    self.idle,
                    self.hint_row,
                    Mux(use_writes, writes.head.row, reads.head.row),
                )
            ),
            same.eq(self.row == bank.row),
            self.fits.eq(
                present
                & bank.is_open
                & same
                & Mux(self.writing, bank.may_write, bank.may_read & ~prepared)
            ),
            self.armed.eq(~writes.valid | (bank.is_open & same)),
            self.asks_activate.eq(asks & ~bank.is_open & bank.may_activate),
            self.asks_precharge.eq(asks & bank.is_open & ~same & bank.may_precharge),
            self.column_address.eq(Mux(self.writing, writes.head.column, reads.head.column)),
        ]
        left = Signal(range(RECENT + 1))
        m.d.comb += self.recent.eq(left != 0)
        with m.If(self.column):
            m.d.sync += [left.eq(RECENT), self.unused.eq(0), self.fresh.eq(0)]
        with m.Elif(self.tick & self.recent):
            m.d.sync += left.eq(left - 1)
        with m.If(self.activate):
            m.d.sync += [self.unused.eq(self.idle), self.fresh.eq(1)]
        with m.If(self.precharge):
            m.d.sync += self.unused.eq(0)
        return m
