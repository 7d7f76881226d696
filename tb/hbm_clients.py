"""Clients of an HBM slice, and the reference that says what they may read."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.hbm.interface import BEAT_BYTES
from rtl.hbm.ports import ADDRESS_BITS, LENGTH_BITS, POISON, Client, clients
from rtl.hbm.settings import values
from rtl.hbm.slice import HbmSlice as Hardware
from rtl.hbm.timing import Timing
from sim.hbm.beats import UNWRITTEN
from tb.hbm import AddressMap, HbmSlice
from tb.registers import RegisterDriver
from tb.stream import Pauses, StreamSink, StreamSource, any_pauses, never


@dataclass
class Version:
    """What a beat holds since a write: number of the write among those of its owner, and bytes."""

    number: int
    data: bytes


class Reference:
    """Memory of which each beat has one writer.

    The writes of a client happen in order. So a read sees some version of a beat: no older than the
    last one answered before the read was accepted, and none that was not offered yet.

    Parameters
    ----------
    beat_bytes
        Bytes of a beat.
    """

    def __init__(self, beat_bytes: int) -> None:
        self.beat_bytes = beat_bytes
        self._beats: dict[int, list[Version]] = {}
        self._first = Version(0, bytes([UNWRITTEN]) * beat_bytes)

    def load(self, beat: int, data: bytes) -> None:
        """Note what a beat holds at first."""
        self._beats[beat] = [Version(0, data)]

    def write(self, beat: int, number: int, data: int, enable: int) -> None:
        """Note that a write was offered."""
        versions = self._beats.setdefault(beat, [self._first])
        old, new = versions[-1].data, data.to_bytes(self.beat_bytes, "little")
        merged = bytes(new[i] if enable >> i & 1 else old[i] for i in range(self.beat_bytes))
        versions.append(Version(number, merged))

    def allowed(self, beat: int, answered: int, offered: int) -> set[bytes]:
        """Return what a read may see, if the owner's writes were `answered` and `offered`."""
        versions = self._beats.get(beat, [self._first])
        seen = {version.data for version in versions if answered < version.number <= offered}
        return seen | {[v for v in versions if v.number <= answered][-1].data}


@dataclass
class Read:
    """A read under way."""

    address: int
    beats: int
    answered: dict[str, int] = field(default_factory=dict)
    accepted: int = 0
    got: list[int] = field(default_factory=list)
    done: int = 0


class Port:
    """Drive one client, and note when its descriptors and answers pass.

    Parameters
    ----------
    bench
        The testbench.
    client
        Whose port it is.
    """

    def __init__(self, bench: HbmTestbench, client: Client) -> None:
        self.bench, self.client, self.name = bench, client, client.name
        dut = bench.dut
        self._valid = getattr(dut, f"{client.name}__descriptors__valid")
        self._ready = getattr(dut, f"{client.name}__descriptors__ready")
        self._payload = getattr(dut, f"{client.name}__descriptors__payload")
        self.offered = self.answered = 0
        self.pauses: Pauses = never()
        self.errors: deque[bool] = deque()
        self.expect_errors: deque[bool] = deque()
        self.reads: deque[Read] = deque()
        self.finished: list[Read] = []
        self.keep = False
        self._todo: deque[tuple[int, Read | None]] = deque()
        self._accepted: deque[Read] = deque()
        self.writes: StreamSource | None = None
        if client.writes:
            self.writes = StreamSource(dut, f"{client.name}__writes")
            self.answers = StreamSink(dut, f"{client.name}__answers", self._answer)
        if client.reads:
            self.sink = StreamSink(dut, f"{client.name}__reads", self._take)
        self._valid.value = 0
        self._task = cocotb.start_soon(self._run())

    # --- what to do ----------------------------------------------------------------------------

    def read(self, address: int, beats: int) -> Read:
        """Queue a read."""
        read = Read(address, beats)
        self._todo.append((address | beats << ADDRESS_BITS, read))
        self.reads.append(read)
        return read

    def write(self, address: int, beats: Iterable[tuple[int, int]]) -> None:
        """Queue a write of beats with their enables."""
        assert self.writes
        beats = list(beats)
        write_bit = 1 << ADDRESS_BITS + LENGTH_BITS
        self._todo.append((address | len(beats) << ADDRESS_BITS | write_bit, None))
        self.offered += 1
        inside = True
        for i, (data, enable) in enumerate(beats):
            if address + i < self.bench.beats:
                self.bench.reference.write(address + i, self.offered, data, enable)
            else:
                inside = False
            self.writes.send(data | enable << 8 * self.bench.beat_bytes)
        self.expect_errors.append(not inside)

    @property
    def idle(self) -> bool:
        """Whether all is done."""
        return not self._todo and not self.reads and self.answered == self.offered

    def reset(self) -> None:
        """Forget everything."""
        self._task.cancel()
        self._todo.clear()
        self.reads.clear()
        self._accepted.clear()
        self.expect_errors.clear()
        self.offered = self.answered = 0
        if self.writes:
            self.writes.reset()
        self._valid.value = 0
        self._task = cocotb.start_soon(self._run())

    def pause(self, rng: random.Random | None) -> None:
        """Draw new pauses for every stream, or none."""

        def draw() -> Pauses:
            return any_pauses(rng) if rng else never()

        self.pauses = draw()
        if self.writes:
            self.writes.pauses, self.answers.pauses = draw(), draw()
        if self.client.reads:
            self.sink.pauses = draw()

    # --- what happens --------------------------------------------------------------------------

    async def _run(self) -> None:
        edge = RisingEdge(self.bench.dut.clk)
        while True:
            if not self._todo or next(self.pauses):
                await edge
                continue
            payload, read = self._todo[0]
            self._payload.value = payload
            self._valid.value = 1
            await edge
            while not self._ready.value:
                await edge
            self._todo.popleft()
            self._valid.value = 0
            if read:
                read.answered = {port.name: port.answered for port in self.bench.ports.values()}
                # What this client wrote before comes first, answered or not.
                read.answered[self.name] = max(
                    self.answered, self.offered - sum(1 for _, r in self._todo if r is None)
                )
                read.accepted = self.bench.now
                self._accepted.append(read)

    def _answer(self, payload: int) -> None:
        self.answered += 1
        assert bool(payload) == self.expect_errors.popleft(), f"{self.name}: error flag of a write"

    def _take(self, payload: int) -> None:
        assert self._accepted, f"{self.name} got a beat that it did not ask for"
        read = self._accepted[0]
        beat = read.address + len(read.got)
        self.bench.examine(self, read, beat, payload)
        read.got.append(payload if self.keep else 0)
        if len(read.got) == read.beats:
            read.done = self.bench.now
            self._accepted.popleft()
            assert self.reads.popleft() is read
            if self.keep:
                self.finished.append(read)


