"""Rows to MX blocks: elements gather until their block is complete, and are quantised then.

Of two buffers, one gathers while the other is quantised, a transfer per cycle each. So a block is
written as many cycles after its last element as it has transfers.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.core.isa import BLOCK_WORDS, MatrixFormat, Output
from rtl.formats import BLOCK, SCALE_NAN
from rtl.vec.code import Quantiser, scale_of
from rtl.vec.commands import OutputLayout
from rtl.vec.compare import flush
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import TransferLayout, words
from rtl.vec.ports import LineWriteLayout, WordWriteLayout


class Blocks(wiring.Component):
    """Quantise rows and write their blocks, and the greatest scale of each row.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    x : In
        Transfers; what is not selected counts as +0.
    row : In
        What becomes of their row, while there is a transfer.
    old : In
        Maxima that rows go on from.
    blocks : Out
        Writes to vector registers.
    maxima : Out
        Writes to row registers.
    idle : Out
        Nothing is on its way.
    done : Out
        An instruction has written everything.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        self.geometry = geometry
        super().__init__(
            {
                "x": In(stream.Signature(TransferLayout(geometry))),
                "row": In(OutputLayout(geometry)),
                "old": In(stream.Signature(words(geometry.lanes))),
                "blocks": Out(stream.Signature(LineWriteLayout(geometry))),
                "maxima": Out(stream.Signature(WordWriteLayout(geometry))),
                "idle": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return buffers, and what empties them."""
        m = Module()
        g = self.geometry
        groups, lanes = g.slot_transfers, g.lanes
        group_bits = exact_log2(groups)
        width = max(1, group_bits)

        m.submodules.buffer = buffer = Memory(shape=words(lanes), depth=2 * groups, init=[])
        put, get = buffer.write_port(), buffer.read_port(domain="comb")

        # --- gather ---
        x, row = self.x.payload, self.row
        group, half = Signal(width), Signal()
        number = Signal.like(row.place)  # blocks of the row before this one
        amax, greatest = Signal(31), Signal(31)
        magnitudes: list[Value] = []
        values = Signal(words(lanes))
        for lane in range(lanes):
            value = Signal(32, name=f"value{lane}")
            m.d.comb += [
                value.eq(flush(x.words[lane])),
                values[lane].eq(Mux(x.mark.keep[lane] & x.mark.inside[lane], value, 0)),
            ]
            magnitudes.append(values[lane][:31])
        level = 0
        while len(magnitudes) > 1:
            pairs = zip(magnitudes[::2], magnitudes[1::2], strict=True)
            magnitudes = []
            for i, (one, other) in enumerate(pairs):
                greater = Signal(31, name=f"greater{level}_{i}")
                m.d.comb += greater.eq(Mux(one > other, one, other))
                magnitudes.append(greater)
            level += 1
        m.d.comb += greatest.eq(Mux(magnitudes[0] > amax, magnitudes[0], amax))
        full = Signal()  # the other buffer holds a block
        closes, taken, finish = Signal(), Signal(), Signal()
        m.d.comb += [
            closes.eq(x.mark.row_last | (group == groups - 1)),
            self.x.ready.eq(~closes | ~full | finish),
            taken.eq(self.x.valid & self.x.ready),
            put.en.eq(taken),
            put.addr.eq(Cat(group[:group_bits], half)),
            put.data.eq(values),
        ]
        block = Signal(
            data.StructLayout(
                {
                    "row": OutputLayout(g),
                    "number": len(number),
                    "count": width,  # transfers beside the first
                    "amax": 31,
                    "row_last": 1,
                    "last": 1,
                }
            )
        )
        with m.If(taken):
            m.d.sync += [amax.eq(greatest), group.eq(group + 1 if group_bits else 0)]
            with m.If(closes):
                m.d.sync += [
                    group.eq(0),
                    half.eq(~half),
                    amax.eq(0),
                    number.eq(Mux(x.mark.row_last, 0, number + 1)),
                    full.eq(1),
                    block.row.eq(row),
                    block.number.eq(number),
                    block.count.eq(group),
                    block.amax.eq(greatest),
                    block.row_last.eq(x.mark.row_last),
                    block.last.eq(x.mark.last),
                ]

        # --- quantise ---
        integer, scale = Signal(), Signal(8)
        m.d.comb += [
            integer.eq(block.row.output == Output.MXINT8),
            scale.eq(
                scale_of(
                    block.amax,
                    format=Mux(integer, MatrixFormat.MXINT8.value, MatrixFormat.MXFP4.value),
                    rule=block.row.rule,
                )
            ),
        ]
        at = Signal(width)
        codes, before = Signal(8 * BLOCK), Signal(8 * BLOCK)
        now: list[Value] = []
        for lane in range(lanes):
            m.submodules[f"quantiser{lane}"] = quantiser = Quantiser()
            m.d.comb += [
                quantiser.x.eq(get.data[lane]),
                quantiser.scale.eq(scale),
                quantiser.format.eq(
                    Mux(integer, MatrixFormat.MXINT8.value, MatrixFormat.MXFP4.value)
                ),
            ]
            now.append(quantiser.code)
        place = at[:group_bits]
        m.d.comb += [
            get.addr.eq(Cat(place, ~half)),
            codes.eq(
                before
                | Mux(
                    integer,
                    Cat(now) << (place * (8 * lanes)),
                    Cat(code[:4] for code in now) << (place * (4 * lanes)),
                )
            ),
        ]
        ends = at == block.count
        write = self.blocks.payload
        where = Signal.like(block.row.place)
        blocks_bits = exact_log2(g.line_blocks)
        m.d.comb += [
            where.eq(block.row.place + block.number),
            write.address.register.eq(block.row.register),
            write.address.line.eq(where[blocks_bits:]),
            write.words.eq(codes.replicate(g.line_blocks)),
            write.scales.eq(scale.replicate(g.line_blocks)),
            write.scale_enable.eq(1 << where[:blocks_bits]),
            write.enable.eq(
                ((1 << BLOCK_WORDS) - 1) << (where[:blocks_bits] * BLOCK_WORDS)
                if blocks_bits
                else (1 << BLOCK_WORDS) - 1
            ),
        ]

        # The last block of a row also brings its maximum.
        best, so_far = Signal(8), Signal(8)  # with this block, and before it
        goes_on = Signal()  # `so_far` is that of the row, or of the token
        old = Mux(block.row.resume & ~block.row.shared, self.old.payload[0][:8], 0)
        start = Signal(8)
        m.d.comb += start.eq(Mux(goes_on | block.row.shared, so_far, old))
        counted = (scale != SCALE_NAN) & (scale > start)
        m.d.comb += best.eq(Mux(counted, scale, start))
        writes_maximum = block.row_last & block.row.maximal
        begins = ~goes_on & block.row.maximal & block.row.resume & ~block.row.shared
        there = ~begins | self.old.valid
        wrote_block, wrote_maximum = Signal(), Signal()
        m.d.comb += [
            self.blocks.valid.eq(full & ends & there & ~wrote_block),
            self.maxima.valid.eq(full & ends & there & writes_maximum & ~wrote_maximum),
            self.maxima.payload.address.register.eq(block.row.maxima),
            self.maxima.payload.address.row.eq(block.row.row),
            self.maxima.payload.word.eq(best),
            finish.eq(
                full
                & ends
                & there
                & (wrote_block | self.blocks.ready)
                & (~writes_maximum | wrote_maximum | self.maxima.ready)
            ),
            self.old.ready.eq(finish & begins),
            self.done.eq(finish & block.last),
            self.idle.eq(~full & (group == 0) & (number == 0)),
        ]
        m.d.sync += [
            wrote_block.eq(~finish & (wrote_block | (self.blocks.valid & self.blocks.ready))),
            wrote_maximum.eq(~finish & (wrote_maximum | (self.maxima.valid & self.maxima.ready))),
        ]
        with m.If(full & ~ends):
            m.d.sync += [at.eq(at + 1), before.eq(codes)]
        with m.If(finish):
            m.d.sync += [
                at.eq(0),
                before.eq(0),
                so_far.eq(best),
                goes_on.eq(~block.row_last),
            ]
            with m.If(~(taken & closes)):
                m.d.sync += full.eq(0)
        return m
