"""From beats to words: the bytes that belong to a run, as what they are."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.core.isa import SLOT, MatrixFormat
from rtl.hbm.ports import ReadBeatLayout
from rtl.l1.ports import AnswerLayout
from rtl.memory.commands import ChunkLayout, ComingLayout, PieceLayout, What
from rtl.memory.dequantise import Dequantiser
from rtl.memory.geometry import MemoryGeometry

PLANE_BYTES = SLOT // 2
"""Bytes of a plane of a block."""


class Unpack(wiring.Component):
    """Take beats apart, up to a line of words in a cycle.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    coming, pieces : In
        What comes.
    answers, reads : In
        Beats from L1, and from memory past it.
    chunks : Out
        Words; and the end of an instruction.
    block : Out
        Number of the block whose scale is wanted.
    scale : In
        Its scale.
    quiet : In
        All chunks have got to where they go.
    failed : Out
        A beat could not be read.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        self.geometry = g = geometry
        slots = g.config.vector_length // SLOT
        super().__init__(
            {
                "coming": In(stream.Signature(ComingLayout(g))),
                "pieces": In(stream.Signature(PieceLayout(g))),
                "answers": In(stream.Signature(AnswerLayout(g.cache))),
                "reads": In(stream.Signature(ReadBeatLayout(g.config.pseudo_channels))),
                "chunks": Out(stream.Signature(ChunkLayout(g))),
                "block": Out(range(max(2, slots))),
                "scale": In(8),
                "quiet": In(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return shifter, dequantisers and a register for the chunk."""
        m = Module()
        g = self.geometry
        run, piece, chunk = self.coming.payload, self.pieces.payload, self.chunks.payload
        lanes, step_bytes = g.line_words, g.line_words // 2

        # The beat, from the first byte on that was not used.
        data, there = Signal(8 * g.beat_bytes), Signal()
        used, here, start = (Signal(g.count_bits, name=n) for n in ("used", "here", "start"))
        size = min(g.beat_bytes, max(4 * lanes, PLANE_BYTES))
        bytes_ = Signal(8 * size)
        m.d.comb += [
            data.eq(Mux(run.streaming, self.reads.payload.data, self.answers.payload.data)),
            there.eq(Mux(run.streaming, self.reads.valid, self.answers.valid)),
            here.eq(piece.count - used),
            start.eq(piece.offset + used),
            bytes_.eq(data >> Cat(Const(0, 3), start)),
        ]

        # Where in a block.
        first = Signal(init=1)
        left, next_left = (Signal(g.element_bits, name=n) for n in ("left", "next_left"))
        low, high = Signal(), Signal(8 * PLANE_BYTES)
        part = Signal(range(max(2, SLOT // lanes)))
        block = Signal.like(self.block)
        m.d.comb += [
            left.eq(Mux(first, run.elements, next_left)),
            self.block.eq(block),
        ]

        words = Signal.like(chunk.words)
        take, count = Signal(g.count_bits), Signal(g.word_bits + 1)
        of_blocks, only_high = Signal(), Signal()
        last_part = part == SLOT // lanes - 1
        few = Mux(left < lanes, left, lanes)
        integer = run.what == What.MXINT8
        with m.Switch(run.what):
            with m.Case(What.WORDS):
                m.d.comb += [
                    take.eq(Mux(here < 4 * lanes, here, 4 * lanes)),
                    count.eq(take >> 2),
                ]
            with m.Case(What.BYTES, What.SCALES):
                m.d.comb += [take.eq(Mux(here < lanes, here, lanes)), count.eq(take)]
            with m.Case(What.ROWS):
                m.d.comb += [take.eq(4), count.eq(1)]
            with m.Case(What.MXFP4):
                m.d.comb += [of_blocks.eq(1), take.eq(step_bytes), count.eq(few)]
            with m.Case(What.MXINT8):
                m.d.comb += [
                    of_blocks.eq(1),
                    only_high.eq(~low),
                    take.eq(Mux(low, step_bytes, PLANE_BYTES)),
                    count.eq(Mux(low, few, 0)),
                ]
        above = high.word_select(part, 8 * step_bytes)
        for lane in range(lanes):
            nibble = bytes_[4 * lane : 4 * lane + 4]
            m.submodules[f"dequantiser{lane}"] = dequantiser = Dequantiser()
            m.d.comb += [
                dequantiser.code.eq(
                    Mux(integer, Cat(nibble, above[4 * lane : 4 * lane + 4]), nibble)
                ),
                dequantiser.scale.eq(self.scale),
                dequantiser.format.eq(Mux(integer, MatrixFormat.MXINT8, MatrixFormat.MXFP4)),
            ]
            with m.If(of_blocks):
                m.d.comb += words[lane].eq(dequantiser.value)
            with m.Elif((run.what == What.BYTES) | (run.what == What.SCALES)):
                m.d.comb += words[lane].eq(_part(bytes_, lane, 8))
            with m.Else():
                m.d.comb += words[lane].eq(_part(bytes_, lane, 32))

        # A step gives a chunk, unless it only takes in a plane.
        go, room, ends_beat, ends_run = (Signal(name=n) for n in ("go", "room", "beat", "run"))
        ends = self.coming.valid & (run.what == What.LOADED)
        scales_there = ~of_blocks | ~first | self.quiet
        m.d.comb += [
            room.eq(~self.chunks.valid | self.chunks.ready),
            go.eq(
                self.coming.valid
                & ~ends
                & self.pieces.valid
                & there
                & scales_there
                & (room | only_high)
            ),
            ends_beat.eq(go & (take == here)),
            ends_run.eq(ends_beat & piece.last),
            self.pieces.ready.eq(ends_beat),
            self.coming.ready.eq(ends_run | (ends & room)),
            self.answers.ready.eq(ends_beat & ~run.streaming),
            self.reads.ready.eq(ends_beat & run.streaming),
            self.failed.eq(
                ends_beat & Mux(run.streaming, self.reads.payload.error, self.answers.payload.error)
            ),
        ]
        with m.If(go):
            m.d.sync += [
                used.eq(Mux(ends_beat, 0, used + take)),
                first.eq(ends_run),
                next_left.eq(left - count),
            ]
            with m.If(only_high):
                m.d.sync += [high.eq(bytes_), low.eq(1)]
            with m.Elif(of_blocks):
                m.d.sync += part.eq(Mux(last_part, 0, part + 1))
                with m.If(last_part):
                    m.d.sync += [low.eq(0), block.eq(block + 1)]
            with m.If(ends_run):
                m.d.sync += block.eq(0)
        with m.If(self.chunks.ready):
            m.d.sync += self.chunks.valid.eq(0)
        begun = Signal(init=1)  # the next chunk is the first of its run
        with m.If((go & ~only_high) | (ends & room)):
            m.d.sync += [
                self.chunks.valid.eq(1),
                chunk.what.eq(run.what),
                chunk.register.eq(run.register),
                chunk.place.eq(run.place),
                chunk.first.eq(begun),
                chunk.last.eq(ends_run),
                chunk.count.eq(Mux(ends, 0, count)),
                chunk.words.eq(words),
                begun.eq(ends_run | ends),
            ]
        return m


def _part(bits: Value, index: int, width: int) -> Value:
    """Return one of equal parts; 0 beyond the last."""
    return (
        bits[index * width : (index + 1) * width] if (index + 1) * width <= len(bits) else Const(0)
    )
