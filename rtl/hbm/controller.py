"""The controller of one pseudo-channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.hbm.arbiter import number, select
from rtl.hbm.columns import Columns
from rtl.hbm.combine import Combiner
from rtl.hbm.counters import EVENTS
from rtl.hbm.delivery import Delivery
from rtl.hbm.distances import DistanceLayout
from rtl.hbm.generator import Generator
from rtl.hbm.intake import EVENTS as INTAKE_EVENTS
from rtl.hbm.intake import Intake
from rtl.hbm.interface import ColumnCommand, PseudoChannelSignature, RowCommand
from rtl.hbm.lane import AGES, Lane
from rtl.hbm.lookahead import LookAhead
from rtl.hbm.partial import WRITERS, PartialWriters
from rtl.hbm.place import BANKS, GeometryLayout, PlaceLayout, exists
from rtl.hbm.policy import PolicyLayout
from rtl.hbm.pool import SLOT_BITS, WritePool
from rtl.hbm.ports import Client, ClientSignature
from rtl.hbm.refresh import Refresher
from rtl.hbm.returns import ReadTagLayout
from rtl.hbm.rows import Rows
from rtl.hbm.waiting import Waiting
from rtl.hbm.writer import Writer

LANE_ROOM = ("read_room", "write_room", "read_found")
LANE_ROWS = (
    *("asks_activate", "asks_precharge", "guess"),
    *("is_open", "may_activate", "may_precharge"),
)


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
        """Return the parts, and what joins them."""
        m = Module()
        sources = len(self.clients) + WRITERS  # the last ones are the partial writers
        depths = {i: client.reads for i, client in enumerate(self.clients) if client.reads}
        keeps = [i for i, client in enumerate(self.clients) if client.name in ("l1", "loads")]
        m.submodules.intake = self._intake = Intake(sources, ecc=self.ecc, keeps=keeps)
        m.submodules.lookahead = self._lookahead = LookAhead(len(self.clients))
        m.submodules.pool = self._pool = WritePool()
        m.submodules.combiner = self._combiner = Combiner()
        m.submodules.partial = self._partial = PartialWriters()
        m.submodules.delivery = self._delivery = Delivery(sources, depths, ecc=self.ecc)
        m.submodules.writer = self._writer = Writer(ecc=self.ecc)
        m.submodules.columns = self._columns = Columns(BANKS)
        m.submodules.rows = self._rows = Rows(BANKS)
        m.submodules.waiting = self._waiting = Waiting()
        m.submodules.refresher = self._refresh = Refresher(BANKS)
        self._lanes = []
        for b in range(BANKS):
            m.submodules[f"lane{b}"] = lane = Lane(ReadTagLayout().size, SLOT_BITS)
            self._lanes.append(lane)
        for i, client in enumerate(self.clients):
            self._attach(m, i, client)
        self._queue(m)
        self._schedule(m)
        self._command(m)
        self._transfer(m)
        return m

    def _attach(self, m: Module, index: int, client: Client) -> None:
        """Give a client its generator, and what it reads."""
        port, lookahead = getattr(self, client.name), self._lookahead
        m.submodules[f"{client.name}_generator"] = generator = Generator(writes=client.writes)
        connect(m, flipped(port.descriptors), generator.descriptors)
        connect(m, generator.accesses, self._intake.accesses[index])
        m.d.comb += [
            generator.geometry.eq(self.geometry),
            generator.enable.eq(self.enable),
            lookahead.active[index].eq(generator.active),
            lookahead.pages[index].eq(generator.pages),
            lookahead.ahead[index].eq(generator.ahead),
            lookahead.next_pages[index].eq(generator.next_pages),
        ]
        if client.writes:
            connect(m, flipped(port.writes), generator.writes)
            connect(m, generator.answers, flipped(port.answers))
        if client.reads:
            connect(m, self._delivery.beats[index], flipped(port.reads))

    def _vector(self, name: str) -> Value:
        """Return what all lanes say."""
        return Cat(getattr(lane, name) for lane in self._lanes)

    # --- from accesses to queues ----------------------------------------------------------------

    def _queue(self, m: Module) -> None:
        """Let accesses in."""
        intake, pool, partial, delivery = self._intake, self._pool, self._partial, self._delivery
        lookahead, combiner = self._lookahead, self._combiner
        for i in range(WRITERS):
            connect(m, partial.accesses[i], intake.accesses[len(self.clients) + i])
            m.d.comb += intake.merge_places[i].eq(partial.places[i])
        m.d.comb += [
            *(getattr(intake, name).eq(self._vector(name)) for name in LANE_ROOM),
            intake.buffer_room.eq(delivery.room),
            *(intake.buffer_slots[i].eq(slot) for i, slot in enumerate(delivery.slots)),
            intake.may_answer.eq(delivery.may_answer),
            intake.pool_room.eq(pool.room),
            intake.pool_slot.eq(pool.slot),
            intake.pool_found.eq(pool.found),
            intake.merging.eq(partial.busy),
            intake.writing.eq(self._columns.writing),
            intake.unprotected.eq(self.policy.unprotected),
            partial.start.eq(intake.merge),
            partial.access.eq(intake.access),
            pool.wanted.eq(intake.key),
            pool.wanted_bank.eq(intake.access.place.bank),
            intake.fits.eq(combiner.found),
            combiner.place.eq(intake.access.place),
            combiner.enable.eq(intake.access.enable),
            combiner.unprotected.eq(self.policy.unprotected if self.ecc else 1),
            combiner.take.eq(intake.write),
            combiner.take_slot.eq(pool.slot),
            combiner.add.eq(intake.combine),
            combiner.issue.eq(pool.issue),
            combiner.issue_slot.eq(pool.issue_slot),
            pool.take.eq(intake.write),
            pool.add.eq(intake.combine),
            pool.add_slot.eq(combiner.slot),
            pool.bank.eq(intake.access.place.bank),
            pool.fingerprint.eq(intake.key),
            pool.data.eq(intake.access.data),
            pool.enable.eq(intake.access.enable),
            lookahead.geometry.eq(self.geometry),
            *(getattr(self.events, name).eq(getattr(intake, name)) for name in INTAKE_EVENTS),
        ]
        if self.ecc:
            m.d.comb += intake.merger_idle.eq(partial.idle)
        for b, lane in enumerate(self._lanes):
            m.d.comb += [
                lane.push_read.eq(intake.read & intake.bank[b]),
                lane.push_write.eq(intake.write & intake.bank[b]),
                lane.read_entry.eq(intake.read_entry),
                lane.write_entry.eq(intake.write_entry),
                lane.now.eq(intake.now),
                lane.wanted.eq(intake.key),
                lane.distances.eq(self.distances),
                lane.hint.eq(lookahead.hint[b]),
                lane.hint_row.eq(lookahead.row),
            ]

    # --- from queues to commands ----------------------------------------------------------------

    def _schedule(self, m: Module) -> None:
        """Show the schedulers what the lanes ask for."""
        columns, rows, refresh, policy = self._columns, self._rows, self._refresh, self.policy
        vector, waiting = self._vector, self._waiting
        m.d.comb += [
            waiting.distances.eq(self.distances),
            waiting.patience.eq(policy.patience),
            waiting.reads.eq(vector("read_waits")),
            waiting.writes.eq(vector("write_waits")),
            waiting.served.eq(columns.grant),
            waiting.writing.eq(columns.writing),
            waiting.turned.eq(columns.turned),
            columns.overdue.eq(waiting.overdue),
            columns.due_here.eq(waiting.here),
            columns.due_there.eq(waiting.there),
            rows.overdue.eq(waiting.overdue),
            columns.distances.eq(self.distances),
            columns.geometry.eq(self.geometry),
            columns.fits.eq(vector("fits") & ~refresh.held),
            columns.read_waits.eq(vector("read_waits").any()),
            columns.write_waits.eq(vector("write_waits").any()),
            columns.urgent.eq(self._intake.pressed | (self._pool.count >= policy.high)),
            columns.read_batch.eq(policy.read_batch),
            columns.batch.eq(policy.batch),
            columns.patience.eq(policy.patience),
            columns.armed.eq(vector("armed").all()),
            rows.distances.eq(self.distances),
            rows.geometry.eq(self.geometry),
            rows.refresh.eq(refresh.refresh),
            rows.held.eq(refresh.held),
            rows.refresh_all.eq(refresh.refresh_all),
            *(getattr(rows, name).eq(vector(name)) for name in LANE_ROWS),
            refresh.enable.eq(self.enable),
            refresh.exist.eq(Cat(exists(self.geometry, b) for b in range(BANKS))),
            refresh.period.eq(policy.period),
            refresh.late.eq(policy.late),
            refresh.last.eq(policy.last),
            refresh.together.eq(policy.together),
            refresh.idle.eq(vector("idle")),
            refresh.recent.eq(vector("recent")),
            refresh.unused.eq(vector("unused")),
            refresh.reserved.eq(self._lookahead.reserved),
            refresh.done_all.eq(rows.command == RowCommand.REFAB),
            refresh.done.eq(Mux(rows.command == RowCommand.REFPB, rows.grant, 0)),
        ]
        for i in range(len(AGES)):
            ages = Signal(BANKS, name=f"ages_{i}")
            m.d.comb += [
                ages.eq(Cat(lane.age[i] for lane in self._lanes)),
                rows.ages[i].eq(ages),
                columns.ages[i].eq(ages),
            ]

    def _command(self, m: Module) -> None:
        """Give the commands that were chosen to device and lanes."""
        lanes, columns, rows, refresh = self._lanes, self._columns, self._rows, self._refresh
        closes, self._given, hit = Signal(), Signal(), Signal()
        given, self._column = self._given, Signal.like(lanes[0].column_address)
        m.d.comb += [
            closes.eq((rows.command == RowCommand.PRE) | (rows.command == RowCommand.PREA)),
            given.eq(columns.grant.any()),
            hit.eq((columns.grant & ~self._vector("fresh")).any()),
            self._column.eq(select(columns.grant, [lane.column_address for lane in lanes])),
        ]
        for b, lane in enumerate(lanes):
            mine = rows.grant[b]
            m.d.comb += [
                lane.activate.eq(mine & (rows.command == RowCommand.ACT)),
                lane.precharge.eq(mine & closes),
                lane.refresh.eq(mine & (rows.command == RowCommand.REFPB)),
                lane.refresh_all.eq(rows.command == RowCommand.REFAB),
                lane.column.eq(columns.grant[b]),
                lane.writing.eq(columns.writing),
                lane.prepare.eq(columns.prepare),
                lane.tick.eq(refresh.tick),
            ]
        direction = Mux(columns.writing, ColumnCommand.WR, ColumnCommand.RD)
        m.d.sync += [
            self.hbm.row.command.eq(rows.command),
            self.hbm.row.bank.eq(number(rows.grant)),
            self.hbm.row.row.eq(select(rows.grant, [lane.row for lane in lanes])),
            self.hbm.column.command.eq(Mux(given, direction, ColumnCommand.NOP)),
            self.hbm.column.bank.eq(number(columns.grant)),
            self.hbm.column.column.eq(self._column),
        ]
        conflict = (rows.grant & rows.asks_precharge & ~refresh.refresh).any()
        waits = Mux(columns.writing, columns.write_waits, columns.read_waits)
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
            self.events.waits_for_row.eq(~columns.fits.any() & waits),
        ]

    # --- data -----------------------------------------------------------------------------------

    def _transfer(self, m: Module) -> None:
        """Move data between device, clients, pool and partial writer."""
        lanes, grant, hbm = self._lanes, self._columns.grant, self.hbm
        delivery, partial, pool, writer = self._delivery, self._partial, self._pool, self._writer
        intake, writing = self._intake, self._columns.writing
        m.d.comb += [
            delivery.issue.eq(self._given & ~writing),
            Value.cast(delivery.issued.tag).eq(select(grant, [lane.read_tag for lane in lanes])),
            delivery.issued.place.bank.eq(number(grant)),
            delivery.issued.place.row.eq(select(grant, [lane.row for lane in lanes])),
            delivery.issued.place.column.eq(self._column),
            delivery.unprotected.eq(self.policy.unprotected),
            delivery.valid.eq(hbm.read.valid),
            delivery.data.eq(hbm.read.data),
            delivery.check.eq(hbm.read.check),
            delivery.pick.eq(intake.pick),
            delivery.reserve.eq(intake.reserve),
            delivery.fault.eq(intake.fault & ~intake.access.write),
            partial.valid.eq(delivery.own_valid),
            partial.half.eq(delivery.half),
            partial.data.eq(delivery.corrected),
            partial.broken.eq(delivery.lost),
            partial.scrub.eq(delivery.scrub),
            partial.scrub_place.eq(delivery.place),
            self.events.corrected.eq(delivery.fixed),
            self.events.uncorrected.eq(delivery.broken),
            self.wrong.eq(delivery.place),
            self.wrong_half.eq(delivery.half),
            writer.latency.eq(self.latency),
            writer.issue.eq(self._given & writing),
            writer.issue_slot.eq(select(grant, [lane.write_tag for lane in lanes])),
            writer.in_data.eq(pool.out_data),
            writer.in_enable.eq(pool.out_enable),
            pool.issue.eq(writer.issue),
            pool.issue_slot.eq(writer.issue_slot),
            pool.fetch.eq(writer.fetch),
            pool.fetch_slot.eq(writer.fetch_slot),
            hbm.write.data.eq(writer.data),
            hbm.write.enable.eq(writer.enable),
            hbm.write.check.eq(writer.check),
        ]
