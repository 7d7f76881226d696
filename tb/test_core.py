"""cocotb tests of the core, for any configuration."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.core.core import Cause
from rtl.core.fields import Instruction, S
from rtl.core.isa import OPCODES, Output, Step
from sim.interpreter.memory import Memory
from tb.core import CoreTestbench, PhysicalTile
from tb.random_core import ProgramMaker, random_program
from tb.stream import any_pauses, never

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))


def tile_of(image: Any) -> PhysicalTile:
    """Return what the engines work on, with such a memory."""
    memory = Memory(CONFIG, len(image) // CONFIG.beat_bytes * CONFIG.beat_stride)
    memory.bytes[:] = image
    return PhysicalTile(CONFIG, memory)


async def compare(bench: CoreTestbench, program: ProgramMaker) -> int:
    """Run a program on the core, compare all it leaves behind, and return the cycles."""
    dut = bench.dut
    bench.tile = tile_of(program.image)
    await bench.reset()
    await bench.load(program.words)
    cycles = await bench.run()
    cause, pc = Cause(int(dut.cause.value)), int(dut.pc.value)
    assert cause is Cause.NONE, f"the program stops at {pc}: {cause.name}"
    expected, found = program.tile, bench.tile
    wrong = np.flatnonzero(found.memory.bytes != expected.memory.bytes)
    assert not wrong.size, f"memory at {wrong[0]:#x} is wrong, and {wrong.size - 1} more bytes"
    where = expected.rows.defined
    differ = np.argwhere((found.rows.words != expected.rows.words) & where)
    assert not differ.size, f"r{differ[0][0]} is wrong in row {differ[0][1]}"
    dut._log.info(f"{len(program.words)} words in {cycles} cycles")
    return cycles


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Dependences of every kind; engines quick and slow, the window of any size."""
    bench = CoreTestbench(dut, CONFIG)
    rng = np.random.default_rng(random.getrandbits(32))
    for turn in range(12):
        bench.latency = int(rng.choice([1, 5, 40]))
        dut.limit.value = int(rng.integers(1, CONFIG.issue_window + 1))
        bench.pauses = any_pauses(random.Random(random.getrandbits(32))) if turn % 2 else never()
        await compare(bench, random_program(CONFIG, rng, 120))
    dut._log.info(f"{bench.issued} instructions issued")


@cocotb.test(skip="JALAPENO_CASE" not in os.environ)
async def program_of_a_model(dut: Any) -> None:
    """Run a program over several memories, as given; each must become what is expected of it."""
    with np.load(os.environ["JALAPENO_CASE"]) as case:
        words, before, after = case["words"].tolist(), case["before"], case["after"]
    bench = CoreTestbench(dut, CONFIG)
    bench.latency = 8
    await bench.reset()
    await bench.load(words)
    for image, expected in zip(before, after, strict=True):
        state = bench.tile = tile_of(image)
        cycles = await bench.run()
        assert int(dut.cause.value) == Cause.NONE, int(dut.pc.value)
        wrong = np.flatnonzero(state.memory.bytes != expected)
        assert not wrong.size, f"memory at {wrong[0]:#x} is wrong, and {wrong.size - 1} more bytes"
        dut._log.info(f"{bench.issued} instructions issued, {cycles} cycles")


# --- every rule by itself -------------------------------------------------------------------------


async def run_words(bench: CoreTestbench, *instructions: Instruction, image: Any = None) -> int:
    """Run instructions on a core fresh from reset, by default with empty memory."""
    bench.tile = tile_of(np.zeros(4096, np.uint8) if image is None else image)
    bench.issued = 0
    await bench.reset()
    await bench.load([word for instruction in instructions for word in instruction.words])
    return await bench.run()


STOP = OPCODES["stop"]()


@cocotb.test()
async def an_unknown_opcode_stops_the_program(dut: Any) -> None:
    """It says where, and for what cause."""
    bench = CoreTestbench(dut, CONFIG)
    await bench.reset()
    const = OPCODES["const"](to=S(1), value=5)
    await bench.load([*const.words, 0xEE, *STOP.words])
    await bench.run()
    assert (int(dut.cause.value), int(dut.pc.value)) == (Cause.OPCODE, 2)


@cocotb.test()
async def a_value_that_does_not_fit_stops_the_program(dut: Any) -> None:
    """Nothing of the instruction is executed."""
    bench = CoreTestbench(dut, CONFIG)
    for value, fits in ((1023, True), (1024, False), (1 << 31, False)):
        const = OPCODES["const"](to=S(1), value=value)
        clear = OPCODES["vector"](
            a=0, rows=S(1), columns=0, b_step=Step.TAKE, output=Output.WORDS, to=3
        )
        await run_words(bench, const, clear, STOP)
        cause = Cause.NONE if fits else Cause.VALUE
        assert int(dut.cause.value) == cause
        assert bench.issued == fits
        if not fits:
            assert int(dut.pc.value) == 2
    for value, fits in ((-(1 << 20), True), (-(1 << 20) - 1, False), ((1 << 20) - 1, True)):
        const = OPCODES["const"](to=S(1), value=value & 0xFFFFFFFF)
        ranged = OPCODES["vector"](a=0, rows=0, columns=0, lo=S(1), output=Output.WORDS, to=3)
        await run_words(bench, const, ranged, STOP)
        assert (int(dut.cause.value) == Cause.NONE) == fits


