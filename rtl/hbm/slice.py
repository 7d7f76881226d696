"""The HBM slice of a tile: a controller for each pseudo-channel, side by side."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.hbm.controller import Controller
from rtl.hbm.counters import EVENTS, counters
from rtl.hbm.distances import distances
from rtl.hbm.interface import BEAT_BYTES, PseudoChannelSignature
from rtl.hbm.place import GeometryLayout
from rtl.hbm.policy import PolicyLayout
from rtl.hbm.ports import Client, ClientSignature, clients
from rtl.hbm.settings import TIMING_FIELDS, registers
from rtl.hbm.timing import TIMINGS
from rtl.registers import RegisterBlock, RegisterBus, RegisterMap


class HbmSlice(wiring.Component):
    """Serve the clients of a tile from its slice of HBM.

    Every pseudo-channel holds 16 bytes of each beat.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    matrix, l1, stores, host : In
        The clients, see `rtl.hbm.ports.clients` and `ClientSignature`.
    hbm : array of Out
        The pseudo-channels.
    bus : In
        Registers and counters, see `register_map`.

    Attributes
    ----------
    register_map
        Timing, policy, errors, counters.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.channels = config.pseudo_channels
        self.clients = clients(config)
        self.register_map = RegisterMap(
            config,
            registers(TIMINGS[config.timing], self.channels, ecc=config.ecc),
            counters(self.channels),
        )
        super().__init__(
            {
                **{c.name: In(ClientSignature(c, self.channels)) for c in self.clients},
                "hbm": Out(PseudoChannelSignature()).array(self.channels),
                "bus": In(RegisterBus(self.register_map.words)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the controllers and what joins them."""
        m = Module()
        m.submodules.registers = block = RegisterBlock(self.register_map)
        connect(m, flipped(self.bus), block.bus)
        timing = {name: getattr(block, f"timing_{name}").value for name in TIMING_FIELDS}
        geometry, policy = Signal(GeometryLayout()), Signal(PolicyLayout())
        within = Signal(4)
        with m.Switch(Cat(timing["bank_groups"], timing["banks"])):
            for groups in (1, 2, 4):
                for banks in (1, 2, 4, 8):
                    if groups * banks <= 16:
                        with m.Case(groups | groups * banks << 3):
                            m.d.comb += within.eq(banks)
        m.d.sync += [
            geometry.groups.eq(timing["bank_groups"]),
            geometry.within.eq(within),
            geometry.rows.eq(block.rows.value),
        ]
        m.d.comb += [
            policy.high.eq(block.write_high.value),
            policy.read_batch.eq(block.read_batch.value),
            policy.batch.eq(block.write_batch.value),
            policy.patience.eq(block.patience.value),
            policy.period.eq(timing["refi"]),
            policy.late.eq(block.refresh_late.value),
            policy.last.eq(block.refresh_last.value),
            policy.together.eq(block.control.refresh_together),
        ]
        if self.config.ecc:
            m.d.comb += policy.unprotected.eq(block.control.unprotected)
        distance = distances(m, timing)

        controllers = []
        for i in range(self.channels):
            m.submodules[f"channel{i}"] = controller = Controller(self.clients, ecc=self.config.ecc)
            controllers.append(controller)
            connect(m, controller.hbm, flipped(self.hbm[i]))
            m.d.comb += [
                controller.geometry.eq(geometry),
                controller.distances.eq(distance),
                controller.policy.eq(policy),
                controller.latency.eq(timing["wl"]),
                controller.enable.eq(block.control.enable),
            ]
        for client in self.clients:
            self._join(m, client, controllers)

        m.d.comb += block.step.cycles.eq(1)
        for event in EVENTS:
            happened = [getattr(c.events, event.name) for c in controllers]
            m.d.comb += getattr(block.step, event.name).eq(sum(happened[1:], happened[0]))
        m.d.comb += [
            block.status.corrected.eq(Cat(c.events.corrected for c in controllers).any()),
            block.status.uncorrected.eq(Cat(c.events.uncorrected for c in controllers).any()),
        ]
        place = block.uncorrected_place
        for i, controller in enumerate(controllers):
            with m.If(controller.events.uncorrected):
                m.d.sync += [
                    place.half.eq(controller.wrong_half),
                    place.column.eq(controller.wrong.column),
                    place.bank.eq(controller.wrong.bank),
                    place.row.eq(controller.wrong.row),
                    place.channel.eq(i),
                ]
        return m

    def _join(self, m: Module, client: Client, controllers: list[Controller]) -> None:
        """Show a client one port: every channel gets its part of what goes in, and gives its part.

        A channel may be ahead of the others with what it writes; what leaves waits for the last.
        Descriptors are accepted by all in the same cycle, or a channel could be ahead of an answer
        that the others still owe.
        """
        outer = getattr(self, client.name)
        inner = [getattr(controller, client.name) for controller in controllers]

        descriptors = [port.descriptors for port in inner]
        accept = Signal(name=f"{client.name}_accept")
        m.d.comb += [
            outer.descriptors.ready.eq(Cat(port.ready for port in descriptors).all()),
            accept.eq(outer.descriptors.valid & outer.descriptors.ready),
        ]
        for port in descriptors:
            m.d.comb += [port.payload.eq(outer.descriptors.payload), port.valid.eq(accept)]

        def fork(name: str) -> list:
            source, sinks = getattr(outer, name), [getattr(port, name) for port in inner]
            taken = Signal(self.channels, name=f"{client.name}_{name}_taken")
            ready = Signal(self.channels, name=f"{client.name}_{name}_ready")
            m.d.comb += [
                ready.eq(taken | Cat(sink.ready for sink in sinks)),
                source.ready.eq(ready.all()),
                *(sink.valid.eq(source.valid & ~taken[i]) for i, sink in enumerate(sinks)),
            ]
            with m.If(source.valid):
                m.d.sync += taken.eq(ready & ~ready.all().replicate(self.channels))
            return [(source.payload, sink.payload) for sink in sinks]

        def join(name: str) -> list:
            sink, sources = getattr(outer, name), [getattr(port, name) for port in inner]
            m.d.comb += [
                sink.valid.eq(Cat(source.valid for source in sources).all()),
                *(source.ready.eq(sink.valid & sink.ready) for source in sources),
            ]
            m.d.comb += sink.payload.error.eq(Cat(source.payload.error for source in sources).any())
            return [(source.payload, sink.payload) for source in sources]

        if client.writes:
            join("answers")
            for i, (given, to) in enumerate(fork("writes")):
                m.d.comb += [
                    to.data.eq(given.data.word_select(i, 8 * BEAT_BYTES)),
                    to.enable.eq(given.enable.word_select(i, BEAT_BYTES)),
                ]
        if client.reads:
            for i, (given, to) in enumerate(join("reads")):
                m.d.comb += to.data.word_select(i, 8 * BEAT_BYTES).eq(given.data)
