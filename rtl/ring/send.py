"""What leaves a node in one direction."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.core.isa import BLOCK_WORDS
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import GroupLayout, HeaderLayout, LinkLayout, RunOfBlockLayout
from rtl.vec.compare import flush


class Send(wiring.Component):
    """Send own flits and those that go on, in the order of the groups.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    groups : In
        What is to be sent.
    header : In
        The header of this tile.
    flushes : In
        Own words are flushed: they are the beginning of a reduction.
    blocks : In
        Own blocks.
    passing : In
        Flits that go on.
    passing_last : In
        It is the last one of its group.
    link : Out
        To the neighbour, from registers.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        self.geometry = g = geometry
        flit = LinkLayout(g)
        super().__init__(
            {
                "groups": In(stream.Signature(GroupLayout(g))),
                "header": In(HeaderLayout()),
                "flushes": In(1),
                "blocks": In(stream.Signature(RunOfBlockLayout(g))),
                "passing": In(stream.Signature(flit)),
                "passing_last": In(1),
                "link": Out(stream.Signature(flit)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a choice, and the registers of the link."""
        m = Module()
        g, group = self.geometry, self.groups.payload
        run, block = self.blocks.payload.run, self.blocks.payload.block

        # Which flit of the own block.
        begun, count = Signal(), Signal(g.index_bits)
        index, last = Signal(g.index_bits), Signal()
        lowest, highest = run.low >> g.word_bits, run.high >> g.word_bits
        m.d.comb += [
            index.eq(Mux(begun, count, lowest)),
            last.eq(group.header | (index == highest)),
        ]
        own = Signal(LinkLayout(g))
        with m.If(group.header):
            m.d.comb += own.header.eq(self.header)
        with m.Else():
            m.d.comb += own.part.scale.eq(block.scale.word_select(index, g.scale_bits))
            for i in range(g.flit_words):
                words = [block.words[at] for at in range(i, BLOCK_WORDS, g.flit_words)]
                word = Signal(32, name=f"word{i}")
                for flit, value in enumerate(words):
                    with m.If(index == flit):
                        m.d.comb += word.eq(value)
                m.d.comb += own.part.words[i].eq(Mux(self.flushes, flush(word), word))

        room, some, go, ends = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            room.eq(~self.link.valid | self.link.ready),
            some.eq(Mux(group.own, group.header | self.blocks.valid, self.passing.valid)),
            go.eq(self.groups.valid & some & room),
            ends.eq(go & Mux(group.own, last, self.passing_last)),
            self.groups.ready.eq(ends),
            self.blocks.ready.eq(ends & group.own & ~group.header),
            self.passing.ready.eq(self.groups.valid & ~group.own & room),
        ]
        with m.If(room):
            m.d.sync += self.link.valid.eq(self.groups.valid & some)
        with m.If(go):
            m.d.sync += [
                self.link.payload.eq(Mux(group.own, own.as_value(), self.passing.payload)),
                begun.eq(~ends),
                count.eq(index + 1),
            ]
        return m
