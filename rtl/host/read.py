"""The reading half of the AXI port."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.host.burst import (
    CHUNK,
    ID_BITS,
    BurstLayout,
    Kind,
    Response,
    Walk,
    bus_bytes,
    last_position,
    offset_bits,
    within_wrap,
)
from rtl.host.client import DescriptorLayout, ReadBeatLayout, find_client
from rtl.host.queue import Queue

BURSTS = 8
"""Bursts that may be under way."""


class ReadTransferLayout(data.StructLayout):
    """A transfer of the R channel."""

    def __init__(self, config: TileConfig) -> None:
        super().__init__(
            {"id": ID_BITS, "data": 8 * bus_bytes(config), "resp": Response, "last": 1}
        )


class RunLayout(data.StructLayout):
    """Consecutive beats of a page: the numbers of the ``first`` and the ``last``."""

    def __init__(self, config: TileConfig) -> None:
        bits = 12 - offset_bits(config)
        super().__init__({"first": bits, "last": bits})


class Requests(wiring.Component):
    """Ask for the beats of bursts, in order.

    What the client port is asked for it must be able to hold, however long the host takes: a
    descriptor that waits for the host would keep the writes behind it waiting, and the host may
    wait for those.

    Parameters
    ----------
    config
        Configuration of the tile.

    Members
    -------
    bursts : In
        Bursts that read.
    descriptors : Out
        What they ask for.
    taken : In
        A beat was taken.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        super().__init__(
            {
                "bursts": In(stream.Signature(BurstLayout(config))),
                "descriptors": Out(stream.Signature(DescriptorLayout())),
                "taken": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the walk through the one or two runs of a burst."""
        m = Module()
        config = self.config
        burst, descriptor = self.bursts.payload, self.descriptors.payload
        # The reorder buffer wants room for two beats even for the last one.
        limit = find_client(config, "host").reads - 1
        assert limit >= CHUNK
        owed = Signal(range(limit + 1))

        run, second = Signal(RunLayout(config)), Signal(RunLayout(config))
        active, has_second, page = Signal(), Signal(), Signal.like(burst.page)
        stop, beats, done = Signal.like(run.last), Signal(range(CHUNK + 1)), Signal()
        chunk = slice(CHUNK.bit_length() - 1, None)
        sent = self.descriptors.valid & self.descriptors.ready
        m.d.comb += [
            stop.eq(
                Mux(run.first[chunk] == run.last[chunk], run.last, run.first | (CHUNK - 1)),
            ),
            beats.eq(stop - run.first + 1),
            self.descriptors.valid.eq(active & (owed + beats <= limit)),
            descriptor.address.eq(Cat(run.first, page)),
            descriptor.beats.eq(beats),
            done.eq(sent & (stop == run.last) & ~has_second),
            self.bursts.ready.eq(~active | done),
        ]
        with m.If(sent):
            m.d.sync += run.first.eq(stop + 1)
            with m.If(stop == run.last):
                m.d.sync += [run.eq(second), has_second.eq(0), active.eq(has_second)]
        with m.If(self.bursts.valid & self.bursts.ready):
            m.d.sync += [active.eq(burst.refusal == Response.OKAY), page.eq(burst.page)]
            self._plan(m, run, second, has_second)
        m.d.sync += [
            owed.eq(owed + Mux(sent, beats, 0) - self.taken),
            Assert(~self.taken | (owed != 0)),
        ]
        return m

    def _plan(self, m: Module, run: data.View, second: data.View, has_second: Value) -> None:
        """Find the runs of a burst: that of WRAP goes on at the start of its container."""
        burst, offset = self.bursts.payload, offset_bits(self.config)
        mask = within_wrap(burst)
        low, high = burst.position & ~mask, burst.position | mask
        last = Mux(burst.kind == Kind.WRAP, high, last_position(burst))
        m.d.sync += [
            run.first.eq(burst.position[offset:]),
            run.last.eq(Mux(burst.kind == Kind.FIXED, burst.position, last)[offset:]),
            second.first.eq(low[offset:]),
            second.last.eq((burst.position - 1)[offset:]),
            has_second.eq(
                (burst.kind == Kind.WRAP)
                & (burst.position != low)
                & (low[offset:] != high[offset:])
            ),
        ]


class Reader(wiring.Component):
    """Answer bursts that read with the beats that they ask for.

    Parameters
    ----------
    config
        Configuration of the tile.

    Members
    -------
    bursts : In
        Bursts of the AR channel.
    transfers : Out
        Transfers of the R channel, burst after burst.
    descriptors, beats
        Of the client port.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        super().__init__(
            {
                "bursts": In(stream.Signature(BurstLayout(config))),
                "transfers": Out(stream.Signature(ReadTransferLayout(config))),
                "descriptors": Out(stream.Signature(DescriptorLayout())),
                "beats": In(stream.Signature(ReadBeatLayout(config.pseudo_channels))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the requests, and a walk that goes with the beats."""
        m = Module()
        config = self.config
        m.submodules.requests = requests = Requests(config)
        m.submodules.bursts = queue = Queue(BurstLayout(config), BURSTS)
        m.submodules.walk = walk = Walk(config)
        connect(m, requests.descriptors, flipped(self.descriptors))
        m.d.comb += [
            requests.bursts.payload.eq(self.bursts.payload),
            requests.bursts.valid.eq(self.bursts.valid & queue.i.ready),
            queue.i.payload.eq(self.bursts.payload),
            queue.i.valid.eq(self.bursts.valid & requests.bursts.ready),
            self.bursts.ready.eq(queue.i.ready & requests.bursts.ready),
        ]

        burst, transfer, beat = queue.o.payload, self.transfers.payload, self.beats.payload
        refused, hole = Signal(), Signal()
        words = Signal(8 * config.beat_stride)
        word = walk.position[bus_bytes(config).bit_length() - 1 : offset_bits(config)]
        m.d.comb += [
            walk.burst.eq(burst),
            refused.eq(burst.refusal != Response.OKAY),
            hole.eq(walk.position[: offset_bits(config)] >= config.beat_bytes),
            words.eq(Mux(refused, 0, beat.data)),
            transfer.id.eq(burst.id),
            transfer.data.eq(words.word_select(word, len(transfer.data))),
            transfer.resp.eq(
                Mux(
                    refused,
                    burst.refusal,
                    Mux(hole, Response.DECERR, Mux(beat.error, Response.SLVERR, Response.OKAY)),
                )
            ),
            transfer.last.eq(walk.last),
            self.transfers.valid.eq(queue.o.valid & (refused | self.beats.valid)),
            walk.step.eq(self.transfers.valid & self.transfers.ready),
            self.beats.ready.eq(walk.step & walk.leaves & ~refused),
            requests.taken.eq(self.beats.valid & self.beats.ready),
            queue.o.ready.eq(walk.step & walk.last),
        ]
        return m
