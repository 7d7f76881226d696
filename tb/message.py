"""Testbench of the message engines: programs of messages and remote reads, against the interpreter.

Every tile has a program. Afterwards the interpreter runs them all; registers begin alike and must
end alike, in all that is defined. Of a message that was taken from any tile, the hardware says
whose it was, and the interpreter then has to take just that one, which it does only if it was the
first of its sender that fits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.core.fields import Instruction
from rtl.core.isa import OPCODES
from rtl.message.engine import COUNTERS
from rtl.message.geometry import MessageGeometry
from rtl.message.standalone import BEATS, STREAMS, BeatLayout
from rtl.vec.ports import WordAddressLayout
from tb.ring import PERIOD_NS, RingOracle, RingTestbench
from tb.stream import StreamSource, never

STALLS = len(STREAMS) + 1
"""What can be stalled of each tile: its streams, and its memory."""


def op(name: str, **fields: Any) -> Instruction:
    """Return an instruction; fields left out have their defaults."""
    return OPCODES[name](**fields)


class MessageOracle(RingOracle):
    """Registers and memories of tiles, as the interpreter leaves them.

    Parameters
    ----------
    config
        The configuration of a tile.
    rng
        What they hold at first.
    """

    def __init__(self, config: TileConfig, rng: np.random.Generator) -> None:
        super().__init__(config, config.tiles, rng, BEATS * config.beat_stride)
        for tile in self.machine.tiles:
            for beat in range(BEATS):
                words = rng.integers(0, 1 << 32, config.beat_bytes // 4, np.uint32)
                tile.memory.poke(beat * config.beat_stride, words)


class MessageTestbench(RingTestbench):
    """Drives message engines on their network, tile by tile as those of a ring.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.
    """

    def __init__(self, dut: Any, config: TileConfig) -> None:
        self.dut, self.config = dut, config
        self.layout = BeatLayout(MessageGeometry(config))
        self.geometry = MessageGeometry(config).vectors
        self.rng = random.Random(random.getrandbits(32))
        self.nodes = config.tiles
        self.tiles = list(range(config.tiles))
        self.stalls: Any = lambda: 0
        self.noise = never()
        self._forget()
        self.checked = self.cycles = 0
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        self.sources = [StreamSource(dut, f"operations__{i}") for i in self.tiles]
        self._offers = [
            (source, *(getattr(dut, f"operations__{i}__{end}") for end in ("valid", "ready")))
            for i, source in enumerate(self.sources)
        ]
        self._edge = RisingEdge(dut.clk)
        self._quiet = True
        dut.node.value = dut.write.value = dut.snapshot.value = 0
        dut.words_read__requests__valid.value = 0
        self._silence()
        cocotb.start_soon(self._watch())

    def _forget(self) -> None:
        self.done, self.failed, self.begun, self.ended = ([0] * self.nodes for _ in range(4))

    async def reset(self, tiles: Sequence[int] | None = None) -> None:
        """Reset everything but registers and memories."""
        self._quiet = True
        self.dut.rst.value = 1
        for source in self.sources:
            source.reset()
        self._silence()
        for _ in range(2):
            await self._edge
        self.dut.rst.value = 0
        await self._edge
        self._forget()

    async def load_memory(self, oracle: MessageOracle) -> None:
        """Write memories as the oracle has them."""
        stride, size = self.config.beat_stride, self.config.beat_bytes
        for tile in oracle.machine.tiles:
            self.dut.node.value = tile.number
            for beat in range(BEATS):
                data = int.from_bytes(bytes(tile.memory.peek(beat * stride, size)), "little")
                payload = self.layout.const({"beat": beat, "data": data}).as_value().value
                self.dut.beat.value = payload
                self.dut.write.value = 1
                await self._edge
        self.dut.write.value = 0

    async def envelope(self, tile: int, register: int) -> tuple[int, int]:
        """Return the first two rows of a row register."""
        dut, found = self.dut, []
        self._quiet = True
        self._silence()
        dut.node.value = tile
        dut.words_read__requests__valid.value = 1
        for row in (0, 1):
            address = WordAddressLayout(self.geometry).const({"register": register, "row": row})
            dut.words_read__requests__payload.value = address.as_value().value
            await self._edge
            await self._edge
            found.append(int(dut.words_read__word.value))
        dut.words_read__requests__valid.value = 0
        return found[0], found[1]

    async def counters(self, tile: int) -> dict[str, int]:
        """Return the counters of a tile."""
        self.dut.node.value = tile
        self.dut.snapshot.value = 1
        await self._edge
        self.dut.snapshot.value = 0
        for _ in range(2):
            await self._edge
        bits = int(self.dut.counters.value)
        return {c.name: bits >> 32 * i & 0xFFFFFFFF for i, c in enumerate(COUNTERS)}

    async def replayed(self, programs: Sequence[Sequence[Instruction]]) -> list[list[Instruction]]:
        """Return programs that take from the tiles from which the hardware has just taken.

        Every `receive` from any tile must have an envelope of its own.
        """
        replay: list[list[Instruction]] = []
        for tile, program in enumerate(programs):
            replay.append([])
            for instruction in program:
                fields = dict(instruction.values)
                if instruction.name == "receive" and fields["any_tile"]:
                    source, tag = await self.envelope(tile, fields["envelope"])
                    assert fields["any_tag"] or tag == fields["tag"], f"tag {tag} was taken"
                    fields |= {"any_tile": False, "tile": source}
                replay[-1].append(OPCODES[instruction.name](**fields))
        return replay

    async def run_and_check(
        self,
        oracle: MessageOracle,
        programs: Sequence[Sequence[Instruction]],
        delays: Sequence[Sequence[int]] | None = None,
        registers: Sequence[int] = range(8),
    ) -> int:
        """Run a program on every tile, compare with the interpreter, and return the cycles."""
        took = await self.run(programs, delays)
        oracle.run(await self.replayed(programs))
        await self.check(oracle, registers)
        for tile, program in zip(oracle.machine.tiles, programs, strict=True):
            for instruction in program:
                fields = instruction.values
                if instruction.name == "receive" and fields["any_tag"]:
                    expected = tile.rows.words[fields["envelope"], :2].tolist()
                    found = await self.envelope(tile.number, fields["envelope"])
                    assert [*found] == expected, f"tile {tile.number} took {found}"
        assert not any(self.failed), f"failed: {self.failed}"
        return took
