"""The writing half of the AXI port."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.host.burst import (
    CHUNK,
    ID_BITS,
    BurstLayout,
    Response,
    Walk,
    bus_bytes,
    offset_bits,
)
from rtl.host.client import AnswerLayout, DescriptorLayout, WriteBeatLayout
from rtl.host.queue import Queue

BURSTS = 8
"""Bursts whose response the host has not taken."""

DESCRIPTORS = 16
"""Descriptors that are not answered."""


class WriteTransferLayout(data.StructLayout):
    """A transfer of the W channel."""

    def __init__(self, config: TileConfig) -> None:
        size = bus_bytes(config)
        super().__init__({"data": 8 * size, "strb": size, "last": 1})


class WriteResponseLayout(data.StructLayout):
    """A transfer of the B channel."""

    def __init__(self) -> None:
        super().__init__({"id": ID_BITS, "resp": Response})


class TicketLayout(data.StructLayout):
    """What to do with the answer to a descriptor.

    Fields
    ------
    id
        Of its burst.
    resp
        What came of the burst so far.
    final
        It is the last one of its burst.
    refused
        There is no descriptor, the burst was refused.
    """

    def __init__(self) -> None:
        super().__init__({"id": ID_BITS, "resp": 2, "final": 1, "refused": 1})


class Gather(wiring.Component):
    """Put the transfers of bursts together to beats, and those to descriptors.

    A descriptor is made when its last beat is there. So the client port never waits for the host,
    which may want to read before it writes.

    Parameters
    ----------
    config
        Configuration of the tile.

    Members
    -------
    bursts : In
        Bursts of the AW channel.
    transfers : In
        Transfers of the W channel.
    descriptors, beats
        Of the client port.
    tickets : Out
        One for every descriptor, and one for every burst without.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        super().__init__(
            {
                "bursts": In(stream.Signature(BurstLayout(config))),
                "transfers": In(stream.Signature(WriteTransferLayout(config))),
                "descriptors": Out(stream.Signature(DescriptorLayout())),
                "beats": Out(stream.Signature(WriteBeatLayout(config.pseudo_channels))),
                "tickets": Out(stream.Signature(TicketLayout())),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the merging, and queues behind it."""
        m = Module()
        config, offset = self.config, offset_bits(self.config)
        beat_layout = WriteBeatLayout(config.pseudo_channels)
        m.submodules.walk = walk = Walk(config)
        m.submodules.beats = beats = Queue(beat_layout, 2 * CHUNK)
        m.submodules.descriptors = descriptors = Queue(DescriptorLayout(), 4)
        m.submodules.tickets = tickets = Queue(TicketLayout(), DESCRIPTORS)
        connect(m, beats.o, flipped(self.beats))
        connect(m, descriptors.o, flipped(self.descriptors))
        connect(m, tickets.o, flipped(self.tickets))

        burst, transfer = self.bursts.payload, self.transfers.payload
        refused, step = Signal(), Signal()
        m.d.comb += [
            walk.burst.eq(burst),
            walk.step.eq(step),
            refused.eq(burst.refusal != Response.OKAY),
            self.transfers.ready.eq(
                self.bursts.valid & beats.i.ready & descriptors.i.ready & tickets.i.ready
            ),
            step.eq(self.transfers.valid & self.transfers.ready),
            self.bursts.ready.eq(step & walk.last),
        ]

        # The bytes of this transfer, at their place in the beat, over those of the ones before.
        size = bus_bytes(config)
        word = walk.position[size.bit_length() - 1 : offset]
        strobe = Signal(config.beat_stride)
        merged, held = Signal(beat_layout), Signal(beat_layout)
        m.d.comb += [
            strobe.eq(transfer.strb << (word << size.bit_length() - 1)),
            merged.enable.eq(held.enable | strobe),
            merged.data.eq(
                Cat(
                    Mux(
                        strobe[byte],
                        transfer.data.word_select(byte % size, 8),
                        held.data.word_select(byte, 8),
                    )
                    for byte in range(config.beat_bytes)
                )
            ),
            beats.i.payload.eq(merged),
            beats.i.valid.eq(step & walk.leaves & ~refused),
        ]
        with m.If(step):
            m.d.sync += held.eq(merged)
            with m.If(walk.leaves):
                m.d.sync += held.enable.eq(0)

        number = Signal(range(CHUNK))  # of this beat in its descriptor
        beat = Cat(walk.position[offset:], burst.page)
        cut = Signal()
        resp, resp_before = Signal(2), Signal(2)
        hole = strobe[config.beat_bytes :].any()
        m.d.comb += [
            cut.eq(walk.leaves & (walk.jumps | beat[: CHUNK.bit_length() - 1].all())),
            descriptors.i.payload.address.eq(beat - number),
            descriptors.i.payload.beats.eq(number + 1),
            descriptors.i.payload.write.eq(1),
            descriptors.i.valid.eq(step & cut & ~refused),
            resp.eq(
                resp_before
                | burst.refusal
                | Mux(hole & ~refused, Response.DECERR, 0)
                | Mux(transfer.last != walk.last, Response.SLVERR, 0)
            ),
            tickets.i.payload.id.eq(burst.id),
            tickets.i.payload.resp.eq(resp),
            tickets.i.payload.final.eq(walk.last),
            tickets.i.payload.refused.eq(refused),
            tickets.i.valid.eq(step & Mux(refused, walk.last, cut)),
        ]
        with m.If(step):
            m.d.sync += resp_before.eq(Mux(walk.last, 0, resp))
            with m.If(walk.leaves):
                m.d.sync += number.eq(Mux(cut, 0, number + 1))
        return m


class Writer(wiring.Component):
    """Carry out bursts that write, and respond when all of a burst is accepted.

    Parameters
    ----------
    config
        Configuration of the tile.

    Members
    -------
    bursts : In
        Bursts of the AW channel.
    transfers : In
        Transfers of the W channel.
    responses : Out
        Transfers of the B channel, in the order of the bursts.
    descriptors, beats, answers
        Of the client port.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        super().__init__(
            {
                "bursts": In(stream.Signature(BurstLayout(config))),
                "transfers": In(stream.Signature(WriteTransferLayout(config))),
                "responses": Out(stream.Signature(WriteResponseLayout())),
                "descriptors": Out(stream.Signature(DescriptorLayout())),
                "beats": Out(stream.Signature(WriteBeatLayout(config.pseudo_channels))),
                "answers": In(stream.Signature(AnswerLayout())),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return queues in front of and behind the gathering."""
        m = Module()
        m.submodules.bursts = bursts = Queue(BurstLayout(self.config), BURSTS)
        m.submodules.gather = gather = Gather(self.config)
        m.submodules.responses = responses = Queue(WriteResponseLayout(), BURSTS)
        connect(m, bursts.o, gather.bursts)
        connect(m, flipped(self.transfers), gather.transfers)
        connect(m, gather.descriptors, flipped(self.descriptors))
        connect(m, gather.beats, flipped(self.beats))
        connect(m, responses.o, flipped(self.responses))

        # There is room for the response of every burst that is under way, so answers never wait.
        under_way, accepted, responded = Signal(range(BURSTS + 1)), Signal(), Signal()
        m.d.comb += [
            self.bursts.ready.eq(under_way < BURSTS),
            accepted.eq(self.bursts.valid & self.bursts.ready),
            bursts.i.payload.eq(self.bursts.payload),
            bursts.i.valid.eq(accepted),
            responded.eq(self.responses.valid & self.responses.ready),
        ]
        m.d.sync += [
            under_way.eq(under_way + accepted - responded),
            Assert(~accepted | bursts.i.ready),
            Assert(~responses.i.valid | responses.i.ready),
        ]

        ticket = gather.tickets.payload
        resp, resp_before, settled = Signal(2), Signal(2), Signal()
        m.d.comb += [
            settled.eq(gather.tickets.valid & (ticket.refused | self.answers.valid)),
            gather.tickets.ready.eq(settled),
            self.answers.ready.eq(gather.tickets.valid & ~ticket.refused),
            resp.eq(
                resp_before
                | ticket.resp
                | Mux(~ticket.refused & self.answers.payload.error, Response.SLVERR, Response.OKAY)
            ),
            responses.i.payload.id.eq(ticket.id),
            responses.i.payload.resp.eq(resp),
            responses.i.valid.eq(settled & ticket.final),
        ]
        with m.If(settled):
            m.d.sync += resp_before.eq(Mux(ticket.final, 0, resp))
        return m
