"""cocotb tests of the vector engine, for any configuration."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotb_coverage.coverage import CoverPoint, coverage_db

from rtl.config import TileConfig
from rtl.core.isa import (
    SLOT,
    Function,
    Operand,
    Output,
    Reduction,
    Rule,
    Select,
    Step,
)
from sim.golden import fp32
from sim.golden.formulas import probabilities
from tb.random_vec import FLOATS, ROTATIONS, SCALES, SPECIAL, Maker, random_words
from tb.stream import any_pauses, never
from tb.vec import Instruction, Oracle, VectorTestbench

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
LENGTH = CONFIG.vector_length
LANES = CONFIG.vec_lanes
LONGEST = min(LENGTH, 64)
COLUMNS = (0, 1, 2, 3, 5, 6, 8, 16, 20, 31, 32, 33, 40, LONGEST)

LATENCY = 75 + 2 * SLOT // LANES
"""Cycles beside the transfers of an instruction: the longest way, and a block or a fold."""


def operands(o: Any) -> list[str]:
    """Return where the operands of an instruction come from."""
    found = [f"a_{'row' if o.a_row else 'vector'}"]
    for which in "bcd":
        if getattr(o, f"{which}_step") not in (Step.NONE, *ROTATIONS):
            found.append(f"{which}_{getattr(o, f'{which}_operand').name.lower()}")
    return found


def steps(o: Any) -> list[str]:
    """Return what the steps of an instruction do."""
    return [f"{which}_{getattr(o, f'{which}_step').name.lower()}" for which in "bcd"]


ALL_OPERANDS = ["a_row", "a_vector", *(f"{w}_{o.name.lower()}" for w in "bcd" for o in Operand)]
ALL_STEPS = [
    f"{which}_{step.name.lower()}"
    for which in "bcd"
    for step in Step
    if which == "c" or step not in ROTATIONS
]


def any_of(found: Any, wanted: Any) -> bool:
    """Whether a bin is among those that were hit."""
    return wanted in found


@CoverPoint("vec.steps", xf=steps, rel=any_of, bins=ALL_STEPS, inj=False)
@CoverPoint("vec.operands", xf=operands, rel=any_of, bins=ALL_OPERANDS, inj=False)
@CoverPoint("vec.function", xf=lambda o: o.function, bins=list(Function))
@CoverPoint("vec.select", xf=lambda o: o.select, bins=list(Select))
@CoverPoint(
    "vec.reduction",
    xf=lambda o: (o.reduction, bool(o.reduction) and o.resume, o.reduction > 1 and o.suspend),
    bins=[
        (Reduction.NONE, False, False),
        *((Reduction.MAXIMUM, resume, False) for resume in (False, True)),
        *(
            (kind, resume, suspend)
            for kind in (Reduction.SUM, Reduction.SQUARES)
            for resume in (False, True)
            for suspend in (False, True)
        ),
    ],
)
@CoverPoint(
    "vec.output", xf=lambda o: (o.output, o.rule), bins=[(o, r) for o in Output for r in Rule]
)
@CoverPoint(
    "vec.maxima",
    xf=lambda o: (o.maximal, o.maximal and o.maxima_token, o.maximal and o.maxima_resume),
    bins=[(False, False, False), *((True, t, r) for t in (False, True) for r in (False, True))],
)
@CoverPoint("vec.columns", xf=lambda o: o.columns, bins=list(COLUMNS))
@CoverPoint("vec.heads", xf=lambda o: o.heads > 1, bins=[False, True])
@CoverPoint(
    "vec.rows",
    xf=lambda o: "none" if not o.rows else "masked" if o.masked else "all",
    bins=["none", "masked", "all"],
)
def sample(o: Any) -> None:
    """Count a `vector` in the functional coverage."""


COVERAGE = (
    "steps",
    "operands",
    "function",
    "select",
    "reduction",
    "output",
    "maxima",
    "columns",
    "heads",
    "rows",
)
"""What is covered, see `sample`."""


async def started(dut: Any) -> VectorTestbench:
    """Return a testbench after reset."""
    bench = VectorTestbench(dut, CONFIG)
    await bench.reset()
    return bench


def generator() -> np.random.Generator:
    """Return a generator that the run's seed decides."""
    return np.random.default_rng(random.getrandbits(32))


