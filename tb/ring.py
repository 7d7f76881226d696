"""Testbench of the ring: programs of collectives, against the interpreter.

Every tile has a program. The interpreter runs them all first; registers begin alike and must end
alike, in all that is defined. Tiles that are absent are not in the interpreter's machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.core.fields import WORD_BITS, Instruction
from rtl.core.isa import BLOCK_WORDS, OPCODES, PHYSICAL_VECTORS, VECTORS
from rtl.formats import BLOCK, Format
from rtl.ring.geometry import WORD_BYTES, RingGeometry
from rtl.ring.standalone import MEMORY_BEATS, PokeLayout
from rtl.vec.ports import LineAddressLayout, LineWriteLayout
from sim.interpreter.machine import Machine
from sim.interpreter.memory import Memory
from tb.stream import Pauses, StreamSource, never

PERIOD_NS = 10

WORDS, BLOCKS = range(6), range(6, 8)
"""Registers that are used: those of words, and those of MX blocks."""


def collective(**fields: Any) -> Instruction:
    """Return a `collective`; fields left out have their defaults."""
    return OPCODES["collective"](**fields)


def awkward(rng: np.random.Generator, count: int) -> Any:
    """Return words whose sum depends on its order, and some that are no numbers or too small."""
    values = rng.standard_normal(count) * 2.0 ** rng.integers(-1, 2, count)
    values[rng.random(count) < 0.05] *= 1e-38
    words = values.astype(np.float32).view(np.uint32).copy()
    for bits, share in ((0x7F800000, 0.02), (0xFFC12345, 0.02), (0x80000000, 0.1), (1, 0.05)):
        words[rng.random(count) < share] = bits
    return words


def memory_words(config: TileConfig) -> int:
    """Return the words of a tile's memory."""
    return MEMORY_BEATS * config.beat_bytes // WORD_BYTES


class RingOracle:
    """The registers of tiles, as the interpreter leaves them.

    Parameters
    ----------
    config
        The configuration of a tile.
    tiles
        How many take part.
    rng
        What registers hold at first.
    size
        Bytes of memory; a line if left out.
    """

    def __init__(
        self, config: TileConfig, tiles: int, rng: np.random.Generator, size: int = 0
    ) -> None:
        self.config = config
        size = size or config.line_bytes
        self.machine = Machine(config, [Memory(config, size) for _ in range(tiles)])
        length = config.vector_length
        blocks = length // BLOCK_WORDS
        for tile in self.machine.tiles:
            for register in WORDS:
                words = awkward(rng, length).reshape(1, -1)
                tile.vectors.write_words(register, np.array([0]), words)
            for register in BLOCKS:
                fmt = Format.MXINT8 if rng.random() < 0.5 else Format.MXFP4
                top = 16 if fmt is Format.MXFP4 else 256
                codes = rng.integers(0, top, (1, blocks, BLOCK)).astype(np.uint8)
                scales = rng.integers(0, 256, (1, blocks)).astype(np.uint8)
                tensor = MXTensor(codes, scales, fmt, blocks * BLOCK)
                tile.vectors.write_blocks(register, np.array([0]), tensor)

    def run(self, programs: Sequence[Sequence[Instruction]]) -> None:
        """Run a program on every tile.

        Raises
        ------
        ProgramError
            If tiles do not agree, or an instruction cannot be executed.
        """
        stop = OPCODES["stop"]().words
        self.machine.run(
            [[w for i in program for w in i.words] + list(stop) for program in programs]
        )


