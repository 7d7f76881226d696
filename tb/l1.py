"""Testbench of the L1 cache: whoever asks it, against plain bytes."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

from rtl.config import TileConfig
from rtl.hbm.ports import find_client
from rtl.l1 import AnswerLayout, L1Cache, L1Geometry, RangeLayout, RequestLayout
from tb.memory import ClientPort, Memory
from tb.memory_client import unpack
from tb.registers import RegisterDriver
from tb.stream import StreamSink, StreamSource, any_pauses, never

PERIOD_NS = 10


@dataclass(frozen=True)
class _Expected:
    """What a read must bring, of the bytes that matter; an error in any of them if there is one."""

    beat: int
    data: int
    enable: int
    error: bool


class L1Testbench:
    """Asks the cache, and checks every answer.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.

    Attributes
    ----------
    memory
        What is behind the cache.
    seen
        Beats as a program sees them, as numbers, by number.
    written
        Which of their bytes were written since they were last known to be in memory.
    checked
        Answers that were compared.
    latency
        Cycles from the last request that was taken to its answer.
    cycles
        Clock cycles since the start.
    """

    def __init__(self, dut: Any, config: TileConfig) -> None:
        self.dut, self.config = dut, config
        self.geometry = L1Geometry(config)
        self.rng = random.Random(random.getrandbits(32))
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        self.memory = Memory(config.beat_bytes)
        self.port = ClientPort(dut, "client", find_client(config, "l1"), self.memory)
        self.requests = StreamSource(dut, "requests")
        self.ranges = StreamSource(dut, "ranges")
        self.answers = StreamSink(dut, "answers", self._answer)
        self.registers = RegisterDriver(dut, L1Cache(config).register_map)
        self.seen: dict[int, int] = {}
        self.written: dict[int, int] = {}
        self._expected: deque[_Expected] = deque()
        self.checked = self.errors = 0
        self.cycles = self.latency = 0
        self._taken = 0
        self._edge = RisingEdge(dut.clk)
        cocotb.start_soon(self._watch())

    async def reset(self) -> None:
        """Reset the cache: what is not in memory is lost."""
        self.dut.rst.value = 1
        self.requests.reset()
        self.ranges.reset()
        for _ in range(2):
            await self._edge
        self._expected.clear()
        self.dut.rst.value = 0
        await self._edge
        self.seen.clear()
        self.written.clear()

    def pause_at_random(self) -> None:
        """Choose pauses everywhere."""
        self.port.pause_at_random()
        self.requests.pauses = any_pauses(self.rng)
        self.answers.pauses = any_pauses(self.rng)

    def hurry(self) -> None:
        """Pause nowhere."""
        self.port.pauses = dict.fromkeys(self.port.pauses, never())
        self.port.latency = (1, 1)
        self.requests.pauses = self.answers.pauses = never()

    async def _watch(self) -> None:
        dut = self.dut
        while True:
            await self._edge
            self.cycles += 1
            if dut.requests__valid.value and dut.requests__ready.value:
                self._taken = self._cycle()

    @staticmethod
    def _cycle() -> int:
        return int(get_sim_time("ns")) // PERIOD_NS

    def _answer(self, value: int) -> None:
        assert self._expected, "an answer that nobody asked for"
        expected, found = self._expected.popleft(), unpack(AnswerLayout(self.geometry), value)
        self.latency = self._cycle() - self._taken
        assert found["error"] == expected.error, f"error {found['error']}: beat {expected.beat:#x}"
        self.errors += expected.error
        if not expected.error:
            mask = self.bytes_of(expected.enable)
            assert found["data"] & mask == expected.data & mask, (
                f"beat {expected.beat:#x} is {found['data']:#x}, it should be {expected.data:#x} "
                f"where {expected.enable:#x}"
            )
        self.checked += 1

    def bytes_of(self, enable: int) -> int:
        """Return a mask of bits for a mask of bytes."""
        return sum(255 << 8 * i for i in range(self.config.beat_bytes) if enable >> i & 1)

    @property
    def all_bytes(self) -> int:
        """Every byte of a beat."""
        return (1 << self.config.beat_bytes) - 1

    def now(self, beat: int) -> int:
        """Return what a program sees in a beat."""
        return self.seen.setdefault(beat, self.memory.beats[beat])

    def read(self, beat: int, enable: int | None = None) -> None:
        """Read a beat, or those bytes of it that matter."""
        enable = self.all_bytes if enable is None else enable
        poisoned = enable & ~self.written.get(beat, 0) and (
            beat in self.memory.bad or beat >= self.memory.size
        )
        self._expected.append(_Expected(beat, self.now(beat), enable, bool(poisoned)))
        self._send({"beat": beat, "write": 0, "data": 0, "enable": enable})

    def write(self, beat: int, data: int, enable: int | None = None) -> None:
        """Write a beat, or some bytes of it."""
        enable = self.all_bytes if enable is None else enable
        mask = self.bytes_of(enable)
        self.seen[beat] = (self.now(beat) & ~mask) | (data & mask)
        self.written[beat] = self.written.get(beat, 0) | enable
        self._send({"beat": beat, "write": 1, "data": data, "enable": enable})

    def _send(self, fields: dict[str, int]) -> None:
        bits = RequestLayout(self.geometry).const(fields)
        self.requests.send(int(bits.as_value().value))

    async def leave(self, first: int, last: int, *, flush: bool) -> None:
        """Let the lines of a range of beats leave, and forget what was not written back."""
        await self.settle(answers=False)
        fields = {"first": first, "last": last, "flush": int(flush)}
        before = self.ranges.sent
        self.ranges.send(int(RangeLayout(self.geometry).const(fields).as_value().value))
        if flush and not self.memory.bad:  # these come after it
            for beat in self.rng.sample(sorted(self.seen), min(3, len(self.seen))):
                if beat < self.memory.size:
                    self.read(beat)
        while self.ranges.sent == before:
            await self._edge
        lines = range(first >> 1, (last >> 1) + 1)
        for beat in [beat for beat in self.seen if beat >> 1 in lines]:
            if flush and beat < self.memory.size and beat not in self.memory.bad:
                found = self.memory.beats[beat]
                assert found == self.seen[beat], (
                    f"beat {beat:#x} in memory is {found:#x}, it should be {self.seen[beat]:#x}"
                )
            del self.seen[beat]
            self.written.pop(beat, None)

    async def flush(self) -> None:
        """Let all lines leave, and compare all of memory that was touched."""
        await self.leave(0, (1 << self.geometry.beat_bits) - 1, flush=True)

    async def settle(self, *, answers: bool = True, timeout: int = 100_000) -> None:
        """Wait until everything was taken, and answered."""
        start = self.cycles
        while not self.requests.idle or (answers and self._expected):
            await self._edge
            assert self.cycles - start < timeout, "the cache does not go on"
