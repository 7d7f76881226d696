"""Data that was asked for, on its way into a register."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.core.isa import BLOCK_WORDS
from rtl.message.frames import flits_of
from rtl.message.geometry import MessageGeometry
from rtl.message.layouts import HeadLayout
from rtl.message.registers import WrittenLayout
from rtl.noc.link import FlitLayout


class Fetch(wiring.Component):
    """Put flits side by side until a block is complete, and write it.

    It takes whatever comes: nothing does that was not asked for.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    start : In
        Expect data.
    blocks : In
        How many blocks; constant from then on, like the others.
    high : In
        Last word of the last of them.
    drop : In
        Nothing is written.
    flits : In
        From the network.
    writes : Out
        What is written.
    done : Out
        Everything has come and is written.
    failed : Out
        Together with it: something could not be read.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "start": In(1),
                "blocks": In(g.blocks_bits),
                "high": In(range(BLOCK_WORDS)),
                "drop": In(1),
                "flits": In(stream.Signature(FlitLayout(g.config.flit_bytes))),
                "writes": Out(stream.Signature(WrittenLayout(g))),
                "done": Out(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the head, the block that is being filled, and the one that is being written."""
        m = Module()
        g, flit, written = self.geometry, self.flits.payload, self.writes.payload
        parts = flits_of(HeadLayout(g), g.flit_bits)
        head, gathered = (
            Signal(HeadLayout(g)),
            [Signal(g.flit_bits, name=f"part{i}") for i in range(parts - 1)],
        )
        active, in_data, part = Signal(), Signal(), Signal(range(max(2, parts)))
        within, index = Signal(range(max(2, g.block_flits))), Signal(g.blocks_bits)
        scales = Signal(len(head.scales.as_value()))
        wrong, complete, room, go = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            head.eq(Cat(*gathered, flit.data)),
            complete.eq(in_data & (within == g.block_flits - 1)),
            room.eq(~self.writes.valid | self.writes.ready),
            self.flits.ready.eq(~complete | room),
            go.eq(self.flits.valid & self.flits.ready),
        ]
        with m.If(room):
            m.d.sync += self.writes.valid.eq(0)
        with m.If(go & ~in_data):
            for i, value in enumerate(gathered):
                with m.If(part == i):
                    m.d.sync += value.eq(flit.data)
            m.d.sync += part.eq(part + 1)
            with m.If(part == parts - 1):
                m.d.sync += [
                    part.eq(0),
                    in_data.eq(~flit.last),
                    scales.eq(head.scales),
                    wrong.eq(wrong | head.error),
                ]
        filling = [Signal(32 * g.flit_words, name=f"filling{i}") for i in range(g.block_flits - 1)]
        with m.If(go & in_data):
            for i, value in enumerate(filling):
                with m.If(within == i):
                    m.d.sync += value.eq(flit.data)
            m.d.sync += [within.eq(Mux(complete, 0, within + 1)), in_data.eq(~flit.last)]
            with m.If(complete):
                m.d.sync += [
                    self.writes.valid.eq(~self.drop),
                    written.number.eq(index),
                    written.last.eq(Mux(index + 1 == self.blocks, self.high, BLOCK_WORDS - 1)),
                    written.block.words.eq(Cat(*filling, flit.data[: 32 * g.flit_words])),
                    written.block.scale.eq(scales),
                    scales.eq(scales >> 8),
                    index.eq(index + 1),
                ]

        # The last flit of the last packet: with it all blocks are there.
        ended = Signal()
        with m.If(go & flit.last & (index + complete == self.blocks)):
            m.d.sync += ended.eq(1)
        m.d.comb += [
            self.done.eq(active & ended & ~self.writes.valid),
            self.failed.eq(wrong),
        ]
        with m.If(self.done):
            m.d.sync += [active.eq(0), ended.eq(0), wrong.eq(0), index.eq(0)]
        with m.If(self.start):
            m.d.sync += active.eq(1)
        return m
