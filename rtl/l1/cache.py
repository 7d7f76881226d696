"""The L1 cache: set-associative, write-back, non-blocking, in front of the HBM slice."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import ACCESS_BEATS, TileConfig
from rtl.counters import Counter
from rtl.hbm.ports import ClientSignature, DescriptorLayout, find_client
from rtl.l1.access import Access
from rtl.l1.departures import Departures
from rtl.l1.geometry import L1Geometry
from rtl.l1.lookup import COUNTERS as LOOKUP_COUNTERS
from rtl.l1.lookup import Lookup
from rtl.l1.ports import (
    AnswerLayout,
    EntryLayout,
    MaskLayout,
    RangeLayout,
    RequestLayout,
    UpdateLayout,
)
from rtl.registers import Access as RegisterAccess
from rtl.registers import Field, Register, RegisterBlock, RegisterBus, RegisterMap
from rtl.vec.queue import CommandQueue

ENTRIES = 64
"""Requests that wait for their lines: as many beats as the memory's latency."""

UPDATES = 8
"""Of these, requests that write."""

DEPARTURES = 8
"""Lines on their way to memory."""

DESCRIPTORS = 2
"""Descriptors that wait for the memory."""

REGISTERS = (
    Register(
        "status",
        "what went wrong",
        (
            Field("read_error", 1, RegisterAccess.STICKY, "bytes that matter could not be read"),
            Field("write_error", 1, RegisterAccess.STICKY, "a line was written beyond the memory"),
        ),
    ),
)

COUNTERS = (
    Counter("cycles", "clock cycles since reset"),
    *LOOKUP_COUNTERS,
    Counter("waits_for_memory", "cycles in which requests wait here and the next needs its line"),
    Counter("waits_for_user", "cycles in which an answer is there and is not taken"),
)
"""What the cache counts."""


class L1Cache(wiring.Component):
    """Keep lines of memory.

    Requests are carried out in their order, and reads answered in it. Up to `ENTRIES` may be under
    way, and as many fetches as the client's reorder buffer holds.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    requests : In
        What is wanted, see `rtl.l1.ports.RequestLayout`.
    answers : Out
        What was read, in that order. Who asks must take answers whether it can ask more or not.
    ranges : In
        Lines that are to leave, see `rtl.l1.ports.RangeLayout`. Taken when they have, and the
        memory has accepted what was written. Requests that were taken before a range was offered
        come before it, others wait.
    client : Out
        To the HBM slice, see `rtl.hbm.ports.ClientSignature`.
    bus : In
        Registers and counters, see `register_map`.

    Attributes
    ----------
    register_map
        Status and counters.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = L1Geometry(config)
        self.register_map = RegisterMap(config, REGISTERS, COUNTERS)
        self._client = find_client(config, "l1")
        super().__init__(
            {
                "requests": In(stream.Signature(RequestLayout(g))),
                "answers": Out(stream.Signature(AnswerLayout(g))),
                "ranges": In(stream.Signature(RangeLayout(g))),
                "client": Out(ClientSignature(self._client, config.pseudo_channels)),
                "bus": In(RegisterBus(self.register_map.words)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the two halves, and the way to memory."""
        m = Module()
        g = self.geometry
        m.submodules.lookup = lookup = Lookup(g)
        m.submodules.entries = entries = CommandQueue(EntryLayout(g), ENTRIES)
        m.submodules.updates = updates = CommandQueue(UpdateLayout(g), UPDATES)
        m.submodules.masks = masks = CommandQueue(MaskLayout(g), DEPARTURES)
        m.submodules.departures = departures = Departures(g, DEPARTURES)
        m.submodules.access = access = Access(g)
        m.submodules.descriptors = descriptors = CommandQueue(DescriptorLayout(), DESCRIPTORS)
        connect(m, flipped(self.requests), lookup.requests)
        connect(m, flipped(self.ranges), lookup.ranges)
        for name, queue in (("entries", entries), ("updates", updates), ("masks", masks)):
            connect(m, getattr(lookup, name), queue.commands)
            connect(m, queue.head, getattr(access, name))
        connect(m, lookup.departures, departures.lines)
        connect(m, access.answers, flipped(self.answers))
        connect(m, flipped(self.client.reads), access.reads)
        connect(m, access.writes, flipped(self.client.writes))
        connect(m, descriptors.head, flipped(self.client.descriptors))

        # What the client port is asked for it must be able to hold: a fetch that waits for an
        # earlier one to be taken would keep write-backs waiting that come before it.
        limit = (self._client.reads - 1) // ACCESS_BEATS
        fetches = Signal(range(limit + 1))
        fetched = lookup.fetches.valid & lookup.fetches.ready
        m.d.sync += fetches.eq(fetches + fetched - access.filled)
        with m.If(access.filled):
            m.d.sync += Assert(fetches != 0)

        descriptor = descriptors.commands
        m.d.comb += [
            descriptor.valid.eq(access.evicts | lookup.fetches.valid),
            descriptor.payload.write.eq(access.evicts),
            descriptor.payload.beats.eq(ACCESS_BEATS),
            descriptor.payload.address.eq(
                Mux(access.evicts, departures.next.payload, lookup.fetches.payload) << 1
            ),
            access.may_evict.eq(descriptor.ready & departures.next.valid),
            departures.next.ready.eq(access.evicts),
            lookup.fetches.ready.eq(descriptor.ready & ~access.evicts & (fetches != limit)),
        ]
        m.d.comb += [
            self.client.answers.ready.eq(1),
            departures.accepted.eq(self.client.answers.valid),
            departures.query.eq(lookup.query),
            lookup.found.eq(departures.found),
            lookup.idle.eq(departures.idle),
        ]

        m.submodules.registers = block = RegisterBlock(self.register_map)
        connect(m, flipped(self.bus), block.bus)
        for counter in LOOKUP_COUNTERS:
            m.d.comb += getattr(block.step, counter.name).eq(getattr(lookup.events, counter.name))
        m.d.comb += [
            block.step.cycles.eq(1),
            block.step.waits_for_memory.eq(access.reads.ready & ~access.reads.valid),
            block.step.waits_for_user.eq(self.answers.valid & ~self.answers.ready),
            block.status.read_error.eq(self.answers.valid & self.answers.payload.error),
            block.status.write_error.eq(
                self.client.answers.valid & self.client.answers.payload.error
            ),
        ]
        return m
