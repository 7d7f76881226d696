"""Engines on a real network, as they are tested by themselves: each with registers and memory."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.counters import CounterBank
from rtl.l1.share import L1UserSignature
from rtl.leaf import Leaf
from rtl.message.engine import COUNTERS, MessageEngine
from rtl.message.geometry import MessageGeometry
from rtl.message.layouts import OPERATION_BITS, TILE_BITS
from rtl.noc import Noc
from rtl.noc.link import FlitLayout
from rtl.vec.ports import LineReadSignature, LineWriteLayout, WordReadSignature
from rtl.vec.queue import CommandQueue
from rtl.vec.registers import RowRegisterFile, VectorRegisterFile

BEATS = 128
"""Beats of a tile's memory."""

STREAMS = ("requests_out", "requests_in", "replies_out", "replies_in")
"""Flits of a tile."""


class BeatLayout(data.StructLayout):
    """A beat that is written to memory: its number, and what it holds."""

    def __init__(self, geometry: MessageGeometry) -> None:
        super().__init__({"beat": range(BEATS), "data": 8 * geometry.cache.beat_bytes})


class BeatMemory(wiring.Component):
    """Memory behind the port of a cache; beyond its end, beats are poison.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    user : In
        Who reads it, as through L1.
    stall : In
        It takes nothing in this cycle.
    write : In
        A beat is written.
    beat : In
        It.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        self.geometry = geometry
        super().__init__(
            {
                "user": In(L1UserSignature(geometry.cache)),
                "stall": In(1),
                "write": In(1),
                "beat": In(BeatLayout(geometry)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return memory, and a queue of what was read."""
        m = Module()
        bits = 8 * self.geometry.cache.beat_bytes
        m.submodules.beats = beats = Memory(shape=bits, depth=BEATS, init=[])
        put, get = beats.write_port(), beats.read_port(domain="comb")
        m.submodules.queue = queue = CommandQueue(self.user.answers.payload.shape(), 2)
        request, beat = self.user.requests, self.user.requests.payload.beat
        m.d.comb += [
            put.addr.eq(self.beat.beat),
            put.data.eq(self.beat.data),
            put.en.eq(self.write),
            get.addr.eq(beat),
            queue.commands.valid.eq(request.valid & ~self.stall),
            queue.commands.payload.data.eq(get.data),
            queue.commands.payload.error.eq(beat >= BEATS),
            request.ready.eq(queue.commands.ready & ~self.stall),
        ]
        # Bytes that were not asked for may be anything.
        for i in range(bits // 8):
            with m.If(~request.payload.enable[i]):
                m.d.comb += queue.commands.payload.data[8 * i : 8 * i + 8].eq(0xA5)
        connect(m, queue.head, flipped(self.user.answers))
        return m


class MessageTile(Leaf):
    """An engine, its registers and its memory.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations, done, failed, number, requests_out, requests_in, replies_out, replies_in
        Of the engine, see `MessageEngine`.
    stall : In
        Streams of `STREAMS` that carry nothing in this cycle, and behind them memory.
    lines_read, lines_write, words_read : In
        Ports of the registers, for others, who go first.
    write, beat : In
        Memory is written.
    snapshot : In
        Copy the counters.
    counters : Out
        The copies, one behind the other.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        g = MessageGeometry(config)
        vectors, flits = g.vectors, stream.Signature(FlitLayout(config.flit_bytes))
        super().__init__(
            {
                "operations": In(stream.Signature(OPERATION_BITS)),
                "done": Out(1),
                "failed": Out(1),
                "number": In(TILE_BITS),
                **{name: (Out if "out" in name else In)(flits) for name in STREAMS},
                "stall": In(len(STREAMS) + 1),
                "lines_read": In(LineReadSignature(vectors)),
                "lines_write": In(stream.Signature(LineWriteLayout(vectors))),
                "words_read": In(WordReadSignature(vectors)),
                "write": In(1),
                "beat": In(BeatLayout(g)),
                "snapshot": In(1),
                "counters": Out(data.ArrayLayout(32, len(COUNTERS))),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module; there is one configuration in a design."""
        return "message_tile"

    def build(self, platform: Any) -> Module:
        """Return the parts, connected."""
        m = Module()
        g = MessageGeometry(self.config)
        m.submodules.engine = engine = MessageEngine(self.config)
        m.submodules.memory = memory = BeatMemory(g)
        m.submodules.counters = counters = CounterBank(COUNTERS)
        m.submodules.vectors = vectors = VectorRegisterFile(
            self.config, ("get_others", "get"), ("put_others", "put")
        )
        m.submodules.rows = rows = RowRegisterFile(self.config, ("get_others",), ("put",))
        connect(m, flipped(self.operations), engine.operations)
        connect(m, engine.lines_read, vectors.get)
        connect(m, engine.lines_write, vectors.put)
        connect(m, engine.words_write, rows.put)
        connect(m, flipped(self.lines_read), vectors.get_others)
        connect(m, flipped(self.lines_write), vectors.put_others)
        connect(m, flipped(self.words_read), rows.get_others)
        connect(m, engine.cache, memory.user)
        connect(m, engine.events, counters.step)
        m.d.comb += [
            engine.number.eq(self.number),
            self.done.eq(engine.done),
            self.failed.eq(engine.failed),
            memory.stall.eq(self.stall[len(STREAMS)]),
            memory.write.eq(self.write),
            memory.beat.eq(self.beat),
            counters.snapshot.eq(self.snapshot),
        ]
        for i, counter in enumerate(COUNTERS):
            m.d.comb += self.counters[i].eq(getattr(counters.copies, counter.name))
        for i, name in enumerate(STREAMS):
            given, taken = getattr(self, name), getattr(engine, name)
            if "out" in name:
                given, taken = taken, given
            m.d.comb += [
                Value.cast(taken.payload).eq(Value.cast(given.payload)),
                taken.valid.eq(given.valid & ~self.stall[i]),
                given.ready.eq(taken.ready & ~self.stall[i]),
            ]
        return m


class StandaloneMessages(wiring.Component):
    """A tile of those for every place in the mesh, and both networks between them.

    Parameters
    ----------
    config
        The configuration of the tiles, and how many there are.

    Members
    -------
    operations : In
        Instructions, of each tile.
    done, failed : Out
        Tiles that have done an instruction, and those of them that could not.
    stall : In
        What is stalled of each tile, see `MessageTile`.
    node : In
        The tile whose registers, memory and counters are read and written.
    lines_read, lines_write, words_read, write, beat, snapshot : In
        Ways to them.
    counters : Out
        Its counters, as of its last snapshot.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.noc = Noc(config)
        g = MessageGeometry(config)
        self.tiles = tiles = config.tiles
        vectors = g.vectors
        super().__init__(
            {
                "operations": In(stream.Signature(OPERATION_BITS)).array(tiles),
                "done": Out(tiles),
                "failed": Out(tiles),
                "stall": In((len(STREAMS) + 1) * tiles),
                "node": In(range(max(2, tiles))),
                "lines_read": In(LineReadSignature(vectors)),
                "lines_write": In(stream.Signature(LineWriteLayout(vectors))),
                "words_read": In(WordReadSignature(vectors)),
                "write": In(1),
                "beat": In(BeatLayout(g)),
                "snapshot": In(1),
                "counters": Out(data.ArrayLayout(32, len(COUNTERS))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return tiles and networks."""
        m = Module()
        m.submodules.noc = noc = self.noc
        stalls = len(STREAMS) + 1
        for i in range(self.tiles):
            m.submodules[f"tile{i}"] = tile = MessageTile(self.config)
            connect(m, flipped(self.operations[i]), tile.operations)
            connect(m, tile.requests_out, noc.requests.inject[i])
            connect(m, noc.requests.eject[i], tile.requests_in)
            connect(m, tile.replies_out, noc.replies.inject[i])
            connect(m, noc.replies.eject[i], tile.replies_in)
            chosen = self.node == i
            m.d.comb += [
                self.done[i].eq(tile.done),
                self.failed[i].eq(tile.failed),
                tile.number.eq(i),
                tile.stall.eq(self.stall[stalls * i : stalls * (i + 1)]),
                tile.write.eq(self.write & chosen),
                tile.beat.eq(self.beat),
                tile.snapshot.eq(self.snapshot & chosen),
            ]
            for name in ("lines_read", "words_read"):
                outer, inner = getattr(self, name), getattr(tile, name)
                m.d.comb += [
                    inner.requests.payload.eq(outer.requests.payload),
                    inner.requests.valid.eq(outer.requests.valid & chosen),
                ]
            m.d.comb += [
                tile.lines_write.payload.eq(self.lines_write.payload),
                tile.lines_write.valid.eq(self.lines_write.valid & chosen),
            ]
            with m.If(chosen):
                m.d.comb += [
                    self.lines_write.ready.eq(tile.lines_write.ready),
                    self.lines_read.requests.ready.eq(tile.lines_read.requests.ready),
                    self.lines_read.words.eq(tile.lines_read.words),
                    self.lines_read.scales.eq(tile.lines_read.scales),
                    self.words_read.requests.ready.eq(tile.words_read.requests.ready),
                    self.words_read.word.eq(tile.words_read.word),
                    self.counters.eq(tile.counters),
                ]
        return m
