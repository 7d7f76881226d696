"""What others ask for."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.l1.share import L1UserSignature
from rtl.message.geometry import MessageGeometry
from rtl.message.layouts import SLOT_BITS, AskLayout
from rtl.message.memory import MemoryReader
from rtl.message.outbox import PlaceInOutboxLayout
from rtl.message.packer import Packer
from rtl.noc.link import FlitLayout
from rtl.ring.layouts import BlockLayout
from rtl.vec.queue import CommandQueue


class Serve(wiring.Component):
    """Answer one after the other, whatever the tile's program does.

    A tile asks for one thing at a time, so there is room for all who can ask.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    asks : In
        What is asked for.
    read, place : Out
        Block of the outbox that is read.
    found : In
        It, in the cycle behind.
    release, released : Out
        A message has been read, and which.
    cache : Out
        To L1.
    reading : Out
        Memory is read.
    flits : Out
        To the network.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "asks": In(stream.Signature(AskLayout(g))),
                "read": Out(1),
                "place": Out(PlaceInOutboxLayout(g)),
                "found": In(BlockLayout()),
                "release": Out(1),
                "released": Out(SLOT_BITS),
                "cache": Out(L1UserSignature(g.cache)),
                "reading": Out(1),
                "flits": Out(stream.Signature(FlitLayout(g.config.flit_bytes))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return who reads, and the packets that become of it."""
        m = Module()
        g = self.geometry
        m.submodules.queue = queue = CommandQueue(AskLayout(g), max(2, g.tiles))
        m.submodules.memory = memory = MemoryReader(g)
        m.submodules.packer = packer = Packer(g)
        connect(m, flipped(self.asks), queue.commands)
        connect(m, memory.cache, flipped(self.cache))
        connect(m, packer.flits, flipped(self.flits))
        ask, pieces = queue.head.payload, packer.pieces
        empty = ask.count == 0

        # Blocks of the outbox: each is read in the cycle before it is offered.
        there, index = Signal(), Signal(g.blocks_bits)
        reads, advance = Signal(), Signal()
        busy, last = Signal(), Signal()
        m.d.comb += [
            advance.eq(~there | pieces.ready),
            last.eq(index == ask.count),
            reads.eq(busy & ~ask.memory & ~last & advance),
            self.read.eq(reads),
            self.place.slot.eq(ask.where),
            self.place.block.eq(index),
        ]
        with m.If(busy & ~ask.memory & advance):
            m.d.sync += [there.eq(reads), index.eq(index + reads)]

        ends = pieces.valid & pieces.ready & pieces.payload.last
        m.d.comb += [
            packer.to.eq(ask.source),
            memory.address.eq(ask.where),
            memory.count.eq(ask.count),
            memory.start.eq(queue.head.valid & ~busy & ask.memory),
            pieces.valid.eq(busy & (empty | Mux(ask.memory, memory.pieces.valid, there))),
            memory.pieces.ready.eq(busy & ask.memory & pieces.ready),
            self.reading.eq(memory.busy),
            queue.head.ready.eq(ends),
            self.release.eq(ends & ~ask.memory),
            self.released.eq(ask.where),
        ]
        with m.If(ask.memory & ~empty):
            m.d.comb += pieces.payload.eq(memory.pieces.payload)
        with m.Else():
            m.d.comb += [
                pieces.payload.block.eq(self.found),
                pieces.payload.present.eq(~empty),
                pieces.payload.last.eq(last),
            ]
        with m.If(ends):
            m.d.sync += [busy.eq(0), there.eq(0), index.eq(0)]
        with m.Elif(queue.head.valid):
            m.d.sync += busy.eq(1)
        return m
