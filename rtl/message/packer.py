"""From blocks to packets."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from rtl.core.isa import BLOCK_WORDS
from rtl.message.frames import flits_of
from rtl.message.geometry import MessageGeometry
from rtl.message.layouts import TILE_BITS, HeadLayout, PieceLayout, place
from rtl.noc.link import FlitLayout
from rtl.vec.queue import CommandQueue


class Packer(wiring.Component):
    """Send blocks, a packet once all of it is there, so that no packet waits on its way for memory.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    to : In
        The tile that gets the pieces which are taken now.
    pieces : In
        Blocks.
    flits : Out
        To the network.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "to": In(TILE_BITS),
                "pieces": In(stream.Signature(PieceLayout())),
                "flits": Out(stream.Signature(FlitLayout(g.config.flit_bytes))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return blocks that wait, packets that are complete, and the one that is sent."""
        m = Module()
        g, piece, flit = self.geometry, self.pieces.payload, self.flits.payload
        size = g.packet_blocks
        counts = range(size + 1)
        layout = data.StructLayout({"head": HeadLayout(g), "count": counts})
        m.submodules.words = words = SyncFIFO(width=32 * BLOCK_WORDS, depth=2 * size)
        m.submodules.packets = packets = CommandQueue(layout, 2)

        # Gather a packet.
        index, error = Signal(range(size)), Signal()
        scales = Signal(data.ArrayLayout(8, size))
        packet, go, ends = packets.commands.payload, Signal(), Signal()
        x, y = place(g.config.mesh, self.to)
        m.d.comb += [
            go.eq(self.pieces.valid & self.pieces.ready),
            self.pieces.ready.eq(words.w_rdy & packets.commands.ready),
            ends.eq(piece.last | (index == size - 1)),
            words.w_en.eq(go & piece.present),
            words.w_data.eq(piece.block.words),
            packets.commands.valid.eq(self.pieces.valid & words.w_rdy & ends),
            packet.head.place.x.eq(x),
            packet.head.place.y.eq(y),
            packet.head.error.eq(error | piece.error),
            packet.count.eq(index + piece.present),
        ]
        for i in range(size):
            m.d.comb += packet.head.scales[i].eq(Mux(index == i, piece.block.scale, scales[i]))
        with m.If(go):
            m.d.sync += [
                scales.eq(packet.head.scales),
                index.eq(Mux(ends, 0, index + 1)),
                error.eq(~ends & packet.head.error),
            ]

        # Send one.
        head, count = Value.cast(packets.head.payload.head), packets.head.payload.count
        parts = flits_of(HeadLayout(g), g.flit_bits)
        in_data, part = Signal(), Signal(range(max(2, parts)))
        within, block = Signal(range(max(2, g.block_flits))), Signal(counts)
        last_part, last_within, sent = Signal(), Signal(), Signal()
        m.d.comb += [
            last_part.eq(part == parts - 1),
            last_within.eq(within == g.block_flits - 1),
            self.flits.valid.eq(packets.head.valid),
            flit.data.eq(
                Mux(
                    in_data,
                    words.r_data.word_select(within, 32 * g.flit_words),
                    head.word_select(part, min(g.flit_bits, len(head))),
                )
            ),
            flit.last.eq(
                Mux(in_data, last_within & (block + 1 == count), last_part & (count == 0))
            ),
            sent.eq(self.flits.valid & self.flits.ready),
            packets.head.ready.eq(self.flits.ready & flit.last),
            words.r_en.eq(sent & in_data & last_within),
        ]
        with m.If(sent & ~in_data):
            m.d.sync += [
                part.eq(Mux(last_part, 0, part + 1)),
                in_data.eq(last_part & (count != 0)),
            ]
        with m.If(sent & in_data):
            m.d.sync += [
                within.eq(Mux(last_within, 0, within + 1)),
                block.eq(Mux(flit.last, 0, block + last_within)),
                in_data.eq(~flit.last),
            ]
        return m
