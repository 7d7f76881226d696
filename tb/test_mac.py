"""cocotb tests of the matrix engine, for any configuration."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotb_coverage.coverage import CoverPoint, coverage_db

from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.formats import BLOCK, SCALE_MAX, SCALE_NAN, Format
from tb.mac import Job, MacTestbench
from tb.random_mac import Bin, JobMaker, bins, most_paired, most_rows

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
FORMATS = CONFIG.element_formats
LONG = 100_000
"""Cycles after which a test gives up."""

LATENCY = 32
"""Cycles that start and end of an operation may add to its beats, activations apart."""


@CoverPoint("mac.cross", vname="bin_", bins=bins(CONFIG))
def sample(bin_: Bin) -> None:
    """Count a job in the functional coverage."""


def maker() -> JobMaker:
    """Return a maker of jobs, seeded from the run's seed."""
    # Few groups where groups are large: the cases are the same and the tests take seconds.
    outputs = 3 if CONFIG.group_outputs <= 16 else 2
    return JobMaker(CONFIG, random.getrandbits(32), outputs=outputs, blocks=5)


async def started(dut) -> MacTestbench:
    """Return a testbench of the engine after reset."""
    bench = MacTestbench(dut, CONFIG)
    await bench.reset()
    return bench


# --- everything, at random -----------------------------------------------------------------------


@cocotb.test()
async def every_bin_under_back_pressure(dut):
    """Every feasible combination of formats, rows, tails, NaN, pairing and transposition."""
    bench = await started(dut)
    make = maker()
    todo = bins(CONFIG)
    make.rng.shuffle(todo)
    for start in range(0, len(todo), 4):
        bench.pause(make.rng)
        await bench.registers.write("stream", make.rng.randint(2, bench.geometry.buffer_rows))
        for bin_ in todo[start : start + 4]:
            bench.submit(make.job(bin_))
            sample(bin_)
        await bench.finish(LONG)
    cross = coverage_db["mac.cross"]
    dut._log.info(f"coverage {cross.coverage} of {cross.size} bins, {bench.checked} results")
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))
    assert cross.coverage == cross.size


@cocotb.test()
async def many_jobs_in_flight(dut):
    """A long queue of all kinds of jobs, pauses changing on the way."""
    bench = await started(dut)
    make = maker()
    for _ in range(6):
        bench.pause(make.rng)
        for _ in range(8):
            bench.submit(make.any_job())
        await bench.finish(LONG)
    bench.pause(None)
    for _ in range(20):
        bench.submit(make.any_job())
    await bench.finish(LONG)


@cocotb.test()
async def reset_in_flight(dut):
    """A reset at any time leaves nothing behind."""
    bench = await started(dut)
    make = maker()
    for _ in range(10):
        bench.pause(make.rng)
        for _ in range(3):
            bench.submit(make.any_job())
        for _ in range(make.rng.randint(1, 300)):
            await RisingEdge(dut.clk)
        await bench.reset()
        bench.pause(None)
        bench.submit(make.any_job())
        await bench.finish(LONG)


# --- speed ---------------------------------------------------------------------------------------


def plain_job(activation: Format, weight: Format, rows: int, groups: int, blocks: int) -> Job:
    """Return a job of whole groups and blocks without pairing."""
    rng = np.random.default_rng(rows)
    make = JobMaker(CONFIG, int(rng.integers(1 << 30)))
    length = blocks * BLOCK
    return Job(
        make.tensor((rows, length), activation, False),
        make.tensor((groups * CONFIG.group_outputs, length), weight, False),
        pair=False,
    )


