"""Testbench of tiles in a ring: a host at each, memory behind each.

Works on the top module that `sim.tiles.ring_of` makes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge

from rtl.config import TileConfig
from rtl.core.core import Cause
from rtl.ring.layouts import TILES_BITS
from tb.random_core import END, ProgramMaker
from tb.tile import TileTestbench
from tb.tile_settings import any_settings


class TilePorts:
    """The ports of one tile, by the names that they have on a tile that is alone."""

    def __init__(self, dut: Any, tile: int) -> None:
        self._dut, self._prefix = dut, f"tile{tile}_"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dut, name if name == "clk" else self._prefix + name)


class RingOfTilesTestbench:
    """Drives tiles in a ring as their host.

    Parameters
    ----------
    dut
        The design.
    config
        The configuration of the tiles.
    rows
        Rows of each bank of their devices.
    tiles
        How many there are.

    Attributes
    ----------
    every
        A testbench for every tile, see `tb.tile.TileTestbench`.
    present
        Tiles that take part, in their order.
    stalls
        Called in each cycle for the links that carry nothing, see `tb.random_ring.stalls`.
    """

    def __init__(self, dut: Any, config: TileConfig, rows: int, tiles: int) -> None:
        self.dut, self.config = dut, config
        self.rng = random.Random(random.getrandbits(32))
        self.every = [
            TileTestbench(TilePorts(dut, i), config, rows, clocked=i > 0) for i in range(tiles)
        ]
        self.present = list(range(tiles))
        self.stalls: Callable[[], int] = lambda: 0
        dut.stall.value = 0
        cocotb.start_soon(self._links())

    @property
    def tiles(self) -> list[TileTestbench]:
        """Testbenches of the tiles that take part."""
        return [self.every[i] for i in self.present]

    async def _links(self) -> None:
        stalled = 0
        while True:
            await RisingEdge(self.dut.clk)
            if (stall := self.stalls()) != stalled:
                self.dut.stall.value = stalled = stall

    async def reset(self, present: Sequence[int] | None = None, *, anyhow: bool = False) -> None:
        """Reset all tiles, and tell them which of them take part.

        Parameters
        ----------
        present
            By default all.
        anyhow
            Each with run-time limits of its own.
        """
        self.present = sorted(range(len(self.every)) if present is None else present)
        for tile in self.every:
            tile.dut.rst.value = 1
        for tile in self.every:
            await tile.reset(any_settings(self.config, self.rng) if anyhow else None)
        for number in range(len(self.every)):
            await self.place(number)

    async def place(self, number: int) -> None:
        """Tell a tile its place on the ring."""
        rank = sum(other < number for other in self.present)
        value = int(number in self.present) | len(self.present) << 1 | rank << 1 + TILES_BITS
        await self.every[number].windows["ring"].write("place", value)

    async def start(self, programs: Sequence[Sequence[int]]) -> None:
        """Start a program on every tile that takes part."""
        for tile, words in zip(self.tiles, programs, strict=True):
            await tile.program(list(words))
        for tile in self.tiles:
            await tile.windows["core"].write("control", 1)

    async def stopped(self) -> list[tuple[Cause, int]]:
        """Wait until all tiles have stopped; return why and where."""
        for tile in self.tiles:
            if tile.dut.running.value:
                await FallingEdge(tile.dut.running)
        return [await tile.stopped() for tile in self.tiles]

    async def run(self, programs: Sequence[Sequence[int]]) -> None:
        """Run a program on every tile; fail if one does not reach its `stop`."""
        await self.start(programs)
        for place, (cause, pc) in zip(self.present, await self.stopped(), strict=True):
            assert cause == Cause.NONE, f"tile {place} stopped at word {pc}, {cause.name.lower()}"
        for tile in self.every:
            tile.hbm.check()

    async def compare(self, makers: Sequence[ProgramMaker]) -> None:
        """Run random programs, and compare all of memory behind them."""
        for tile, maker in zip(self.tiles, makers, strict=True):
            await tile.load(0, maker.image)
        await self.run([maker.words for maker in makers])
        await self.same([maker.tile.memory.bytes for maker in makers])

    async def same(self, memories: Sequence[Any]) -> None:
        """Fail where the memory of a tile is not as expected."""
        for place, tile, expected in zip(self.present, self.tiles, memories, strict=True):
            found = await tile.dump(END)
            wrong = np.flatnonzero(found[: expected.size] != expected)
            assert not wrong.size, (
                f"memory of tile {place} at {wrong[0]:#x} is wrong, and {wrong.size - 1} more bytes"
            )
