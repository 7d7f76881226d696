"""Measures the vector engine, checks every result, and reports what it took.

`sim.bench.vec` starts this module under the simulator and says through the environment what to do:

===================  ======================================================
``JALAPENO_CONFIG``  the configuration of the engine, as JSON
``JALAPENO_REPORT``  where to write the report: measurements by name
===================  ======================================================
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from rtl.config import TileConfig
from rtl.core.isa import SLOT, Function, Operand, Output, Reduction, Step
from sim.golden import fp32
from tb.vec import Instruction, Oracle, VectorTestbench

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
REPORT = Path(os.environ["JALAPENO_REPORT"])
LENGTH, LANES = CONFIG.vector_length, CONFIG.vec_lanes

ROWS = 4
SCORES = 512
PARTS = 2
"""Registers of a row of scores, where they are so short."""

ONE = int(fp32.to_bits(np.float32(1)))


def vector(**fields: Any) -> Instruction:
    """Return a `vector`."""
    return Instruction.of("vector", **fields)


def softmax() -> tuple[int, list[Instruction]]:
    """Return elements and program of a softmax over four rows, each in a few registers.

    Scores become probabilities times the scales of values, quantised; beside are maximum and sum.
    """
    part = min(LENGTH, SCORES)
    parts = min(PARTS, SCORES // part)
    scale = int(fp32.to_bits(np.float32(32**-0.5)))
    program = []
    for step in range(2 * parts):
        index = step % parts
        for row in range(ROWS):
            x = {"a": row * parts + index, "rows": 1, "columns": part, "b_step": Step.MUL,
                 "b_value": scale, "resume": index > 0}  # fmt: skip
            if step < parts:
                program.append(vector(**x, reduction=Reduction.MAXIMUM, total=row, initial=row))
                continue
            program.append(
                vector(
                    **x, c_step=Step.SUB, c_operand=Operand.ROW, c=row, function=Function.EXP,
                    d_step=Step.LDEXP_MXINT8, d_operand=Operand.VECTOR_ONE,
                    d=ROWS * parts + index, reduction=Reduction.SUM, suspend=index < parts - 1,
                    partials=ROWS * parts + parts + row, total=4 + row, output=Output.MXINT8,
                    to=ROWS * parts + parts + ROWS + row, into=index > 0,
                    offset=index * part // SLOT, maximal=True, maxima=8 + row,
                    maxima_resume=index > 0,
                )
            )  # fmt: skip
    return ROWS * parts * part, program


def passes() -> dict[str, tuple[int, int, list[Instruction]]]:
    """Return elements, passes and program of what layers do."""
    rows, columns = 2, LENGTH // 2
    stride = columns // SLOT
    rows_of = {"a": 0, "a_stride": stride, "rows": rows, "columns": columns}
    blocks = {"output": Output.MXINT8, "stride": stride, "maximal": True, "maxima_pitch": 1}
    head = min(LENGTH // 8, 32)
    half = {"a": 0, "a_stride": 1, "rows": 8, "heads": 4, "columns": head}
    turn = {"c_operand": Operand.VECTOR_TOKEN, "c": 1, "c_stride": 1,
            "d_operand": Operand.VECTOR_TOKEN, "d": 2, "d_stride": 1}  # fmt: skip
    norm = [
        vector(
            **rows_of, b_step=Step.ADD, b_operand=Operand.VECTOR, b=1, b_stride=stride,
            reduction=Reduction.SQUARES, total=0, total_pitch=1,
            output=Output.WORDS, to=9, stride=stride,
        ),
        vector(
            a_row=True, a=0, a_stride=1, rows=rows, b_step=Step.MUL, b_value=ONE,
            c_step=Step.ADD, c_value=ONE, function=Function.RSQRT, output=Output.ROW, to=1,
            stride=1,
        ),
        vector(
            **rows_of | {"a": 9}, b_step=Step.MUL, b_operand=Operand.ROW, b=1, b_stride=1,
            c_step=Step.MUL, c_operand=Operand.VECTOR_ONE, c=2, **blocks, to=10, maxima=2,
        ),
    ]  # fmt: skip
    gate = vector(
        **rows_of, function=Function.GATE, d_step=Step.MUL, d_operand=Operand.VECTOR, d=1,
        d_stride=stride, **blocks, to=10, maxima=2,
    )  # fmt: skip
    adjacent, halves = (
        vector(**half, c_step=step, **turn, output=Output.MXINT8, to=10, stride=1,
               maximal=True, maxima=2, maxima_pitch=4)
        for step in (Step.ROTATE_ADJACENT, Step.ROTATE_HALVES)
    )  # fmt: skip
    experts = min(128, LENGTH)
    choose = [
        Instruction.of("topk", a=0, rows=1, columns=experts, k=k, indices=10, values=11)
        for k in (4, 8)
    ]
    elements = rows * columns
    return {
        "norm": (elements, 2, norm),
        "gate": (elements, 1, [gate]),
        "rotate_adjacent": (8 * head, 1, [adjacent]),
        "rotate_halves": (8 * head, 1, [halves]),
        "topk4": (experts, 4, choose[:1]),
        "topk8": (experts, 8, choose[1:]),
    }


def short() -> dict[str, Instruction]:
    """Return instructions of one transfer, or one block: what they take is latency."""
    one = {"a": 0, "rows": 1, "columns": LANES}
    row = {"a_row": True, "a": 0, "rows": 1}
    return {
        "copy": vector(**one, output=Output.WORDS, to=9),
        "three steps": vector(
            **one, b_step=Step.MUL, b_value=ONE, c_step=Step.ADD, c_value=ONE,
            d_step=Step.ADD, d_value=ONE, output=Output.WORDS, to=9,
        ),
        "exp": vector(**one, function=Function.EXP, output=Output.WORDS, to=9),
        "gate": vector(**one, function=Function.GATE, output=Output.WORDS, to=9),
        "factor of a norm": vector(
            **row, b_step=Step.MUL, b_value=ONE, c_step=Step.ADD, c_value=ONE,
            function=Function.RSQRT, output=Output.ROW, to=9,
        ),
        "reciprocal of a row": vector(
            **row, function=Function.RECIPROCAL, output=Output.ROW, to=9
        ),
        "maximum": vector(**one, reduction=Reduction.MAXIMUM, total=9),
        "sum": vector(**one, reduction=Reduction.SUM, total=9),
        "block": vector(**one | {"columns": SLOT}, output=Output.MXINT8, to=9),
        "top 1 of 8": Instruction.of(
            "topk", a=0, rows=1, columns=8, k=1, indices=9, values=10
        ),
    }  # fmt: skip


def filled(rng: np.random.Generator) -> Oracle:
    """Return registers full of numbers; some vector registers of scale bytes."""
    oracle = Oracle(CONFIG)
    scales = range(ROWS * PARTS, ROWS * PARTS + PARTS)
    for register in range(16):
        words = rng.standard_normal(LENGTH).astype(np.float32).view(np.uint32)
        oracle.set_words(register, rng.integers(100, 140, LENGTH) if register in scales else words)
        row = np.abs(rng.standard_normal(CONFIG.row_length)).astype(np.float32)
        oracle.set_row(register, row.view(np.uint32))
    return oracle


@cocotb.test()
async def measure(dut: Any) -> None:
    """Run everything, and write the report."""
    bench = VectorTestbench(dut, CONFIG)
    await bench.reset()
    rng = np.random.default_rng(0)
    elements, program = softmax()
    work = {"softmax": (elements, 1, program), **passes()}
    work |= {f"latency {name}": (1, 1, [i]) for name, i in short().items()}
    report: dict[str, Any] = {}
    for name, (elements, count, program) in work.items():
        oracle = filled(rng)
        await bench.load(oracle)
        for instruction in program:
            assert oracle.execute(instruction), instruction
        cycles = await bench.run(program)
        await bench.check(oracle)
        report[name] = {"elements": elements, "passes": count, "cycles": cycles}
    report["compared"] = bench.checked
    REPORT.write_text(json.dumps(report))
