"""Testbench of the network on chip: packets from every tile, each expected once and in order."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.noc import NETWORKS, HeaderLayout
from tb.stream import Pauses, StreamSink, StreamSource, any_pauses, never

PERIOD_NS = 10
SOURCE_LSB = HeaderLayout().size
"""Packets say behind the header who sent them, in as many bits as a tile's number has."""

FREE_LSB = SOURCE_LSB + 8
"""What is above is random."""


def always() -> Pauses:
    """Pause in every cycle."""
    while True:
        yield True


class Network:
    """Sources and sinks of a network.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.
    prefix
        How the network's ports begin.
    rng
        Where data comes from.

    Attributes
    ----------
    sources, sinks
        Of each tile.
    received
        Packets that each tile got, by who sent them.
    refused
        Packets that were dropped, by who sent them.
    """

    def __init__(self, dut: Any, config: TileConfig, prefix: str, rng: random.Random) -> None:
        self.config, self.rng = config, rng
        tiles = range(config.tiles)
        self.sources = [StreamSource(dut, f"{prefix}inject__{tile}") for tile in tiles]
        self.sinks = [
            StreamSink(dut, f"{prefix}eject__{tile}", partial(self._take, tile)) for tile in tiles
        ]
        self._refused = getattr(dut, f"{prefix}refused")
        self.bits = 8 * config.flit_bytes
        self.forget()

    def forget(self) -> None:
        """Expect nothing any more."""
        self._expected: dict[tuple[int, int], deque[list[int]]] = defaultdict(deque)
        self._arriving: list[list[int]] = [[] for _ in range(self.config.tiles)]
        self._to_refuse = [0] * self.config.tiles
        self.received: dict[tuple[int, int], int] = defaultdict(int)
        self.refused = [0] * self.config.tiles
        self.flits = 0

    def send(self, source: int, to: int, length: int = 1) -> None:
        """Send a packet of so many flits."""
        y, x = divmod(to, self.config.mesh.x)
        self._expected[source, to].append(self._queue(source, x, y, length))

    def send_outside(self, source: int, x: int, y: int, length: int = 1) -> None:
        """Send a packet to a tile that does not exist."""
        assert x >= self.config.mesh.x or y >= self.config.mesh.y
        self._queue(source, x, y, length)
        self._to_refuse[source] += 1

    def _queue(self, source: int, x: int, y: int, length: int) -> list[int]:
        header = int(HeaderLayout().const({"x": x, "y": y}).as_value().value)
        free = self.rng.getrandbits(self.bits - FREE_LSB) << FREE_LSB
        flits = [header | source << SOURCE_LSB | free]
        flits += [self.rng.getrandbits(self.bits) for _ in range(length - 1)]
        last = len(flits) - 1
        self.sources[source].send(*(f | (i == last) << self.bits for i, f in enumerate(flits)))
        return flits

    def _take(self, tile: int, flit: int) -> None:
        packet = self._arriving[tile]
        packet.append(flit & (1 << self.bits) - 1)
        self.flits += 1
        if not flit >> self.bits:
            return
        self._arriving[tile] = []
        source = packet[0] >> SOURCE_LSB & 0xFF
        expected = self._expected.get((source, tile))
        assert expected, f"tile {tile} got a packet that {source} did not send"
        assert packet == expected.popleft(), f"{source} to {tile}: not the packet that is next"
        self.received[source, tile] += 1

    def watch(self) -> None:
        """Count what is refused in this cycle."""
        bits = int(str(self._refused.value), 2)  # a single bit is no number to cocotb
        while bits:
            tile = (bits & -bits).bit_length() - 1
            bits &= bits - 1
            self.refused[tile] += 1
            assert self.refused[tile] <= self._to_refuse[tile], f"{tile} was refused a good packet"

    @property
    def idle(self) -> bool:
        """Whether everything arrived or was refused."""
        return (
            all(source.idle for source in self.sources)
            and not any(self._expected.values())
            and self.refused == self._to_refuse
        )


class NocTestbench:
    """Drives a mesh, or both of a chip.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.

    Attributes
    ----------
    networks
        What there is, by name.
    cycles
        Clock cycles since the start.
    """

    def __init__(self, dut: Any, config: TileConfig) -> None:
        self.dut, self.config = dut, config
        self.rng = random.Random(random.getrandbits(32))
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        names = [name for name in NETWORKS if hasattr(dut, f"{name}__refused")]
        self.networks = {
            name: Network(dut, config, f"{name}__" if name else "", self.rng)
            for name in names or [""]
        }
        self.cycles = 0
        self._edge = RisingEdge(dut.clk)
        cocotb.start_soon(self._watch())

    @property
    def first(self) -> Network:
        """The network for what needs but one."""
        return next(iter(self.networks.values()))

    async def reset(self) -> None:
        """Reset the network: what is on its way is lost."""
        self.dut.rst.value = 1
        for network in self.networks.values():
            for source in network.sources:
                source.reset()
        await self.wait(2)
        for network in self.networks.values():
            network.forget()
        self.dut.rst.value = 0
        await self.wait(1)

    async def _watch(self) -> None:
        while True:
            await self._edge
            self.cycles += 1
            if not self.dut.rst.value:
                for network in self.networks.values():
                    network.watch()

    def pause_at_random(self) -> None:
        """Choose pauses everywhere."""
        for network in self.networks.values():
            ports: list[StreamSource | StreamSink] = [*network.sources, *network.sinks]
            for port in ports:
                port.pauses = any_pauses(self.rng)

    def hurry(self, tiles: Sequence[int] | None = None) -> None:
        """Pause nowhere, or take what comes at some tiles."""
        for network in self.networks.values():
            for source in network.sources:
                source.pauses = never()
            for tile in range(self.config.tiles) if tiles is None else tiles:
                network.sinks[tile].pauses = never()

    async def wait(self, cycles: int) -> None:
        """Wait for some cycles."""
        for _ in range(cycles):
            await self._edge

    async def settle(self, timeout: int = 20_000) -> None:
        """Wait until everything arrived, and make sure that nothing comes behind it."""
        start = self.cycles
        while not all(network.idle for network in self.networks.values()):
            await self._edge
            assert self.cycles - start < timeout, "packets do not arrive"
        await self.wait(20)