class HbmTestbench:
    """An HBM slice with its memory, its clients and the reference.

    Parameters
    ----------
    dut
        Top module of a harness around the slice.
    config
        Its configuration.
    timing
        Timing set.
    rows
        Rows of each bank that the device has.
    """

    def __init__(self, dut: Any, config: TileConfig, timing: Timing, rows: int) -> None:
        self.dut, self.config, self.timing, self.rows = dut, config, timing, rows
        self.beat_bytes = config.beat_bytes
        self.beats = 64 * timing.banks * rows
        self.now = 0
        self.checked = 0
        self.bad: set[int] = set()
        self.allow_extra: set[int] = set()
        cocotb.start_soon(self._clock())
        self.hbm = HbmSlice(dut, timing, address=AddressMap.of(timing, low_columns=1))
        self.reference = Reference(self.beat_bytes)
        hardware = Hardware(config)
        self.registers = RegisterDriver(dut, hardware.register_map)
        # Owners of what is written: a region of addresses each.
        self.writers = [client.name for client in clients(config) if client.writes]
        self.ports: dict[str, Port] = {}
        dut.rst.value = 1
        for client in clients(config):
            self.ports[client.name] = Port(self, client)

    async def _clock(self) -> None:
        from cocotb.clock import Clock

        Clock(self.dut.clk, 10, unit="ns").start()
        while True:
            await RisingEdge(self.dut.clk)
            self.now += 1

    async def reset(self, timing: Timing | None = None, *, together: bool = False) -> None:
        """Reset everything and set the registers for a timing set."""
        if timing:
            self.timing = timing
        self.beats = 64 * self.timing.banks * self.rows
        self.hbm.address = AddressMap.of(self.timing, low_columns=1)
        self.hbm.set_timing(self.timing.to_dict())
        self.dut.rst.value = 1
        for port in self.ports.values():
            port.reset()
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await self.registers.write("control", 0)
        for name, value in values(self.timing).items():
            await self.registers.write(name, value)
        await self.registers.write("rows", self.rows)
        await self.cycles(2)
        await self.registers.write("control", 1 | together << 1)
        self.forget()

    def forget(self) -> None:
        """Begin a new reference, of memory that was never written."""
        self.reference = Reference(self.beat_bytes)

    async def cycles(self, count: int) -> None:
        """Let time pass."""
        for _ in range(count):
            await RisingEdge(self.dut.clk)

    async def finish(self, limit: int = 1_000_000) -> int:
        """Wait until all is done, and return how many cycles it took."""
        start = self.now
        while not all(port.idle for port in self.ports.values()):
            await RisingEdge(self.dut.clk)
            assert self.now - start < limit, "it never ends: " + ", ".join(
                f"{p.name} {len(p.reads)} reads, {p.offered - p.answered} writes"
                for p in self.ports.values()
            )
        self.hbm.check()
        return self.now - start

    def owner(self, beat: int) -> str:
        """Return who may write a beat."""
        return self.writers[beat // 8 % len(self.writers)]

    def examine(self, port: Port, read: Read, beat: int, payload: int) -> None:
        """Check a beat that was read."""
        error = payload >> 8 * self.beat_bytes
        data = (payload & ((1 << 8 * self.beat_bytes) - 1)).to_bytes(self.beat_bytes, "little")
        self.checked += 1
        if beat >= self.beats or beat in self.bad:
            assert error, f"{port.name} read beat {beat:#x} without an error"
            if beat >= self.beats:
                assert data == bytes([POISON]) * self.beat_bytes
            return
        assert not error, f"{port.name} read beat {beat:#x} with an error"
        owner = self.owner(beat)
        answered = read.answered[owner]
        offered = answered if owner == port.name else self.ports[owner].offered
        allowed = self.reference.allowed(beat, answered, offered)
        # Channels are on their own: one may be ahead of the others with what is not answered yet.
        for first in range(0, self.beat_bytes, BEAT_BYTES):
            part = slice(first, first + BEAT_BYTES)
            assert data[part] in {value[part] for value in allowed}, (
                f"{port.name} read beat {beat:#x} as {data.hex()}, not as "
                f"{' or '.join(value.hex() for value in allowed)}"
            )
