"""Testbench of the host port: a manager, a memory behind the port, and what the bytes should be."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.host.axi import REGISTERS, axi_ports, lite_ports
from rtl.host.burst import Kind, Response, bus_bytes
from rtl.host.client import ADDRESS_BITS, find_client
from tb.axi import LITE_CHANNELS, AxiChecker, AxiManager, Burst, HandshakeChecker
from tb.memory_client import UNWRITTEN, MemoryClient

PERIOD_NS = 10
PAGE = 4096


class Bytes:
    """Bytes at AXI addresses, and what bursts do to them.

    Parameters
    ----------
    config
        Configuration of the tile.
    """

    def __init__(self, config: TileConfig) -> None:
        self._stride, self._beat = config.beat_stride, config.beat_bytes
        self._bus = bus_bytes(config)
        self.limit = self._stride << ADDRESS_BITS
        self.values: dict[int, int] = {}

    def exists(self, address: int) -> bool:
        """Return whether an address is not in a hole."""
        return address % self._stride < self._beat

    def refusal(self, burst: Burst) -> Response:
        """Return how a burst that cannot be carried out is answered, or OKAY."""
        if burst.address >= self.limit:
            return Response.DECERR
        size = 1 << burst.size
        legal = size <= self._bus
        match burst.kind:
            case Kind.FIXED:
                legal &= burst.length <= 16
            case Kind.INCR:
                legal &= burst.places()[-1][-1] // PAGE == burst.address // PAGE
            case Kind.WRAP:
                legal &= burst.length in (2, 4, 8, 16) and burst.address % size == 0
            case _:
                legal = False
        return Response.OKAY if legal else Response.SLVERR

    def fill(self, burst: Burst, rng: random.Random, mine: Callable[[int], bool]) -> None:
        """Give a burst random data, of which it writes no other bytes than `mine`."""
        some = rng.random() < 0.5
        for places in burst.places():
            strobe = 0
            for address in places:
                if mine(address) and not (some and rng.random() < 0.3):
                    strobe |= 1 << address % self._bus
            burst.data.append((rng.getrandbits(8 * self._bus), strobe))

    def write(self, burst: Burst) -> Response:
        """Carry out a burst and return the response."""
        resp = self.refusal(burst)
        if resp != Response.OKAY:
            return resp
        for (value, strobe), places in zip(burst.data, burst.places(), strict=True):
            for address in places:
                lane = address % self._bus
                if strobe >> lane & 1 and self.exists(address):
                    self.values[address] = value >> 8 * lane & 0xFF
                elif strobe >> lane & 1:
                    resp = Response.DECERR
        return resp

    def check(self, burst: Burst, mine: Callable[[int], bool] = lambda address: True) -> None:
        """Check responses and data of a burst that read, other bytes than `mine` apart."""
        refusal = self.refusal(burst)
        assert len(burst.resp) == burst.length
        for resp, value, places in zip(burst.resp, burst.read, burst.places(), strict=True):
            if refusal != Response.OKAY:
                assert (resp, value) == (refusal, 0), f"{burst} should be refused"
                continue
            hole = not any(map(self.exists, places))
            assert resp == (Response.DECERR if hole else Response.OKAY), f"{burst}: {resp}"
            for address in filter(mine, places):
                byte = value >> 8 * (address % self._bus) & 0xFF
                assert byte == self.get(address), f"{burst}: {byte:#x} at {address:#x}"

    def get(self, address: int) -> int:
        """Return a byte."""
        return self.values.get(address, UNWRITTEN) if self.exists(address) else 0


class BurstMaker:
    """Make bursts that keep the rules of AXI.

    Parameters
    ----------
    config
        Configuration of the tile.
    rng
        Source of all choices.
    pages
        Addresses of the pages that they are in.
    """

    def __init__(self, config: TileConfig, rng: random.Random, pages: list[int]) -> None:
        self._largest = bus_bytes(config).bit_length() - 1
        self._rng, self._pages = rng, pages

    def burst(self, *, write: bool, kind: int | None = None, size: int | None = None) -> Burst:
        """Return a burst without data."""
        rng = self._rng
        if kind is None:
            kind = rng.choice([Kind.INCR, Kind.INCR, Kind.WRAP, Kind.FIXED])
        if size is None:
            size = self._largest if rng.random() < 0.4 else rng.randint(0, self._largest)
        offset = rng.randrange(PAGE)
        if rng.random() < 0.5 or kind == Kind.WRAP:
            offset = offset >> size << size
        if rng.random() < 0.2:
            offset = max(0, PAGE - (rng.randint(1, 4) << size))
        room = PAGE // (1 << size) - (offset >> size)
        length = {
            Kind.FIXED: rng.randint(1, 16),
            Kind.INCR: min(room, rng.choice([1, 2, rng.randint(1, 16), rng.randint(1, 256), 256])),
            Kind.WRAP: rng.choice([2, 4, 8, 16]),
        }[Kind(kind)]
        address = rng.choice(self._pages) + offset
        return Burst(write, address, length, size, kind, rng.choice([0, 1, 2, 255]))


class HostTestbench:
    """The port between a manager and a memory.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.
    manager
        Whether there is a manager; if not, a test brings its own.
    """

    def __init__(self, dut: Any, config: TileConfig, *, manager: bool = True) -> None:
        self.dut, self.config = dut, config
        self.rng = random.Random(random.getrandbits(32))
        for name, member in (axi_ports(config) | lite_ports()).items():
            if member.flow.name == "In":
                getattr(dut, name).value = 0
        dut.bus__mapped.value = dut.bus__read_data.value = 0
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        self.memory = MemoryClient(dut, find_client(config, "host"), config.beat_bytes)
        self.checker = AxiChecker(dut)
        HandshakeChecker(dut, REGISTERS, LITE_CHANNELS)
        if manager:
            self.manager = AxiManager(dut)
        self.bytes = Bytes(config)

    async def reset(self, cycles: int = 2) -> None:
        """Reset everything but what is in memory."""
        self.dut.rst.value = 1
        for cycle in range(cycles):
            await RisingEdge(self.dut.clk)
            if cycle == 0 and hasattr(self, "manager"):
                self.manager.reset()
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    def pause_at_random(self) -> None:
        """Choose new pauses on all sides."""
        self.manager.pause_at_random(self.rng)
        self.memory.pause_at_random()

    async def write(self, burst: Burst, expected: int | None = None) -> None:
        """Write and check the response."""
        await self.manager.run(burst)
        resp = self.bytes.write(burst)
        assert burst.resp == [resp if expected is None else expected], f"{burst}"

    async def read(self, burst: Burst, mine: Callable[[int], bool] = lambda address: True) -> None:
        """Read and check what came."""
        self.bytes.check(await self.manager.run(burst), mine)

    def check_memory(self) -> None:
        """Check all of memory against what was written."""
        stride, size = self.config.beat_stride, self.config.beat_bytes
        beats = {address // stride for address in self.bytes.values} | set(self.memory.beats)
        for beat in sorted(beats):
            wanted = bytes(self.bytes.get(beat * stride + i) for i in range(size))
            assert self.memory.bytes_at(beat) == wanted, f"beat {beat:#x}"
