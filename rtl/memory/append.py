"""Bytes that go to memory past L1: blocks, and greatest scales."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.core.isa import BLOCK_WORDS
from rtl.hbm.ports import ClientSignature, DescriptorLayout, WriteBeatLayout, find_client
from rtl.memory.commands import AppendLayout, FetchedLayout
from rtl.memory.geometry import MemoryGeometry
from rtl.memory.unpack import PLANE_BYTES
from rtl.vec.ports import WordReadSignature
from rtl.vec.queue import CommandQueue

BEATS = 4
"""Beats that wait for the memory."""

MOST = 255
"""Beats that the memory has not accepted, at most."""


class Append(wiring.Component):
    """Write blocks and bytes, and know when the memory has accepted them.

    A block takes a beat for each plane and one for its scale, of which the other bytes stay.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    appends : In
        What to do.
    lines : In
        The lines with the blocks.
    rows : Out
        Port of the row registers.
    client : Out
        To the HBM slice.
    appended : Out
        An instruction has read its register; the bytes are on their way.
    idle : Out
        The memory has accepted everything.
    failed : Out
        It did not: there is no such address.
    """

    def __init__(self, geometry: MemoryGeometry) -> None:
        self.geometry = g = geometry
        channels = g.config.pseudo_channels
        super().__init__(
            {
                "appends": In(stream.Signature(AppendLayout(g))),
                "lines": In(stream.Signature(FetchedLayout(g))),
                "rows": Out(WordReadSignature(g.vectors)),
                "client": Out(ClientSignature(find_client(g.config, "stores"), channels)),
                "appended": Out(1),
                "idle": Out(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the steps of a block."""
        m = Module()
        g = self.geometry
        channels = g.config.pseudo_channels
        m.submodules.queue = queue = CommandQueue(AppendLayout(g))
        m.submodules.descriptors = descriptors = CommandQueue(DescriptorLayout(), BEATS)
        m.submodules.beats = beats = CommandQueue(WriteBeatLayout(channels), BEATS)
        connect(m, flipped(self.appends), queue.commands)
        connect(m, descriptors.head, flipped(self.client.descriptors))
        connect(m, beats.head, flipped(self.client.writes))
        append, line, write = queue.head.payload, self.lines.payload, beats.commands.payload

        # The row is read in one cycle, and is there in the next and for as long as nobody reads.
        read = Signal()
        word, fresh = Signal(32), Signal()
        m.d.comb += [
            self.rows.requests.payload.register.eq(append.register),
            self.rows.requests.payload.row.eq(append.row),
            self.rows.requests.valid.eq(queue.head.valid & append.maximum & ~read),
        ]
        granted = self.rows.requests.valid & self.rows.requests.ready
        m.d.sync += fresh.eq(granted)
        with m.If(fresh):
            m.d.sync += word.eq(self.rows.word)

        block = line.words.as_value().word_select(append.block, 32 * BLOCK_WORDS)
        scale = line.scales.as_value().word_select(append.block, 8)
        nibbles = {
            plane: Cat(
                block[8 * i + 4 * plane : 8 * i + 4 * plane + 4] for i in range(2 * PLANE_BYTES)
            )
            for plane in (0, 1)
        }
        there = Mux(append.maximum, read, self.lines.valid & line.append)
        step, last, go = Signal(2), Signal(), Signal()
        address = Signal.like(append.elements)
        data, enable = Signal(8 * PLANE_BYTES), Signal(g.beat_bytes)
        # Steps: the only or high plane, the low plane, the scale or byte.
        is_byte = append.maximum | (step == 2)
        byte = Mux(append.maximum, Mux(fresh, self.rows.word, word), scale)[:8]
        offset = address[: g.cache.offset_bits]
        m.d.comb += [
            last.eq(is_byte),
            address.eq(Mux(is_byte, append.scale, append.elements)),
            data.eq(
                Mux(
                    append.planes,
                    Mux(step == 0, nibbles[1], nibbles[0]),
                    block[: 8 * PLANE_BYTES],
                )
            ),
            enable.eq(Mux(is_byte, 1, (1 << PLANE_BYTES) - 1) << offset),
            write.data.eq(
                Mux(is_byte, Cat(byte for _ in range(g.beat_bytes)), data.replicate(channels))
            ),
            write.enable.eq(enable),
            descriptors.commands.payload.address.eq(
                address[g.cache.offset_bits :] + ((step == 1) & ~is_byte)
            ),
            descriptors.commands.payload.beats.eq(1),
            descriptors.commands.payload.write.eq(1),
        ]
        pending = Signal(range(MOST + 1))
        accepted = self.client.answers.valid
        m.d.comb += [
            go.eq(
                queue.head.valid
                & there
                & descriptors.commands.ready
                & beats.commands.ready
                & (pending != MOST)
            ),
            descriptors.commands.valid.eq(go),
            beats.commands.valid.eq(go),
            queue.head.ready.eq(go & last),
            self.lines.ready.eq(go & last & ~append.maximum),
            self.appended.eq(go & last),
            self.client.answers.ready.eq(1),
            self.failed.eq(accepted & self.client.answers.payload.error),
            self.idle.eq(~queue.head.valid & (pending == 0)),
        ]
        m.d.sync += pending.eq(pending + go - accepted)
        with m.If(go):
            m.d.sync += step.eq(Mux(last, 0, Mux(append.planes, step + 1, 2)))
        m.d.sync += read.eq((read | granted) & ~(go & last))
        return m
