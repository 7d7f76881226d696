"""The second half of the cache: what is done with the lines, in the order of the program.

Nothing overtakes here, so whatever an entry finds in its place is what the program left there. A
fetch was sent when its request was looked up; entries wait here for what it brings, as long as the
memory takes, and while they do others are looked up and fetch.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.hbm.ports import ReadBeatLayout, WriteBeatLayout
from rtl.l1.geometry import L1Geometry
from rtl.l1.ports import AnswerLayout, EntryLayout, MaskLayout, UpdateLayout

ANSWERS = 2
"""Answers that wait for who asked: a read takes a cycle, and so does passing it on."""

WRITES = 4
"""Beats that wait for the memory to take them."""


class Access(wiring.Component):
    """Read, write, fill and evict lines.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    entries, updates, masks : In
        What is to be done, see `rtl.l1.lookup.Lookup`.
    answers : Out
        Beats that were read.
    reads : In
        Beats from memory, line by line.
    writes : Out
        Beats to memory, line by line.
    may_evict : In
        A line may be sent to memory.
    evicts : Out
        One is: its beats are on their way to `writes`.
    filled : Out
        A line has come from memory.
    """

    def __init__(self, geometry: L1Geometry) -> None:
        self.geometry = g = geometry
        channels = g.config.pseudo_channels
        super().__init__(
            {
                "entries": In(stream.Signature(EntryLayout(g))),
                "updates": In(stream.Signature(UpdateLayout(g))),
                "masks": In(stream.Signature(MaskLayout(g))),
                "answers": Out(stream.Signature(AnswerLayout(g))),
                "reads": In(stream.Signature(ReadBeatLayout(channels))),
                "writes": Out(stream.Signature(WriteBeatLayout(channels))),
                "may_evict": In(1),
                "evicts": Out(1),
                "filled": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the lines and what is done with them."""
        m = Module()
        g = self.geometry
        entry, mask = self.entries.payload, self.masks.payload.dirty

        depth = 2 << g.place_bits
        m.submodules.lines = lines = Memory(shape=8 * g.beat_bytes, depth=depth, init=[])
        m.submodules.poison = poison = Memory(shape=1, depth=depth, init=[])
        put, mark = lines.write_port(granularity=8), poison.write_port()
        get = lines.read_port(transparent_for=[put])
        marked = poison.read_port(transparent_for=[mark])

        # Where the entry is: its place was evicted, and the first beat of its line has come.
        beat_gone, gone, half = Signal(), Signal(), Signal()
        # The entry has left, and the second beat of its line is still to come.
        rest, rest_place, rest_masked = Signal(), Signal(g.place_bits), Signal()

        evicting, filling, plain = Signal(), Signal(), Signal()
        evicted = ~entry.evict | gone
        arrives = Signal()
        answer_room, write_room = Signal(), Signal()
        m.d.comb += [
            evicting.eq(self.entries.valid & ~evicted & ~rest),
            filling.eq(self.entries.valid & evicted & entry.fill & ~rest),
            # Beside the second beat of the line before, a hit may be read.
            plain.eq(
                self.entries.valid
                & evicted
                & ~entry.fill
                & (~rest | (arrives & entry.read & ~entry.evict))
            ),
        ]

        # --- evict: two beats of the place, and then what the entry is for ---
        evict = Signal()
        m.d.comb += [
            evict.eq(evicting & write_room & (~beat_gone | self.may_evict)),
            self.evicts.eq(evict & beat_gone),
        ]
        m.d.sync += beat_gone.eq(beat_gone ^ evict)
        just_evicts = ~entry.fill & ~entry.read & ~entry.write

        # --- fill: two beats from memory; one that is read goes on at once ---
        wants, take = Signal(), Signal()
        second = rest | half
        m.d.comb += [
            wants.eq(filling & (entry.beat == half)),
            take.eq(rest | (filling & (~wants | answer_room))),
            arrives.eq(take & self.reads.valid),
            self.reads.ready.eq(take),
            self.filled.eq(arrives & second),
        ]

        # --- what the entry is for ---
        update = Signal()
        read = Signal()
        m.d.comb += [
            read.eq((wants & arrives) | (plain & entry.read & answer_room)),
            update.eq(plain & entry.write & self.updates.valid),
            self.updates.ready.eq(update),
            self.entries.ready.eq(read | update | (self.evicts & just_evicts)),
        ]
        with m.If(self.entries.ready):
            m.d.sync += [gone.eq(0), half.eq(0)]
        with m.Else():
            with m.If(self.evicts):
                m.d.sync += gone.eq(1)
            with m.If(filling & arrives):
                m.d.sync += half.eq(1)
        with m.If(self.filled):
            m.d.sync += rest.eq(0)
        with m.If(wants & arrives & ~half):
            m.d.sync += [rest.eq(1), rest_place.eq(entry.place), rest_masked.eq(entry.masked)]

        # --- the lines ---
        masked = Mux(rest, rest_masked, entry.masked)
        kept = Mux(masked, mask.word_select(second, g.beat_bytes), 0)
        with m.If(arrives):
            m.d.comb += [
                put.addr.eq(Cat(second, Mux(rest, rest_place, entry.place))),
                put.data.eq(self.reads.payload.data),
                put.en.eq(~kept),
            ]
        with m.Elif(update):
            m.d.comb += [
                put.addr.eq(Cat(entry.beat, entry.place)),
                put.data.eq(self.updates.payload.data),
                put.en.eq(self.updates.payload.enable),
            ]
        m.d.comb += [
            mark.addr.eq(put.addr),
            mark.data.eq(self.reads.payload.error),
            mark.en.eq(arrives),
            get.addr.eq(Cat(Mux(evicting, beat_gone, entry.beat), entry.place)),
            marked.addr.eq(get.addr),
            self.masks.ready.eq(self.evicts | (self.filled & masked)),
        ]

        # --- what was read, one cycle later: an answer, or bytes for the memory ---
        m.submodules.answers = answers = SyncFIFO(
            width=len(self.answers.payload.as_value()), depth=ANSWERS
        )
        came, depends, left, sent_mask = Signal(), Signal(), Signal(), Signal(g.beat_bytes)
        answer = Signal(AnswerLayout(g))
        m.d.sync += [
            came.eq(read),
            depends.eq(entry.depends),
            left.eq(evict),
            sent_mask.eq(mask.word_select(beat_gone, g.beat_bytes)),
        ]
        m.d.comb += [
            answer.data.eq(get.data),
            answer.error.eq(depends & marked.data),
            answer_room.eq(answers.level + came < ANSWERS),
            self.answers.valid.eq(came | answers.r_rdy),
            self.answers.payload.eq(Mux(answers.r_rdy, answers.r_data, answer.as_value())),
            answers.r_en.eq(self.answers.ready),
            answers.w_data.eq(answer),
            answers.w_en.eq(came & ~(self.answers.ready & ~answers.r_rdy)),
        ]
        m.submodules.writes = writes = SyncFIFO(
            width=len(self.writes.payload.as_value()), depth=WRITES
        )
        m.d.comb += [
            write_room.eq(writes.level + left < WRITES),
            writes.w_en.eq(left),
            writes.w_data.eq(Cat(get.data, sent_mask)),
            self.writes.valid.eq(writes.r_rdy),
            self.writes.payload.eq(writes.r_data),
            writes.r_en.eq(self.writes.ready),
        ]

        with m.If(came):
            m.d.sync += Assert(answers.w_rdy | self.answers.ready)
        with m.If(left):
            m.d.sync += Assert(writes.w_rdy)
        with m.If(self.entries.valid & entry.fill):
            m.d.sync += Assert(entry.read)
        return m