class RingTestbench:
    """Drives a ring.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.

    Attributes
    ----------
    stalls
        Called in each cycle for the links and memories that are stalled.
    noise
        Whether others use the registers of some tile in a cycle.
    done, failed
        Instructions that have ended and failed, by tile of the ring.
    begun, ended
        The cycles in which the last one was taken, and ended, by tile.
    checked
        Words and scales that were compared.
    cycles
        Clock cycles since the start.
    """

    def __init__(self, dut: Any, config: TileConfig) -> None:
        self.dut, self.config = dut, config
        self.geometry = RingGeometry(config).vectors
        self.rng = random.Random(random.getrandbits(32))
        self.nodes = config.tiles
        self.stalls: Any = lambda: 0
        self.noise: Pauses = never()
        self.tiles: list[int] = []
        self.done = [0] * self.nodes
        self.failed = [0] * self.nodes
        self.begun = [0] * self.nodes
        self.ended = [0] * self.nodes
        self.checked = self.cycles = 0
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        self.sources = [StreamSource(dut, f"operations__{i}") for i in range(self.nodes)]
        self._offers = [
            (
                source,
                getattr(dut, f"operations__{i}__valid"),
                getattr(dut, f"operations__{i}__ready"),
            )
            for i, source in enumerate(self.sources)
        ]
        self._edge = RisingEdge(dut.clk)
        self._quiet = True
        for name in ("present", "restart", "stall", "node", "poke"):
            getattr(dut, name).value = 0
        dut.lines_write__valid.value = 0
        dut.lines_read__requests__valid.value = 0
        cocotb.start_soon(self._watch())

    async def reset(self, tiles: Sequence[int] | None = None) -> None:
        """Reset the ring, with so many tiles of it, by default all."""
        self.tiles = sorted(range(self.nodes) if tiles is None else tiles)
        self._quiet = True
        self.dut.rst.value = 1
        self.dut.present.value = sum(1 << tile for tile in self.tiles)
        for source in self.sources:
            source.reset()
        self._silence()
        for _ in range(2):
            await self._edge
        self.dut.rst.value = 0
        for _ in range(2):  # places are known
            await self._edge
        self.done = [0] * self.nodes
        self.failed = [0] * self.nodes

    def _silence(self) -> None:
        self.dut.lines_write__valid.value = 0
        self.dut.lines_read__requests__valid.value = 0
        self.dut.stall.value = 0

    async def _watch(self) -> None:
        g, dut = self.geometry, self.dut
        stalled = 0
        while True:
            await self._edge
            self.cycles += 1
            if dut.rst.value:
                continue
            if done := int(dut.done.value):
                failed = int(dut.failed.value)
                for i in range(self.nodes):
                    if done >> i & 1:
                        self.done[i] += 1
                        self.failed[i] += failed >> i & 1
                        self.ended[i] = self.cycles
            for i, (source, valid, ready) in enumerate(self._offers):
                if not source.idle and valid.value and ready.value:
                    self.begun[i] = self.cycles
            if self._quiet:
                continue
            if (stall := self.stalls()) != stalled:
                dut.stall.value = stalled = stall
            if disturb := next(self.noise):
                spare = self.rng.randrange(VECTORS, PHYSICAL_VECTORS)
                address = {"register": spare, "line": 0}
                dut.node.value = self.rng.choice(self.tiles)
                read = LineAddressLayout(g).const(address)
                dut.lines_read__requests__payload.value = read.as_value().value
                write = LineWriteLayout(g).const({"address": address, "enable": 1})
                dut.lines_write__payload.value = write.as_value().value
            dut.lines_read__requests__valid.value = disturb
            dut.lines_write__valid.value = disturb

    async def load(self, oracle: RingOracle, registers: Sequence[int] = range(8)) -> None:
        """Write registers as the oracle has them."""
        g, dut = self.geometry, self.dut
        self._quiet = True
        per_line = g.line_words // BLOCK_WORDS
        layout = LineWriteLayout(g)
        for place, tile in zip(self.tiles, oracle.machine.tiles, strict=True):
            dut.node.value = place
            for register in registers:
                lines = tile.vectors.words[register].reshape(-1, g.line_words)
                scales = tile.vectors.scales[register].reshape(-1, per_line)
                for line, (words, bytes_) in enumerate(zip(lines, scales, strict=True)):
                    write = layout.const(
                        {
                            "address": {"register": register, "line": line},
                            "words": words.tolist(),
                            "enable": (1 << g.line_words) - 1,
                            "scales": bytes_.tolist(),
                            "scale_enable": (1 << per_line) - 1,
                        }
                    )
                    dut.lines_write__payload.value = write.as_value().value
                    dut.lines_write__valid.value = 1
                    await self._edge
        dut.lines_write__valid.value = 0

    async def load_beats(self, oracle: RingOracle) -> None:
        """Write memory as the oracle has it."""
        self._quiet = True
        for place, tile in zip(self.tiles, oracle.machine.tiles, strict=True):
            self.dut.node.value = place
            for beat, data in enumerate(tile.memory.bytes.reshape(MEMORY_BEATS, -1)):
                await self._poke(beat, int.from_bytes(data.tobytes(), "little"))
        self.dut.poke.value = 0

    async def check_beats(self, oracle: RingOracle) -> None:
        """Compare all of memory."""
        self._quiet = True
        self._silence()
        await self._edge
        for place, tile in zip(self.tiles, oracle.machine.tiles, strict=True):
            self.dut.node.value = place
            found = bytearray()
            for beat in range(MEMORY_BEATS + 1):
                await self._poke(min(beat, MEMORY_BEATS - 1))
                if beat:  # the answer to what was asked in the cycle before
                    found += int(self.dut.peeked.value).to_bytes(self.config.beat_bytes, "little")
            words, expected = np.frombuffer(found, np.uint32), tile.memory.bytes.view(np.uint32)
            same(f"tile {place}, memory", words, expected, np.full(words.size, True))
            self.checked += words.size
        self.dut.poke.value = 0

    async def _poke(self, beat: int, data: int | None = None) -> None:
        """Write a beat of memory, or read it."""
        fields = {"access": 1, "beat": beat, "write": int(data is not None), "data": data or 0}
        poke = PokeLayout(RingGeometry(self.config)).const(fields)
        self.dut.poke.value = poke.as_value().value
        await self._edge

    async def run(
        self,
        programs: Sequence[Sequence[Instruction]],
        delays: Sequence[Sequence[int]] | None = None,
        *,
        timeout: int = 30_000,
    ) -> int:
        """Run a program on every tile, and return the cycles that took.

        Parameters
        ----------
        programs
            One per tile that takes part.
        delays
            How long each tile waits before each instruction; none does by default.
        timeout
            Cycles without anything being done after which the ring hangs.
        """
        self._quiet = False
        before = {tile: self.done[tile] for tile in self.tiles}
        for position, (tile, program) in enumerate(zip(self.tiles, programs, strict=True)):
            waits = delays[position] if delays else [0] * len(program)
            if any(waits):
                cocotb.start_soon(self._offer(tile, program, waits))
            else:
                self.sources[tile].send(*(payload(instruction) for instruction in program))
        start = last = self.cycles
        total = sum(map(len, programs))
        seen = 0
        while seen < total:
            await self._edge
            now = sum(self.done[tile] - before[tile] for tile in self.tiles)
            if now != seen:
                seen, last = now, self.cycles
            assert self.cycles - last < timeout, f"{total - seen} instructions do not end"
        for _ in range(3):
            await self._edge
        for tile, program in zip(self.tiles, programs, strict=True):
            found = self.done[tile] - before[tile]
            assert found == len(program), f"tile {tile} has done {found} of {len(program)}"
        return last - start

    async def _offer(self, tile: int, program: Sequence[Instruction], waits: Sequence[int]) -> None:
        for instruction, wait in zip(program, waits, strict=True):
            for _ in range(wait):
                await self._edge
            self.sources[tile].send(payload(instruction))

    async def check(
        self,
        oracle: RingOracle,
        registers: Sequence[int] = range(8),
        words: int | None = None,
    ) -> None:
        """Compare everything that is defined, or the lines of so many words."""
        lines = self.geometry.lines if words is None else -(-words // self.geometry.line_words)
        self._quiet = True
        self._silence()
        await self._edge
        for place, tile in zip(self.tiles, oracle.machine.tiles, strict=True):
            self.dut.node.value = place
            for register in registers:
                found, scales = await self._read(register, lines)
                kinds = tile.vectors.kinds[register][: found.size]
                blocks = (kinds > 1).reshape(-1, BLOCK_WORDS).all(1)
                what = f"tile {place}, v{register}"
                same(what, found, tile.vectors.words[register][: found.size], kinds != 0)
                expected = tile.vectors.scales[register][: scales.size]
                same(f"{what}, scales", scales, expected, blocks)
                self.checked += int((kinds != 0).sum() + blocks.sum())

    async def _read(self, register: int, lines: int) -> tuple[Any, Any]:
        """Return words and scales of lines of a register of the chosen tile."""
        g, dut = self.geometry, self.dut
        words, scales = bytearray(), bytearray()
        dut.lines_read__requests__valid.value = 1
        for line in range(lines + 1):
            address = {"register": register, "line": min(line, lines - 1)}
            payload = LineAddressLayout(g).const(address).as_value().value
            dut.lines_read__requests__payload.value = payload
            await self._edge
            if line:  # the answer to what was asked in the cycle before
                words += int(dut.lines_read__words.value).to_bytes(4 * g.line_words, "little")
                scales += int(dut.lines_read__scales.value).to_bytes(g.line_blocks, "little")
        dut.lines_read__requests__valid.value = 0
        return np.frombuffer(words, np.uint32), np.frombuffer(scales, np.uint8)


def payload(instruction: Instruction) -> int:
    """Return what the hardware gets."""
    return sum(word << WORD_BITS * i for i, word in enumerate(instruction.words))


def same(what: str, found: Any, expected: Any, where: Any) -> None:
    """Fail where `found` is not as expected."""
    wrong = np.flatnonzero((found != expected) & where)
    if wrong.size:
        first = int(wrong[0])
        raise AssertionError(
            f"{what} at {first}: {int(found[first]):#010x}, golden has {int(expected[first]):#010x}"
            f" ({wrong.size} differ)"
        )