@cocotb.test()
async def scalar_values_are_those_of_their_time(dut: Any) -> None:
    """A register that changes behind an instruction that waits does not change that one."""
    bench = CoreTestbench(dut, CONFIG)
    bench.latency = 60
    one = 0x3F800000
    program = [OPCODES["const"](to=S(1), value=one)]
    for i in range(8):
        program += [
            OPCODES["vector"](
                a=0, rows=1, columns=1, b_step=Step.TAKE, b_value=S(1), output=Output.ROW, to=5,
                offset=i,
            ),
            OPCODES["add"](to=S(1), a=S(1), b=1),
        ]  # fmt: skip
    await run_words(bench, *program, STOP)
    assert bench.tile.rows.words[5, :8].tolist() == [one + i for i in range(8)]


@cocotb.test()
async def readers_and_writers_are_not_overtaken(dut: Any) -> None:
    """A quick write of a register waits for a slow reader, and for a slow writer."""
    bench = CoreTestbench(dut, CONFIG)
    bench.late = True
    bench.times = {"vector": 100, "loadr": 3, "load": 3}
    copy = {"a_row": True, "a": 1, "a_stride": 1, "rows": 4, "output": Output.ROW, "stride": 1}
    first, second = (OPCODES["loadr"](to=1, rows=4, address=at) for at in (0, 64))
    image = np.arange(1, 1025, dtype=np.uint32).view(np.uint8)
    await run_words(bench, first, OPCODES["vector"](**copy, to=2), second, STOP, image=image)
    rows = bench.tile.rows.words
    assert (rows[1, 0], rows[2, 0]) == (17, 1), "a reader was overtaken"
    again = OPCODES["loadr"](to=2, rows=4, address=128)
    await run_words(bench, first, OPCODES["vector"](**copy, to=2), again, STOP, image=image)
    assert bench.tile.rows.words[2, 0] == 33, "a writer was overtaken"
    # A vector register is renamed instead: the load does not wait.
    kept = {"a": 3, "rows": 1, "columns": 32, "output": Output.WORDS, "to": 4}
    loads = [OPCODES["load"](to=3, rows=1, columns=32, address=at) for at in (0, 64)]
    store = OPCODES["store"](source=4, rows=1, columns=32, address=2048)
    await run_words(bench, loads[0], OPCODES["vector"](**kept), loads[1], store, STOP, image=image)
    assert bench.tile.memory.peek(2048, 4).view(np.uint32)[0] == 1


@cocotb.test()
async def the_window_overtakes(dut: Any) -> None:
    """What waits for nothing does not wait for what waits; in order it does."""
    bench = CoreTestbench(dut, CONFIG)
    bench.times = {"load": 200, "vector": 40}
    slow = OPCODES["load"](to=1, rows=1, columns=32, address=0)
    user = OPCODES["vector"](a=1, rows=1, columns=32, output=Output.WORDS, to=2)
    others = [
        OPCODES["vector"](a=0, rows=1, columns=32, b_step=Step.TAKE, output=Output.WORDS, to=3 + i)
        for i in range(3)
    ]
    cycles = {}
    for limit in (1, CONFIG.issue_window):
        dut.limit.value = limit
        cycles[limit] = await run_words(bench, slow, user, *others, STOP)
    dut._log.info(f"cycles by window: {cycles}")
    if CONFIG.issue_window > 1:
        assert cycles[CONFIG.issue_window] + 30 < cycles[1]


# --- the checkers themselves; these must fail -----------------------------------------------------


@cocotb.test(skip=True)
async def a_wrong_byte_is_noticed(dut: Any) -> None:
    """The comparison must object to one wrong byte."""
    bench = CoreTestbench(dut, CONFIG)
    program = random_program(CONFIG, np.random.default_rng(1), 10)
    program.tile.memory.bytes[77] ^= 1
    await compare(bench, program)


@cocotb.test(skip=True)
async def a_fault_of_an_engine_is_noticed(dut: Any) -> None:
    """An instruction that reads what nobody wrote must not go unnoticed."""
    undefined = OPCODES["vector"](a=7, rows=1, columns=1, output=Output.WORDS, to=2)
    await run_words(CoreTestbench(dut, CONFIG), undefined, STOP)
    await RisingEdge(dut.clk)
