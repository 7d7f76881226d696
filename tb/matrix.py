"""Testbench of the matrix unit: programs of `matrix`, against the interpreter.

Registers of hardware and interpreter begin alike, and must end alike in all that is defined.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

from gen.mx import Bytes
from rtl.config import TileConfig
from rtl.core.isa import PHYSICAL_VECTORS, VECTORS
from rtl.mac import FetchLayout
from rtl.matrix import StandaloneMatrixUnit
from rtl.vec.ports import LineWriteLayout
from rtl.vec.registers import BANKS
from sim.interpreter.matrix import MatrixUnit
from sim.interpreter.memory import Memory
from tb.mac import pack
from tb.registers import RegisterDriver
from tb.stream import StreamSource, any_pauses, never
from tb.vec import Instruction, Oracle, Register, VectorTestbench

MEMORY = 1 << 20
"""Bytes of memory that operands may fill."""

DISTURBED = range(PHYSICAL_VECTORS - 4, PHYSICAL_VECTORS)
"""Vector registers that others use, of half of the banks, so that these are often taken."""

assert DISTURBED.start >= VECTORS


class MatrixInstruction(Instruction):
    """An instruction for the unit.

    Nothing has to wait for what another one writes: the unit writes, and reads what it has written,
    in the order of the program, and sources are not written.
    """

    @property
    def writes(self) -> set[Register]:
        """Registers that others must wait for: none."""
        return set()

    @property
    def reads(self) -> set[Register]:
        """Registers for which it must wait: none."""
        return set()


def matrix(**fields: Any) -> MatrixInstruction:
    """Return a `matrix`; fields left out have their defaults."""
    return MatrixInstruction.of("matrix", **fields)


class MatrixOracle(Oracle):
    """Registers and memory, as the interpreter leaves them.

    Parameters
    ----------
    config
        The configuration of the tile.
    """

    def __init__(self, config: TileConfig) -> None:
        super().__init__(config)
        self.config = config
        self.memory = Memory(config, MEMORY)
        self._unit = MatrixUnit(config, self.memory, self.vectors, self.rows)
        self._end = 0

    def place(self, beats: Bytes) -> int:
        """Put an operand into memory, and return the address of its first beat."""
        address = self._end
        self.memory.poke(address, beats)
        lines = -(-len(beats) // 2)
        self._end += lines * self.config.line_bytes
        return address

    def beats(self, instruction: Instruction) -> list[int]:
        """Return the beats that an instruction brings."""
        o, size = instruction.o, self.config.beat_bytes
        if not o.beats:
            return []
        data = self.memory.peek((o.address + o.address_offset) & 0xFFFFFFFF, o.beats * size)
        return [int.from_bytes(beat.tobytes(), "little") for beat in data.reshape(-1, size)]


class MatrixTestbench(VectorTestbench):
    """Drives the matrix unit.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.
    """

    def __init__(self, dut: Any, config: TileConfig) -> None:
        super().__init__(dut, config)
        self.spare = DISTURBED
        self.operands = StreamSource(dut, "beats")
        self.fetches = StreamSource(dut, "fetches")

    def _open_registers(self) -> RegisterDriver:
        return RegisterDriver(self.dut, StandaloneMatrixUnit(self.config).register_map)

    async def reset(self) -> None:
        """Reset the unit, and forget what was under way."""
        self.operands.reset()
        self.fetches.reset()
        await super().reset()

    def pause(self, rng: random.Random | None) -> None:
        """Choose new pauses for everything at random, or none."""
        self.operations.pauses = any_pauses(rng) if rng else never()
        self.operands.pauses = any_pauses(rng) if rng else never()
        self.fetches.pauses = any_pauses(rng) if rng else never()
        self.pauses = any_pauses(rng) if rng else never()

    async def execute(self, oracle: MatrixOracle, program: Sequence[Instruction]) -> int:
        """Run a program that the oracle has executed; return the cycles."""
        for instruction in program:
            self.bring(oracle, instruction)
        return await self.run(program)

    def bring(self, oracle: MatrixOracle, instruction: Instruction) -> None:
        """Send the operand of an instruction, which need not be there yet."""
        fields = {name: int(getattr(instruction.o, name)) for name in FetchLayout.NAMES}
        self.fetches.send(pack(FetchLayout(self.config), **fields))
        self.operands.send(*oracle.beats(instruction))

    def others_use(self, *, vector: int | None = None, row: int | None = None) -> None:
        """Let others use, when they disturb, the bank of a vector or of a row register."""
        if vector is not None:
            self.spare = [PHYSICAL_VECTORS - BANKS + vector % BANKS]
        if row is not None:
            self.spare_rows = [row]

    def disturb(self, *, forever: bool, after: int = 0) -> None:
        """Let others use the registers in every cycle, after some, or never."""
        busy = itertools.chain(itertools.repeat(False, after), itertools.repeat(True))
        self.pauses = busy if forever else never()
        self._quiet = False

    async def spoil(self, oracle: Oracle, register: int) -> None:
        """Overwrite a vector register by anything; the oracle does not know what is in there."""
        self._quiet = True
        oracle.vectors.kinds[register] = 0
        g = self.geometry
        for line in range(g.lines):
            write = {
                "address": {"register": register, "line": line},
                "words": [random.getrandbits(32) for _ in range(g.line_words)],
                "enable": (1 << g.line_words) - 1,
                "scale_enable": (1 << g.line_blocks) - 1,
            }
            await self._put("lines_write", LineWriteLayout(g).const(write))
        self.dut.lines_write__valid.value = 0
