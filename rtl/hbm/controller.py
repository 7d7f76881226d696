"""The controller of one pseudo-channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.hbm.arbiter import round_robin, select
from rtl.hbm.columns import Columns
from rtl.hbm.counters import EVENTS
from rtl.hbm.distances import DistanceLayout
from rtl.hbm.generator import AccessLayout, Generator
from rtl.hbm.interface import ColumnCommand, PseudoChannelSignature, RowCommand
from rtl.hbm.lane import AGES, Lane
from rtl.hbm.partial import PartialWriter, is_partial
from rtl.hbm.place import (
    FINGERPRINT_BITS,
    GeometryLayout,
    PlaceLayout,
    SetLayout,
    fingerprint,
    within_of,
)
from rtl.hbm.policy import PolicyLayout
from rtl.hbm.pool import SLOT_BITS, WritePool
from rtl.hbm.ports import Client, ClientSignature
from rtl.hbm.queue import AGE_BITS, EntryLayout
from rtl.hbm.refresh import Refresher
from rtl.hbm.reorder import ReorderBuffer, advanced
from rtl.hbm.returns import CLIENT_BITS, ReadTagLayout, Returns
from rtl.hbm.rows import Rows
from rtl.hbm.writer import Writer

BANKS = 16

WAIT_BITS = 9
"""Cycles after which a client that others overtake comes first: two to this power."""


class EventLayout(data.StructLayout):
    """What happens in a cycle, for the counters: a bit for each of `EVENTS`."""

    def __init__(self) -> None:
        super().__init__({counter.name: 1 for counter in EVENTS})


class Controller(wiring.Component):
    """Serve clients from one pseudo-channel.

    Descriptors become accesses, which go to the queues of their banks one per cycle. Two schedulers
    look at the first access of every queue, one for each command bus. What is read goes to the
    reorder buffer of its client.

    Parameters
    ----------
    clients
        Who.
    ecc
        Whether there are check bits.

    Members
    -------
    *client* : In
        The port of each, by name, see `ClientSignature`.
    hbm : Out
        The device.
    geometry, distances, policy, latency : In
        How it is built, what it keeps to, how it decides, and WL; constant while enabled.
    enable : In
        Descriptors are accepted, and banks refreshed.
    events : Out
        For the counters.
    wrong : Out
        Place of the beat that could not be corrected, in the cycle of the event.
    wrong_half : Out
        Which beat of the access it is.
    """

    def __init__(self, clients: Sequence[Client], *, ecc: bool) -> None:
        self.clients, self.ecc = tuple(clients), ecc
        super().__init__(
            {
                **{client.name: In(ClientSignature(client)) for client in clients},
                "hbm": Out(PseudoChannelSignature()),
                "geometry": In(GeometryLayout()),
                "distances": In(DistanceLayout()),
                "policy": In(PolicyLayout()),
                "latency": In(6),
                "enable": In(1),
                "events": Out(EventLayout()),
                "wrong": Out(PlaceLayout()),
                "wrong_half": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the controller."""
        m = Module()
        m.submodules.pool = self._pool = WritePool()
        m.submodules.partial = self._partial = PartialWriter()
        m.submodules.returns = self._returns = Returns(ecc=self.ecc)
        m.submodules.columns = self._columns = Columns(BANKS)
        m.submodules.rows = self._rows = Rows(BANKS)
        m.submodules.refresher = self._refresh = Refresher(BANKS)
        tag_bits = ReadTagLayout().size
        self._lanes = []
        for b in range(BANKS):
            m.submodules[f"lane{b}"] = lane = Lane(tag_bits, SLOT_BITS)
            self._lanes.append(lane)
        self._generators: list[Generator] = []
        self._buffers: dict[int, ReorderBuffer] = {}
        for i, client in enumerate(self.clients):
            self._attach(m, i, client)
        self._accept(m)
        self._look_ahead(m)
        self._schedule(m)
        self._transfer(m)
        return m

    def _attach(self, m: Module, index: int, client: Client) -> None:
        """Give a client its generator and its reorder buffer."""
        port = getattr(self, client.name)
        generator = Generator(writes=client.writes)
        m.submodules[f"{client.name}_generator"] = generator
        self._generators.append(generator)
        connect(m, flipped(port.descriptors), generator.descriptors)
        m.d.comb += [generator.geometry.eq(self.geometry), generator.enable.eq(self.enable)]
        if client.writes:
            connect(m, flipped(port.writes), generator.writes)
            connect(m, generator.answers, flipped(port.answers))
        if client.reads:
            self._buffers[index] = buffer = ReorderBuffer(client.reads)
            m.submodules[f"{client.name}_reads"] = buffer
            connect(m, buffer.beats, flipped(port.reads))

    # --- from accesses to queues ----------------------------------------------------------------

    def _accept(self, m: Module) -> None:
        """Take one access per cycle, from each source in turn."""
        partial, pool, lanes = self._partial, self._pool, self._lanes
        offers = [generator.accesses for generator in self._generators] + [partial.accesses]
        own = len(self.clients)  # number of the source that is `partial`
        count = len(offers)
        asks, late, first = Signal(count), Signal(count), Signal(count)
        taken = Signal(count)
        for i, offer in enumerate(offers):
            room = Signal(name=f"room_{i}")
            m.d.comb += [
                room.eq(self._buffers[i].room if i in self._buffers else 1),
                asks[i].eq(offer.valid & (offer.payload.write | room)),
                offer.ready.eq(taken[i]),
            ]
            waited = Signal(WAIT_BITS + 1, name=f"waited_{i}")
            m.d.comb += late[i].eq(waited[-1] & asks[i])
            with m.If(~asks[i] | taken[i]):
                m.d.sync += waited.eq(0)
            with m.Elif(~waited[-1]):
                m.d.sync += waited.eq(waited + 1)
        m.d.comb += first.eq(Mux(late.any(), late, asks))
        pick = round_robin(m, "pick", first, 1)
        access = Signal(AccessLayout())
        chosen = select(pick, [Value.cast(offer.payload) for offer in offers])
        m.d.comb += Value.cast(access).eq(chosen)

        bank = Signal(BANKS)
        key = Signal(FINGERPRINT_BITS)
        m.d.comb += [
            bank.eq((1 << access.place.bank)[:BANKS]),
            key.eq(fingerprint(access.place.row, access.place.column)),
            pool.wanted.eq(key),
            pool.wanted_bank.eq(access.place.bank),
        ]
        read_room = (bank & Cat(lane.read_room for lane in lanes)).any()
        write_room = (bank & Cat(lane.write_room for lane in lanes)).any() & pool.room
        read_found = (bank & Cat(lane.read_found for lane in lanes)).any()
        any_pick, elsewhere, guarded, in_part = Signal(), Signal(), Signal(), Signal()
        read, write, fault = Signal(), Signal(), Signal()
        hazard, full = Signal(), Signal()
        can_fault = Signal()
        m.d.comb += [
            any_pick.eq(pick.any()),
            elsewhere.eq(~access.exists),
            guarded.eq(
                partial.busy & ~pick[own] & (Value.cast(partial.place) == Value.cast(access.place))
            ),
            in_part.eq((is_partial(access.enable) if self.ecc else 0) & access.write & ~pick[own]),
            hazard.eq(Mux(access.write, read_found, pool.found) | guarded),
            full.eq(~Mux(access.write, write_room, read_room)),
            read.eq(any_pick & ~elsewhere & ~access.write & ~hazard & ~full),
            write.eq(any_pick & ~elsewhere & access.write & ~in_part & ~hazard & ~full),
            fault.eq(any_pick & elsewhere & (access.write | can_fault)),
            partial.start.eq(any_pick & ~elsewhere & in_part & partial.idle),
            partial.access.eq(access),
            taken.eq(Mux(read | write | fault | partial.start, pick, 0)),
        ]

        tag = Signal(ReadTagLayout())
        slots = [Signal(tag.slot.shape(), name=f"slot_{i}") for i in range(count)]
        m.d.comb += [slots[i].eq(buffer.slot) for i, buffer in self._buffers.items()]
        m.d.comb += [
            tag.client.eq(
                Cat(
                    Cat(pick[i] for i in range(count) if i >> bit & 1).any()
                    for bit in range(CLIENT_BITS)
                )
            ),
            tag.wanted.eq(access.wanted),
            tag.slot.eq(select(pick, list(slots))),
        ]
        for i, buffer in self._buffers.items():
            mine = pick[i] & (read | (fault & ~access.write))
            m.d.comb += buffer.reserve.eq(Mux(mine, access.wanted[0] + access.wanted[1], 0))
        self._fault, self._pick, self._access = fault, pick, access
        self._can_fault = can_fault

        born = Signal(AGE_BITS)
        m.d.sync += born.eq(born + (read | write))
        read_entry = Signal(EntryLayout(tag.shape().size))
        write_entry = Signal(EntryLayout(SLOT_BITS))
        for entry, its_tag in ((read_entry, Value.cast(tag)), (write_entry, pool.slot)):
            m.d.comb += [
                entry.row.eq(access.place.row),
                entry.column.eq(access.place.column),
                entry.born.eq(born),
                entry.tag.eq(its_tag),
            ]
        for b, lane in enumerate(lanes):
            m.d.comb += [
                lane.push_read.eq(read & bank[b]),
                lane.push_write.eq(write & bank[b]),
                lane.read_entry.eq(read_entry),
                lane.write_entry.eq(write_entry),
                lane.now.eq(born),
                lane.wanted.eq(key),
                lane.distances.eq(self.distances),
            ]
        m.d.comb += [
            pool.take.eq(write),
            pool.bank.eq(access.place.bank),
            pool.fingerprint.eq(key),
            pool.data.eq(access.data),
            pool.enable.eq(access.enable),
        ]

        # Whoever waits for a write, or for room for one, turns the bus.
        pressed = Signal()
        with m.If(self._columns.writing):
            m.d.sync += pressed.eq(0)
        with m.Elif(any_pick & ~elsewhere & Mux(access.write, full, pool.found)):
            m.d.sync += pressed.eq(1)
        m.d.comb += [
            self._columns.urgent.eq(pressed | (pool.count >= self.policy.high)),
            self.events.waits_for_access.eq(any_pick & ~elsewhere & hazard),
            self.events.waits_for_room.eq(any_pick & ~elsewhere & ~hazard & full),
            self.events.partial_writes.eq(partial.start),
            self.events.out_of_range.eq(fault),
        ]

    def _look_ahead(self, m: Module) -> None:
        """Show the lanes where streams are and will be, one stream's next pages at a time."""
        generators, lanes = self._generators, self._lanes
        groups = self.geometry.groups
        turn = Signal(len(generators), init=1)
        m.d.sync += turn.eq(turn.rotate_left(1))
        ahead, pages = Signal(), Signal(SetLayout())
        m.d.sync += [
            ahead.eq((turn & Cat(generator.ahead for generator in generators)).any()),
            Value.cast(pages).eq(
                select(turn, [Value.cast(generator.next_pages) for generator in generators])
            ),
        ]
        for b, lane in enumerate(lanes):
            within = Signal(3, name=f"within_{b}")
            m.d.comb += [
                within.eq(within_of(groups, b)),
                lane.hint.eq(ahead & (pages.within == within) & self._exists(b)),
                lane.hint_row.eq(pages.row),
            ]
            m.d.sync += self._refresh.reserved[b].eq(
                Cat(
                    (generator.active & (generator.pages.within == within))
                    | (generator.ahead & (generator.next_pages.within == within))
                    for generator in generators
                ).any()
            )

    def _exists(self, bank: int) -> Value:
        """Return whether there is such a bank."""
        groups, within = self.geometry.groups, self.geometry.within
        return Cat(
            groups[g] & within[w] for g in range(3) for w in range(4) if bank < 1 << g + w
        ).any()

    # --- from queues to commands ----------------------------------------------------------------

    def _schedule(self, m: Module) -> None:
        """Give commands."""
        lanes, columns, rows = self._lanes, self._columns, self._rows
        refresh, policy = self._refresh, self.policy

        def vector(name: str) -> Value:
            return Cat(getattr(lane, name) for lane in lanes)

        m.d.comb += [
            columns.distances.eq(self.distances),
            columns.geometry.eq(self.geometry),
            columns.fits.eq(vector("fits") & ~refresh.held),
            columns.read_waits.eq(vector("read_waits").any()),
            columns.write_waits.eq(vector("write_waits").any()),
            columns.batch.eq(policy.batch),
            columns.patience.eq(policy.patience),
            rows.distances.eq(self.distances),
            rows.geometry.eq(self.geometry),
            rows.refresh.eq(refresh.refresh),
            rows.held.eq(refresh.held),
            rows.refresh_all.eq(refresh.refresh_all),
            refresh.enable.eq(self.enable),
            refresh.exist.eq(Cat(self._exists(b) for b in range(BANKS))),
            refresh.period.eq(policy.period),
            refresh.late.eq(policy.late),
            refresh.last.eq(policy.last),
            refresh.together.eq(policy.together),
            refresh.idle.eq(vector("idle")),
            refresh.recent.eq(vector("recent")),
            refresh.unused.eq(vector("unused")),
            refresh.done_all.eq(rows.command == RowCommand.REFAB),
            refresh.done.eq(Mux(rows.command == RowCommand.REFPB, rows.grant, 0)),
        ]
        for name in (
            *("asks_activate", "asks_precharge", "guess"),
            *("is_open", "may_activate", "may_precharge"),
        ):
            m.d.comb += getattr(rows, name).eq(vector(name))
        for i in range(len(AGES)):
            ages = Signal(BANKS, name=f"ages_{i}")
            m.d.comb += [
                ages.eq(Cat(lane.age[i] for lane in lanes)),
                rows.ages[i].eq(ages),
                columns.ages[i].eq(ages),
            ]
        closes = Signal()
        m.d.comb += closes.eq((rows.command == RowCommand.PRE) | (rows.command == RowCommand.PREA))
        for b, lane in enumerate(lanes):
            mine = rows.grant[b]
            m.d.comb += [
                lane.activate.eq(mine & (rows.command == RowCommand.ACT)),
                lane.precharge.eq(mine & closes),
                lane.refresh.eq(mine & (rows.command == RowCommand.REFPB)),
                lane.refresh_all.eq(rows.command == RowCommand.REFAB),
                lane.column.eq(columns.grant[b]),
                lane.writing.eq(columns.writing),
                lane.tick.eq(refresh.tick),
            ]

        given = Signal()
        hit = Signal()
        m.d.comb += [
            given.eq(columns.grant.any()),
            hit.eq((columns.grant & ~vector("fresh")).any()),
        ]
        row_bits = select(rows.grant, [lane.row for lane in lanes])
        column = Signal.like(lanes[0].column_address)
        m.d.comb += column.eq(select(columns.grant, [lane.column_address for lane in lanes]))
        m.d.sync += [
            self.hbm.row.command.eq(rows.command),
            self.hbm.row.bank.eq(_number(rows.grant)),
            self.hbm.row.row.eq(row_bits),
            self.hbm.column.command.eq(
                Mux(
                    given,
                    Mux(columns.writing, ColumnCommand.WR, ColumnCommand.RD),
                    ColumnCommand.NOP,
                )
            ),
            self.hbm.column.bank.eq(_number(columns.grant)),
            self.hbm.column.column.eq(column),
        ]
        self._given, self._column = given, column
        conflict = (rows.grant & rows.asks_precharge & ~refresh.refresh).any()
        m.d.comb += [
            self.events.reads.eq(given & ~columns.writing),
            self.events.writes.eq(given & columns.writing),
            self.events.row_hits.eq(hit),
            self.events.activations.eq(rows.command == RowCommand.ACT),
            self.events.conflicts.eq((rows.command == RowCommand.PRE) & conflict),
            self.events.refreshes.eq(
                (rows.command == RowCommand.REFPB) | (rows.command == RowCommand.REFAB)
            ),
            self.events.turns.eq(columns.turned),
            self.events.waits_for_bus.eq(columns.fits.any() & ~given),
            self.events.waits_for_row.eq(
                ~columns.fits.any() & Mux(columns.writing, columns.write_waits, columns.read_waits)
            ),
        ]

        # Nobody waits for ever: `docs/hbm.md` says where this comes from.
        for b, lane in enumerate(lanes):
            waited = Signal(14, name=f"head_waited_{b}")
            m.d.sync += waited.eq(Mux(lane.column | lane.idle, 0, waited + ~waited.all()))
            m.d.sync += Assert(~waited.all())

    # --- data -----------------------------------------------------------------------------------

    def _transfer(self, m: Module) -> None:
        """Move data between device, reorder buffers and pool."""
        lanes, columns = self._lanes, self._columns
        returns, pool, partial, hbm = self._returns, self._pool, self._partial, self.hbm
        read_tag = select(columns.grant, [lane.read_tag for lane in lanes])
        m.d.comb += [
            returns.issue.eq(self._given & ~columns.writing),
            Value.cast(returns.issued.tag).eq(read_tag),
            returns.issued.place.bank.eq(_number(columns.grant)),
            returns.issued.place.row.eq(select(columns.grant, [lane.row for lane in lanes])),
            returns.issued.place.column.eq(self._column),
            returns.valid.eq(hbm.read.valid),
            returns.data.eq(hbm.read.data),
            returns.check.eq(hbm.read.check),
        ]
        tag = returns.read.tag
        error = returns.lost.any()
        wanted = Signal()
        m.d.comb += wanted.eq(hbm.read.valid & tag.wanted.bit_select(returns.half, 1))
        can_fault = Signal(len(self._pick))
        for i, buffer in self._buffers.items():
            fill, fault = Signal(name=f"fill_{i}"), Signal(name=f"fault_{i}")
            m.d.comb += [
                fill.eq(wanted & (tag.client == i)),
                can_fault[i].eq(~fill),
                fault.eq(self._fault & self._pick[i] & ~self._access.write),
                buffer.fill.eq(fill | fault),
                buffer.fill_slot.eq(
                    Mux(
                        fill,
                        advanced(tag.slot, returns.half & tag.wanted[0], buffer.depth),
                        buffer.slot,
                    )
                ),
                buffer.beat.data.eq(returns.corrected),
                buffer.beat.error.eq(Mux(fill, error, 1)),
            ]
        own = tag.client == len(self.clients)
        m.d.comb += [
            self._can_fault.eq((can_fault & self._pick).any()),
            partial.valid.eq(hbm.read.valid & own),
            partial.half.eq(returns.half),
            partial.data.eq(returns.corrected),
            partial.broken.eq(returns.lost),
            partial.scrub.eq(returns.fixed.any() & ~own),
            partial.scrub_place.eq(returns.read.place),
            self.events.corrected.eq(returns.fixed.any()),
            self.events.uncorrected.eq(error),
            self.wrong.eq(returns.read.place),
            self.wrong_half.eq(returns.half),
        ]

        m.submodules.writer = writer = Writer(ecc=self.ecc)
        slot = Signal(SLOT_BITS)
        m.d.comb += [
            slot.eq(select(columns.grant, [lane.write_tag for lane in lanes])),
            writer.latency.eq(self.latency),
            writer.issue.eq(self._given & columns.writing),
            writer.issue_slot.eq(slot),
            writer.in_data.eq(pool.out_data),
            writer.in_enable.eq(pool.out_enable),
            pool.issue.eq(writer.issue),
            pool.issue_slot.eq(slot),
            pool.fetch.eq(writer.fetch),
            pool.fetch_slot.eq(writer.fetch_slot),
            hbm.write.data.eq(writer.data),
            hbm.write.enable.eq(writer.enable),
            hbm.write.check.eq(writer.check),
        ]


def _number(grant: Value) -> Value:
    """Return the number of the bit that is set."""
    return Cat(
        Cat(grant[i] for i in range(BANKS) if i >> bit & 1).any()
        for bit in range(BANKS.bit_length() - 1)
    )
