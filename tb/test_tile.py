"""cocotb tests of a tile, for any configuration; `tests.tb.test_tile` runs whole models on it."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from rtl.config import TileConfig
from rtl.core.core import Cause
from rtl.core.fields import Instruction, S
from rtl.core.isa import OPCODES, Output, Step
from rtl.registers import IDENTITY
from rtl.tile import Tile
from tb.axi_host import REGION, AxiHost
from tb.random_core import END, ProgramMaker, random_program
from tb.tile import PERIOD_NS, TileTestbench
from tb.tile_settings import any_settings

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
ROWS = int(os.environ["JALAPENO_HBM_ROWS"])

FAR = END // CONFIG.beat_stride
"""First beat that no program here touches."""

STOP = OPCODES["stop"]()

LONG = 400
"""Cycles after which whatever was under way when a program stopped has come to rest."""


async def started(dut: Any, **settings: Any) -> TileTestbench:
    """Return a testbench after reset, its memory unwritten."""
    bench = TileTestbench(dut, CONFIG, ROWS)
    await bench.reset(settings)
    await bench.clear()
    return bench


async def compare(bench: TileTestbench, program: ProgramMaker) -> int:
    """Run a program, compare all of memory behind it, and return the cycles."""
    await bench.load(0, program.image)
    await bench.program(program.words)
    cycles = await bench.run()
    found, expected = await bench.dump(END), program.tile.memory.bytes
    wrong = np.flatnonzero(found[: expected.size] != expected)
    assert not wrong.size, f"memory at {wrong[0]:#x} is wrong, and {wrong.size - 1} more bytes"
    return cycles


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Dependences of every kind: memory and registers are what the interpreter leaves."""
    bench = await started(dut)
    rng, choices = np.random.default_rng(random.getrandbits(32)), _rng()
    for _ in range(6):
        settings = any_settings(CONFIG, choices)
        await bench.reset(settings)
        cycles = await compare(bench, random_program(CONFIG, rng, 120))
        dut._log.info(f"{cycles} cycles with {settings}")


@cocotb.test()
async def a_host_works_while_programs_run(dut: Any) -> None:
    """A host that nobody here wrote reads and writes its own memory; neither sees the other."""
    bench = await started(dut)
    host, rng, choices = AxiHost(dut, CONFIG), np.random.default_rng(1), _rng()
    host.pause(choices)
    work = cocotb.start_soon(host.work(choices, FAR, 30))
    while not work.done():
        await compare(bench, random_program(CONFIG, rng, 60))
    image = await work
    found = await bench.hbm.dump(REGION, FAR)
    assert found.tobytes() == image


@cocotb.test()
async def registers_answer_a_foreign_manager(dut: Any) -> None:
    """Every window begins with identity and hash; what is between windows does not exist."""
    bench = await started(dut)
    manager = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    register_map = Tile(CONFIG).register_map
    for name, base in register_map.offsets.items():
        answer = await manager.read(base, 12)
        words = np.frombuffer(answer.data, "<u4").tolist()
        assert answer.resp == AxiResp.OKAY
        assert words == [IDENTITY, int(CONFIG.hash[4:], 16), int(CONFIG.hash[:4], 16)], name
        beyond = await manager.read(base + 4 * register_map.maps[name].words, 4)
        assert beyond.resp == AxiResp.DECERR
    assert (await bench.stopped()) == (Cause.NONE, 0)


@cocotb.test()
async def what_a_program_wrote_is_in_memory(dut: Any) -> None:
    """Words that wait in L1 leave it at the end; the next program finds what the host wrote."""
    bench = await started(dut)
    words = [
        OPCODES["lw"](to=S(1), address=64),
        OPCODES["add"](to=S(1), a=S(1), b=1),
        OPCODES["sw"](value=S(1), address=64),
        STOP,
    ]
    await bench.program([word for instruction in words for word in instruction.words])
    for number in (5, 1 << 31, 0xFFFFFFFF):
        await bench.write(64, np.uint32(number))
        await bench.run()
        assert (await bench.read(64, 4)).view(np.uint32)[0] == (number + 1) & 0xFFFFFFFF


