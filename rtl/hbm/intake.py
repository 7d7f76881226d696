"""From accesses to queues: one per cycle, and never past another access to the same place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import number, select
from rtl.hbm.generator import AccessLayout
from rtl.hbm.partial import WRITERS, is_partial
from rtl.hbm.place import BANKS, FINGERPRINT_BITS, PlaceLayout, fingerprint
from rtl.hbm.pool import SLOT_BITS
from rtl.hbm.queue import AGE_BITS, EntryLayout
from rtl.hbm.returns import ReadTagLayout
from rtl.hbm.turns import Turns

EVENTS = ("waits_for_access", "waits_for_room", "partial_writes", "combined", "out_of_range")
"""What it counts, see `rtl.hbm.counters`."""


class Intake(wiring.Component):
    """Take accesses from each source in turn, and say what becomes of them.

    An access waits for room, and for accesses to the same place that go the other way. A write may
    join one that waits. One that writes words in part goes to the partial writer, one to nowhere is
    answered at once.

    Parameters
    ----------
    sources
        How many; the last ones are the partial writers.
    ecc
        Whether there are check bits, so that words are written whole.
    keeps
        Sources that keep their turn while they go on asking, see `rtl.hbm.turns`.

    Members
    -------
    accesses : array of In
        What the sources want, see `AccessLayout`.
    buffer_room, buffer_slots : In
        Of the reorder buffer of each source: room, and the next slot.
    read_room, write_room, read_found : In
        Of each bank, see `rtl.hbm.lane.Lane`.
    pool_room, pool_slot, pool_found : In
        See `rtl.hbm.pool.WritePool`.
    fits : In
        There is a write that it can be added to, see `rtl.hbm.combine.Combiner`.
    merging, merge_places : In
        Accesses that nobody but the partial writer of each may have.
    merger_idle : In
        A partial writer can begin; only with `ecc`.
    may_answer : In
        Sources whose reorder buffers can be filled with an error now.
    writing : In
        Direction of the column bus.
    unprotected : In
        Words may be written in part.
    pick, access : Out
        The source whose turn it is, and what it wants.
    bank, key : Out
        The bank, one bit each, and the access's fingerprint.
    read, write, combine, merge, fault : Out
        What becomes of it in this cycle, if anything.
    reserve : Out
        Slots that it takes in the reorder buffer of `pick`.
    read_entry, write_entry, now : Out
        What to queue, and the number of the access.
    pressed : Out
        Somebody waits for a write, or for room for one.
    waits_for_access, waits_for_room, partial_writes, combined, out_of_range : Out
        For the counters.
    """

    def __init__(self, sources: int, *, ecc: bool, keeps: Sequence[int] = ()) -> None:
        self.sources, self.ecc, self.keeps = sources, ecc, tuple(keeps)
        self.clients = sources - WRITERS
        super().__init__(
            {
                "accesses": In(stream.Signature(AccessLayout())).array(sources),
                "buffer_room": In(sources),
                "buffer_slots": In(ReadTagLayout()["slot"].shape).array(sources),
                **dict.fromkeys(("read_room", "write_room", "read_found"), In(BANKS)),
                "pool_room": In(1),
                "pool_slot": In(SLOT_BITS),
                "pool_found": In(1),
                "fits": In(1),
                "merging": In(WRITERS),
                "merge_places": In(PlaceLayout()).array(WRITERS),
                **({"merger_idle": In(1)} if ecc else {}),
                "may_answer": In(sources),
                "writing": In(1),
                "unprotected": In(1),
                "pick": Out(sources),
                "access": Out(AccessLayout()),
                "bank": Out(BANKS),
                "key": Out(FINGERPRINT_BITS),
                **dict.fromkeys(("read", "write", "combine", "merge", "fault"), Out(1)),
                "reserve": Out(2),
                "read_entry": Out(EntryLayout(ReadTagLayout().size)),
                "write_entry": Out(EntryLayout(SLOT_BITS)),
                "now": Out(AGE_BITS),
                "pressed": Out(1),
                **dict.fromkeys(EVENTS, Out(1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the turns, what an access waits for, and its entry."""
        m = Module()
        pick, access = self.pick, self.access
        own = pick[self.clients :].any()  # it is a partial writer's
        m.submodules.turns = turns = Turns(self.sources, self.keeps)
        for i, offer in enumerate(self.accesses):
            m.d.comb += [
                turns.asks[i].eq(offer.valid & (offer.payload.write | self.buffer_room[i])),
                offer.ready.eq(turns.taken[i]),
            ]
        payloads = [Value.cast(offer.payload) for offer in self.accesses]
        m.d.comb += [pick.eq(turns.pick), Value.cast(access).eq(select(pick, payloads))]

        some, here, same_place, in_part = Signal(), Signal(), Signal(), Signal()
        hazard, full, done = Signal(), Signal(), Signal()
        read_room, write_room, read_found = Signal(), Signal(), Signal()
        m.d.comb += [
            self.bank.eq((1 << access.place.bank)[:BANKS]),
            self.key.eq(fingerprint(access.place.row, access.place.column)),
            read_room.eq((self.bank & self.read_room).any()),
            write_room.eq((self.bank & self.write_room).any() & self.pool_room),
            read_found.eq((self.bank & self.read_found).any()),
            some.eq(pick.any()),
            here.eq(some & access.exists),
            same_place.eq(
                Cat(
                    busy & (Value.cast(place) == Value.cast(access.place))
                    for busy, place in zip(self.merging, self.merge_places, strict=True)
                ).any()
                & ~own
            ),
            in_part.eq(
                ((is_partial(access.enable) & ~self.unprotected) if self.ecc else 0)
                & access.write
                & ~own
            ),
            hazard.eq(Mux(access.write, read_found, self.pool_found) | same_place),
            full.eq(~Mux(access.write, write_room, read_room)),
            self.read.eq(here & ~access.write & ~hazard & ~full),
            # Whoever reads there waits until the write that this one joins has been given, so
            # nothing passes by.
            self.combine.eq(here & access.write & self.fits & ~own & ~same_place),
            self.write.eq(here & access.write & ~self.combine & ~in_part & ~hazard & ~full),
            self.merge.eq(
                (here & in_part & ~self.combine & self.merger_idle & ~same_place) if self.ecc else 0
            ),
            self.fault.eq(some & ~access.exists & (access.write | (self.may_answer & pick).any())),
            done.eq(self.read | self.write | self.combine | self.merge | self.fault),
            turns.taken.eq(Mux(done, pick, 0)),
            self.reserve.eq(
                Mux(
                    self.read | (self.fault & ~access.write),
                    access.wanted[0] + access.wanted[1],
                    0,
                )
            ),
        ]

        m.d.sync += self.now.eq(self.now + (self.read | self.write))
        tag = Signal(ReadTagLayout())
        m.d.comb += [
            tag.client.eq(number(pick)),
            tag.wanted.eq(access.wanted),
            tag.slot.eq(select(pick, list(self.buffer_slots))),
        ]
        for entry, its_tag in ((self.read_entry, tag), (self.write_entry, self.pool_slot)):
            m.d.comb += [
                entry.row.eq(access.place.row),
                entry.column.eq(access.place.column),
                entry.born.eq(self.now),
                entry.tag.eq(its_tag),
            ]
        with m.If(self.writing):
            m.d.sync += self.pressed.eq(0)
        with m.Elif(here & ~self.combine & Mux(access.write, full, self.pool_found)):
            m.d.sync += self.pressed.eq(1)
        m.d.comb += [
            self.waits_for_access.eq(here & hazard & ~self.combine),
            self.waits_for_room.eq(here & ~hazard & full & ~self.combine),
            self.partial_writes.eq(self.merge),
            self.combined.eq(self.combine),
            self.out_of_range.eq(self.fault),
        ]
        return m
