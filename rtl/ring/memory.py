"""The way of a node to the memory of its tile, through L1."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.l1.geometry import ADDRESS_BITS
from rtl.l1.share import L1UserSignature
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import BlockLayout, RunLayout, RunOfBlockLayout
from rtl.ring.registers import words_of
from rtl.vec.queue import CommandQueue

UNDER_WAY = 32
"""Beats that L1 may be asked for before the first has come."""

QUAD = 4
"""Words of 16 bytes: a beat has them from each pseudo-channel, and a block has two."""

QUAD_BYTES = 16


class BlockMemory(wiring.Component):
    """Read and write blocks of a whole in memory, each as one beat or as parts of two.

    A block is two neighbouring quads of 16 bytes, and a quad is in one beat: that of number ``(own
    + 2 * block) // P`` behind the first, where `own` is the quad of its beat that the whole begins
    with. Quads of which no word is wanted are left out.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    address, result : In
        Byte addresses of what is read and of what is written, multiples of 16.
    reads : In
        What is read.
    arrives, found : Out
        What was asked for first has come, and is this.
    writes : In
        What is written.
    cache : Out
        To L1.
    failed : Out
        A word could not be read.
    idle : Out
        L1 has taken everything.
    """

    def __init__(self, geometry: RingGeometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "address": In(ADDRESS_BITS),
                "result": In(ADDRESS_BITS),
                "reads": In(stream.Signature(RunLayout(g))),
                "arrives": Out(1),
                "found": Out(BlockLayout()),
                "writes": In(stream.Signature(RunOfBlockLayout(g))),
                "cache": Out(L1UserSignature(g.cache)),
                "failed": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return where blocks are, the requests for their beats, and what comes of those."""
        m = Module()
        g = self.geometry
        quads = g.cache.beat_bytes // QUAD_BYTES
        quad_bits = max(1, ceil_log2(quads))
        m.submodules.places = places = CommandQueue(
            data.StructLayout(
                {
                    "write": 1,
                    "beat": g.cache.beat_bits,
                    "quad": quad_bits,
                    "run": RunLayout(g),
                    "block": BlockLayout(),
                }
            )
        )

        # Where the block begins. What is written goes first.
        place, write = places.commands, self.writes.valid
        base, number = Signal(ADDRESS_BITS), Signal(g.block_bits + 2)
        beats = Signal(g.block_bits + 2)
        shift = len(number) + ceil_log2(quads)  # so that a product is a division
        m.d.comb += [
            base.eq(Mux(write, self.result, self.address)),
            number.eq((base[: g.cache.offset_bits] >> 4) + (place.payload.run.block << 1)),
            beats.eq(number * -(-(1 << shift) // quads) >> shift),
            place.payload.write.eq(write),
            place.payload.beat.eq(base[g.cache.offset_bits :] + beats),
            place.payload.quad.eq(number - beats * quads),
            place.payload.run.eq(Mux(write, self.writes.payload.run, self.reads.payload)),
            place.payload.block.eq(self.writes.payload.block),
            place.valid.eq(write | self.reads.valid),
            self.writes.ready.eq(place.ready),
            self.reads.ready.eq(place.ready & ~write),
        ]

        # A request for both quads, or one for each.
        head, request = places.head.payload, self.cache.requests
        asked_layout = data.StructLayout({"low": quad_bits, "high": quad_bits, "last": 1})
        m.submodules.asked = asked = CommandQueue(asked_layout, UNDER_WAY)
        enable = words_of(head.run)
        wants_low, wants_high = enable[:QUAD].any(), enable[QUAD:].any()
        together, second, next_quad = Signal(), Signal(), Signal(quad_bits)
        low, high, last, go = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            together.eq(head.quad != quads - 1),
            next_quad.eq(Mux(together, head.quad + 1, 0)),
            low.eq(wants_low & ~second),
            high.eq(wants_high & (~low | together)),
            last.eq(high | ~wants_high),
            request.payload.beat.eq(head.beat + (~low & ~together)),
            request.payload.write.eq(head.write),
            request.valid.eq(places.head.valid & (head.write | asked.commands.ready)),
            go.eq(request.valid & request.ready),
            places.head.ready.eq(go & last),
            asked.commands.valid.eq(go & ~head.write),
            asked.commands.payload.low.eq(head.quad),
            asked.commands.payload.high.eq(next_quad),
            asked.commands.payload.last.eq(last),
            self.idle.eq(~places.head.valid),
        ]
        with m.If(go):
            m.d.sync += second.eq(~last)
        for i in range(quads):
            is_low, is_high = low & (head.quad == i), high & (next_quad == i)
            for word in range(QUAD):
                at = QUAD * i + word
                bits = (is_low & enable[word]) | (is_high & enable[QUAD + word])
                m.d.comb += [
                    request.payload.data.word_select(at, 32).eq(
                        Mux(is_high, head.block.words[QUAD + word], head.block.words[word])
                    ),
                    request.payload.enable.word_select(at, 4).eq(bits.replicate(4)),
                ]

        # The low quad of two beats waits for the high one.
        answer, what = self.cache.answers, asked.head.payload
        kept, apart, came = Signal(32 * QUAD), Signal(), Signal(32 * QUAD)
        bits = 8 * QUAD_BYTES
        m.d.comb += [
            answer.ready.eq(1),
            asked.head.ready.eq(answer.valid),
            came.eq(answer.payload.data.word_select(what.low, bits)),
            self.arrives.eq(answer.valid & what.last),
            self.found.words.eq(
                Cat(Mux(apart, kept, came), answer.payload.data.word_select(what.high, bits))
            ),
            self.failed.eq(answer.valid & answer.payload.error),
        ]
        with m.If(answer.valid):
            m.d.sync += [apart.eq(~what.last), kept.eq(came)]
        return m
