"""A whole ring, as it is tested and measured by itself: nodes, each with registers and memory."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Module,
    Mux,
    ResetSignal,
    Signal,
)
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.l1.share import L1UserSignature
from rtl.leaf import Leaf
from rtl.ring.engine import RingEngine
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import COLLECTIVE, LinkLayout, PlaceLayout
from rtl.vec.ports import LineReadSignature, LineWriteLayout
from rtl.vec.registers import VectorRegisterFile

OTHERS = "others"
"""Name of the ports that stand for the rest of a tile, which go first."""


MEMORY_BEATS = 256
"""Beats of the memory that stands for L1."""


class PokeLayout(data.StructLayout):
    """What others do with a memory.

    Members
    -------
    access : unsigned(1)
        They do something.
    write : unsigned(1)
        They write; or they read, and see what they read in the next cycle.
    beat : unsigned
        Which beat.
    data : unsigned
        What they write.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        bits = 8 * geometry.cache.beat_bytes
        super().__init__({"access": 1, "write": 1, "beat": range(MEMORY_BEATS), "data": bits})


class RingMemory(wiring.Component):
    """A memory that stands for L1 and all behind it.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    cache : In
        Port of the node.
    busy : In
        It takes and answers nothing in this cycle.
    poke, peeked : In, Out
        Port of others.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "cache": In(L1UserSignature(g.cache)),
                "busy": In(1),
                "poke": In(PokeLayout(g)),
                "peeked": Out(8 * g.cache.beat_bytes),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the memory, and a queue of answers."""
        m = Module()
        beat_bytes = self.geometry.cache.beat_bytes
        m.submodules.beats = beats = Memory(shape=8 * beat_bytes, depth=MEMORY_BEATS, init=[])
        put, get = beats.write_port(granularity=8), beats.read_port()
        m.submodules.answers = answers = SyncFIFO(width=8 * beat_bytes, depth=4)
        request, poke, asked = self.cache.requests, self.poke, Signal()
        takes, beat = Signal(), Mux(poke.access, poke.beat, request.payload.beat)
        m.d.comb += [
            request.ready.eq(~self.busy & ~poke.access & (answers.level + asked < 4)),
            takes.eq(request.valid & request.ready),
            put.addr.eq(beat),
            put.data.eq(Mux(poke.access, poke.data, request.payload.data)),
            put.en.eq(Mux(takes & request.payload.write, request.payload.enable, 0)),
            get.addr.eq(beat),
            get.en.eq(1),
            self.peeked.eq(get.data),
            answers.w_data.eq(get.data),
            answers.w_en.eq(asked),
            self.cache.answers.payload.data.eq(answers.r_data),
            self.cache.answers.valid.eq(answers.r_rdy & ~self.busy),
            answers.r_en.eq(self.cache.answers.ready & ~self.busy),
        ]
        with m.If(poke.access & poke.write):
            m.d.comb += put.en.eq(~0)
        m.d.sync += asked.eq(takes & ~request.payload.write)
        return m


class RingTile(Leaf):
    """A node, its registers and its memory.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    restart : In
        Reset the node, but not the registers.
    operations, done, failed, place, up_in, up_out, down_in, down_out
        Of the node, see `RingEngine`.
    lines_read, lines_write : In
        Ports of the registers, for others.
    busy, poke, peeked
        Of the memory, see `RingMemory`.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        g = RingGeometry(config)
        link = stream.Signature(LinkLayout(g))
        super().__init__(
            {
                "restart": In(1),
                "operations": In(stream.Signature(COLLECTIVE)),
                "done": Out(1),
                "failed": Out(1),
                "place": In(PlaceLayout()),
                "up_in": In(link),
                "up_out": Out(link),
                "down_in": In(link),
                "down_out": Out(link),
                "lines_read": In(LineReadSignature(g.vectors)),
                "lines_write": In(stream.Signature(LineWriteLayout(g.vectors))),
                "busy": In(1),
                "poke": In(PokeLayout(g)),
                "peeked": Out(8 * g.cache.beat_bytes),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module; there is one configuration in a design."""
        return "ring_tile"

    def build(self, platform: Any) -> Module:
        """Return node, registers and memory."""
        m = Module()
        node = RingEngine(self.config)
        m.domains.node = domain = ClockDomain(local=True)
        m.d.comb += [domain.clk.eq(ClockSignal()), domain.rst.eq(ResetSignal() | self.restart)]
        m.submodules.node = DomainRenamer("node")(node)
        m.submodules.vectors = vectors = VectorRegisterFile(
            self.config, (OTHERS, "get"), ("fill", "put")
        )
        m.submodules.memory = memory = RingMemory(node.geometry)
        connect(m, node.cache, memory.cache)
        m.d.comb += [
            memory.busy.eq(self.busy),
            memory.poke.eq(self.poke),
            self.peeked.eq(memory.peeked),
        ]
        connect(m, node.read, vectors.get)
        connect(m, node.write, vectors.put)
        connect(m, flipped(self.lines_read), getattr(vectors, OTHERS))
        connect(m, flipped(self.lines_write), vectors.fill)
        m.d.comb += [
            node.place.eq(self.place),
            self.done.eq(node.done),
            self.failed.eq(node.failed),
        ]
        for way in ("up", "down"):
            connect(m, getattr(node, f"{way}_out"), flipped(getattr(self, f"{way}_out")))
        for name in ("up_in", "down_in", "operations"):
            connect(m, flipped(getattr(self, name)), getattr(node, name))
        return m


