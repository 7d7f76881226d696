"""Which flits pass a node, and in which order."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.core.isa import BLOCK_WORDS
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import (
    RANK_BITS,
    TILES_BITS,
    WORD_BITS,
    GroupLayout,
    Mode,
    PlaceLayout,
    PlanLayout,
)


class Walk(wiring.Component):
    """Go through the groups of one direction.

    Data goes in *rounds*: the first block of every share, then the second, and so on. In a round, a
    tile sends its own block and then those of the tiles before it, the nearest first. So a block is
    passed on as it comes, and a node never has to keep more than one of them.

    Parameters
    ----------
    geometry
        Sizes.
    upward
        Whether this is the direction of rising tile numbers.

    Members
    -------
    place, plan : In
        Where the node is, and what is done.
    greet, move : In
        Begin with the headers, or with the data.
    groups : Out
        What passes the node. Those that neither come from the neighbour nor go on are to be copied.
    busy : Out
        There is more to come.
    """

    def __init__(self, geometry: RingGeometry, *, upward: bool) -> None:
        self.geometry = g = geometry
        self.upward = upward
        super().__init__(
            {
                "place": In(PlaceLayout()),
                "plan": In(PlanLayout(g)),
                "greet": In(1),
                "move": In(1),
                "groups": Out(stream.Signature(GroupLayout(g))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return counters of rounds, hops and shares."""
        m = Module()
        g, plan, group = self.geometry, self.plan, self.groups.payload
        tiles, rank = self.place.tiles, self.place.rank
        reduces = plan.mode == Mode.REDUCE

        going, turning, another = Signal(), Signal(), Signal()
        header = Signal()
        round_ = Signal(g.block_bits + 1)
        hop = Signal(TILES_BITS)
        tile, at = Signal(RANK_BITS), Signal(g.count_bits)  # the share, and where it begins
        first_tile, first_at = Signal(RANK_BITS), Signal(g.count_bits)

        # The share that comes next is that of the tile before, seen along the way.
        longer, next_longer = Signal(), Signal()
        length = Signal(g.count_bits)
        next_tile, next_at = Signal(RANK_BITS), Signal(g.count_bits)
        m.d.comb += [
            longer.eq(tile < plan.rest),
            length.eq(plan.each + longer),
            next_longer.eq(next_tile < plan.rest),
        ]
        if self.upward:
            m.d.comb += next_tile.eq(Mux(tile == 0, tiles - 1, tile - 1))
            # The last share is never a longer one.
            m.d.comb += next_at.eq(
                Mux(tile == 0, plan.count, at) - plan.each - (next_longer & (tile != 0))
            )
        else:
            last = tile + 1 == tiles
            m.d.comb += next_tile.eq(Mux(last, 0, tile + 1))
            m.d.comb += next_at.eq(Mux(last, 0, at + length))

        # What goes this way of it, in words of the whole.
        half = Signal(g.count_bits)
        begin, end = Signal(g.count_bits), Signal(g.count_bits)
        from_, to = Signal(g.count_bits), Signal(g.count_bits)
        m.d.comb += [half.eq((length + 1) >> 1), from_.eq(at), to.eq(at + length)]
        with m.If(plan.mode == Mode.BROADCAST):
            m.d.comb += [from_.eq(0), to.eq(plan.count)]
        with m.Elif(reduces):
            m.d.comb += to.eq(at + half) if self.upward else from_.eq(at + half)
        m.d.comb += [
            begin.eq(Mux(plan.blocks, from_ << WORD_BITS, from_)),
            end.eq(Mux(plan.blocks, to << WORD_BITS, to)),
        ]
        block, last_block = Signal(g.block_bits + 1), Signal(g.block_bits + 1)
        there, more = Signal(), Signal()
        m.d.comb += [
            block.eq((begin >> WORD_BITS) + round_),
            last_block.eq((end - 1) >> WORD_BITS),
            there.eq((begin < end) & (block <= last_block)),
            more.eq((begin < end) & (block < last_block)),
        ]

        # How many hops it goes. Where two ways are equally long, every other block goes each way.
        mine = Signal()  # the blocks of this round go this way
        reach, last_hop = Signal(TILES_BITS), Signal(TILES_BITS)
        distance = Signal(RANK_BITS)
        ahead = rank - plan.root if self.upward else plan.root - rank
        m.d.comb += [
            mine.eq(header == self.upward),
            distance.eq(Mux(ahead < 0, ahead + tiles, ahead)),
        ]
        with m.If(~header):
            m.d.comb += mine.eq(round_[0] != self.upward)
        m.d.comb += [reach.eq((tiles - ~mine) >> 1), last_hop.eq(tiles >> 1)]
        with m.If(~header & (plan.mode == Mode.BROADCAST)):
            m.d.comb += [reach.eq(Mux(mine, tiles - 1, 0)), last_hop.eq(distance)]
        with m.If(~header & reduces):
            m.d.comb += [reach.eq(tiles - 1), last_hop.eq(tiles - 1)]

        passes, copies = Signal(), Signal()
        m.d.comb += [
            passes.eq((hop <= reach) & (reach != 0)),
            # One direction is enough to copy.
            copies.eq(~header & (hop == 0) & plan.keep & ~reduces if self.upward else 0),
            self.busy.eq(going | turning),
            self.groups.valid.eq(going & (header | there) & (passes | copies)),
            group.header.eq(header),
            group.own.eq(hop == 0),
            group.send.eq(hop < reach),
            group.run.block.eq(block),
            group.run.low.eq(Mux(round_ == 0, begin[:WORD_BITS], 0)),
            group.run.high.eq(Mux(block == last_block, (end - 1)[:WORD_BITS], BLOCK_WORDS - 1)),
        ]

        first_hop = Mux(plan.mode == Mode.BROADCAST, distance, 0)
        with m.If(self.greet):
            m.d.sync += [going.eq(1), header.eq(1), hop.eq(0)]
        with m.If(self.move):
            m.d.sync += [
                going.eq(~reduces),
                turning.eq(reduces),
                header.eq(0),
                round_.eq(0),
                another.eq(0),
                hop.eq(first_hop),
                *(tile_.eq(rank) for tile_ in (tile, first_tile)),
                *(at_.eq(plan.first) for at_ in (at, first_at)),
            ]
        with m.If(turning):
            # A sum ends at the tile that it belongs to, so it begins with that of the next share.
            m.d.sync += [
                going.eq(1),
                turning.eq(0),
                *(tile_.eq(next_tile) for tile_ in (tile, first_tile)),
                *(at_.eq(next_at) for at_ in (at, first_at)),
            ]
        with m.If(going & (~self.groups.valid | self.groups.ready)):
            m.d.sync += [hop.eq(hop + 1), tile.eq(next_tile), at.eq(next_at)]
            m.d.sync += another.eq(another | more)
            with m.If(hop == last_hop):
                m.d.sync += [
                    round_.eq(round_ + 1),
                    another.eq(0),
                    hop.eq(first_hop),
                    tile.eq(first_tile),
                    at.eq(first_at),
                    going.eq(~header & (another | more)),
                ]
        return m
