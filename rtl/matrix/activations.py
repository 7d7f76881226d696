"""From registers to the matrix engine: activation blocks, and the greatest scales of their rows."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS
from rtl.mac.geometry import OPERATIONS
from rtl.mac.operation import ActivationLayout, ActivationRequestLayout
from rtl.matrix.operation import ReadLayout
from rtl.vec.geometry import VectorGeometry
from rtl.vec.place import Place
from rtl.vec.ports import LineReadSignature, WordReadSignature
from rtl.vec.queue import CommandQueue

DEPTH = 4
"""Blocks that wait for the engine: a read takes a cycle, and so does passing it on."""


class ActivationReader(wiring.Component):
    """Read the activations of instructions, ahead of the engine.

    The engine asks for blocks in an order that the instruction alone decides: block along K, then
    row. So they are read without being asked for, and a request only lets the next one go.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        What to read, see `ReadLayout`.
    requests : In
        The engine wants the next block; which one that is, is known.
    activations : Out
        To the engine.
    released : Out
        Everything was read of an instruction that does not drain. Those without rows are passed
        over.
    lines, words : Out
        Ports of the vector and the row registers.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = geometry = VectorGeometry(config)
        super().__init__(
            {
                "operations": In(stream.Signature(ReadLayout(config))),
                "requests": In(stream.Signature(ActivationRequestLayout(config))),
                "activations": Out(stream.Signature(ActivationLayout(config))),
                "released": Out(1),
                "lines": Out(LineReadSignature(geometry)),
                "words": Out(WordReadSignature(geometry)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return walk and reads."""
        m = Module()
        g = self.geometry
        m.submodules.queue = queue = CommandQueue(ReadLayout(self.config), OPERATIONS)
        connect(m, flipped(self.operations), queue.commands)
        o = queue.head.payload

        # Walk: block along K, then row. A row that does not take part costs a cycle, as it does in
        # the engine.
        walking = Signal()
        left = Signal(self.config.lanes)  # rows from this one on
        head = Signal.like(o.heads)
        block = Signal.like(o.blocks)
        next_block = Signal.like(o.blocks)
        last_row, last = Signal(), Signal()
        step, begin = Signal(), Signal()
        m.d.comb += [
            next_block.eq(Mux(walking, block + 1, 0)),
            last_row.eq(~left[1:].any()),
            last.eq(last_row & (next_block == o.blocks)),
        ]
        rows = o.mask.any()
        m.submodules.source = source = Place(g.place_bits)
        m.submodules.maximum = maximum = Place(g.place_bits)
        m.d.comb += [
            source.start.eq(o.offset + next_block),
            source.head.eq(o.stride),
            source.token.eq(o.pitch),
            maximum.start.eq(o.maxima_offset),
            maximum.head.eq(1),
            maximum.token.eq(o.maxima_pitch),
        ]
        wrap = head + 1 == o.heads
        for place in (source, maximum):
            m.d.comb += [
                place.load.eq(begin),
                place.advance.eq(step),
                place.wrap.eq(wrap),
            ]
        with m.If(~walking):
            m.d.comb += [begin.eq(queue.head.valid & rows), queue.head.ready.eq(~rows)]
        with m.Else():
            m.d.comb += [begin.eq(step & last_row & ~last), queue.head.ready.eq(step & last)]
        with m.If(step):
            m.d.sync += [left.eq(left >> 1), head.eq(Mux(wrap, 0, head + 1))]
        with m.If(step & last):
            m.d.sync += walking.eq(0)
        with m.If(begin):
            m.d.sync += [walking.eq(1), left.eq(o.mask), head.eq(0), block.eq(next_block)]

        part = exact_log2(g.line_blocks)

        # First cycle: ask for the block and its row's maximum. If one of them is refused, both are
        # asked for again.
        found = Signal(ActivationLayout(self.config))
        m.submodules.entries = entries = SyncFIFO(width=len(found.as_value()), depth=DEPTH)
        asked = Signal()
        ask, granted = Signal(), Signal()
        m.d.comb += [
            ask.eq(walking & left[0] & (entries.level + asked < DEPTH)),
            self.lines.requests.valid.eq(ask),
            self.lines.requests.payload.register.eq(o.source),
            self.lines.requests.payload.line.eq(source.place >> part),
            self.words.requests.valid.eq(ask),
            self.words.requests.payload.register.eq(o.maxima),
            self.words.requests.payload.row.eq(maximum.place),
            granted.eq(ask & self.lines.requests.ready & self.words.requests.ready),
            step.eq(granted | (walking & ~left[0])),
        ]

        # Second cycle: they are there.
        codes, scales = self.lines.words.as_value(), self.lines.scales.as_value()
        if part:
            in_line = Signal(part)
            m.d.sync += in_line.eq(source.place)
            codes = codes.word_select(in_line, 32 * BLOCK_WORDS)
            scales = scales.word_select(in_line, 8)
        m.d.sync += [asked.eq(granted), self.released.eq(granted & last & ~o.drain)]
        m.d.comb += [
            found.codes.eq(codes),
            found.scale.eq(scales),
            found.maximum.eq(self.words.word),
            entries.w_data.eq(found),
            entries.w_en.eq(asked),
        ]

        # The next block goes when the engine wants it.
        m.d.comb += [
            self.activations.payload.eq(entries.r_data),
            self.activations.valid.eq(entries.r_rdy & self.requests.valid),
            self.requests.ready.eq(entries.r_rdy & self.activations.ready),
            entries.r_en.eq(self.activations.valid & self.activations.ready),
        ]
        return m