class StandaloneRing(wiring.Component):
    """As many nodes as the chip has tiles, of which any may be absent.

    Parameters
    ----------
    config
        The configuration of the tiles, and how many there are.

    Members
    -------
    present : In
        Tiles that take part, at least one; constant from reset on.
    restart : In
        Tiles whose node is reset.
    stall : In
        What does nothing in this cycle: links up, then links down, by the tile they start from,
        then memories.
    operations : In
        Instructions, of each tile.
    done, failed : Out
        Tiles that have done an instruction, and those of them that could not.
    node : In
        The tile whose registers and memory are read and written.
    lines_read, lines_write : In
        Ports of its registers; they go first.
    poke, peeked : In, Out
        A port of its memory, likewise, see `PokeLayout`.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        g = RingGeometry(config)
        self.tiles = tiles = config.tiles
        super().__init__(
            {
                "present": In(tiles),
                "restart": In(tiles),
                "stall": In(3 * tiles),
                "operations": In(stream.Signature(COLLECTIVE)).array(tiles),
                "done": Out(tiles),
                "failed": Out(tiles),
                "node": In(range(max(2, tiles))),
                "poke": In(PokeLayout(g)),
                "peeked": Out(8 * g.cache.beat_bytes),
                "lines_read": In(LineReadSignature(g.vectors)),
                "lines_write": In(stream.Signature(LineWriteLayout(g.vectors))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a ring of nodes."""
        m = Module()
        nodes = [RingTile(self.config) for _ in range(self.tiles)]
        for i, node in enumerate(nodes):
            m.submodules[f"tile{i}"] = node
            connect(m, flipped(self.operations[i]), node.operations)
            place = Signal(PlaceLayout(), name=f"place{i}")
            chosen = self.node == i
            m.d.sync += [
                place.present.eq(self.present[i]),
                place.tiles.eq(sum(self.present)),
                place.rank.eq(sum(self.present[:i])),
            ]
            m.d.comb += [
                node.place.eq(place),
                node.restart.eq(self.restart[i]),
                node.busy.eq(self.stall[2 * self.tiles + i]),
                node.poke.eq(self.poke),
                node.poke.access.eq(self.poke.access & chosen),
                self.done[i].eq(node.done),
                self.failed[i].eq(node.failed),
                node.lines_write.payload.eq(self.lines_write.payload),
                node.lines_write.valid.eq(self.lines_write.valid & chosen),
                node.lines_read.requests.payload.eq(self.lines_read.requests.payload),
                node.lines_read.requests.valid.eq(self.lines_read.requests.valid & chosen),
            ]
            with m.If(chosen):
                m.d.comb += [
                    self.peeked.eq(node.peeked),
                    self.lines_write.ready.eq(node.lines_write.ready),
                    self.lines_read.requests.ready.eq(node.lines_read.requests.ready),
                    self.lines_read.words.eq(node.lines_read.words),
                    self.lines_read.scales.eq(node.lines_read.scales),
                ]
            above, below = nodes[(i + 1) % self.tiles], nodes[i - 1]
            for out, into, stall in (
                (node.up_out, above.up_in, self.stall[i]),
                (node.down_out, below.down_in, self.stall[self.tiles + i]),
            ):
                m.d.comb += [
                    into.payload.eq(out.payload),
                    into.valid.eq(out.valid & ~stall),
                    out.ready.eq(into.ready & ~stall),
                ]
        return m
