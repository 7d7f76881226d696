"""A whole ring, as it is tested and measured by itself: nodes, each with registers."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.leaf import Leaf
from rtl.ring.engine import RingEngine
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import COLLECTIVE, LinkLayout, PlaceLayout
from rtl.vec.ports import LineReadSignature, LineWriteLayout
from rtl.vec.registers import VectorRegisterFile

OTHERS = "others"
"""Name of the ports that stand for the rest of a tile, which go first."""


class RingTile(Leaf):
    """A node and its registers.

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
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module; there is one configuration in a design."""
        return "ring_tile"

    def build(self, platform: Any) -> Module:
        """Return node and registers."""
        m = Module()
        node = RingEngine(self.config)
        m.submodules.node = ResetInserter(self.restart)(node)
        m.submodules.vectors = vectors = VectorRegisterFile(
            self.config, (OTHERS, "get"), ("fill", "put")
        )
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
        # A node in reset takes nothing: it would lose it.
        for name in ("up_in", "down_in", "operations"):
            given, taken = getattr(self, name), getattr(node, name)
            m.d.comb += [
                taken.payload.eq(given.payload),
                taken.valid.eq(given.valid & ~self.restart),
                given.ready.eq(taken.ready & ~self.restart),
            ]
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
        Links that carry nothing in this cycle: those up, then those down, by the tile they start
        from.
    operations : In
        Instructions, of each tile.
    done, failed : Out
        Tiles that have done an instruction, and those of them that could not.
    node : In
        The tile whose registers are read and written.
    lines_read, lines_write : In
        Ports of its registers; they go first.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        g = RingGeometry(config)
        self.tiles = tiles = config.tiles
        super().__init__(
            {
                "present": In(tiles),
                "restart": In(tiles),
                "stall": In(2 * tiles),
                "operations": In(stream.Signature(COLLECTIVE)).array(tiles),
                "done": Out(tiles),
                "failed": Out(tiles),
                "node": In(range(max(2, tiles))),
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
                self.done[i].eq(node.done),
                self.failed[i].eq(node.failed),
                node.lines_write.payload.eq(self.lines_write.payload),
                node.lines_write.valid.eq(self.lines_write.valid & chosen),
                node.lines_read.requests.payload.eq(self.lines_read.requests.payload),
                node.lines_read.requests.valid.eq(self.lines_read.requests.valid & chosen),
            ]
            with m.If(chosen):
                m.d.comb += [
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