def fresh(rng: np.random.Generator) -> Oracle:
    """Return registers that are full of everything."""
    oracle = Oracle(CONFIG)
    special = rng.choice([0, 0.05, 0.5])
    for register in [*FLOATS, SCALES]:
        words = random_words(rng, LENGTH, special)
        row = random_words(rng, CONFIG.row_length, special)
        if register == SCALES:
            words, row = rng.integers(0, 256, LENGTH), rng.integers(0, 256, CONFIG.row_length)
        oracle.set_words(register, words)
        oracle.set_row(register, row)
    return oracle


def vector(**fields: Any) -> Instruction:
    """Return a `vector`."""
    return Instruction.of("vector", **fields)


async def compare(bench: VectorTestbench, oracle: Oracle, program: list[Instruction]) -> int:
    """Run a program on both, compare, and return the cycles."""
    await bench.load(oracle)
    for instruction in program:
        assert oracle.execute(instruction), instruction
    cycles = await bench.run(program)
    await bench.check(oracle)
    return cycles


def random_program(oracle: Oracle, maker: Maker, count: int) -> list[Instruction]:
    """Return random instructions that the oracle has executed."""
    program: list[Instruction] = []
    while len(program) < count:
        name = "topk" if maker.rng.random() < 0.15 else "vector"
        instruction = Instruction.of(name, **getattr(maker, name)())
        if oracle.execute(instruction):
            program.append(instruction)
    return program


