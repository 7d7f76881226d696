"""cocotb tests of tiles on a ring and a network on chip; two of them are enough."""

from __future__ import annotations

import json
import os
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import Timer

from rtl.config import TileConfig
from rtl.core.core import Cause
from rtl.core.fields import Instruction, S
from rtl.core.isa import OPCODES
from tb.random_message_tiles import random_programs
from tb.random_ring import stalls
from tb.ring_tiles import RingOfTilesTestbench
from tb.tile import PERIOD_NS

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
ROWS = int(os.environ["JALAPENO_HBM_ROWS"])
TILES = CONFIG.tiles
LENGTH = CONFIG.vector_length

STOP, FENCE = OPCODES["stop"](), OPCODES["fence"]()
MS: Any = {"timeout_time": 20, "timeout_unit": "ms"}


def op(name: str, **fields: Any) -> Instruction:
    """Return an instruction; fields left out have their defaults."""
    return OPCODES[name](**fields)


def words(*instructions: Instruction) -> list[int]:
    """Return a program."""
    return [word for instruction in instructions for word in instruction.words]


async def started(dut: Any) -> RingOfTilesTestbench:
    """Return a testbench after reset, all memory unwritten."""
    bench = RingOfTilesTestbench(dut, CONFIG, ROWS, TILES)
    await bench.reset()
    for tile in bench.every:
        await tile.clear()
    return bench


def generator(bench: RingOfTilesTestbench) -> np.random.Generator:
    """Return a source of randomness, seeded from the run's seed."""
    return np.random.default_rng(bench.rng.getrandbits(32))


@cocotb.test(**MS)
async def random_programs_leave_what_the_interpreter_does(dut: Any) -> None:
    """Messages, remote reads and collectives between everything else, under any settings."""
    bench = await started(dut)
    rng = generator(bench)
    count: dict[str, int] = {}
    for _ in range(6):
        await bench.reset(anyhow=True)
        bench.stalls = stalls(bench.rng, 2 * TILES)
        programs = random_programs(CONFIG, rng, TILES, 100)
        await bench.compare(programs.makers)
        for name, number in programs.count.items():
            count[name] = count.get(name, 0) + number
    dut._log.info(f"{count}")
    assert min(count[name] for name in ("send", "receive", "remote")) > 10
    for tile in bench.tiles:
        counters = await tile.counters()
        assert counters["message"]["sent"]
        assert counters["message"]["received"]
        assert counters["core"]["message_dark"], "its clock never stops"


@cocotb.test(**MS)
async def remote_reads_see_what_was_stored_before_a_fence(dut: Any) -> None:
    """One stores, fences and says so; the other reads it, stores it elsewhere, and says so."""
    bench = await started(dut)
    rng = generator(bench)
    turns, at, copies = 6, 0x1000, 0x2000
    data = rng.integers(0, 1 << 32, (turns, LENGTH), np.uint32)
    await bench.every[0].load(0, data.view(np.uint8).reshape(-1))
    writer, reader = [], []
    for turn in range(turns):
        writer += [
            op("load", to=turn % 3, rows=1, columns=LENGTH, address=4 * LENGTH * turn),
            op("store", source=turn % 3, rows=1, columns=LENGTH, address=at),
            FENCE,
            op("send", tile=TILES - 1, count=0, source=0),
            op("receive", tile=TILES - 1, count=0, to=9),
            FENCE,
        ]
        reader += [
            op("receive", tile=0, count=0, to=9),
            op("remote", tile=0, address=at, count=LENGTH, to=turn % 3),
            op("send", tile=0, count=0, source=9),
            op(
                "store", source=turn % 3, rows=1, columns=LENGTH, address=copies + 4 * LENGTH * turn
            ),
        ]
    programs = [words(STOP)] * TILES
    programs[0], programs[-1] = words(*writer, STOP), words(*reader, STOP)
    await bench.run(programs)
    found = await bench.every[-1].read(copies, 4 * data.size)
    np.testing.assert_array_equal(found.view(np.uint32), data.reshape(-1))


@cocotb.test(**MS)
async def what_cannot_be_done_stops_the_tile(dut: Any) -> None:
    """It says why, and at which instruction, whatever comes behind it."""
    bench = await started(dut)
    before = op("const", to=S(1), value=7)
    other = op("send", tile=0, tag=3, count=2, source=0)
    bad = [
        [op("send", tile=TILES, count=1, source=0)],
        [other, op("receive", tile=0, tag=3, count=3, to=1)],
        [op("remote", tile=0, address=2, count=1, to=1)],
        [op("remote", tile=TILES - 1, address=1 << 31, count=1, to=1)],
    ]
    load = op("load", to=0, rows=1, columns=LENGTH, address=0)
    for program in bad:
        await bench.reset()
        behind = op("send", tile=0, tag=9, count=LENGTH, source=0)
        await bench.start(
            [words(before, load, *program, behind, STOP), *[words(STOP)] * (TILES - 1)]
        )
        at = len(words(before, load, *program[:-1]))
        assert (await bench.stopped())[0] == (Cause.MESSAGE, at), str(program[-1])


@cocotb.test(**MS)
async def reset_in_flight(dut: Any) -> None:
    """Reset of all at any moment, with messages under way, leaves tiles as new."""
    bench = await started(dut)
    rng = generator(bench)
    for _ in range(3):
        await bench.reset(anyhow=True)
        programs = random_programs(CONFIG, rng, TILES, 60)
        for tile, maker in zip(bench.tiles, programs.makers, strict=True):
            await tile.load(0, maker.image)
        await bench.start([maker.words for maker in programs.makers])
        await Timer(bench.rng.randint(1, 2000) * PERIOD_NS, "ns")
        await bench.reset(anyhow=True)
        await bench.compare(programs.makers)
