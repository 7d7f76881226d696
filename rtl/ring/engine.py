"""A node of the ring: the engine that executes `collective`."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, SLOT, Collective, Place
from rtl.ring.direction import Direction
from rtl.ring.divide import Divider
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import (
    COLLECTIVE,
    HeaderLayout,
    LinkLayout,
    Mode,
    OperationLayout,
    PlaceLayout,
    PlanLayout,
)
from rtl.ring.registers import BlockReads, BlockWrites
from rtl.vec.ports import LineReadSignature, LineWriteLayout
from rtl.vec.queue import CommandQueue

OPERATIONS = 4
"""Instructions that may wait."""


class RingEngine(wiring.Component):
    """Execute `collective` together with the engines of all other tiles.

    Each operation begins with a round of headers: what kind it is and how much it moves. Data moves
    when a tile has seen that all agree. If they do not, or if it is nothing that engines can do,
    every tile says so, moves nothing, and goes on with the next operation.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Instructions, in the order of the program.
    done : Out
        The oldest of them has ended; they end in their order.
    failed : Out
        It has moved nothing: tiles differ in kind, place, count or root, or how many they have
        done before; or it names memory, a tile that there is not, or a sum of blocks.
    place : In
        Where the node is; constant from reset on.
    up_in, up_out : In, Out
        Links from the tile before, and to the tile behind.
    down_in, down_out : In, Out
        Links from the tile behind, and to the tile before.
    read, write : Out
        Ports of the vector registers.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = RingGeometry(config)
        link = stream.Signature(LinkLayout(g))
        super().__init__(
            {
                "operations": In(stream.Signature(COLLECTIVE)),
                "done": Out(1),
                "failed": Out(1),
                "place": In(PlaceLayout()),
                "up_in": In(link),
                "up_out": Out(link),
                "down_in": In(link),
                "down_out": Out(link),
                "read": Out(LineReadSignature(g.vectors)),
                "write": Out(stream.Signature(LineWriteLayout(g.vectors))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return both directions, and what goes from operation to operation."""
        m = Module()
        g, place = self.geometry, self.place
        m.submodules.queue = queue = CommandQueue(OperationLayout(), OPERATIONS)
        m.submodules.divider = divider = Divider(g.count_bits)
        m.submodules.up = up = Direction(g, upward=True)
        m.submodules.down = down = Direction(g, upward=False)
        m.submodules.reads = reads = BlockReads(g, 4)
        m.submodules.writes = writes = BlockWrites(g, 3)
        o, header = queue.head.payload, Signal(HeaderLayout())
        m.d.comb += [
            queue.commands.valid.eq(self.operations.valid),
            self.operations.ready.eq(queue.commands.ready),
            *(
                queue.commands.payload[name].eq(self.operations.payload[name])
                for name, _ in OperationLayout()
            ),
            *(header[name].eq(o[name]) for name in ("kind", "place", "count", "root")),
        ]

        alone, blocks = place.tiles == 1, o.place == Place.BLOCKS.value
        gathers, broadcasts = o.kind == Collective.ALL_GATHER.value, Signal()
        scatters, reduces = Signal(), Signal()  # the first half of an all-reduce scatters
        maximum, barrier, legal = Signal(), Signal(), Signal()
        with m.Switch(o.kind):
            with m.Case(Collective.BROADCAST.value):
                m.d.comb += broadcasts.eq(1)
            with m.Case(
                Collective.REDUCE_SCATTER_SUM.value, Collective.REDUCE_SCATTER_MAXIMUM.value
            ):
                m.d.comb += scatters.eq(1)
            with m.Case(Collective.ALL_REDUCE_SUM.value, Collective.ALL_REDUCE_MAXIMUM.value):
                m.d.comb += reduces.eq(1)
            with m.Case(Collective.BARRIER.value):
                m.d.comb += barrier.eq(1)
        m.d.comb += [
            maximum.eq(
                (o.kind == Collective.REDUCE_SCATTER_MAXIMUM.value)
                | (o.kind == Collective.ALL_REDUCE_MAXIMUM.value)
            ),
            legal.eq(
                barrier
                | ((gathers | broadcasts) & blocks)
                | ((gathers | scatters | reduces | broadcasts) & (o.place == Place.WORDS.value))
            ),
        ]
        with m.If(broadcasts & (o.root >= place.tiles)):
            m.d.comb += legal.eq(0)

        # The plan. In its second half, an all-reduce gathers what it has scattered.
        second, first = Signal(), Signal(g.count_bits)
        source_block, to_block = Signal(g.block_bits), Signal(g.block_bits)
        slot_blocks = SLOT // BLOCK_WORDS
        plan = Signal(PlanLayout(g))
        m.d.comb += [
            source_block.eq(Mux(blocks, o.offset, o.offset * slot_blocks)),
            to_block.eq(Mux(blocks, o.result_slot, o.result_slot * slot_blocks)),
            plan.maximum.eq(maximum),
            plan.flush.eq(alone & (scatters | reduces)),
            plan.keep.eq(~second),
            plan.blocks.eq(blocks),
            plan.count.eq(o.count),
            plan.each.eq(divider.each),
            plan.rest.eq(divider.rest),
            plan.first.eq(first),
            plan.root.eq(o.root),
            plan.source.eq(Mux(second, o.to, o.source)),
            plan.to.eq(o.to),
            plan.source_block.eq(Mux(second, to_block, source_block)),
            plan.to_block.eq(to_block),
            plan.mode.eq(Mode.GATHER),
        ]
        with m.If(broadcasts):
            m.d.comb += plan.mode.eq(Mode.BROADCAST)
        with m.Elif((scatters | reduces) & ~second & ~alone):
            m.d.comb += plan.mode.eq(Mode.REDUCE)
        planned = Signal()
        rest = Mux(place.rank < divider.rest, place.rank, divider.rest)
        m.d.sync += [
            first.eq(place.rank * divider.each + rest),
            planned.eq(divider.done & ~divider.start),
        ]

        greet, move, idle = Signal(), Signal(), Signal()
        differs, ends, fails = Signal(), Signal(), Signal()
        m.d.comb += [
            idle.eq(up.idle & down.idle),
            divider.start.eq(greet),
            divider.count.eq(o.count),
            divider.tiles.eq(place.tiles),
            self.done.eq(ends),
            self.failed.eq(ends & fails),
            queue.head.ready.eq(ends),
            fails.eq(differs | ~legal),
        ]
        with m.If(up.differs | down.differs):
            m.d.sync += differs.eq(1)
        with m.If(ends):
            m.d.sync += [header.sequence.eq(header.sequence + 1), differs.eq(0), second.eq(0)]
        with m.FSM():
            with m.State("rest"), m.If(queue.head.valid & place.present):
                m.d.comb += greet.eq(1)
                m.next = "greet"
            with m.State("greet"), m.If(idle):
                with m.If(fails | barrier):
                    m.d.comb += ends.eq(1)
                    m.next = "rest"
                with m.Elif(planned):
                    m.d.comb += move.eq(1)
                    m.next = "move"
            with m.State("move"), m.If(idle):
                with m.If(reduces & ~alone & ~second):
                    m.d.sync += second.eq(1)
                    m.next = "turn"
                with m.Else():
                    m.d.comb += ends.eq(1)
                    m.next = "rest"
            with m.State("turn"):
                m.d.comb += move.eq(1)
                m.next = "move"

        for way in (up, down):
            m.d.comb += [
                way.place.eq(place),
                way.plan.eq(plan),
                way.header.eq(header),
                way.greet.eq(greet),
                way.move.eq(move),
                way.found.eq(reads.found),
            ]
        connect(m, flipped(self.up_in), up.link_in)
        connect(m, up.link_out, flipped(self.up_out))
        connect(m, flipped(self.down_in), down.link_in)
        connect(m, down.link_out, flipped(self.down_out))
        for i, reader in enumerate((up.reads, down.reads, up.beside, down.beside)):
            connect(m, reader, reads.requests[i])
        for i, writer in enumerate((up.writes, down.writes, up.copies)):
            connect(m, writer, writes.runs[i])
        m.d.comb += [
            reads.register.eq(plan.source),
            reads.base.eq(plan.source_block),
            writes.register.eq(plan.to),
            writes.base.eq(plan.to_block),
            writes.scaled.eq(plan.blocks),
        ]
        connect(m, reads.lines, flipped(self.read))
        connect(m, writes.lines, flipped(self.write))
        return m
