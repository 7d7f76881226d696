"""The message engine: what executes `send`, `receive` and `remote`."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, OPCODES, SLOT, Place
from rtl.counters import Counter, step_signature
from rtl.l1.share import L1UserSignature
from rtl.message.fetch import Fetch
from rtl.message.frames import Deframer, Framer
from rtl.message.geometry import MessageGeometry
from rtl.message.inbox import Inbox
from rtl.message.layouts import (
    OPERATION_BITS,
    RECEIVE,
    REMOTE,
    SEND,
    SLOT_BITS,
    TILE_BITS,
    AnnouncementLayout,
    RequestLayout,
    place,
)
from rtl.message.outbox import Outbox
from rtl.message.registers import RegisterBlocks
from rtl.message.serve import Serve
from rtl.noc.link import FlitLayout
from rtl.vec.ports import LineReadSignature, LineWriteLayout, WordWriteLayout
from rtl.vec.queue import CommandQueue

OPERATIONS = 4
"""Instructions that may wait."""

COUNTERS = (
    Counter("instructions", "instructions done"),
    Counter("failed", "of these, those that could not be done"),
    Counter("sent", "messages sent"),
    Counter("received", "messages taken"),
    Counter("read", "remote reads done"),
    Counter("served", "messages and pieces of memory given to those who asked"),
    Counter("flits_sent", "flits sent, of both networks", step_bits=2),
    Counter("flits_received", "flits that came, of both networks", step_bits=2),
    Counter("active", "cycles in which there was an instruction"),
    Counter("stalled_room", "cycles in which a send waited for a message to be taken"),
    Counter("stalled_message", "cycles in which a receive waited for a message"),
    Counter("stalled_data", "cycles in which data that was asked for had not all come"),
    Counter("stalled_network", "cycles in which a flit waited for a network", step_bits=2),
)
"""What an engine counts; where flits of both networks wait or pass in a cycle, that is two."""


class MessageEngine(wiring.Component):
    """Execute messages and remote reads, in the order of the program.

    A message stays in its sender's outbox and is announced. Who receives it asks for it, as a
    remote read asks for memory, and it comes right into the register. What others ask for is given
    whatever the own program does.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Instructions, in the order of the program, as an engine gets them.
    done : Out
        The oldest of them has ended; they end in their order.
    failed : Out
        It names a tile or a place that there is not, or its message was another than expected and
        is lost, or memory could not be read, and what came instead is undefined.
    number : In
        Which tile this is: its place in the mesh, x first; constant from reset on.
    requests_out, requests_in, replies_out, replies_in : Out, In
        Flits to and from the two networks.
    cache : Out
        To L1, for others who read this tile's memory.
    reading : Out
        Something that was asked of L1 has not come.
    lines_read, lines_write, words_write : Out
        Ports of the registers.
    events : Out
        Steps of `COUNTERS`.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = MessageGeometry(config)
        vectors = g.vectors
        flits = stream.Signature(FlitLayout(config.flit_bytes))
        super().__init__(
            {
                "operations": In(stream.Signature(OPERATION_BITS)),
                "done": Out(1),
                "failed": Out(1),
                "number": In(TILE_BITS),
                "requests_out": Out(flits),
                "requests_in": In(flits),
                "replies_out": Out(flits),
                "replies_in": In(flits),
                "cache": Out(L1UserSignature(g.cache)),
                "reading": Out(1),
                "lines_read": Out(LineReadSignature(vectors)),
                "lines_write": Out(stream.Signature(LineWriteLayout(vectors))),
                "words_write": Out(stream.Signature(WordWriteLayout(vectors))),
                "events": Out(step_signature(COUNTERS)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the parts, and what goes from instruction to instruction."""
        m = Module()
        g, flit_bytes = self.geometry, self.config.flit_bytes
        m.submodules.queue = queue = CommandQueue(OPERATION_BITS, OPERATIONS)
        m.submodules.registers = registers = RegisterBlocks(g)
        m.submodules.outbox = outbox = Outbox(g)
        m.submodules.inbox = inbox = Inbox(g)
        m.submodules.serve = serve = Serve(g)
        m.submodules.fetch = fetch = Fetch(g)
        m.submodules.framer = framer = Framer(RequestLayout(g), flit_bytes)
        m.submodules.deframer = deframer = Deframer(RequestLayout(g), flit_bytes)

        # An engine in reset takes nothing: it would lose it.
        awake = ~ResetSignal()
        for given, taken in (
            (self.operations, queue.commands),
            (self.requests_in, deframer.flits),
            (self.replies_in, fetch.flits),
        ):
            m.d.comb += [
                Value.cast(taken.payload).eq(Value.cast(given.payload)),
                taken.valid.eq(given.valid & awake),
                given.ready.eq(taken.ready & awake),
            ]
        connect(m, framer.flits, flipped(self.requests_out))
        connect(m, serve.flits, flipped(self.replies_out))
        connect(m, serve.cache, flipped(self.cache))
        connect(m, registers.lines_read, flipped(self.lines_read))
        connect(m, registers.lines_write, flipped(self.lines_write))
        connect(m, fetch.writes, registers.writes)

        # What others say.
        came = deframer.frames.payload
        m.d.comb += [
            inbox.announced.payload.eq(came.about.announcement),
            inbox.announced.valid.eq(deframer.frames.valid & ~came.asks),
            serve.asks.payload.eq(came.about.ask),
            serve.asks.valid.eq(deframer.frames.valid & came.asks),
            deframer.frames.ready.eq(Mux(came.asks, serve.asks.ready, inbox.announced.ready)),
            outbox.read.eq(serve.read),
            outbox.read_place.eq(serve.place),
            serve.found.eq(outbox.found),
            outbox.release.eq(serve.release),
            outbox.released.eq(serve.released),
            self.reading.eq(serve.reading),
        ]

        # The instruction.
        send, receive, remote = (
            data.View(layout, queue.head.payload[: layout.size])
            for layout in (SEND, RECEIVE, REMOTE)
        )
        sends = send.opcode == OPCODES["send"].number
        receives = send.opcode == OPCODES["receive"].number

        def choose(name: str, of_remote: Any) -> Value:
            return Mux(sends, send[name], Mux(receives, receive[name], of_remote))

        tile, blocks, legal = Signal(TILE_BITS), Signal(), Signal()
        count = Signal(len(send.count))
        offset, first = Signal(len(send.offset)), Signal(g.block_bits)
        any_tile = receives & receive.any_tile
        envelope = receives & (receive.any_tile | receive.any_tag)
        kind = choose("place", Place.WORDS.value)
        m.d.comb += [
            tile.eq(choose("tile", remote.tile)),
            count.eq(choose("count", remote.count)),
            offset.eq(choose("offset", remote.offset)),
            blocks.eq(kind == Place.BLOCKS.value),
            first.eq(Mux(blocks, offset, offset * (SLOT // BLOCK_WORDS))),
            legal.eq(
                (any_tile | (tile < g.tiles))
                & (kind != Place.MEMORY.value)
                & Mux(
                    blocks,
                    offset + count <= g.blocks,
                    offset * SLOT + count <= self.config.vector_length,
                )
                & (sends | receives | ((remote.address + remote.address_offset)[:2] == 0))
            ),
        ]

        def blocks_of(count: Any, blocks: Any) -> Value:
            return Mux(blocks, count, (count + (BLOCK_WORDS - 1)) >> 3)

        message = Signal(AnnouncementLayout(g))  # the one that is received
        expected = Signal()
        amount = Mux(receives, blocks_of(message.count, message.blocks), blocks_of(count, blocks))
        m.d.comb += [
            expected.eq((message.blocks == blocks) & (message.count == count)),
            inbox.wanted.any_tile.eq(receive.any_tile),
            inbox.wanted.any_tag.eq(receive.any_tag),
            inbox.wanted.tile.eq(receive.tile),
            inbox.wanted.tag.eq(receive.tag),
            fetch.blocks.eq(amount),
            fetch.high.eq(Mux(blocks, BLOCK_WORDS - 1, count - 1)),
            fetch.drop.eq(receives & ~expected),
            registers.source.eq(send.source),
            registers.to.eq(Mux(receives, receive.to, remote.to)),
            registers.base.eq(first),
            registers.scaled.eq(blocks),
        ]

        # Into the outbox: a block is read in the cycle before it is written.
        slot, index = Signal(SLOT_BITS), Signal(g.blocks_bits)
        asked, written = Signal(), Signal(g.blocks_bits)
        granted = registers.reads.valid & registers.reads.ready
        m.d.sync += [asked.eq(granted), written.eq(index)]
        m.d.comb += [
            registers.reads.payload.eq(index),
            outbox.write.eq(asked),
            outbox.place.slot.eq(slot),
            outbox.place.block.eq(written),
            outbox.block.eq(registers.found),
        ]

        # What is said to others.
        request, to = framer.frames.payload, Signal(TILE_BITS)
        announcement, ask = request.about.announcement, request.about.ask
        x, y = place(self.config.mesh, to)
        m.d.comb += [
            to.eq(Mux(receives, message.source, tile)),
            request.place.x.eq(x),
            request.place.y.eq(y),
            request.asks.eq(~sends),
        ]
        with m.If(sends):
            m.d.comb += [
                announcement.source.eq(self.number),
                announcement.slot.eq(slot),
                announcement.tag.eq(send.tag),
                announcement.blocks.eq(blocks),
                announcement.count.eq(count),
            ]
        with m.Else():
            m.d.comb += [
                ask.source.eq(self.number),
                ask.memory.eq(~receives),
                ask.where.eq(
                    Mux(receives, message.slot, (remote.address + remote.address_offset)[:32])
                ),
                ask.count.eq(Mux(receives, amount, count)),
            ]

        ends, fails = Signal(), Signal()
        words = self.words_write
        m.d.comb += [self.done.eq(ends), self.failed.eq(ends & fails), queue.head.ready.eq(ends)]
        m.d.comb += words.payload.address.register.eq(receive.envelope)
        with m.FSM() as fsm:
            with m.State("rest"), m.If(queue.head.valid):
                m.d.sync += [slot.eq(outbox.slot), index.eq(0)]
                with m.If(~legal):
                    m.d.comb += [ends.eq(1), fails.eq(1)]
                with m.Elif(receives):
                    m.next = "search"
                with m.Elif(~sends):
                    m.next = "say"
                with m.Elif(outbox.room):
                    m.d.comb += outbox.take.eq(1)
                    m.next = "keep"
            with m.State("keep"):
                m.d.comb += registers.reads.valid.eq(index != amount)
                with m.If(granted):
                    m.d.sync += index.eq(index + 1)
                with m.If((index == amount) & ~asked):
                    m.next = "say"
            with m.State("search"):
                m.d.comb += [inbox.search.eq(1), inbox.found.ready.eq(1)]
                with m.If(inbox.found.valid):
                    m.d.sync += message.eq(inbox.found.payload)
                    m.next = "say"
            with m.State("say"):
                m.d.comb += framer.frames.valid.eq(1)
                with m.If(framer.frames.ready):
                    m.d.comb += [ends.eq(sends), fetch.start.eq(~sends)]
                    m.next = "fetch"
                    with m.If(sends):
                        m.next = "rest"
            with m.State("fetch"), m.If(fetch.done):
                m.d.comb += fails.eq(fetch.failed | fetch.drop)
                m.next = "sender"
                with m.If(~envelope | fails):
                    m.d.comb += ends.eq(1)
                    m.next = "rest"
            with m.State("sender"):
                m.d.comb += [words.valid.eq(1), words.payload.word.eq(message.source)]
                with m.If(words.ready):
                    m.next = "tag"
            with m.State("tag"):
                m.d.comb += [
                    words.valid.eq(1),
                    words.payload.address.row.eq(1),
                    words.payload.word.eq(message.tag),
                    ends.eq(words.ready),
                ]
                with m.If(words.ready):
                    m.next = "rest"

        events, out = self.events, (self.requests_out, self.replies_out)
        into = (self.requests_in, self.replies_in)
        good = ends & ~fails
        m.d.comb += [
            events.instructions.eq(ends),
            events.failed.eq(self.failed),
            events.sent.eq(good & sends),
            events.received.eq(good & receives),
            events.read.eq(good & ~sends & ~receives),
            events.served.eq(serve.asks.valid & serve.asks.ready),
            events.flits_sent.eq(sum(link.valid & link.ready for link in out)),
            events.flits_received.eq(sum(link.valid & link.ready for link in into)),
            events.active.eq(queue.head.valid),
            events.stalled_room.eq(
                fsm.ongoing("rest") & queue.head.valid & legal & sends & ~outbox.room
            ),
            events.stalled_message.eq(fsm.ongoing("search") & ~inbox.found.valid),
            events.stalled_data.eq(fsm.ongoing("fetch") & ~fetch.done),
            events.stalled_network.eq(sum(link.valid & ~link.ready for link in out)),
        ]
        return m
