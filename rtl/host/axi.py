"""The host port: AXI4 for the memory of a tile, AXI4-Lite for its registers.

Ports have the names that AXI tools expect, such as ``s_axi_awaddr``; inside, every channel is a
stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.host.burst import (
    AXI_ADDRESS_BITS,
    ID_BITS,
    PAGE_BITS,
    BurstLayout,
    bus_bytes,
    refusal,
)
from rtl.host.client import signature
from rtl.host.lite import LiteBridge
from rtl.host.read import Reader
from rtl.host.write import Writer
from rtl.registers import WORD_BITS, WORD_BYTES, RegisterBus

REGISTER_WORDS = 2048
"""Words of the registers of a tile: two pages of 4 KiB."""

MEMORY, REGISTERS = "s_axi", "s_axil"
"""Prefixes of the ports."""

Members = dict[str, wiring.Member]
Ports = Callable[[str], Signal]


def _channel(flow: type[In] | type[Out], name: str, fields: Mapping[str, int]) -> Members:
    """Return valid, ready and payload of a channel that flows in or out."""
    members = {f"{name}valid": flow(1)}
    members |= {f"{name}{field}": flow(width) for field, width in fields.items()}
    return members | {f"{name}ready": (In if flow is Out else Out)(1)}


def axi_ports(config: TileConfig, prefix: str = MEMORY) -> Members:
    """Return the ports of an AXI4 subordinate with the data width of a tile."""
    size = bus_bytes(config)
    address = {"id": ID_BITS, "addr": AXI_ADDRESS_BITS, "len": 8, "size": 3, "burst": 2}
    return (
        _channel(In, f"{prefix}_aw", address)
        | _channel(In, f"{prefix}_w", {"data": 8 * size, "strb": size, "last": 1})
        | _channel(Out, f"{prefix}_b", {"id": ID_BITS, "resp": 2})
        | _channel(In, f"{prefix}_ar", address)
        | _channel(Out, f"{prefix}_r", {"id": ID_BITS, "data": 8 * size, "resp": 2, "last": 1})
    )


def lite_ports(words: int = REGISTER_WORDS, prefix: str = REGISTERS) -> Members:
    """Return the ports of an AXI4-Lite subordinate with so many words of registers."""
    address = {"addr": (WORD_BYTES * words - 1).bit_length()}
    return (
        _channel(In, f"{prefix}_aw", address)
        | _channel(In, f"{prefix}_w", {"data": WORD_BITS, "strb": WORD_BYTES})
        | _channel(Out, f"{prefix}_b", {"resp": 2})
        | _channel(In, f"{prefix}_ar", address)
        | _channel(Out, f"{prefix}_r", {"data": WORD_BITS, "resp": 2})
    )


def pass_through(
    m: Module, outer: wiring.Component, inner: wiring.Component, names: Iterable[str]
) -> None:
    """Connect ports of a component to those of the same names of a component inside."""
    for name in names:
        outside, inside = getattr(outer, name), getattr(inner, name)
        incoming = outer.signature.members[name].flow is In
        m.d.comb += inside.eq(outside) if incoming else outside.eq(inside)


class HostPort(wiring.Component):
    """Let a host into a tile.

    Parameters
    ----------
    config
        Configuration of the tile.
    words
        Words of its registers.

    Members
    -------
    s_axi_* : In
        AXI4 to the memory.
    s_axil_* : In
        AXI4-Lite to the registers.
    client : Out
        To the HBM slice, see `rtl.hbm.ports.ClientSignature`.
    bus : Out
        To the registers, see `rtl.registers.RegisterBus`.
    """

    def __init__(self, config: TileConfig, words: int = REGISTER_WORDS) -> None:
        self.config, self.words = config, words
        super().__init__(
            axi_ports(config)
            | lite_ports(words)
            | {"client": Out(signature(config)), "bus": Out(RegisterBus(words))}
        )

    def elaborate(self, platform: Any) -> Module:
        """Return both halves of the memory port, and the bridge."""
        m = Module()
        live = Signal()  # low during reset: nothing is accepted then
        m.d.sync += live.eq(1)
        self._memory(m, live)
        self._registers(m, live)
        return m

    def _memory(self, m: Module, live: Value) -> None:
        m.submodules.reader = reader = Reader(self.config)
        m.submodules.writer = writer = Writer(self.config)
        for name, half in (("ar", reader), ("aw", writer)):
            port = self._enter(m, f"{MEMORY}_{name}", half.bursts, live)
            burst = Signal(BurstLayout(self.config), name=f"{name}_burst")
            m.d.comb += [
                burst.id.eq(port("id")),
                burst.position.eq(port("addr")),
                burst.page.eq(port("addr")[PAGE_BITS:]),
                burst.length.eq(port("len")),
                burst.size.eq(port("size")),
                burst.kind.eq(port("burst")),
                half.bursts.payload.eq(burst),
                half.bursts.payload.refusal.eq(refusal(self.config, burst, port("addr"))),
            ]
        port = self._enter(m, f"{MEMORY}_w", writer.transfers, live)
        for field in ("data", "strb", "last"):
            m.d.comb += writer.transfers.payload[field].eq(port(field))
        port = self._leave(m, f"{MEMORY}_b", writer.responses)
        for field in ("id", "resp"):
            m.d.comb += port(field).eq(writer.responses.payload[field])
        port = self._leave(m, f"{MEMORY}_r", reader.transfers)
        for field in ("id", "data", "resp", "last"):
            m.d.comb += port(field).eq(reader.transfers.payload[field])

        connect(m, writer.beats, flipped(self.client.writes))
        connect(m, flipped(self.client.answers), writer.answers)
        connect(m, flipped(self.client.reads), reader.beats)
        self._choose(m, reader.descriptors, writer.descriptors)

    def _choose(self, m: Module, reads: stream.Interface, writes: stream.Interface) -> None:
        """Pass descriptors on, in turn if there are both."""
        chosen, free, wrote = self.client.descriptors, Signal(), Signal()
        m.d.comb += [
            free.eq(~chosen.valid | chosen.ready),
            writes.ready.eq(free & ~(reads.valid & wrote)),
            reads.ready.eq(free & ~(writes.valid & writes.ready)),
        ]
        with m.If(free):
            m.d.sync += chosen.valid.eq(reads.valid | writes.valid)
        for source in (reads, writes):
            with m.If(source.valid & source.ready):
                m.d.sync += [chosen.payload.eq(source.payload), wrote.eq(source.payload.write)]

    def _registers(self, m: Module, live: Value) -> None:
        m.submodules.bridge = bridge = LiteBridge(self.words)
        connect(m, bridge.bus, flipped(self.bus))
        word = slice(WORD_BYTES.bit_length() - 1, None)
        for name, addresses in (("ar", bridge.read_addresses), ("aw", bridge.write_addresses)):
            port = self._enter(m, f"{REGISTERS}_{name}", addresses, live)
            m.d.comb += addresses.payload.eq(port("addr")[word])
        port = self._enter(m, f"{REGISTERS}_w", bridge.writes, live)
        for field in ("data", "strb"):
            m.d.comb += bridge.writes.payload[field].eq(port(field))
        port = self._leave(m, f"{REGISTERS}_b", bridge.responses)
        m.d.comb += port("resp").eq(bridge.responses.payload)
        port = self._leave(m, f"{REGISTERS}_r", bridge.reads)
        for field in ("data", "resp"):
            m.d.comb += port(field).eq(bridge.reads.payload[field])

    def _enter(self, m: Module, channel: str, target: stream.Interface, live: Value) -> Ports:
        """Connect the handshake of a channel that comes in; return its other ports by name."""
        m.d.comb += [
            target.valid.eq(getattr(self, f"{channel}valid") & live),
            getattr(self, f"{channel}ready").eq(target.ready & live),
        ]
        return lambda field: getattr(self, f"{channel}{field}")

    def _leave(self, m: Module, channel: str, source: stream.Interface) -> Ports:
        """Connect the handshake of a channel that goes out; return its other ports by name."""
        m.d.comb += [
            getattr(self, f"{channel}valid").eq(source.valid),
            source.ready.eq(getattr(self, f"{channel}ready")),
        ]
        return lambda field: getattr(self, f"{channel}{field}")