# --- everything at once ---------------------------------------------------------------------------


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Random instructions, disturbed in all kinds of ways, until everything was there."""
    bench = await started(dut)
    rng = generator()
    maker = Maker(CONFIG, rng, COLUMNS)
    points = [coverage_db[f"vec.{name}"] for name in COVERAGE]
    for turn in range(60):
        oracle = fresh(rng)
        await bench.load(oracle)
        program = random_program(oracle, maker, 25)
        for instruction in program:
            if instruction.name == "vector":
                sample(instruction.o)
        pauses = (any_pauses(random.Random(random.getrandbits(32))) for _ in range(2))
        bench.operations.pauses, bench.pauses = pauses if turn % 3 else (never(), never())
        await bench.run(program)
        await bench.check(oracle)
        if turn >= 11 and all(point.coverage == point.size for point in points):
            break
    for name, point in zip(COVERAGE, points, strict=True):
        dut._log.info(f"vec.{name}: {point.coverage} of {point.size} bins")
        assert point.coverage == point.size, f"{name} is not covered: {point.detailed_coverage}"
    dut._log.info(f"{bench.checked} words compared in {bench.cycles} cycles")
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))


@cocotb.test()
async def reset_in_flight(dut: Any) -> None:
    """A reset at any time leaves nothing behind but registers."""
    bench = await started(dut)
    rng = generator()
    maker = Maker(CONFIG, rng, COLUMNS)
    for _ in range(10):
        for _ in range(4):
            name = "topk" if rng.random() < 0.3 else "vector"
            bench.operations.send(Instruction.of(name, **getattr(maker, name)()).payload)
        for _ in range(int(rng.integers(1, 120))):
            await RisingEdge(dut.clk)
        await bench.reset()
    oracle = fresh(rng)
    await bench.load(oracle)
    await bench.run(random_program(oracle, maker, 10))
    await bench.check(oracle)


# --- every way by itself, at full rate ------------------------------------------------------------


def ways() -> dict[str, dict[str, Any]]:
    """Return one pass for everything that can be done with elements."""
    one = int(fp32.to_bits(np.float32(1)))
    full: dict[str, dict[str, Any]] = {
        "copy": {},
        "add": {"b_step": Step.ADD, "b_operand": Operand.VECTOR, "b": 1},
        "multiply twice": {
            "b_step": Step.MUL, "b_operand": Operand.ROW, "b": 0,
            "c_step": Step.MUL, "c_operand": Operand.VECTOR_ONE, "c": 2,
        },
        "three steps": {
            "b_step": Step.ADD, "b_operand": Operand.VECTOR, "b": 1,
            "c_step": Step.SUB, "c_operand": Operand.VECTOR, "c": 2,
            "d_step": Step.MAXIMUM, "d_operand": Operand.VECTOR, "d": 3,
        },
        "softmax": {
            "b_step": Step.MUL, "b_value": one, "c_step": Step.SUB, "c_operand": Operand.ROW,
            "function": Function.EXP, "d_step": Step.LDEXP_MXINT8,
            "d_operand": Operand.VECTOR_ONE, "d": SCALES,
            "reduction": Reduction.SUM, "output": Output.MXINT8, "maximal": True,
        },
        "gate": {
            "b_step": Step.ADD, "b_operand": Operand.VECTOR_ONE, "b": 1,
            "c_step": Step.MINIMUM, "c_value": one, "function": Function.GATE,
            "d_step": Step.MUL, "d_operand": Operand.VECTOR, "d": 3, "output": Output.MXFP4,
        },
        "rotate adjacent": {
            "c_step": Step.ROTATE_ADJACENT, "c_operand": Operand.VECTOR, "c": 2,
            "d_operand": Operand.VECTOR, "d": 3, "output": Output.MXINT8,
        },
        "rotate halves": {
            "c_step": Step.ROTATE_HALVES, "c_operand": Operand.VECTOR, "c": 2,
            "d_operand": Operand.VECTOR, "d": 3,
        },
        "maximum": {"reduction": Reduction.MAXIMUM, "output": Output.NONE},
        "squares": {
            "b_step": Step.ADD, "b_operand": Operand.VECTOR, "b": 1,
            "reduction": Reduction.SQUARES,
        },
    }  # fmt: skip
    for function in Function:
        full[f"function {function.name.lower()}"] = {"function": function}
    return full


@cocotb.test()
async def every_way_at_full_rate(dut: Any) -> None:
    """One element per lane and cycle, whatever is done; only the latency is beside that.

    Where there is one group of partial sums, every addition waits for the one before.
    """
    bench = await started(dut)
    rng = generator()
    columns = LENGTH // 2
    for name, fields in ways().items():
        oracle = fresh(rng)
        o = {
            "a": 0, "a_stride": columns // SLOT, "rows": 2, "columns": columns, "total": 7,
            "total_pitch": 1, "output": Output.WORDS, "to": 9, "stride": columns // SLOT,
            "maxima": 8, "maxima_pitch": 1,
        } | fields  # fmt: skip
        for which in "bcd":
            o |= {f"{which}_stride": o["stride"] if o.get(f"{which}_operand") else 0}
        cycles = await compare(bench, oracle, [vector(**o)])
        transfers = 2 * columns // LANES
        if o.get("reduction", 0) > 1 and LANES == SLOT:
            transfers *= 2
        dut._log.info(f"{name}: {cycles} cycles for {transfers} transfers")
        assert cycles <= transfers + LATENCY, f"{name} takes {cycles} cycles"


# --- rows of any length, in parts -----------------------------------------------------------------


@cocotb.test()
async def parts_do_not_show(dut: Any) -> None:
    """A row in one piece, and in pieces: the same maximum, sum, blocks and greatest scale."""
    bench = await started(dut)
    rng = generator()
    for columns in (1, 31, 32, 33, LENGTH - 11):
        oracle = fresh(rng)
        scaled = {"b_step": Step.MUL, "b_value": 0x3FB504F3}
        whole = {"a": 0, "rows": 1, "columns": columns, **scaled}
        program: list[Instruction] = [
            vector(**whole, reduction=Reduction.MAXIMUM, total=8),
            vector(**whole, reduction=Reduction.SQUARES, total=9),
            vector(**whole, output=Output.MXINT8, to=12, maximal=True, maxima=10),
        ]
        parts = [(first, min(SLOT, columns - first)) for first in range(0, columns, SLOT)]
        for first, count in parts:
            slot = first // SLOT
            part = {"a": 0, "a_offset": slot, "rows": 1, "columns": count, **scaled}
            begins, ends = first == 0, first + count == columns
            program += [
                vector(
                    **part, reduction=Reduction.MAXIMUM, total=11, initial=11, resume=not begins
                ),
                vector(
                    **part, reduction=Reduction.SQUARES, partials=14, resume=not begins,
                    suspend=not ends, total=12,
                ),
                vector(
                    **part, output=Output.MXINT8, to=13, into=not begins, offset=slot,
                    maximal=True, maxima=13, maxima_resume=not begins,
                ),
            ]  # fmt: skip
        await compare(bench, oracle, program)
        rows, vectors = oracle.rows.words, oracle.vectors
        assert [rows[r, 0] for r in (8, 9, 10)] == [rows[r, 0] for r in (11, 12, 13)]
        assert np.array_equal(vectors.words[12][: columns // 4], vectors.words[13][: columns // 4])


@cocotb.test()
async def a_sum_of_minus_zeros_is_plus_zero(dut: Any) -> None:
    """Sums begin at +0, and those that go on from -0 stay there."""
    bench = await started(dut)
    for columns in (1, 5, 40):
        oracle = fresh(generator())
        oracle.set_words(0, [0x80000000] * LENGTH)
        row = {"a": 0, "rows": 1, "columns": columns, "reduction": Reduction.SUM}
        program = [
            vector(**row, total=8),
            vector(**row, suspend=True, partials=9),
            vector(**row, resume=True, partials=0, total=9),
        ]
        await compare(bench, oracle, program)
        assert oracle.rows.words[[8, 9], 0].tolist() == [0, 0x80000000]


# --- cases that others got wrong ------------------------------------------------------------------


def softmax(rows: int, columns: int, **select: Any) -> list[Instruction]:
    """Return a softmax over the rows of v0: maximum r8, sum r9, reciprocal r10, weights v9."""
    stride = -(-columns // SLOT)
    common = {"a": 0, "a_stride": stride, "rows": rows, "columns": columns, **select}
    per_row = {"total_pitch": 1}
    return [
        vector(**common, reduction=Reduction.MAXIMUM, total=8, **per_row),
        vector(
            **common, b_step=Step.SUB, b_operand=Operand.ROW, b=8, b_stride=1,
            function=Function.EXP, reduction=Reduction.SUM, total=9, **per_row,
            output=Output.WORDS, to=9, stride=stride,
        ),
        vector(
            a_row=True, a=9, a_stride=1, rows=rows, function=Function.RECIPROCAL,
            output=Output.ROW, to=10, stride=1,
        ),
        vector(
            a=9, a_stride=stride, rows=rows, columns=columns, b_step=Step.MUL,
            b_operand=Operand.ROW, b=10, b_stride=1, **select,
            output=Output.WORDS, to=11, stride=stride,
        ),
    ]  # fmt: skip


async def soften(dut: Any, x: Any, **select: Any) -> Any:
    """Return the softmax of rows, which golden has as well."""
    bench = await started(dut)
    x = np.asarray(x, np.float32)
    oracle = fresh(generator())
    padded = np.zeros((len(x), SLOT * -(-x.shape[1] // SLOT)), np.float32)
    padded[:, : x.shape[1]] = x
    oracle.set_words(0, padded.view(np.uint32))
    await compare(bench, oracle, softmax(len(x), x.shape[1], **select))
    result = oracle.vectors.words[11][: padded.size].view(np.float32).reshape(padded.shape)
    return result[:, : x.shape[1]], oracle


@cocotb.test()
async def a_row_that_sees_nothing_is_zero(dut: Any) -> None:
    """A mask that leaves nothing gives 0, not NaN, also over NaN and infinities."""
    x = np.full((2, 40), np.nan, np.float32)
    x[1] = -np.inf
    result, _ = await soften(dut, x, select=Select.ELEMENTS, lo=-50, hi=-10)
    assert (result.view(np.uint32) == 0).all()


@cocotb.test()
async def a_row_of_minus_infinities_alone(dut: Any) -> None:
    """What is visible and -Inf takes part: the difference of infinities is NaN."""
    result, _ = await soften(dut, np.full((1, 33), -np.inf, np.float32))
    assert np.isnan(result).all()


@cocotb.test()
async def great_logits_do_not_overflow(dut: Any) -> None:
    """A logit of 378 would overflow exp; less its maximum it does not."""
    result, _ = await soften(dut, [[378.0, 377.0, -378.0, 88.8, 0.0]])
    assert result[0, 0] > 0.7
    assert abs(float(result[0].sum()) - 1) < 1e-6


@cocotb.test()
async def a_row_of_no_columns(dut: Any) -> None:
    """A sequence of length 0: the maximum of nothing, the sum of nothing, and no element."""
    bench = await started(dut)
    oracle = fresh(generator())
    none = {"a": 0, "rows": 3, "columns": 0, "total_pitch": 1}
    program = [
        vector(**none, reduction=Reduction.MAXIMUM, total=8),
        vector(**none, reduction=Reduction.SUM, total=9),
        vector(**none, output=Output.WORDS, to=9),
        vector(
            a=0, rows=0, columns=5, reduction=Reduction.SUM, total=10, output=Output.WORDS, to=9
        ),
        vector(a=0, rows=2, columns=5, masked=True, output=Output.WORDS, to=9),
    ]
    await compare(bench, oracle, program)
    assert (oracle.rows.words[8, :3] == 0xFF800000).all()
    assert (oracle.rows.words[9, :3] == 0).all()


@cocotb.test()
async def windows_beyond_128_positions(dut: Any) -> None:
    """A sliding window shows first where there are more positions than it is long."""
    rng = generator()
    columns = min(LENGTH, 160)
    x = rng.standard_normal((1, columns)).astype(np.float32)
    for lo in (0, columns - 1, columns - 33, columns - 128):
        window = {"select": Select.ELEMENTS, "lo": lo, "hi": columns}
        result, oracle = await soften(dut, x, **window)
        visible = np.arange(columns)[None] >= lo
        p, total = probabilities(x, visible)
        assert oracle.rows.words[9, 0] == fp32.to_bits(total)[0]
        assert np.array_equal(result != 0, p != 0)


@cocotb.test()
async def ranges_move_with_the_token(dut: Any) -> None:
    """A causal mask: each token sees one position more, all heads of a token the same."""
    bench = await started(dut)
    for step in (False, True):
        oracle = fresh(generator())
        causal = vector(
            a=0, a_stride=0, rows=6, heads=2, columns=9, select=Select.ELEMENTS, lo=1, hi=4,
            range_step=step, output=Output.WORDS, to=9, stride=0, offset=0,
            reduction=Reduction.SUM, total=8, total_pitch=2, b_step=Step.TAKE, b_value=0x3F800000,
        )  # fmt: skip
        await compare(bench, oracle, [causal])
        assert (oracle.rows.words[8, :6] == 0x40400000).all()
        rows = vector(
            a_row=True, a=0, a_stride=2, rows=6, heads=2, b_step=Step.TAKE, b_value=0x3F800000,
            select=Select.ELEMENTS, lo=-2, hi=-1, range_step=step, output=Output.ROW, to=10,
            stride=2,
        )  # fmt: skip
        await compare(bench, oracle, [rows])
        seen = [0, 0, 0, 0, int(step), int(step)]
        assert (oracle.rows.words[10, :6] != 0).astype(int).tolist() == seen


@cocotb.test()
async def equal_logits_go_to_the_lowest_expert(dut: Any) -> None:
    """Ties, zeros of both signs, NaN below -Inf; k from one to all."""
    bench = await started(dut)
    row = np.zeros(SLOT, np.float32)
    row[:12] = [0.0, -0.0, 1.0, 1.0, np.nan, -np.inf, np.inf, np.inf, 1.0, np.nan, -1.0, 1e-45]
    for count in (1, 2, 12, SLOT):
        for k in {1, 2, count // 2, count} - {0}:
            if k > count:
                continue
            oracle = fresh(generator())
            oracle.set_words(0, row.view(np.uint32))
            topk = Instruction.of("topk", a=0, rows=1, columns=count, k=k, indices=9, values=10)
            await compare(bench, oracle, [topk])
            expected = fp32.top_k(row[None, :count], k)[0]
            assert oracle.vectors.words[9][:k].tolist() == expected.tolist()


@cocotb.test()
async def near_ties_are_told_apart(dut: Any) -> None:
    """Router logits that would be equal in bfloat16 choose by their last bit."""
    bench = await started(dut)
    oracle = fresh(generator())
    words = np.full(SLOT, 0x40490FDB, np.uint32)
    words[[3, 17, 29]] += np.array([2, 1, 3], np.uint32)
    oracle.set_words(0, words)
    topk = Instruction.of("topk", a=0, rows=1, columns=SLOT, k=4, indices=9, values=10)
    await compare(bench, oracle, [topk])
    assert oracle.vectors.words[9][:4].tolist() == [29, 3, 17, 0]


@cocotb.test()
async def scales_at_their_limits(dut: Any) -> None:
    """Maxima of 2.7, 5.5 and 1.2, of nothing, of the least and the greatest; NaN has its own."""
    bench = await started(dut)
    amax = np.array([2.7, 5.5, 1.2, 6.0, 6.5, 0.0, 1.2e-38, 3.4e38, np.nan, np.inf], np.float32)
    amax = amax[: LENGTH // SLOT]
    rows = np.zeros((len(amax), SLOT), np.float32)
    rows[:, 5] = amax
    rows[:, 9] = -amax / 3
    for output in (Output.MXFP4, Output.MXINT8):
        for rule in Rule:
            oracle = fresh(generator())
            oracle.set_words(0, rows.view(np.uint32))
            quantise = vector(
                a=0, a_stride=1, rows=len(amax), columns=SLOT, output=output, rule=rule, to=9,
                stride=1, maximal=True, maxima=8, maxima_pitch=1,
            )  # fmt: skip
            await compare(bench, oracle, [quantise])


@cocotb.test()
async def rows_of_all_sizes(dut: Any) -> None:
    """1, 3, 9 and as many rows as a mask has bits, of which any may be left out."""
    bench = await started(dut)
    rng = generator()
    for rows in (1, 3, 9, 32):
        oracle = fresh(rng)
        for mask in (1 << rows - 1, int(rng.integers(1 << rows)), (1 << rows) - 1):
            masked = {"a_row": True, "a": 0, "a_stride": 1, "rows": rows, "masked": True}
            change = {"b_step": Step.ADD, "b_operand": Operand.ROW, "b": 1, "b_stride": 1}
            gate = vector(**masked, mask=mask, **change, output=Output.ROW, to=8, stride=1)
            await compare(bench, oracle, [gate])


@cocotb.test()
async def every_special_number_through_every_way(dut: Any) -> None:
    """NaN, infinities, zeros and subnormals meet each other in every step and function."""
    bench = await started(dut)
    pairs = np.array([(x, y) for x in SPECIAL for y in SPECIAL], np.uint32)[: LENGTH // 2]
    for which in "bcd":
        for step in Step:
            if step is Step.NONE or step in ROTATIONS:
                continue
            oracle = fresh(generator())
            oracle.set_words(0, pairs[:, 0])
            ldexp = step in (Step.LDEXP_MXFP4, Step.LDEXP_MXINT8)
            oracle.set_words(1, np.arange(len(pairs)) * 7 % 256 if ldexp else pairs[:, 1])
            y = {f"{which}_step": step, f"{which}_operand": Operand.VECTOR, which: 1}
            program = [vector(a=0, rows=1, columns=len(pairs), **y, output=Output.WORDS, to=9)]
            await compare(bench, oracle, program)


# --- the checkers themselves; these must fail -----------------------------------------------------


@cocotb.test(skip=True)
async def a_wrong_bit_is_noticed(dut: Any) -> None:
    """The comparison must object to one wrong bit of a register."""
    bench = await started(dut)
    oracle = fresh(generator())
    await bench.load(oracle)
    oracle.vectors.words[3, 7] ^= 1
    await bench.check(oracle)


@cocotb.test(skip=True)
async def a_wrong_row_is_noticed(dut: Any) -> None:
    """It must object to one of a row register."""
    bench = await started(dut)
    oracle = fresh(generator())
    await bench.load(oracle)
    oracle.rows.words[3, 7] ^= 1 << 31
    await bench.check(oracle)


@cocotb.test(skip=True)
async def an_instruction_that_does_not_end_is_noticed(dut: Any) -> None:
    """The testbench must object when an instruction does not end."""
    bench = await started(dut)
    bench.operations.pauses = iter(lambda: True, False)
    await bench.run([vector(a=0, rows=1, columns=1)], timeout=1000)