@cocotb.test()
async def one_beat_per_cycle(dut):
    """The array never waits where a group has as many beats as it has result transfers."""
    bench = await started(dut)
    geometry = bench.geometry
    for activation in FORMATS:
        for weight in FORMATS:
            for rows in {1, most_rows(CONFIG, activation)}:
                # Transfers of a group, and the blocks that make as many beats.
                transfers = geometry.drain_words * geometry.drain_slices * rows
                beats = geometry.group_rows * weight.planes
                blocks = max(2, -(-transfers // beats))
                if blocks > CONFIG.act_blocks:
                    continue
                groups = 6
                job = plain_job(activation, weight, rows, groups, blocks)
                before = await bench.registers.counters()
                bench.submit(job)
                cycles = await bench.finish(LONG)
                after = await bench.registers.counters()
                spent = {name: after[name] - before[name] for name in after}
                case = f"{activation} x {weight}, {rows} rows, {blocks} blocks: {spent}"
                assert spent["steps"] == groups * beats * blocks, case
                # Once, a drain that takes as long as its group may be late by its latency.
                assert spent["stalls_drain"] <= 6, case
                last_drain = rows * geometry.drain_slices
                limit = len(job.beats(CONFIG)) + rows * blocks + last_drain + LATENCY
                assert cycles <= limit, f"{cycles} cycles, at most {limit}; {case}"


@cocotb.test()
async def a_slow_drain_is_counted(dut):
    """Where a group has fewer beats than result transfers the array waits, and says so."""
    bench = await started(dut)
    geometry = bench.geometry
    activation = Format.MXFP4
    rows = most_rows(CONFIG, activation)
    bench.submit(plain_job(activation, Format.MXFP4, rows, 4, 1))
    await bench.finish(LONG)
    counters = await bench.registers.counters()
    transfers = geometry.drain_words * geometry.drain_slices * rows
    if transfers > geometry.group_rows:
        assert counters["stalls_drain"] > 0, counters
    else:
        assert counters["stalls_drain"] == 0, counters


@cocotb.test()
async def two_buffered_beats_per_cycle(dut):
    """From a full buffer, spare lanes take a second beat in every cycle; without pairing, none."""
    bench = await started(dut)
    capacity = 2 * bench.geometry.buffer_rows
    for pairing in (1, 0):
        await bench.registers.write("control", pairing)
        for activation in FORMATS:
            if not most_paired(CONFIG, activation):
                continue
            for weight in FORMATS:
                rows = CONFIG.acc_depth - CONFIG.acc_depth % 2
                blocks = min(capacity // (CONFIG.acc_depth * weight.planes), CONFIG.act_blocks)
                if not blocks or not rows:
                    continue
                job = plain_job(activation, weight, 1, 1, blocks)
                job.weights = job.weights[: rows * CONFIG.pseudo_channels]
                job.pair = True
                bench.activations.pauses = iter(lambda: True, None)
                bench.submit(job)
                for _ in range(3 * capacity):
                    await RisingEdge(dut.clk)
                before = await bench.registers.counters()
                bench.pause(None)
                await bench.finish(LONG)
                after = await bench.registers.counters()
                steps = after["steps"] - before["steps"]
                paired = after["paired_steps"] - before["paired_steps"]
                beats = rows * blocks * weight.planes
                case = f"{activation} x {weight}: {steps} steps, {paired} paired, {beats} beats"
                assert steps + paired == beats, case
                assert paired == (steps if pairing else 0), case


# --- directed cases ------------------------------------------------------------------------------


def filled(shape: tuple[int, int], fmt: Format, code: int, scale: int) -> MXTensor:
    """Return a tensor with the same code and scale everywhere."""
    rows, length = shape
    blocks = -(-length // BLOCK)
    codes = np.full((rows, blocks * BLOCK), code, np.uint8)
    codes[:, length:] = 0
    return MXTensor(
        codes.reshape(rows, blocks, BLOCK), np.full((rows, blocks), scale, np.uint8), fmt, length
    )


EXTREMES = {
    Format.MXFP4: (0x7, 0xF, 0x8, 0x0),
    Format.MXINT8: (0x7F, 0x80, 0x81, 0x00, 0xFF),
}
"""Codes with which sums are largest, or signs of zero matter."""


@cocotb.test()
async def the_largest_sums(dut):
    """Every element at its limit: the window is filled to the bound (gemmini#315)."""
    bench = await started(dut)
    blocks = min(CONFIG.act_blocks, 90)
    for activation in FORMATS:
        for weight in FORMATS:
            for a in EXTREMES[activation]:
                for w in EXTREMES[weight]:
                    bench.submit(
                        Job(
                            filled((1, blocks * BLOCK), activation, a, 127),
                            filled((CONFIG.pseudo_channels, blocks * BLOCK), weight, w, 127),
                        )
                    )
    await bench.finish(LONG)


@cocotb.test()
async def extreme_scales(dut):
    """Overflow to Inf, underflow to zero and to the smallest normal, and NaN."""
    bench = await started(dut)
    for activation in FORMATS:
        for weight in FORMATS:
            for left in (0, 1, 64, 127, SCALE_MAX, SCALE_NAN):
                for right in (0, 1, 63, 127, SCALE_MAX, SCALE_NAN):
                    code = 0x7 if activation is Format.MXFP4 else 0x7F
                    bench.submit(
                        Job(
                            filled((1, 33), activation, code, left),
                            filled((2, 33), weight, EXTREMES[weight][1], right),
                        )
                    )
    await bench.finish(LONG)


@cocotb.test()
async def scales_far_apart(dut):
    """Blocks any distance below the anchor: what is shifted out leaves 0 or -1, the floor."""
    bench = await started(dut)
    for activation in FORMATS:
        for weight in FORMATS:
            for sign in (0, 1):
                code = EXTREMES[weight][sign]
                weights = filled((64, 2 * BLOCK), weight, code, SCALE_MAX)
                scales = weights.scales.copy()
                scales[:, 1] = SCALE_MAX - np.arange(64)
                codes = weights.codes.copy()
                codes[:, 0] = 0  # keeps the anchor and adds nothing
                bench.submit(
                    Job(
                        filled((1, 2 * BLOCK), activation, EXTREMES[activation][0], 1),
                        MXTensor(codes, scales, weight, 2 * BLOCK),
                    )
                )
    await bench.finish(LONG)


@cocotb.test()
async def long_k_in_chunks(dut):
    """More blocks than the lanes can hold, one neuron group at a time."""
    bench = await started(dut)
    make = maker()
    for activation in FORMATS:
        for weight in FORMATS:
            length = min(CONFIG.act_blocks + 5, 101) * BLOCK - 7
            outputs = CONFIG.group_outputs + CONFIG.pseudo_channels if CONFIG.acc_depth < 9 else 3
            bench.submit(
                Job(
                    make.tensor((most_rows(CONFIG, activation), length), activation, False),
                    make.tensor((outputs, length), weight, False),
                    chunk=max(1, min(CONFIG.act_blocks, 50) // 2),
                )
            )
    await bench.finish(LONG)


@cocotb.test()
async def rows_that_take_no_part(dut):
    """Every row mask, also none at all; what follows is not disturbed."""
    bench = await started(dut)
    make = maker()
    for activation in FORMATS:
        rows = min(most_rows(CONFIG, activation), 4)
        for pattern in range(1 << rows):
            mask = np.array([pattern >> i & 1 for i in range(rows)], bool)
            job = plain_job(activation, FORMATS[-1], rows, 1, 2)
            job.mask = mask
            job.pair = bool(make.rng.getrandbits(1))
            bench.submit(job)
    await bench.finish(LONG)


@cocotb.test()
async def results_that_nobody_takes(dut):
    """However long results wait, no group buffer is written before it was drained."""
    bench = await started(dut)
    for rows in {1, most_rows(CONFIG, Format.MXFP4)}:
        bench.results.pauses = iter(lambda: True, None)
        bench.submit(plain_job(Format.MXFP4, Format.MXFP4, rows, 6, 1))
        for _ in range(20 * CONFIG.acc_depth + 100):
            await RisingEdge(dut.clk)
        bench.pause(None)
        await bench.finish(LONG)


@cocotb.test(skip=not CONFIG.transposer)
async def anchors_follow_the_position(dut):
    """Tokens on both sides of a block's end have different n: the window ends at another bit."""
    bench = await started(dut)
    make = maker()
    for activation in FORMATS:
        rows = most_rows(CONFIG, activation)
        for distance in range(CONFIG.acc_bits - 20, CONFIG.acc_bits):
            last = 2 * BLOCK - 1  # the position of token 0; token 1 begins the third block
            length = last + rows
            values = make.tensor((rows, length), activation, False)
            codes = values.codes.copy()
            # The first block only keeps the anchor up, so that the low bits of the second show.
            codes[:, 0] = 0
            codes[:, 2:] = 0
            scales = np.full(values.scales.shape, 150 - distance, np.uint8)
            scales[:, 0] = 150
            bench.submit(
                Job(
                    MXTensor(codes, scales, activation, length),
                    make.tensor((length, BLOCK), FORMATS[-1], False),
                    last=last,
                    last_step=True,
                    transpose=True,
                )
            )
    await bench.finish(LONG)


@cocotb.test()
async def values_beyond_the_range_may_hold_anything(dut):
    """Neurons outside [lo, hi) deliver +0 though their scales exceed their maximum."""
    bench = await started(dut)
    rows = most_rows(CONFIG, Format.MXFP4)
    weights = filled((8, 2 * BLOCK), Format.MXFP4, 7, 100)
    job = Job(filled((rows, 2 * BLOCK), Format.MXFP4, 7, 100), weights, lo=2, hi=5)
    honest = job.beats

    def garbled(config: TileConfig):
        beats = honest(config)
        maxima = beats[0]
        for neuron in (0, 1, 5, 6, 7):
            maxima[neuron] = 0
        return beats

    if CONFIG.group_outputs >= 8:
        job.beats = garbled  # type: ignore[method-assign]
    bench.submit(job)
    await bench.finish(LONG)


# --- the checkers themselves; these must fail ----------------------------------------------------


@cocotb.test(skip=True)
async def a_wrong_bit_is_noticed(dut):
    """The scoreboard must object to one wrong bit."""
    bench = await started(dut)
    job = plain_job(Format.MXFP4, Format.MXFP4, 1, 1, 2)
    expected = job.expected(CONFIG)
    expected[0, 0] ^= 1
    job.expected = lambda config: expected  # type: ignore[method-assign]
    bench.submit(job)
    await bench.finish(LONG)


@cocotb.test(skip=True)
async def a_missing_result_is_noticed(dut):
    """The testbench must object when a result does not come."""
    bench = await started(dut)
    job = plain_job(Format.MXFP4, Format.MXFP4, 1, 1, 2)
    expected = job.expected(CONFIG)
    expected[0, 10_000] = 0
    job.expected = lambda config: expected  # type: ignore[method-assign]
    bench.submit(job)
    await bench.finish(2_000)


@cocotb.test(skip=True)
async def a_malformed_operand_is_noticed(dut):
    """The overflow assertion must fire when an operand does not keep to its anchor."""
    bench = await started(dut)
    length = 16 * BLOCK
    job = Job(filled((1, length), Format.MXFP4, 7, 127), filled((1, length), Format.MXFP4, 7, 127))
    honest = job.operations

    def lying(config: TileConfig):
        # More blocks than `last` admits: the anchor is too low for them.
        return [operation | {"last": BLOCK} for operation in honest(config)]

    job.operations = lying  # type: ignore[method-assign]
    bench.submit(job)
    await bench.finish(2_000)


@cocotb.test(skip=True)
async def an_illegal_operation_is_noticed(dut):
    """The descriptor assertion must fire."""
    bench = await started(dut)
    job = plain_job(Format.MXFP4, Format.MXFP4, 1, 1, 2)
    honest = job.operations
    job.operations = lambda config: [  # type: ignore[method-assign]
        operation | {"blocks": 0} for operation in honest(config)
    ]
    bench.submit(job)
    await bench.finish(2_000)
