"""One direction of a node."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.core.isa import BLOCK_WORDS
from rtl.ring.assemble import Assemble
from rtl.ring.buffer import LinkBuffer
from rtl.ring.combine import Combine
from rtl.ring.fetch import BlockFetcher
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import (
    BlockLayout,
    GroupLayout,
    HeaderLayout,
    LinkLayout,
    Mode,
    PlaceLayout,
    PlanLayout,
    RunLayout,
    RunOfBlockLayout,
)
from rtl.ring.receive import Receive
from rtl.ring.send import Send
from rtl.ring.walk import Walk
from rtl.vec.compare import flush
from rtl.vec.queue import CommandQueue

GROUPS = 16
"""Groups that may be known ahead, so that their blocks are read in time."""


class Direction(wiring.Component):
    """Everything that goes around one way.

    Parameters
    ----------
    geometry
        Sizes.
    upward
        Whether to tiles of rising numbers.

    Members
    -------
    place, plan, header : In
        Where the node is, what is done, and what is said about it.
    greet, move : In
        Exchange headers, or data.
    idle : Out
        That has ended, and everything that came is written.
    differs : Out
        A header is not that of this tile.
    link_in, link_out : In, Out
        From one neighbour, and to the other.
    reads, beside : Out
        What is read: to be sent, and to be combined with what comes or copied.
    arrives : In
        Of each of the two: what it asked for first has come.
    found : In
        That block.
    writes, copies : Out
        Blocks that are written.
    """

    def __init__(self, geometry: RingGeometry, *, upward: bool) -> None:
        self.geometry = g = geometry
        self.upward = upward
        flits, runs = stream.Signature(LinkLayout(g)), stream.Signature(RunOfBlockLayout(g))
        super().__init__(
            {
                "place": In(PlaceLayout()),
                "plan": In(PlanLayout(g)),
                "header": In(HeaderLayout()),
                "greet": In(1),
                "move": In(1),
                "idle": Out(1),
                "differs": Out(1),
                "link_in": In(flits),
                "link_out": Out(flits),
                "reads": Out(stream.Signature(RunLayout(g))),
                "beside": Out(stream.Signature(RunLayout(g))),
                "arrives": In(2),
                "found": In(BlockLayout()),
                "writes": Out(runs),
                "copies": Out(runs),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the parts, connected."""
        m = Module()
        g, plan = self.geometry, self.plan
        m.submodules.walk = walk = Walk(g, upward=self.upward)
        m.submodules.sent = sent = CommandQueue(GroupLayout(g), GROUPS)
        m.submodules.received = received = CommandQueue(GroupLayout(g), GROUPS)
        m.submodules.own = own = BlockFetcher(g)
        m.submodules.beside = beside = BlockFetcher(g)
        m.submodules.buffer = buffer = LinkBuffer(LinkLayout(g), g.buffer_flits)
        m.submodules.receive = receive = Receive(g)
        m.submodules.combine = combine = Combine(g)
        m.submodules.assemble = assemble = Assemble(g)
        m.submodules.send = send = Send(g)
        reduces = Signal()
        m.d.comb += reduces.eq(plan.mode == Mode.REDUCE)

        # A group goes to all who have to do with it at once.
        group = walk.groups.payload
        data = ~group.header
        keeps = data & ~reduces & plan.keep if self.upward else Const(0)
        takers: list[tuple[Any, Value]] = [
            (sent.commands, group.send),
            (received.commands, ~group.own),
            (own.runs, data & group.own & group.send),
            (beside.runs, Mux(group.own, keeps, data & reduces)),
        ]
        m.d.comb += walk.groups.ready.eq(Cat(taker.ready for taker, _ in takers).all())
        for taker, wanted in takers:
            m.d.comb += taker.valid.eq(walk.groups.valid & walk.groups.ready & wanted)
        m.d.comb += [
            walk.place.eq(self.place),
            walk.plan.eq(plan),
            walk.greet.eq(self.greet),
            walk.move.eq(self.move),
            sent.commands.payload.eq(group),
            received.commands.payload.eq(group),
            own.runs.payload.eq(group.run),
            beside.runs.payload.eq(group.run),
        ]
        connect(m, own.requests, flipped(self.reads))
        connect(m, beside.requests, flipped(self.beside))
        for fetcher, arrives in zip((own, beside), self.arrives, strict=True):
            m.d.comb += [fetcher.found.eq(self.found), fetcher.arrives.eq(arrives)]

        # Flits come, meet what the tile has, and go on or are written.
        connect(m, flipped(self.link_in), buffer.link)
        connect(m, received.head, receive.groups)
        connect(m, receive.arrivals, combine.arrivals)
        out, block = combine.out, beside.blocks.payload.block
        combines = reduces & ~received.head.payload.header
        m.d.comb += [
            receive.header.eq(self.header),
            receive.reduces.eq(reduces),
            receive.paired.eq(beside.blocks.valid),
            receive.flits.payload.eq(buffer.flits.payload),
            receive.flits.valid.eq(buffer.flits.valid & self.place.present),
            combine.combines.eq(combines | combine.busy),
            combine.maximum.eq(plan.maximum),
            combine.own.eq(block),
            self.differs.eq(receive.differs),
            out.ready.eq(
                (~out.payload.send | send.passing.ready)
                & (~out.payload.write | assemble.arrivals.ready)
            ),
            assemble.arrivals.payload.eq(out.payload),
            assemble.arrivals.valid.eq(out.valid & out.ready & out.payload.write),
        ]
        connect(m, assemble.runs, flipped(self.writes))

        # What the tile gives is copied beside, where it does not have to wait for the link.
        m.d.comb += [
            self.copies.valid.eq(beside.blocks.valid & ~reduces),
            self.copies.payload.run.eq(beside.blocks.payload.run),
            self.copies.payload.block.eq(block),
            beside.blocks.ready.eq(
                Mux(reduces, received.head.ready & ~received.head.payload.header, self.copies.ready)
            ),
        ]
        for i in range(BLOCK_WORDS):
            with m.If(plan.flush):
                m.d.comb += self.copies.payload.block.words[i].eq(flush(block.words[i]))

        # Past a tile that is absent, everything goes on as it comes.
        present = self.place.present
        always = Signal(GroupLayout(g))
        m.d.comb += [
            send.groups.payload.eq(Mux(present, sent.head.payload.as_value(), always.as_value())),
            send.groups.valid.eq(sent.head.valid | ~present),
            sent.head.ready.eq(send.groups.ready),
            send.header.eq(self.header),
            send.flushes.eq(reduces),
            send.passing.payload.eq(
                Mux(present, out.payload.flit.as_value(), buffer.flits.payload.as_value())
            ),
            send.passing.valid.eq(
                Mux(
                    present,
                    out.valid & out.payload.send & (~out.payload.write | assemble.arrivals.ready),
                    buffer.flits.valid,
                )
            ),
            send.passing_last.eq(out.payload.last & present),
            buffer.flits.ready.eq(Mux(present, receive.flits.ready, send.passing.ready)),
        ]
        connect(m, own.blocks, send.blocks)
        connect(m, send.link, flipped(self.link_out))
        m.d.comb += self.idle.eq(
            ~walk.busy
            & ~sent.head.valid
            & ~received.head.valid
            & own.idle
            & beside.idle
            & ~combine.busy
            & ~assemble.runs.valid
        )
        return m
