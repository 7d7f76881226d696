"""Writes of less than a word: the word is read first."""

from __future__ import annotations

import enum
from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.hbm.arbiter import lowest
from rtl.hbm.combine import WORD_BYTES, words
from rtl.hbm.generator import AccessLayout
from rtl.hbm.interface import ACCESS_BYTES, BEAT_BYTES
from rtl.hbm.place import PlaceLayout
from rtl.hbm.returns import WORDS


def is_partial(enable: Value) -> Value:
    """Return whether a word is written in part."""
    some, whole = words(enable)
    return (some & ~whole).any()


WRITERS = 3
"""How many can be under way."""


class _State(enum.IntEnum):
    IDLE = 0
    ASK = 1
    """The read waits to be accepted."""
    READ = 2
    """Its data is on the way."""
    WRITE = 3
    """The write waits to be accepted."""


class PartialWriter(wiring.Component):
    """Read an access, put new bytes into it, write it.

    Meanwhile nobody else may have that access (`busy`, `place`). Words that could not be corrected
    are not written: they stay as wrong as they were, and are noticed by whoever reads them.

    Members
    -------
    idle : Out
        There is none under way.
    start, access : In
        Begin with this one.
    scrub, scrub_place : In
        Begin with an access that is only to be corrected, unless `start`.
    busy, place : Out
        The one under way.
    accesses : Out
        First its read, then its write.
    valid, half, data, broken : In
        A beat of the read, and which words of it are not right.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "idle": Out(1),
                "start": In(1),
                "access": In(AccessLayout()),
                "scrub": In(1),
                "scrub_place": In(PlaceLayout()),
                "busy": Out(1),
                "place": Out(PlaceLayout()),
                "accesses": Out(stream.Signature(AccessLayout())),
                "valid": In(1),
                "half": In(1),
                "data": In(8 * BEAT_BYTES),
                "broken": In(WORDS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the access, and the merge."""
        m = Module()
        state = Signal(_State)
        kept = Signal(8 * ACCESS_BYTES)
        enable = Signal(ACCESS_BYTES)
        offer = self.accesses.payload
        taken = Signal()
        m.d.comb += [
            self.idle.eq(state == _State.IDLE),
            self.busy.eq(~self.idle),
            self.accesses.valid.eq((state == _State.ASK) | (state == _State.WRITE)),
            taken.eq(self.accesses.valid & self.accesses.ready),
            offer.place.eq(self.place),
            offer.exists.eq(1),
            offer.write.eq(state == _State.WRITE),
            offer.wanted.eq(3),
            offer.data.eq(kept),
            offer.enable.eq(enable),
        ]
        with m.If(self.idle & (self.start | self.scrub)):
            m.d.sync += [
                state.eq(_State.ASK),
                kept.eq(self.access.data),
                enable.eq(Mux(self.start, self.access.enable, 0)),
                Value.cast(self.place).eq(
                    Mux(
                        self.start,
                        Value.cast(self.access.place),
                        Value.cast(self.scrub_place),
                    )
                ),
            ]
        with m.If(taken):
            m.d.sync += state.eq(Mux(offer.write, _State.IDLE, _State.READ))
        with m.If(self.valid):
            m.d.sync += Assert(state == _State.READ)
            for half in range(2):
                with m.If(self.half == half):
                    for i in range(BEAT_BYTES):
                        byte = BEAT_BYTES * half + i
                        with m.If(~enable[byte]):
                            m.d.sync += kept.word_select(byte, 8).eq(self.data.word_select(i, 8))
                    for i in range(WORDS):
                        word = enable.word_select(WORDS * half + i, WORD_BYTES)
                        m.d.sync += word.eq((word.all() | ~self.broken[i]).replicate(WORD_BYTES))
            with m.If(self.half):
                m.d.sync += state.eq(_State.WRITE)
        return m


class PartialWriters(wiring.Component):
    """Several of them, each with another access.

    A store of a few bytes here and there, such as an append to the KV cache, then waits for none
    that came before it.

    Members
    -------
    idle : Out
        One is.
    start, access : In
        Begin with this one, which none of them has.
    scrub, scrub_place : In
        Begin with an access that is only to be corrected, if one is idle and none has it, unless
        `start`.
    busy, places : Out
        Those under way.
    accesses : array of Out
        Of each, first its read, then its write.
    valid : In
        A bit for each: a beat of its read.
    half, data, broken : In
        What it is, see `PartialWriter`.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "idle": Out(1),
                "start": In(1),
                "access": In(AccessLayout()),
                "scrub": In(1),
                "scrub_place": In(PlaceLayout()),
                "busy": Out(WRITERS),
                "places": Out(PlaceLayout()).array(WRITERS),
                "accesses": Out(stream.Signature(AccessLayout())).array(WRITERS),
                "valid": In(WRITERS),
                "half": In(1),
                "data": In(8 * BEAT_BYTES),
                "broken": In(WORDS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the writers, and who begins."""
        m = Module()
        idle, had = Signal(WRITERS), Signal(WRITERS)
        first = lowest(idle)
        m.d.comb += [self.idle.eq(idle.any()), self.busy.eq(~idle)]
        for i in range(WRITERS):
            m.submodules[f"writer{i}"] = writer = PartialWriter()
            connect(m, writer.accesses, flipped(self.accesses[i]))
            m.d.comb += [
                idle[i].eq(writer.idle),
                self.places[i].eq(writer.place),
                had[i].eq(writer.busy & (Value.cast(writer.place) == Value.cast(self.scrub_place))),
                writer.start.eq(self.start & first[i]),
                writer.access.eq(self.access),
                writer.scrub.eq(self.scrub & first[i] & ~self.start & ~had.any()),
                writer.scrub_place.eq(self.scrub_place),
                writer.valid.eq(self.valid[i]),
                writer.half.eq(self.half),
                writer.data.eq(self.data),
                writer.broken.eq(self.broken),
            ]
        return m
