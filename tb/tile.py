"""Testbench of a tile: a host at its ports, memory behind it, and nothing in between."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, First, RisingEdge, Timer

from gen.mx import Bytes
from rtl.config import TileConfig
from rtl.core.core import Cause
from rtl.core.program import LINE_WORDS
from rtl.hbm.address import AddressMap
from rtl.hbm.place import LOW_COLUMNS
from rtl.hbm.settings import values
from rtl.hbm.timing import TIMINGS, Timing
from rtl.host import axi_ports, lite_ports
from rtl.tile import Tile
from tb.hbm import HbmSlice
from tb.host_access import HostAccess
from tb.registers import LiteManager, LiteRegisters

PERIOD_NS = 10

LIMIT = 50_000_000
"""Cycles of a program, at most."""


SETTLED = 2000
"""Cycles in which all that was accepted is written, a refresh included."""


class TileTestbench:
    """Drives a tile as its host.

    Parameters
    ----------
    dut
        Top module of a harness around the design.
    config
        Its configuration.
    rows
        Rows of each bank that the device has.
    clocked
        Whether something else drives the clock.

    Attributes
    ----------
    hbm
        The way into memory and to what the timing checkers saw.
    windows
        Registers by the name of their window.
    host
        The memory port.
    """

    def __init__(self, dut: Any, config: TileConfig, rows: int, *, clocked: bool = False) -> None:
        self.dut, self.config, self._rows = dut, config, rows
        for name, member in (axi_ports(config) | lite_ports()).items():
            if member.flow.name == "In":
                getattr(dut, name).value = 0
        register_map = Tile(config).register_map
        manager = LiteManager(dut)
        self.windows = {
            name: LiteRegisters(manager, register_map.maps[name], offset)
            for name, offset in register_map.offsets.items()
        }
        self.host = HostAccess(dut, config.beat_bytes, config.beat_stride)
        self.hbm = self._memory(TIMINGS[config.timing])
        self._edge = RisingEdge(dut.clk)
        dut.rst.value = 1
        if not clocked:
            Clock(dut.clk, PERIOD_NS, unit="ns").start()

    def _memory(self, timing: Timing) -> HbmSlice:
        """Return the way into memory; where a beat lies depends on the timing set."""
        address = AddressMap.of(timing, low_columns=LOW_COLUMNS)
        return HbmSlice(self.dut, timing, address=address)

    async def reset(self, settings: Mapping[str, Any] | None = None) -> None:
        """Reset everything but what is in memory, and set run-time limits.

        With another timing set, what is in memory is elsewhere.

        Parameters
        ----------
        settings
            ``timing``, a set or its name; ``window``, entries; ``prefetch`` and ``pairing``, on or
            off, and so ``ecc`` where there is any; ``stream_rows``, of each half of the stream
            buffer. What is left out is as in the configuration.
        """
        settings = dict(settings or {})
        self.dut.rst.value = 1
        for _ in range(2):
            await self._edge
        timing = settings.pop("timing", self.config.timing)
        timing = TIMINGS[timing] if isinstance(timing, str) else timing
        self.hbm = self._memory(timing)
        await self._edge
        self.dut.rst.value = 0
        await self._edge
        await self._check_hash()
        memory = self.windows["hbm"]
        await memory.write("control", 0)
        for name, value in values(timing).items():
            await memory.write(name, value)
        await memory.write("rows", self._rows)
        protected = settings.pop("ecc", self.config.ecc)
        await memory.write("control", 1 | int(self.config.ecc and not protected) << 2)
        window = settings.pop("window", self.config.issue_window)
        prefetch = settings.pop("prefetch", True)
        bits = self.config.issue_window.bit_length()
        await self.windows["core"].write("settings", window | int(prefetch) << bits)
        if not settings.pop("pairing", True):
            await self.windows["mac"].write("control", 0)
        if "stream_rows" in settings:
            await self.windows["mac"].write("stream", settings.pop("stream_rows"))
        assert not settings, f"a tile has no settings {', '.join(settings)}"

    async def _check_hash(self) -> None:
        """Refuse a tile of another configuration."""
        core = self.windows["core"]
        low, high = await core.read("config_hash_low"), await core.read("config_hash_high")
        built, wanted = f"{high << 32 | low:012x}", self.config.hash
        assert built == wanted, f"the tile has configuration {built}, not {wanted}"

    async def load(self, address: int, data: Bytes) -> None:
        """Put whole beats into memory, past the tile."""
        await self._settle()
        await self.hbm.load(data, address // self.config.beat_stride)

    async def flip(self, address: int, *bits: int) -> None:
        """Flip bits of a beat in memory, in its first pseudo-channel."""
        await self._settle()
        await self.hbm.flip(0, address // self.config.beat_stride, *bits)

    async def clear(self) -> None:
        """Make all memory unwritten."""
        await self._settle()
        await self.hbm.clear()

    async def dump(self, size: int) -> Bytes:
        """Return the bytes of memory, from the first one on, past the tile; whole beats."""
        await self._settle()
        return await self.hbm.dump(size // self.config.beat_bytes)

    async def _settle(self) -> None:
        """Wait until what the controllers have accepted is in the devices."""
        await Timer(SETTLED * PERIOD_NS, "ns")

    async def program(self, words: list[int]) -> None:
        """Store a program."""
        core = self.windows["core"]
        padded = words + [0] * (-len(words) % LINE_WORDS)
        held: list[int | None] = [None] * LINE_WORDS
        for line in range(len(padded) // LINE_WORDS):
            for i, word in enumerate(padded[LINE_WORDS * line : LINE_WORDS * (line + 1)]):
                if held[i] != word:
                    await core.write(f"program_{i}", word)
                    held[i] = word
            await core.write("program_store", line << 1 | 1)

    async def run(self, traffic: int | None = None) -> int:
        """Run the program from its beginning, and return the cycles that took.

        Parameters
        ----------
        traffic
            Meanwhile the host reads at random places, as this seed has it, so that memory answers
            others late.

        Raises
        ------
        AssertionError
            It stopped otherwise than by `stop`, or not at all, or a rule of the memory was broken.
        """
        core = self.windows["core"]
        before = (await core.counters())["running"]
        await core.write("control", 1)
        reader = None if traffic is None else cocotb.start_soon(self._read(random.Random(traffic)))
        if self.dut.running.value:
            await First(FallingEdge(self.dut.running), Timer(LIMIT * PERIOD_NS, "ns"))
        if reader:
            await reader
        self.hbm.check()
        cause, pc = await self.stopped()
        assert cause == Cause.NONE, f"the program stopped at word {pc}, {cause.name.lower()}"
        return (await core.counters())["running"] - before

    async def record(self) -> Bytes:
        """Run the program, and return what the probe showed in every cycle.

        Returns
        -------
        uint8 [cycles, bytes]
            Bits of `rtl.tile.ProbeLayout`, lowest first.
        """
        probe, running = self.dut.probe, self.dut.running
        size = -(-len(probe) // 8)
        await self.windows["core"].write("control", 1)
        seen = []
        while running.value:
            seen.append(int(probe.value).to_bytes(size, "little"))
            await self._edge
        self.hbm.check()
        cause, pc = await self.stopped()
        assert cause == Cause.NONE, f"the program stopped at word {pc}, {cause.name.lower()}"
        return np.frombuffer(b"".join(seen), np.uint8).reshape(-1, size)

    async def stopped(self) -> tuple[Cause, int]:
        """Return why and where the program stopped, which must not run any more."""
        core = self.windows["core"]
        status = await core.read("status")
        assert not status & 1, f"the program does not end; it takes {LIMIT} cycles already"
        return Cause(status >> 1), await core.read("pc")

    async def _read(self, rng: random.Random) -> None:
        """Read from memory now and then, for as long as a program runs."""
        beats = self._rows * 1024
        while self.dut.running.value:
            first, count = rng.randrange(beats - 64), rng.choice([1, 2, 8, 64])
            await self.host.read(first * self.config.beat_stride, count * self.config.beat_bytes)
            for _ in range(rng.choice([0, 0, 10, 200])):
                await self._edge

    async def counters(self) -> dict[str, dict[str, int]]:
        """Return all counters, by window."""
        return {name: await window.counters() for name, window in self.windows.items()}

    async def write(self, address: int, data: Any) -> None:
        """Write an array through the host port."""
        await self.host.write(address, np.ascontiguousarray(data).reshape(-1).view(np.uint8))

    async def read(self, address: int, size: int) -> Bytes:
        """Read bytes through the host port."""
        return await self.host.read(address, size)
