"""Testbench of the memory engine: programs of instructions, against the interpreter.

Registers and memory of hardware and interpreter begin alike. Every instruction is executed by the
interpreter first: one that is faulty is left out. Then both must end alike: registers in all that
is defined, and memory, once L1 was flushed, in every byte.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from cocotb.triggers import RisingEdge

from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.core.fields import Kind, S
from rtl.core.isa import OPCODES, VECTORS
from rtl.formats import BLOCK, Format
from rtl.hbm.ports import find_client
from rtl.l1 import RangeLayout
from rtl.memory import MemoryGeometry, WordAccessLayout
from rtl.memory.sequence import OPERATION_BITS
from rtl.memory.standalone import CLIENTS, StandaloneMemoryEngine
from sim.interpreter.errors import Fault
from sim.interpreter.memory import Memory as GoldenMemory
from sim.interpreter.tile import Tile
from tb import memory, vec
from tb.registers import RegisterDriver
from tb.stream import StreamSink, StreamSource, any_pauses, never

LINES = 96
"""Lines of the memory that is used: a third through L1, a third past it, a third only read."""

BLOCKS = {20: Format.MXFP4, 21: Format.MXINT8, 22: Format.MXINT8, 23: Format.MXFP4}
"""Registers that hold blocks; the others hold words."""


@dataclass(frozen=True)
class Instruction:
    """An instruction of the engine, or one of the scalar unit that touches memory.

    Attributes
    ----------
    name
        Mnemonic.
    o
        All its fields, as numbers.
    value
        What `sw` stores.
    """

    name: str
    o: SimpleNamespace
    value: int = 0

    @classmethod
    def of(cls, name: str, value: int = 0, **fields: Any) -> Instruction:
        """Return an instruction; fields left out have their defaults."""
        if name in ("lw", "sw"):
            fields |= {"to" if name == "lw" else "value": S(1)}
        o = SimpleNamespace(**OPCODES[name](**fields).values)
        for field in OPCODES[name].fields:
            if field.kind is Kind.SCALAR:
                setattr(o, field.name, getattr(o, field.name).number)
        return cls(name, o, value)

    @property
    def payload(self) -> int:
        """What the hardware gets."""
        words = OPCODES[self.name](**vars(self.o)).words
        return sum(word << 32 * i for i, word in enumerate(words))

    @property
    def scalar(self) -> bool:
        """Whether it is one of the scalar unit."""
        return self.name in ("lw", "sw")

    @property
    def reads(self) -> set[vec.Register]:
        """Registers that it reads."""
        if self.name in ("store", "append"):
            return {("v", self.o.source)}
        return {("r", self.o.source)} if self.name == "appendmax" else set()

    @property
    def writes(self) -> set[vec.Register]:
        """Registers that it writes."""
        if self.name == "load":
            return {("v", self.o.to)}
        return {("r", self.o.to)} if self.name == "loadr" else set()


class Oracle:
    """Registers and memory, as the interpreter leaves them.

    Parameters
    ----------
    config
        The configuration of the tile.
    rng
        What registers and memory hold at first.

    Attributes
    ----------
    memory
        The memory.
    registers
        The registers, as the testbench of the vector engine wants them.
    """

    def __init__(self, config: TileConfig, rng: np.random.Generator) -> None:
        self.config = config
        self.memory = GoldenMemory(config, LINES * config.line_bytes)
        self.memory.bytes[:] = rng.integers(0, 256, self.memory.bytes.shape)
        self.tile = Tile(config, self.memory)
        vectors, rows = self.tile.vectors, self.tile.rows
        self.registers = vec.Oracle(config)
        self.registers.vectors, self.registers.rows = vectors, rows
        length = config.vector_length
        for register in range(VECTORS):
            if register in BLOCKS:
                fmt, blocks = BLOCKS[register], length // 8
                codes = rng.integers(0, 16 if fmt is Format.MXFP4 else 256, (1, blocks, BLOCK))
                tensor = MXTensor(
                    codes.astype(np.uint8),
                    rng.integers(0, 256, (1, blocks)).astype(np.uint8),
                    fmt,
                    blocks * BLOCK,
                )
                vectors.write_blocks(register, np.array([0]), tensor)
            else:
                words = rng.integers(0, 1 << 32, (1, length), dtype=np.uint32)
                vectors.write_words(register, np.array([0]), words)
        for register in range(32):
            words = rng.integers(0, 1 << 32, config.row_length, dtype=np.uint32)
            rows.write(register, np.arange(config.row_length), words)
        self.memory.start()

    def execute(self, instruction: Instruction) -> bool:
        """Execute an instruction; return False, and change nothing, if it is faulty."""
        self.tile.journal.forget()
        try:
            if instruction.name == "sw":
                self.tile.scalars[1] = instruction.value
            getattr(self.tile, f"_{instruction.name}")(instruction.o)
        except Fault:
            self.tile.journal.undo()
            return False
        return True

    @property
    def loaded(self) -> int:
        """What the last `lw` gave."""
        return self.tile.scalars[1]

    def beats(self) -> dict[int, int]:
        """Return all of memory, beat by beat."""
        rows = self.memory.bytes.reshape(-1, self.config.beat_bytes)
        return {i: int.from_bytes(row.tobytes(), "little") for i, row in enumerate(rows)}


class MemoryTestbench(vec.VectorTestbench):
    """Drives the memory engine, with L1 and registers.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.

    Attributes
    ----------
    memory
        What is behind.
    ports
        The ways to it, by name.
    failures
        How often something failed.
    """

    def __init__(self, dut: Any, config: TileConfig) -> None:
        super().__init__(dut, config)
        cache = StandaloneMemoryEngine(config).cache_register_map
        self.cache_registers = RegisterDriver(dut, cache, "cache_bus")
        self.rng = random.Random(random.getrandbits(32))
        self.memory = memory.Memory(config.beat_bytes)
        self.ports = {
            name: memory.ClientPort(dut, name, find_client(config, name), self.memory)
            for name in CLIENTS
        }
        self.access = StreamSource(dut, "access")
        self.ranges = StreamSource(dut, "ranges")
        self._found: deque[int] = deque()
        self.answers = StreamSink(dut, "answers", self._found.append)
        self.failures = 0

    def _open_registers(self) -> RegisterDriver:
        """Return the way to the registers of the engine."""
        return RegisterDriver(self.dut, StandaloneMemoryEngine(self.config).register_map)

    async def reset(self) -> None:
        """Reset everything but the registers and the memory."""
        self.access.reset()
        self.ranges.reset()
        await super().reset()
        self._found.clear()

    def pause_at_random(self) -> None:
        """Choose pauses everywhere."""
        for port in self.ports.values():
            port.pause_at_random()
        self.operations.pauses = any_pauses(self.rng)
        self.access.pauses = any_pauses(self.rng)
        self.answers.pauses = any_pauses(self.rng)
        self.pauses = any_pauses(self.rng)

    def hurry(self) -> None:
        """Pause nowhere."""
        for port in self.ports.values():
            port.pauses = dict.fromkeys(port.pauses, never())
            port.latency = (1, 1)
        self.operations.pauses = self.access.pauses = self.answers.pauses = never()
        self.pauses = never()

    async def begin(self, oracle: Oracle) -> None:
        """Write registers and memory as the oracle has them."""
        self.memory.beats.update(oracle.beats())
        await self.load(oracle.registers)

    async def execute(
        self, program: list[tuple[Instruction, int]], *, timeout: int = 50_000
    ) -> int:
        """Execute instructions as a core would, and return the cycles that took.

        With each comes what `lw` must find. An instruction waits for those that write what it
        touches, or read what it writes; `lw` for those that store, and `sw` for all.
        """
        self._quiet = False
        start, self.done, self._began = self.cycles, 0, 0
        flight: deque[Instruction] = deque()
        ended = issued = 0

        async def until(condition: Any) -> None:
            nonlocal ended
            while True:
                while ended < self.done:
                    assert flight, "done without an instruction"
                    flight.popleft()
                    ended += 1
                if condition():
                    return
                await self._edge
                if self.dut.failed.value:
                    self.failures += 1
                assert self.cycles - start < timeout, f"{flight[0] if flight else 0} does not end"

        for instruction, expected in program:
            if instruction.scalar:
                stores = instruction.name == "sw"
                await until(
                    lambda stores=stores: (
                        not any(stores or f.name == "store" for f in flight)
                        and self.operations.idle
                    )
                )
                o = instruction.o
                fields = {
                    "store": int(stores),
                    "address": (o.address + o.address_offset) & 0xFFFFFFFF,
                    "value": instruction.value,
                }
                self.access.send(int(WordAccessLayout().const(fields).as_value().value))
                await until(lambda: bool(self._found))
                found = self._found.popleft()
                assert stores or found == expected, f"{instruction}: {found:#x}, {expected:#x}"
                continue
            reads, writes = instruction.reads, instruction.writes
            await until(
                lambda reads=reads, writes=writes: (
                    self.operations.idle
                    and not any((reads | writes) & f.writes or writes & f.reads for f in flight)
                )
            )
            payload = instruction.payload
            assert payload < 1 << OPERATION_BITS
            self.operations.send(payload)
            flight.append(instruction)
            issued += 1
        await until(lambda: not flight)
        took = self._last_done - self._began
        for _ in range(3):
            await self._edge
        assert self.done == issued, "more is done than there was"
        return took

    async def flush(self) -> None:
        """Let all lines leave L1, and what was appended get to memory."""
        fields = {"first": 0, "last": 2 * LINES - 1, "flush": 1}
        layout = RangeLayout(MemoryGeometry(self.config).cache)
        before = self.ranges.sent
        self.ranges.send(int(layout.const(fields).as_value().value))
        while self.ranges.sent == before:
            await self._edge

    async def compare(self, oracle: Oracle) -> None:
        """Compare registers and memory; a fence must have come last."""
        await self.flush()
        for beat, expected in oracle.beats().items():
            found = self.memory.beats[beat]
            assert found == expected, f"beat {beat:#x}: {found:#x}, golden has {expected:#x}"
        await self.check(oracle.registers)

    async def wait(self, cycles: int) -> None:
        """Let time go by."""
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
