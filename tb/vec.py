"""Testbench of the vector engine: programs of instructions, against the interpreter.

The registers of hardware and interpreter begin alike. Every instruction is executed by the
interpreter first: one that is faulty is left out. Then both must end alike, in all that is defined.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.core.fields import WORD_BITS
from rtl.core.isa import (
    BLOCK_WORDS,
    OPCODES,
    PHYSICAL_VECTORS,
    ROWS,
    VECTORS,
    Operand,
    Output,
    Reduction,
)
from rtl.vec import VectorEngine, VectorGeometry
from rtl.vec.ports import LineAddressLayout, LineWriteLayout, WordAddressLayout, WordWriteLayout
from sim.interpreter.errors import Fault
from sim.interpreter.journal import Journal
from sim.interpreter.registers import RowRegisters, VectorRegisters
from sim.interpreter.vector import VectorUnit
from tb.registers import RegisterDriver
from tb.stream import Pauses, StreamSource, never

PERIOD_NS = 10

SPARE_ROWS = 8
"""Others write to the last rows of row registers from this one on."""

Register = tuple[str, int]
"""``v`` or ``r``, and a number."""


@dataclass(frozen=True)
class Instruction:
    """An instruction for the unit.

    Attributes
    ----------
    name
        Mnemonic.
    o
        All its fields, as numbers.
    """

    name: str
    o: SimpleNamespace

    @classmethod
    def of(cls, name: str, **fields: Any) -> Self:
        """Return an instruction; fields left out have their defaults."""
        return cls(name, SimpleNamespace(**OPCODES[name](**fields).values))

    @property
    def payload(self) -> int:
        """What the hardware gets."""
        opcode = OPCODES[self.name]
        words = opcode.encode({field.name: getattr(self.o, field.name) for field in opcode.fields})
        return sum(word << WORD_BITS * i for i, word in enumerate(words))

    @property
    def writes(self) -> set[Register]:
        """Registers that it writes."""
        o = self.o
        if self.name == "topk":
            return {("v", o.indices), ("v", o.values)}
        found: set[Register] = set()
        if o.reduction in (Reduction.SUM, Reduction.SQUARES) and o.suspend:
            found.add(("v", o.partials))
        elif o.reduction is not Reduction.NONE:
            found.add(("r", o.total))
        if o.output is Output.ROW:
            found.add(("r", o.to))
        elif o.output is not Output.NONE:
            found.add(("v", o.to))
        if o.maximal:
            found.add(("r", o.maxima))
        return found

    @property
    def reads(self) -> set[Register]:
        """Registers that it reads, or may read."""
        o = self.o
        if self.name == "topk":
            return {("v", o.a), ("v", o.carried)}
        found: set[Register] = {("r" if o.a_row else "v", o.a)}
        for which in "bcd":
            operand = getattr(o, f"{which}_operand")
            rows = operand in (Operand.ROW, Operand.ROW_HEAD, Operand.ROW_TOKEN)
            found.add(("r" if rows else "v", getattr(o, which)))
        return found | {("r", o.initial), ("v", o.partials), ("r", o.maxima)}


class Oracle:
    """The registers, as the interpreter leaves them.

    Parameters
    ----------
    config
        The configuration of the tile.
    """

    def __init__(self, config: TileConfig) -> None:
        self.journal = Journal()
        self.vectors = VectorRegisters(config, self.journal)
        self.rows = RowRegisters(config, self.journal)
        self._unit: Any = VectorUnit(self.vectors, self.rows)

    def execute(self, instruction: Instruction) -> bool:
        """Execute an instruction; return False, and change nothing, if it is faulty."""
        self.journal.forget()
        try:
            getattr(self._unit, instruction.name)(instruction.o)
        except Fault:
            self.journal.undo()
            return False
        return True

    def set_words(self, register: int, words: Any) -> None:
        """Fill a vector register from its first word on."""
        words = np.asarray(words, np.uint32).reshape(1, -1)
        self.vectors.write_words(register, np.array([0]), words)

    def set_row(self, register: int, words: Any) -> None:
        """Fill a row register from its first row on."""
        words = np.asarray(words, np.uint32)
        self.rows.write(register, np.arange(len(words)), words)


class VectorTestbench:
    """Drives the vector engine.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.

    Attributes
    ----------
    pauses
        Whether others disturb the registers' ports in a cycle.
    spare, spare_rows
        Vector registers that they use, and row registers to whose last row they write.
    checked
        Words that were compared.
    cycles
        Clock cycles since the start.
    """

    def __init__(self, dut: Any, config: TileConfig) -> None:
        self.dut, self.config = dut, config
        self.geometry = VectorGeometry(config)
        self.pauses: Pauses = never()
        self.spare: Sequence[int] = range(VECTORS, PHYSICAL_VECTORS)
        self.spare_rows: Sequence[int] = range(SPARE_ROWS, ROWS)
        self.checked = 0
        self.cycles = 0
        self.done = 0
        self._began = self._last_done = 0
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        self.operations = StreamSource(dut, "operations")
        self.registers = self._open_registers()
        self._edge = RisingEdge(dut.clk)
        for name in ("lines_write", "words_write"):
            getattr(dut, f"{name}__valid").value = 0
        for name in ("lines_read", "words_read"):
            getattr(dut, f"{name}__requests__valid").value = 0
        cocotb.start_soon(self._watch())

    def _open_registers(self) -> RegisterDriver:
        """Return the way to the registers of the engine."""
        return RegisterDriver(self.dut, VectorEngine(self.config).register_map)

    async def reset(self) -> None:
        """Reset the engine."""
        self.dut.rst.value = 1
        self.operations.reset()
        for _ in range(2):
            await self._edge
        self.dut.rst.value = 0
        await self._edge
        self.done = 0

    async def _watch(self) -> None:
        """Count cycles and what is done, and disturb."""
        g, dut = self.geometry, self.dut
        noise = random.Random(random.getrandbits(32))
        while True:
            await self._edge
            self.cycles += 1
            if dut.done.value and not dut.rst.value:
                self.done += 1
                self._last_done = self.cycles
            if dut.operations__valid.value and dut.operations__ready.value and not self._began:
                self._began = self.cycles
            if self._quiet:
                continue
            disturb = next(self.pauses)
            spare = noise.choice(self.spare)
            line = noise.randrange(g.lines)
            read = LineAddressLayout(g).const({"register": spare, "line": line})
            dut.lines_read__requests__payload.value = read.as_value().value
            dut.lines_read__requests__valid.value = disturb
            write = {"address": {"register": spare, "line": line}, "enable": 1}
            dut.lines_write__payload.value = LineWriteLayout(g).const(write).as_value().value
            dut.lines_write__valid.value = disturb
            row = WordAddressLayout(g).const({"register": noise.randrange(ROWS), "row": 0})
            dut.words_read__requests__payload.value = row.as_value().value
            dut.words_read__requests__valid.value = disturb
            other = {
                "address": {"register": noise.choice(self.spare_rows), "row": 31},
                "word": 5,
            }
            dut.words_write__payload.value = WordWriteLayout(g).const(other).as_value().value
            dut.words_write__valid.value = disturb

    _quiet = True

    async def load(self, oracle: Oracle) -> None:
        """Write what the oracle has; what is undefined stays as it is."""
        g, dut = self.geometry, self.dut
        self._quiet = True
        vectors = oracle.vectors
        enable = (1 << g.line_words) - 1
        scale_enable = (1 << g.line_blocks) - 1
        blocks = g.line_words // BLOCK_WORDS
        for register in np.flatnonzero(vectors.kinds.any(axis=1)).tolist():
            lines = vectors.words[register].reshape(-1, g.line_words)
            scales = vectors.scales[register].reshape(-1, blocks)
            for line, (words, bytes_) in enumerate(zip(lines, scales, strict=True)):
                write = {
                    "address": {"register": register, "line": line},
                    "words": [int(word) for word in words],
                    "enable": enable,
                    "scales": [int(byte) for byte in bytes_],
                    "scale_enable": scale_enable,
                }
                await self._put("lines_write", LineWriteLayout(g).const(write))
        dut.lines_write__valid.value = 0
        words = oracle.rows.words
        for register, row in np.argwhere(oracle.rows.defined).tolist():
            put = {"address": {"register": register, "row": row}, "word": int(words[register, row])}
            await self._put("words_write", WordWriteLayout(g).const(put))
        dut.words_write__valid.value = 0

    async def _put(self, name: str, payload: Any) -> None:
        getattr(self.dut, f"{name}__payload").value = payload.as_value().value
        getattr(self.dut, f"{name}__valid").value = 1
        await self._edge
        assert getattr(self.dut, f"{name}__ready").value, "others go first"

    async def run(self, program: Sequence[Instruction], *, timeout: int = 200_000) -> int:
        """Execute instructions as a core would, and return the cycles that took.

        An instruction waits for those that write what it reads or writes. The cycles are those from
        the first instruction being accepted to the last one being done; for an instruction that
        waits there are two cycles or three from one being done to the next being offered.
        """
        self._quiet = False
        start, self.done, self._began = self.cycles, 0, 0
        flight: deque[Instruction] = deque()
        ended = 0

        def retire() -> None:
            nonlocal ended
            while ended < self.done:
                assert flight, "done without an instruction"
                flight.popleft()
                ended += 1

        for instruction in program:
            touched = instruction.reads | instruction.writes
            while True:
                retire()
                if self.operations.idle and not any(touched & f.writes for f in flight):
                    break
                await self._edge
                assert self.cycles - start < timeout, f"{flight[0]} does not end"
            self.operations.send(instruction.payload)
            flight.append(instruction)
        while flight:
            await self._edge
            retire()
            assert self.cycles - start < timeout, f"{flight[0]} does not end"
        took = self._last_done - self._began
        for _ in range(3):
            await self._edge
        assert self.done == len(program), "more is done than there was"
        return took

    async def check(self, oracle: Oracle) -> None:
        """Compare everything that is defined."""
        dut = self.dut
        self._quiet = True
        for name in ("lines_write", "words_write", "lines_read__requests", "words_read__requests"):
            getattr(dut, f"{name}__valid").value = 0
        await self._edge
        vectors = oracle.vectors
        for register in np.flatnonzero(vectors.kinds.any(axis=1)).tolist():
            words, scales = await self._read_vector(register)
            kinds = vectors.kinds[register]
            _same(f"v{register}", words, vectors.words[register], kinds != 0)
            is_block = (kinds > 1).reshape(-1, BLOCK_WORDS).all(1)
            _same(f"scales of v{register}", scales, vectors.scales[register], is_block)
            self.checked += int((kinds != 0).sum() + is_block.sum())
        for register in np.flatnonzero(oracle.rows.defined.any(axis=1)).tolist():
            defined = oracle.rows.defined[register].copy()
            if register >= SPARE_ROWS:
                defined[31] = False  # where others write meanwhile
            words = await self._read_row(register)
            _same(f"r{register}", words, oracle.rows.words[register], defined)
            self.checked += int(defined.sum())

    async def _read_vector(self, register: int) -> tuple[Any, Any]:
        """Return words and scales of a vector register."""
        g, dut = self.geometry, self.dut
        words = np.zeros((g.lines, g.line_words), np.uint32)
        scales = np.zeros((g.lines, g.line_blocks), np.uint8)

        def payload(line: int) -> Any:
            return LineAddressLayout(g).const({"register": register, "line": line})

        async for line in self._answers("lines_read", g.lines, payload):
            data = int(dut.lines_read__words.value).to_bytes(4 * g.line_words, "little")
            words[line] = np.frombuffer(data, np.uint32)
            data = int(dut.lines_read__scales.value).to_bytes(g.line_blocks, "little")
            scales[line] = np.frombuffer(data, np.uint8)
        return words.reshape(-1), scales.reshape(-1)

    async def _read_row(self, register: int) -> Any:
        """Return the words of a row register."""
        words = np.zeros(self.config.row_length, np.uint32)

        def payload(row: int) -> Any:
            return WordAddressLayout(self.geometry).const({"register": register, "row": row})

        async for row in self._answers("words_read", len(words), payload):
            words[row] = int(self.dut.words_read__word.value)
        return words

    async def _answers(self, name: str, count: int, payload: Any) -> AsyncIterator[int]:
        """Ask for one after the other; yield the number of each while its answer is there."""
        dut = self.dut
        getattr(dut, f"{name}__requests__valid").value = 1
        for i in range(count + 1):
            port = getattr(dut, f"{name}__requests__payload")
            port.value = payload(min(i, count - 1)).as_value().value
            await self._edge
            # The answer to what was asked in the cycle before is there in this one.
            if i:
                yield i - 1
        getattr(dut, f"{name}__requests__valid").value = 0


def _same(what: str, found: Any, expected: Any, where: Any) -> None:
    wrong = np.flatnonzero((found != expected) & where)
    if wrong.size:
        first = int(wrong[0])
        raise AssertionError(
            f"{what} at {first}: {int(found[first]):#010x}, golden has {int(expected[first]):#010x}"
            f" ({wrong.size} differ)"
        )
