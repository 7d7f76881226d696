"""Testbench of the core: engines that are the interpreter's, and take any time they like.

An engine takes the instructions that the core issues to it, executes each at some moment between
then and when it says that it is done, and is done with them in order. It works on physical
registers. So whatever the core does not keep apart that belongs apart shows in the end.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.core.fields import OPCODE_BITS, WORD_BITS
from rtl.core.isa import BLOCK_WORDS, BY_NUMBER, PHYSICAL_VECTORS
from rtl.core.layout import placed
from rtl.core.program import LINE_WORDS
from rtl.core.window import Engine
from rtl.vec.geometry import VectorGeometry
from rtl.vec.ports import LineAddressLayout, WordAddressLayout
from sim.interpreter.memory import Memory
from sim.interpreter.registers import VectorRegisters
from sim.interpreter.tile import Tile
from tb.stream import Pauses, never

PERIOD_NS = 10


def operands(words: int) -> tuple[str, SimpleNamespace]:
    """Return mnemonic and fields of an instruction as the core issues it."""
    opcode = BY_NUMBER[words & (1 << OPCODE_BITS) - 1]
    o = {}
    for field, at in placed(opcode.name):
        bits = words >> at
        if field.width != field.bits or field.kind.name == "VALUE":
            assert not bits & 1, f"{field.name} of {opcode.name} is still in a register"
            bits >>= 1
        value: Any = bits & (1 << field.bits) - 1
        if field.signed and value >> field.bits - 1:
            value -= 1 << field.bits
        o[field.name] = field.choices(value) if field.choices else value
    return opcode.name, SimpleNamespace(**o)


class PhysicalRegisters(VectorRegisters):
    """As many vector registers as the hardware has."""

    def __init__(self, config: TileConfig, journal: Any) -> None:
        super().__init__(config, journal)
        self.words = np.zeros((PHYSICAL_VECTORS, self.length), np.uint32)
        self.scales = np.zeros((PHYSICAL_VECTORS, self.length // BLOCK_WORDS), np.uint8)
        self.kinds = np.zeros((PHYSICAL_VECTORS, self.length), np.uint8)

    def _register(self, register: int) -> None:
        assert register < PHYSICAL_VECTORS


class PhysicalTile(Tile):
    """A tile that is told what to execute, in physical registers."""

    def __init__(self, config: TileConfig, memory: Memory) -> None:
        super().__init__(config, memory)
        self.vectors = PhysicalRegisters(config, self.journal)
        self.vector_unit.vectors = self.matrix_unit.vectors = self.vectors

    def perform(self, name: str, o: SimpleNamespace) -> None:
        """Execute one instruction.

        Raises
        ------
        Fault
            If it is faulty: something before it was not done, or too much.
        """
        self.journal.forget()
        for waiting in self._step(name, o):
            raise AssertionError(f"{name} waits for {waiting}")


@dataclass(eq=False)
class _Job:
    """An instruction in an engine: when it is executed and when it is done."""

    name: str
    o: SimpleNamespace
    execute: int
    done: int
    executed: bool = False


class CoreTestbench:
    """Drives the core.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.

    Attributes
    ----------
    tile
        What the engines work on.
    latency
        The longest time of an instruction in an engine, in cycles.
    times
        What instructions take, by mnemonic, if not any time.
    late
        Instructions are executed at the last moment, not at any.
    pauses
        When engines take nothing, and ports are not ready.
    issued
        Instructions that were issued.
    """

    def __init__(self, dut: Any, config: TileConfig) -> None:
        self.dut, self.config = dut, config
        self.tile = PhysicalTile(config, Memory(config, config.line_bytes))
        self.geometry = VectorGeometry(config)
        self.latency = 30
        self.times: dict[str, int] = {}
        self.late = False
        self.pauses: Pauses = never()
        self.issued = 0
        self.cycles = 0
        self._rng = random.Random(random.getrandbits(32))
        self._flight: dict[Engine, deque[_Job]] = {e: deque() for e in Engine}
        self._answers: deque[int] = deque()
        self._edge = RisingEdge(dut.clk)
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        for name in ("program_write", "start", "memory_error", "done", "answers__valid"):
            getattr(dut, name).value = 0
        dut.limit.value = config.issue_window
        dut.ahead.value = dut.finished.value = dut.operands__ready.value = 1
        dut.fetches__ready.value = 1
        cocotb.start_soon(self._engines())
        cocotb.start_soon(self._memory())
        for name in ("lines", "rows"):
            cocotb.start_soon(self._registers(name))

    async def reset(self) -> None:
        """Reset the core."""
        self.dut.rst.value = 1
        for queue in self._flight.values():
            queue.clear()
        for _ in range(2):
            await self._edge
        self.dut.rst.value = 0
        await self._edge

    async def load(self, words: list[int]) -> None:
        """Store a program."""
        padded = words + [0] * (-len(words) % LINE_WORDS)
        for line in range(len(padded) // LINE_WORDS):
            data = padded[LINE_WORDS * line : LINE_WORDS * (line + 1)]
            self.dut.program_write.value = 1
            self.dut.program_address.value = line
            self.dut.program_data.value = sum(w << WORD_BITS * i for i, w in enumerate(data))
            await self._edge
        self.dut.program_write.value = 0

    async def run(self, timeout: int = 1_000_000) -> int:
        """Execute the program, and return the cycles that took."""
        begin = self.cycles
        self.tile.memory.start()
        self.dut.start.value = 1
        await self._edge
        self.dut.start.value = 0
        await self._edge
        await self._edge
        while self.dut.running.value:
            await self._edge
            assert self.cycles - begin < timeout, "the program does not end"
        return self.cycles - begin

    async def _engines(self) -> None:
        """Take instructions, execute them, and be done with them."""
        dut, rng = self.dut, self._rng
        ports = [
            (e, *(getattr(dut, f"issued__{e:d}__{n}") for n in ("valid", "ready", "payload")))
            for e in Engine
        ]
        while True:
            await self._edge
            self.cycles += 1
            done = 0
            for e, valid, ready, payload in ports:
                flight = self._flight[e]
                if valid.value and ready.value and not dut.rst.value:
                    name, o = operands(int(payload.value))
                    now = self.cycles
                    last = flight[-1].done if flight else 0
                    time = self.times.get(name) or rng.randint(1, self.latency)
                    end = max(last, now) + time
                    when = end - 1 if self.late else rng.randint(now, end - 1)
                    flight.append(_Job(name, o, when, end))
                    self.issued += 1
                ready.value = not next(self.pauses)
            # Executions in the order of their time, over all engines.
            jobs = [job for flight in self._flight.values() for job in flight]
            for job in sorted(jobs, key=lambda job: job.execute):
                if not job.executed and job.execute <= self.cycles:
                    self.tile.perform(job.name, job.o)
                    job.executed = True
            for e, flight in self._flight.items():
                if flight and flight[0].executed and flight[0].done <= self.cycles:
                    flight.popleft()
                    done |= 1 << e
            dut.done.value = done

    async def _memory(self) -> None:
        """Serve the scalar unit's loads and stores."""
        dut, rng = self.dut, self._rng
        dut.access__ready.value = 0
        while True:
            await self._edge
            if dut.access__valid.value and dut.access__ready.value:
                dut.access__ready.value = 0
                bits = int(dut.access__payload.value)
                store, address, value = bits & 1, bits >> 1 & 0xFFFFFFFF, bits >> 33
                for _ in range(rng.randint(1, self.latency)):
                    await self._edge
                self.tile.journal.forget()
                if store:
                    self.tile.memory.store(address, np.uint32(value))
                    answer = 0
                else:
                    answer = int(self.tile.memory.load(address, 4).view(np.uint32)[0])
                dut.answers__payload.value = answer
                dut.answers__valid.value = 1
                await self._edge
                while not dut.answers__ready.value:
                    await self._edge
                dut.answers__valid.value = 0
            else:
                dut.access__ready.value = rng.random() < 0.5

    async def _registers(self, name: str) -> None:
        """Serve a port of the registers."""
        dut, g, rng = self.dut, self.geometry, self._rng
        valid, ready, payload = (
            getattr(dut, f"{name}__requests__{part}") for part in ("valid", "ready", "payload")
        )
        ready.value = 0
        while True:
            await self._edge
            if valid.value and ready.value:
                bits = int(payload.value)
                if name == "lines":
                    at = LineAddressLayout(g).from_bits(bits)
                    start = int(at.line) * g.line_words
                    words = self.tile.vectors.words[int(at.register), start : start + g.line_words]
                    dut.lines__words.value = int.from_bytes(words.tobytes(), "little")
                else:
                    place = WordAddressLayout(g).from_bits(bits)
                    word = self.tile.rows.words[int(place.register), int(place.row)]
                    dut.rows__word.value = int(word)
            ready.value = rng.random() < 0.6
