"""cocotb tests of the matrix unit, for any configuration."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotb_coverage.coverage import CoverCross, CoverPoint, coverage_db

from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.core.isa import MatrixFormat
from rtl.formats import BLOCK, Format
from rtl.mac import MacGeometry
from rtl.vec import VectorGeometry
from sim.golden import fp32
from tb.mac import Job
from tb.matrix import MatrixInstruction, MatrixOracle, MatrixTestbench
from tb.random_matrix import BESTS, TARGETS, Maker

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
VECTOR, MAC = VectorGeometry(CONFIG), MacGeometry(CONFIG)
LINE = VECTOR.line_words
FORMATS = [MatrixFormat[fmt.name] for fmt in CONFIG.element_formats]

LOAD_LATENCY = 6
"""Cycles from an instruction to its end beside those of its blocks, where it does not drain."""


def chain_place(o: Any) -> str:
    """Return where in its chain an instruction is."""
    return ("only" if o.drain else "first") if o.clear else "last" if o.drain else "inner"


def taking_part(o: Any) -> str:
    """Return which rows take part."""
    mask = o.mask & (1 << o.rows) - 1 if o.masked else (1 << o.rows) - 1
    return "none" if not mask else "all" if mask == (1 << o.rows) - 1 else "some"


def delivers(o: Any) -> tuple[bool, bool, bool]:
    """Return what becomes of results: whether written, whether searched, whether resumed."""
    return o.results, o.argmax, o.argmax and o.argmax_resume


FLAGS = (False, True)


@CoverPoint("matrix.activation", xf=lambda o: o.activation, bins=FORMATS)
@CoverPoint("matrix.weight", xf=lambda o: o.weight, bins=FORMATS)
@CoverPoint(
    "matrix.transpose", xf=lambda o: o.transpose, bins=FLAGS if CONFIG.transposer else [False]
)
@CoverCross("matrix.kind", items=["matrix.activation", "matrix.weight", "matrix.transpose"])
@CoverPoint("matrix.chain", xf=chain_place, bins=["only", "first", "inner", "last"])
@CoverPoint("matrix.rows", xf=taking_part, bins=["none", "some", "all"])
@CoverPoint("matrix.heads", xf=lambda o: (o.heads > 1, o.rows > o.heads), bins=[
    (heads, tokens) for heads in FLAGS for tokens in FLAGS
    if CONFIG.lanes > 2 or not (heads and tokens)
])  # fmt: skip
@CoverPoint(
    "matrix.range",
    xf=lambda o: (o.ranged, o.ranged and o.range_step),
    bins=[(False, False), (True, False), (True, True)],
)
@CoverPoint(
    "matrix.delivers",
    xf=delivers,
    bins=[(r, a, s) for r in FLAGS for a, s in ((False, False), (True, False), (True, True))],
)
@CoverPoint(
    "matrix.begins",
    xf=lambda o: o.result_offset % LINE if o.results and o.drain else None,
    bins=list(range(LINE)),
)
@CoverPoint(
    "matrix.groups",
    xf=lambda o: -(-o.outputs // CONFIG.group_outputs),
    bins=[1, 2],
)
@CoverPoint("matrix.tail", xf=lambda o: o.outputs % MAC.drain_width != 0, bins=FLAGS)
def sample(o: Any) -> None:
    """Count an instruction in the functional coverage."""


COVERAGE = ("kind", "chain", "rows", "heads", "range", "delivers", "begins", "groups", "tail")
"""What is covered, see `sample`."""


async def started(dut: Any) -> MatrixTestbench:
    """Return a testbench after reset."""
    bench = MatrixTestbench(dut, CONFIG)
    await bench.reset()
    return bench


def seed() -> int:
    """Return a number that the run's seed decides."""
    return random.getrandbits(32)


async def compare(
    bench: MatrixTestbench, oracle: MatrixOracle, program: list[MatrixInstruction]
) -> int:
    """Run a program on both, compare, and return the cycles."""
    await bench.load(oracle)
    for instruction in program:
        assert oracle.execute(instruction), instruction
    cycles = await bench.execute(oracle, program)
    await bench.check(oracle)
    return cycles