async def run_words(bench: TileTestbench, *instructions: Instruction) -> tuple[Cause, int]:
    """Run instructions on a tile fresh from reset; return why and where they stopped."""
    await bench.reset()
    await bench.program([word for instruction in instructions for word in instruction.words])
    await bench.windows["core"].write("control", 1)
    if bench.dut.running.value:
        await FallingEdge(bench.dut.running)
    return await bench.stopped()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def errors_stop_the_tile(dut: Any) -> None:
    """Cause and place can be read; until a reset nothing starts, and then everything does."""
    bench = await started(dut)
    beyond = ROWS * 16 * 1024 // 16 * CONFIG.beat_stride
    const = OPCODES["const"](to=S(1), value=1 << 20)
    faults = {
        "unknown opcode": ([0xEE], Cause.OPCODE),
        "value": (
            OPCODES["match"](to=S(2), source=0, rows=S(1), word=0, equal=0).words,
            Cause.VALUE,
        ),
        "lw": (OPCODES["lw"](to=S(1), address=beyond).words, Cause.MEMORY),
        "load": (OPCODES["load"](to=1, rows=1, columns=4, address=beyond).words, Cause.MEMORY),
        "streaming load": (
            OPCODES["load"](to=1, rows=1, columns=4, address=beyond, streaming=True).words,
            Cause.MEMORY,
        ),
    }
    clear = OPCODES["vector"](a=0, rows=1, columns=32, b_step=Step.TAKE, output=Output.WORDS, to=1)
    for name, (words, expected) in faults.items():
        for _ in range(2):
            await bench.reset()
            await bench.program([*const.words, *words, *STOP.words])
            await bench.windows["core"].write("control", 1)
            if dut.running.value:
                await FallingEdge(dut.running)
            cause, pc = await bench.stopped()
            assert (cause, pc) == (expected, len(const.words)), f"{name}: {cause.name} at {pc}"
        await bench.windows["core"].write("control", 1)
        assert not dut.running.value, f"a program starts after {name}"
        ended = await run_words(bench, clear, STOP)
        assert ended == (Cause.NONE, len(clear.words))


@cocotb.test()
async def reset_in_flight(dut: Any) -> None:
    """Reset at any moment, with every engine at work, leaves a tile as new."""
    bench = await started(dut)
    rng, choices = np.random.default_rng(random.getrandbits(32)), _rng()
    for _ in range(4):
        program = random_program(CONFIG, rng, 60)
        await bench.load(0, program.image)
        await bench.program(program.words)
        await bench.windows["core"].write("control", 1)
        await Timer(choices.randint(1, 3000) * PERIOD_NS, "ns")
        await RisingEdge(dut.clk)
        await bench.reset(any_settings(CONFIG, choices))
        await compare(bench, program)


@cocotb.test()
async def clocks_stop_where_nothing_happens(dut: Any) -> None:
    """An idle tile is dark; a program on one engine wakes that one."""
    bench = await started(dut)
    names = ("memory", "matrix", "vector")

    async def dark() -> dict[str, float]:
        before = await bench.windows["core"].counters()
        await bench.program([word for i in (*busy, STOP) for word in i.words])
        await bench.run()
        for _ in range(LONG):
            await RisingEdge(dut.clk)
        after = await bench.windows["core"].counters()
        moved = {name: after[name] - before[name] for name in after}
        for name in names:
            assert moved[f"{name}_busy"] + moved[f"{name}_dark"] <= moved["cycles"]
        return {name: moved[f"{name}_dark"] / moved["cycles"] for name in names}

    busy: list[Instruction] = []
    idle = await dark()
    assert min(idle.values()) > 0.5, idle
    clear = OPCODES["vector"](
        a=0, rows=1, columns=CONFIG.vector_length, b_step=Step.TAKE, output=Output.WORDS, to=1
    )
    busy = [clear] * 200
    found = await dark()
    assert found["vector"] < 0.7 * idle["vector"], found
    assert found["matrix"] > 0.9 * idle["matrix"], found


# --- the checkers themselves; these must fail -----------------------------------------------------


@cocotb.test(skip="JALAPENO_FIRE" not in os.environ)
async def a_wrong_byte_is_noticed(dut: Any) -> None:
    """The comparison must object to one wrong byte."""
    bench = await started(dut)
    program = random_program(CONFIG, np.random.default_rng(1), 10)
    program.tile.memory.bytes[77] ^= 1
    await compare(bench, program)


@cocotb.test(skip="JALAPENO_FIRE" not in os.environ)
async def a_program_that_stops_is_noticed(dut: Any) -> None:
    """A run that ends in a fault must not count as one that ended."""
    bench = await started(dut)
    await bench.program([0xEE])
    await bench.run()


def _rng() -> random.Random:
    """Return a source of choices, seeded from the run's seed."""
    return random.Random(random.getrandbits(32))
