"""Words of memory, as blocks."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.core.isa import BLOCK_WORDS
from rtl.l1.share import L1UserSignature
from rtl.message.geometry import MessageGeometry
from rtl.message.layouts import PieceLayout
from rtl.vec.queue import CommandQueue

BEATS = 4
"""Beats that may be under way."""

FILLED_BITS = ceil_log2(BLOCK_WORDS)


class MemoryReader(wiring.Component):
    """Read words through L1, side by side in blocks.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    start : In
        Begin; only while not `busy`.
    address : In
        Byte address of the first word, a multiple of 4.
    count : In
        Words, at least one.
    busy : Out
        Some were not given yet.
    cache : Out
        To L1.
    pieces : Out
        Blocks.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "start": In(1),
                "address": In(32),
                "count": In(g.count_bits),
                "busy": Out(1),
                "cache": Out(L1UserSignature(g.cache)),
                "pieces": Out(stream.Signature(PieceLayout())),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a walk through beats, and the block that is being filled."""
        m = Module()
        g = self.geometry
        beat_words, offset_bits = g.cache.beat_bytes // 4, g.cache.offset_bits
        word_bits = ceil_log2(beat_words + 1)
        layout = data.StructLayout({"first": word_bits, "count": word_bits, "last": 1, "hole": 1})
        m.submodules.asked = asked = CommandQueue(layout, BEATS)

        # Ask for every beat once. In a hole there is nothing to be read.
        beat, offset = Signal(g.cache.beat_bits), Signal(max(1, offset_bits - 2))
        left, take, last = Signal(g.count_bits), Signal(word_bits), Signal()
        hole, in_beat, wanted = Signal(), Signal(word_bits), Signal(beat_words)
        request, walks = self.cache.requests, Signal()
        m.d.comb += [
            hole.eq(offset >= beat_words),
            in_beat.eq(Mux(hole, beat_words, beat_words - offset)),
            last.eq(left <= in_beat),
            take.eq(Mux(last, left, in_beat)),
            walks.eq(left != 0),
            request.valid.eq(walks & asked.commands.ready),
            request.payload.beat.eq(beat),
            wanted.eq(((1 << take) - 1) << offset),
            request.payload.enable.eq(Cat(word.replicate(4) for word in wanted)),
            asked.commands.valid.eq(walks & request.ready),
            asked.commands.payload.first.eq(Mux(hole, 0, offset)),
            asked.commands.payload.count.eq(take),
            asked.commands.payload.last.eq(last),
            asked.commands.payload.hole.eq(hole),
        ]
        with m.If(request.valid & request.ready):
            m.d.sync += [left.eq(left - take), beat.eq(beat + 1), offset.eq(0)]
        with m.If(self.start):
            m.d.sync += [
                left.eq(self.count),
                beat.eq(self.address[offset_bits:]),
                offset.eq(self.address[2:offset_bits]),
            ]

        # Put what comes side by side.
        answer, what, piece = self.cache.answers, asked.head.payload, self.pieces.payload
        words, bits = BLOCK_WORDS, 32 * BLOCK_WORDS
        used, here, room = Signal(word_bits), Signal(word_bits), Signal(range(words + 1))
        filled, fill = Signal(FILLED_BITS), Signal(range(words + 1))
        held, found, merged = (Signal(bits, name=name) for name in ("held", "found", "merged"))
        ends_beat, full, go, wrong = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            here.eq(what.count - used),
            room.eq(words - filled),
            ends_beat.eq(here <= room),
            fill.eq(Mux(ends_beat, here, room)),
            full.eq((filled + fill == words) | (ends_beat & what.last)),
            found.eq(answer.payload.data >> Cat(Const(0, 5), (what.first + used)[:word_bits])),
        ]
        placed = (found << Cat(Const(0, 5), filled))[:bits]
        for i in range(words):
            word = slice(32 * i, 32 * i + 32)
            there = filled > i if i + 1 < words else Const(0)  # a full block does not wait
            m.d.comb += merged[word].eq(Mux(there, held[word], placed[word]))
        m.d.comb += [
            self.pieces.valid.eq(answer.valid & full),
            piece.block.words.eq(merged),
            piece.present.eq(1),
            piece.error.eq(wrong | answer.payload.error | what.hole),
            piece.last.eq(ends_beat & what.last),
            go.eq(answer.valid & (~full | self.pieces.ready)),
            answer.ready.eq(go & ends_beat),
            asked.head.ready.eq(answer.ready),
            self.busy.eq(walks | asked.head.valid),
        ]
        with m.If(go):
            m.d.sync += [
                held.eq(merged),
                filled.eq(Mux(full, 0, filled + fill)),
                used.eq(Mux(ends_beat, 0, used + fill)),
                wrong.eq(~full & piece.error),
            ]
        return m
