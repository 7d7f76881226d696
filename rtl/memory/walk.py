"""From runs of bytes to beats: what is asked of the memory, and what is sent to it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.ports import DescriptorLayout
from rtl.l1.ports import RequestLayout
from rtl.memory.commands import ComingLayout, FetchedLayout, PieceLayout, RunLayout, What
from rtl.memory.geometry import MemoryGeometry


class Walk(wiring.Component):
    """Go through the beats of runs, one per cycle.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    runs : In
        What to load and to store.
    lines : In
        What is stored.
    requests : Out
        To L1.
    descriptors : Out
        To the memory, past L1.
    coming : Out
        Runs that were asked for, each before the first of its pieces.
    pieces : Out
        What of the beats that come belongs to the runs.
    stored : Out
        An instruction that stores has ended.
    idle : Out
        Nothing is to be done.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "runs": In(stream.Signature(RunLayout(g))),
                "lines": In(stream.Signature(FetchedLayout(g))),
                "requests": Out(stream.Signature(RequestLayout(g.cache))),
                "descriptors": Out(stream.Signature(DescriptorLayout())),
                "coming": Out(stream.Signature(ComingLayout(g))),
                "pieces": Out(stream.Signature(PieceLayout(g))),
                "stored": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the walk."""
        m = Module()
        g = self.geometry
        run, request = self.runs.payload, self.requests.payload
        offset_bits = g.cache.offset_bits

        # Where in the run: after its first beat, in registers.
        fresh = Signal(init=1)
        next_beat, next_offset = Signal(g.cache.beat_bits), Signal(g.count_bits)
        next_left = Signal.like(run.bytes)
        beat, offset, left = (Signal.like(s) for s in (next_beat, next_offset, next_left))
        m.d.comb += [
            beat.eq(Mux(fresh, run.address[offset_bits:], next_beat)),
            offset.eq(Mux(fresh, run.address[:offset_bits], next_offset)),
            left.eq(Mux(fresh, run.bytes, next_left)),
        ]

        # What of the beat: all that is left of it, of the run and, if stored, of the line.
        used = Signal(g.word_bits)  # words of the line
        in_beat, in_line = Signal(g.count_bits), Signal(g.word_bits + 3)
        take, last = Signal(g.count_bits), Signal()
        stores = run.what == What.STORE
        m.d.comb += [
            in_beat.eq(g.beat_bytes - offset),
            in_line.eq((g.line_words - used) << 2),
            take.eq(_least(_least(in_beat, left), Mux(stores, in_line, in_beat))),
            last.eq(take == left),
        ]

        # Reads: a piece for every beat, and past L1 a descriptor for every line.
        covered, go = Signal(), Signal()
        room = self.pieces.ready & (~fresh | self.coming.ready)
        loads = run.what <= What.ROWS
        past = run.streaming
        pair = ~beat[0] & (left > in_beat)
        asks = self.runs.valid & loads & room
        sent = asks & Mux(past, covered | self.descriptors.ready, self.requests.ready)
        m.d.comb += [
            self.descriptors.valid.eq(asks & past & ~covered),
            self.descriptors.payload.address.eq(beat),
            self.descriptors.payload.beats.eq(Mux(pair, 2, 1)),
            self.pieces.valid.eq(sent),
            self.pieces.payload.offset.eq(offset),
            self.pieces.payload.count.eq(take),
            self.pieces.payload.last.eq(last),
            self.coming.payload.what.eq(run.what),
            self.coming.payload.streaming.eq(past),
            self.coming.payload.elements.eq(run.elements),
            self.coming.payload.register.eq(run.register),
            self.coming.payload.place.eq(run.place),
        ]
        with m.If(sent & past):
            m.d.sync += covered.eq(~covered & pair)

        # Writes: words of a line.
        words = Value.cast(self.lines.payload.words) >> Cat(_zeros(5), used)
        enable = (1 << take) - 1
        line = Signal(min(32 * g.line_words, 8 * g.beat_bytes))
        m.d.comb += [
            line.eq(words),
            request.beat.eq(beat),
            request.write.eq(stores),
            request.data.eq(line << Cat(_zeros(5), offset[2:])),
            request.enable.eq(enable << offset),
        ]
        ready_to_write = self.runs.valid & stores & self.lines.valid & ~self.lines.payload.append
        wrote = ready_to_write & self.requests.ready
        m.d.comb += [
            self.requests.valid.eq((asks & ~past) | ready_to_write),
            self.lines.ready.eq(wrote & (last | (take == in_line))),
        ]
        with m.If(wrote):
            m.d.sync += used.eq(Mux(last | (take == in_line), 0, used + take[2:]))

        # The end of an instruction follows its runs on their way.
        m.d.comb += [
            go.eq(sent | wrote),
            self.coming.valid.eq((sent & fresh) | (self.runs.valid & (run.what == What.LOADED))),
            self.stored.eq(self.runs.valid & (run.what == What.STORED)),
            self.runs.ready.eq(
                (go & last) | self.stored | ((run.what == What.LOADED) & self.coming.ready)
            ),
            self.idle.eq(~self.runs.valid),
        ]
        with m.If(go):
            m.d.sync += [
                fresh.eq(last),
                next_left.eq(left - take),
                next_beat.eq(beat + (take == in_beat)),
                next_offset.eq(Mux(take == in_beat, 0, offset + take)),
            ]
        return m


def _least(a: Value, b: Value) -> Value:
    return Mux(a < b, a, b)


def _zeros(count: int) -> Value:
    """Return bits of 0, to make a number of words one of bits."""
    return Const(0, count)
