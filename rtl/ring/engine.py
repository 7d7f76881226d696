"""A node of the ring: the engine that executes `collective`."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, SLOT, Collective, Place
from rtl.counters import Counter, step_signature
from rtl.l1.share import L1UserSignature
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
from rtl.ring.memory import BlockMemory
from rtl.ring.registers import BlockReads, BlockWrites
from rtl.vec.ports import LineReadSignature, LineWriteLayout
from rtl.vec.queue import CommandQueue

OPERATIONS = 4
"""Instructions that may wait."""

COUNTERS = (
    Counter("instructions", "instructions done"),
    Counter("failed", "of these, those that moved nothing because they could not"),
    Counter("active", "cycles in which there was one"),
    Counter("stalled_tiles", "cycles in which not all tiles had said what they are about to do"),
    Counter("stalled_links", "cycles in which a flit waited for a neighbour", step_bits=2),
    Counter("stalled_registers", "cycles in which a block waited for a port of the registers"),
    Counter("stalled_l1", "cycles in which L1 did not take a request"),
    Counter("sent_up", "flits sent up, those that pass by and headers included"),
    Counter("sent_down", "flits sent down, likewise"),
)
"""What a node counts; where both links wait in a cycle, that is two."""


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
        done before; or it names a tile that there is not, or a sum of blocks; or this tile is not
        `present`.
    memory_failed : Out
        A word could not be read from memory.
    place : In
        Where the node is; constant while there are instructions.
    up_in, up_out : In, Out
        Links from the tile before, and to the tile behind.
    down_in, down_out : In, Out
        Links from the tile behind, and to the tile before.
    read, write : Out
        Ports of the vector registers.
    cache : Out
        To L1, see `rtl.l1.share.L1UserSignature`.
    events : Out
        Steps of `COUNTERS`.
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
                "memory_failed": Out(1),
                "place": In(PlaceLayout()),
                "up_in": In(link),
                "up_out": Out(link),
                "down_in": In(link),
                "down_out": Out(link),
                "read": Out(LineReadSignature(g.vectors)),
                "write": Out(stream.Signature(LineWriteLayout(g.vectors))),
                "cache": Out(L1UserSignature(g.cache)),
                "events": Out(step_signature(COUNTERS)),
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
        m.submodules.memory = memory = BlockMemory(g)
        o, header = queue.head.payload, Signal(HeaderLayout())
        # A node in reset takes nothing: it would lose it.
        awake = ~ResetSignal()
        for given, taken in (
            (self.operations, queue.commands),
            (self.up_in, up.link_in),
            (self.down_in, down.link_in),
        ):
            m.d.comb += [
                taken.valid.eq(given.valid & awake),
                given.ready.eq(taken.ready & awake),
            ]
        coming, given = queue.commands.payload, self.operations.payload
        m.d.comb += [
            up.link_in.payload.eq(self.up_in.payload),
            down.link_in.payload.eq(self.down_in.payload),
            *(coming[name].eq(given[name]) for name, _ in OperationLayout()),
            coming.address.eq(given.address + given.address_offset),
            coming.result.eq(given.result + given.result_offset),
            *(header[name].eq(o[name]) for name in ("kind", "place", "count", "root")),
        ]

        alone = place.tiles == 1
        blocks, words = o.place == Place.BLOCKS.value, o.place == Place.WORDS.value
        gathers, broadcasts = o.kind == Collective.ALL_GATHER.value, Signal()
        scatters, reduces = Signal(), Signal()  # the first half of an all-reduce scatters
        maximum, barrier, legal = Signal(), Signal(), Signal()
        plan = Signal(PlanLayout(g))
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
                | ((gathers | scatters | reduces | broadcasts) & (words | plan.memory))
            ),
        ]
        with m.If(broadcasts & (o.root >= place.tiles)):
            m.d.comb += legal.eq(0)

        # In its second half, an all-reduce gathers what it has scattered.
        second, first = Signal(), Signal(g.count_bits)
        source_block, to_block = Signal(g.place_bits), Signal(g.place_bits)
        slot_blocks = SLOT // BLOCK_WORDS
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
            plan.memory.eq(o.place == Place.MEMORY.value),
            plan.address.eq(Mux(second, o.result, o.address)),
            plan.result.eq(o.result),
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
            idle.eq(up.idle & down.idle & memory.idle),
            divider.start.eq(greet),
            divider.count.eq(o.count),
            divider.tiles.eq(place.tiles),
            self.done.eq(ends),
            self.failed.eq(ends & fails),
            queue.head.ready.eq(ends),
            fails.eq(differs | ~legal | ~place.present),
        ]
        with m.If(up.differs | down.differs):
            m.d.sync += differs.eq(1)
        with m.If(ends):
            m.d.sync += [header.sequence.eq(header.sequence + 1), differs.eq(0), second.eq(0)]
        with m.FSM() as fsm:
            with m.State("rest"), m.If(queue.head.valid):
                with m.If(place.present):
                    m.d.comb += greet.eq(1)
                    m.next = "greet"
                with m.Else():
                    m.d.comb += ends.eq(1)
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

        for i, way in enumerate((up, down)):
            m.d.comb += [
                way.place.eq(place),
                way.plan.eq(plan),
                way.header.eq(header),
                way.greet.eq(greet),
                way.move.eq(move),
                way.arrives.eq(Cat(reads.arrives[i], reads.arrives[2 + i])),
                way.found.eq(reads.found),
            ]
        connect(m, up.link_out, flipped(self.up_out))
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
            reads.memory.eq(plan.memory),
            reads.memory_arrives.eq(memory.arrives),
            reads.memory_found.eq(memory.found),
            writes.memory.eq(plan.memory),
            memory.address.eq(plan.address),
            memory.result.eq(plan.result),
            self.memory_failed.eq(memory.failed),
        ]
        connect(m, reads.memory_reads, memory.reads)
        connect(m, writes.memory_writes, memory.writes)
        connect(m, memory.cache, flipped(self.cache))
        connect(m, reads.lines, flipped(self.read))
        connect(m, writes.lines, flipped(self.write))

        links, events = (self.up_out, self.down_out), self.events
        ports = (self.read.requests, self.write)
        cache = self.cache.requests
        m.d.comb += [
            events.instructions.eq(ends),
            events.failed.eq(self.failed),
            events.active.eq(queue.head.valid),
            events.stalled_tiles.eq(fsm.ongoing("greet") & ~idle),
            events.stalled_links.eq(sum(link.valid & ~link.ready for link in links)),
            events.stalled_registers.eq(Cat(port.valid & ~port.ready for port in ports).any()),
            events.stalled_l1.eq(cache.valid & ~cache.ready),
            events.sent_up.eq(self.up_out.valid & self.up_out.ready),
            events.sent_down.eq(self.down_out.valid & self.down_out.ready),
        ]
        return m