# --- everything at once ---------------------------------------------------------------------------


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Random instructions, disturbed in all kinds of ways, until everything was there."""
    bench = await started(dut)
    points = [coverage_db[f"matrix.{name}"] for name in COVERAGE]
    for turn in range(120):
        oracle = MatrixOracle(CONFIG)
        program = Maker(oracle, seed()).program(25)
        for instruction in program:
            sample(instruction.o)
        bench.pause(random.Random(seed()) if turn % 4 else None)
        await compare(bench, oracle, program)
        if turn >= 11 and all(point.coverage == point.size for point in points):
            break
    for name, point in zip(COVERAGE, points, strict=True):
        dut._log.info(f"matrix.{name}: {point.coverage} of {point.size} bins")
        assert point.coverage == point.size, f"{name} is not covered: {point.detailed_coverage}"
    dut._log.info(f"{bench.checked} words compared in {bench.cycles} cycles")
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))


@cocotb.test()
async def reset_in_flight(dut: Any) -> None:
    """A reset at any time leaves nothing behind but registers."""
    bench = await started(dut)
    for _ in range(10):
        oracle = MatrixOracle(CONFIG)
        program = Maker(oracle, seed()).program(6)
        for instruction in program:
            bench.operations.send(instruction.payload)
            bench.bring(oracle, instruction)
        for _ in range(random.randint(1, 200)):
            await RisingEdge(dut.clk)
        await bench.reset()
    oracle = MatrixOracle(CONFIG)
    await compare(bench, oracle, Maker(oracle, seed()).program(15))


# --- rates ----------------------------------------------------------------------------------------


def tensor(rows: int, blocks: int, fmt: Format = Format.MXFP4, scale: int = 127) -> MXTensor:
    """Return random codes with equal scales."""
    rng = np.random.default_rng(seed())
    codes = rng.integers(0, 16 if fmt is Format.MXFP4 else 256, (rows, blocks, BLOCK), np.uint8)
    scales = np.full((rows, blocks), scale, np.uint8)
    return MXTensor(codes, scales, fmt, BLOCK * blocks)


def most_blocks(rows: int) -> int:
    """Return the blocks of a row that a register and the engine can hold."""
    return min(CONFIG.act_blocks, CONFIG.vector_length // 8 // rows)


@cocotb.test()
async def a_block_is_loaded_every_cycle(dut: Any) -> None:
    """Activations load without a pause, for one row and for all."""
    bench = await started(dut)
    for rows in (1, CONFIG.lanes):
        blocks = most_blocks(rows)
        oracle = MatrixOracle(CONFIG)
        job = Job(tensor(rows, 2 * blocks), tensor(1, 2 * blocks), chunk=blocks)
        first, last = Maker(oracle, seed()).instructions(job)
        await bench.load(oracle)
        assert oracle.execute(first)
        assert oracle.execute(last)
        cycles = await bench.execute(oracle, [first])
        dut._log.info(f"{rows * blocks} blocks take {cycles} cycles")
        assert cycles <= rows * blocks + LOAD_LATENCY
        await bench.execute(oracle, [last])
        await bench.check(oracle)


@cocotb.test()
async def results_in_line_do_not_wait(dut: Any) -> None:
    """Results that begin at a multiple of the lanes are written as fast as they come."""
    bench = await started(dut)
    groups = 1 if CONFIG.group_outputs % CONFIG.vec_lanes else 2
    width = (CONFIG.vector_length - LINE) // CONFIG.lanes // LINE * LINE
    outputs = min(groups * CONFIG.group_outputs, width)
    for offset in range(LINE):
        await bench.reset()
        oracle = MatrixOracle(CONFIG)
        job = Job(tensor(CONFIG.lanes, 1), tensor(outputs, 1))
        program = Maker(oracle, seed()).instructions(
            job, results=True, to=TARGETS[0], result_offset=offset, result_pitch=width,
            argmax=False,
        )  # fmt: skip
        await compare(bench, oracle, program)
        counters = await bench.registers.counters()
        transfers, waited = counters["results"], counters["results_waiting"]
        dut._log.info(f"from word {offset}: {transfers} transfers waited {waited} cycles")
        assert waited <= (transfers if offset % CONFIG.vec_lanes else 0)


# --- when instructions are done -------------------------------------------------------------------


async def hold(bench: MatrixTestbench, what: MatrixInstruction, after: int = 0) -> None:
    """Check that an instruction is not done while others use what it needs, and is then.

    They begin some cycles after it was offered.
    """
    bench.operations.send(what.payload)
    bench.done = 0
    bench.disturb(forever=True, after=after)
    for _ in range(500):
        await RisingEdge(bench.dut.clk)
        assert not bench.done, "done too early"
    bench.disturb(forever=False)
    for _ in range(500):
        await RisingEdge(bench.dut.clk)
    assert bench.done == 1, "not done"


@cocotb.test()
async def nothing_is_done_before_its_registers_are_free(dut: Any) -> None:
    """Sources are read, results and the best are written when an instruction is done."""
    bench = await started(dut)
    oracle = MatrixOracle(CONFIG)
    blocks = min(CONFIG.act_blocks, 4)
    # With the last of them some blocks have been read, but not all.
    delays = range(0, 2 * blocks + 1, 2)
    k = blocks * (len(delays) + 1)
    maker = Maker(oracle, seed())
    fields = {"results": True, "result_offset": 0, "result_pitch": 1, "to": TARGETS[0]}
    *chain, last = maker.instructions(
        Job(tensor(2, k), tensor(1, k), chunk=blocks), **fields, argmax=False
    )
    best = {"best": BESTS[0], "best_index": BESTS[1]}
    writes, searches, both = (
        maker.instructions(
            Job(tensor(1, 1), tensor(1, 1)), argmax=argmax, argmax_resume=False, **best,
            results=results, result_offset=9, to=TARGETS[1],
        )[0]
        for results, argmax in ((True, False), (False, True), (True, True))
    )  # fmt: skip
    await bench.load(oracle)
    for instruction in (*chain, last, writes, searches, both):
        assert oracle.execute(instruction)
        bench.bring(oracle, instruction)
    for delay, instruction in zip(delays, chain, strict=True):
        bench.others_use(vector=instruction.o.source)
        await hold(bench, instruction, delay)
    bench.others_use(vector=last.o.to)
    await hold(bench, last)
    bench.others_use(vector=writes.o.to)
    await hold(bench, writes)
    bench.others_use(vector=searches.o.source + 1, row=searches.o.best_index)
    await hold(bench, searches)
    bench.others_use(vector=both.o.to, row=both.o.best + 2)
    await hold(bench, both)
    await bench.check(oracle)


@cocotb.test()
async def sources_may_be_used_again_when_done(dut: Any) -> None:
    """What is written to the sources of an instruction of a chain that is done does not count."""
    bench = await started(dut)
    oracle = MatrixOracle(CONFIG)
    rows, chain = 2, 5
    blocks = min(most_blocks(rows), 3)
    job = Job(tensor(rows, chain * blocks), tensor(1, chain * blocks), chunk=blocks)
    program = Maker(oracle, seed()).instructions(
        job, results=True, result_offset=0, result_pitch=1, to=TARGETS[0]
    )
    await bench.load(oracle)
    for instruction in program:
        assert oracle.execute(instruction)
    sources = [instruction.o.source for instruction in program]
    for i, instruction in enumerate(program):
        await bench.execute(oracle, [instruction])
        if sources[i] not in sources[i + 1 :]:
            await bench.spoil(oracle, sources[i])
    await bench.check(oracle)


# --- the greatest result --------------------------------------------------------------------------


@cocotb.test()
async def the_lowest_of_equals_is_best(dut: Any) -> None:
    """Equal results, zeros of both signs, nothing but NaN; and equals of what was there before."""
    bench = await started(dut)
    outputs = min(2 * CONFIG.group_outputs, 40)
    rows = CONFIG.lanes
    same = tensor(1, 1)[np.zeros(outputs, int)]
    jobs = {
        "equal": Job(tensor(rows, 1), same),
        "zeros of both signs": Job(tensor(rows, 1, scale=0), tensor(outputs, 1, scale=0)),
        "NaN": Job(tensor(rows, 1), tensor(outputs, 1, scale=255)),
        "out of range": Job(tensor(rows, 1), same, lo=outputs // 2, hi=outputs - 1),
    }
    for name, job in jobs.items():
        oracle = MatrixOracle(CONFIG)
        maker = Maker(oracle, seed())
        search = {
            "results": False, "argmax": True, "best": BESTS[0], "best_index": BESTS[1],
        }  # fmt: skip
        first = maker.instructions(job, **search, argmax_resume=False, argmax_base=100)
        again = maker.instructions(job, **search, argmax_resume=True, argmax_base=7)
        await compare(bench, oracle, first + again)
        found = oracle.rows.words[BESTS[1], :rows]
        value = oracle.rows.words[BESTS[0], :rows]
        dut._log.info(f"{name}: {found.tolist()}")
        if name != "out of range":
            assert (found == 100).all(), name
        if name == "NaN":
            assert (value == fp32.NAN_BITS).all()
        if name == "zeros of both signs":
            assert set(value.tolist()) <= {0, 1 << 31}


@cocotb.test()
async def the_best_is_where_it_is(dut: Any) -> None:
    """The greatest result in every place, alone and among what came before."""
    bench = await started(dut)
    outputs = min(2 * CONFIG.group_outputs, 40)
    codes = np.zeros((1, 1, BLOCK), np.uint8)
    codes[..., 0] = 2
    scale = np.full((1, 1), 127, np.uint8)
    one = MXTensor(codes, scale, Format.MXFP4, BLOCK)
    for place in {0, outputs - 1, *random.sample(range(outputs), min(outputs, 8))}:
        weights = np.zeros((outputs, 1, BLOCK), np.uint8)
        weights[:, :, 0] = 1
        weights[place, :, 0] = 7
        job = Job(one, MXTensor(weights, scale[[0] * outputs], Format.MXFP4, BLOCK))
        oracle = MatrixOracle(CONFIG)
        search = {"results": False, "argmax": True, "argmax_base": 0, "best_index": BESTS[1]}
        program = Maker(oracle, seed()).instructions(
            job, **search, best=BESTS[0], argmax_resume=bool(place % 2)
        )
        for register, word in ((BESTS[0], 0x3F800000), (BESTS[1], 99)):
            oracle.set_row(register, [word])
        await compare(bench, oracle, program)
        assert oracle.rows.words[BESTS[1], 0] == place


# --- the checkers themselves; these must fail -----------------------------------------------------


@cocotb.test(skip=True)
async def a_wrong_result_is_noticed(dut: Any) -> None:
    """The comparison must object to one wrong bit of a result."""
    bench = await started(dut)
    oracle = MatrixOracle(CONFIG)
    program = Maker(oracle, seed()).instructions(
        Job(tensor(1, 1), tensor(1, 1)), results=True, result_offset=7, to=TARGETS[0]
    )
    await bench.load(oracle)
    for instruction in program:
        assert oracle.execute(instruction)
    await bench.execute(oracle, program)
    oracle.vectors.words[TARGETS[0], 7] ^= 1
    await bench.check(oracle)


@cocotb.test(skip=True)
async def an_instruction_without_its_operand_is_noticed(dut: Any) -> None:
    """The testbench must object when an instruction does not end."""
    bench = await started(dut)
    oracle = MatrixOracle(CONFIG)
    program = Maker(oracle, seed()).instructions(Job(tensor(1, 1), tensor(1, 1)))
    await bench.load(oracle)
    await bench.run(program, timeout=1000)
