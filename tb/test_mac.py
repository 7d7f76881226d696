"""cocotb tests of the matrix engine, for any configuration."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotb_coverage.coverage import CoverPoint, coverage_db

from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.formats import BLOCK, SCALE_MAX, SCALE_NAN, Format
from rtl.mac import MacGeometry
from sim.golden import fp32
from tb.mac import Job, MacTestbench
from tb.random_mac import Bin, JobMaker, bins, observed

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
GEOMETRY = MacGeometry(CONFIG)
FORMATS = CONFIG.element_formats
LONG = 1_000_000
"""Cycles after which a test gives up."""

LATENCY = 32
"""Cycles that start and end of an operation may add to its beats, activations apart."""


@CoverPoint("mac.cross", vname="bin_", bins=bins(CONFIG))
@CoverPoint("mac.chunks", xf=lambda bin_, job: job.chunk is not None, bins=[False, True])
@CoverPoint(
    "mac.mask",
    xf=lambda bin_, job: "all" if job.active.all() else "some" if job.active.any() else "none",
    bins=["all", "some", "none"],
)
@CoverPoint("mac.heads", xf=lambda bin_, job: job.heads > 1, bins=[False, True])
@CoverPoint("mac.range", xf=lambda bin_, job: job.hi is not None, bins=[False, True])
@CoverPoint("mac.range_step", xf=lambda bin_, job: job.range_step, bins=[False, True])
def sample(bin_: Bin, job: Job) -> None:
    """Count a job in the functional coverage, by what it did."""


COVERAGE = ("cross", "chunks", "mask", "heads", "range", "range_step")
"""What is covered, see `sample`."""


def maker() -> JobMaker:
    """Return a maker of jobs, seeded from the run's seed."""
    # Few groups where groups are large: the cases are the same and the tests take seconds.
    outputs = 3 if CONFIG.group_outputs <= 16 else 2
    return JobMaker(CONFIG, random.getrandbits(32), outputs=outputs, blocks=5)


@dataclass
class ForgedJob(Job):
    """A job whose operations, or the results expected of it, are not what they should be.

    Parameters
    ----------
    forged
        Fields of every operation.
    results
        Expected bits by token and column, in place of those of the golden model.
    """

    forged: dict[str, int] = field(default_factory=dict)
    results: dict[tuple[int, int], int] | None = None

    def operations(self, config: TileConfig) -> list[dict[str, int]]:
        """Return the forged operations."""
        return [operation | self.forged for operation in super().operations(config)]

    def expected(self, config: TileConfig) -> dict[tuple[int, int], int]:
        """Return the forged results."""
        return super().expected(config) if self.results is None else dict(self.results)


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

    async def run(job: Job) -> Bin:
        before = await bench.registers.counters()
        bench.submit(job)
        await bench.finish(LONG)
        after = await bench.registers.counters()
        found = observed(CONFIG, job, after["paired_steps"] > before["paired_steps"])
        sample(found, job)
        return found

    for wanted in todo:
        bench.pause(make.rng)
        await bench.registers.write("stream", make.rng.randint(0, bench.geometry.buffer_rows))
        for _ in range(50):
            if await run(make.job(wanted)) == wanted:
                break
        else:
            raise AssertionError(f"50 jobs did not hit {wanted}")
    points = [coverage_db[f"mac.{name}"] for name in COVERAGE]
    for _ in range(100):
        if all(point.coverage == point.size for point in points):
            break
        await run(make.any_job())
    for name, point in zip(COVERAGE, points, strict=True):
        dut._log.info(f"mac.{name}: {point.coverage} of {point.size} bins")
        assert point.coverage == point.size, f"{name} is not covered: {point.detailed_coverage}"
    dut._log.info(f"{bench.checked} results compared")
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))


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
    await bench.settle()


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
            for rows in {1, GEOMETRY.most_rows(activation)}:
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
                # What the last pass over the group leaves to the drain, at least its last word.
                last_drain = max(rows * geometry.drain_slices, transfers - beats)
                limit = len(job.beats(CONFIG)) + rows * blocks + last_drain + LATENCY
                assert cycles <= limit, f"{cycles} cycles, at most {limit}; {case}"


@cocotb.test(skip=not CONFIG.transposer or CONFIG.act_blocks < 4)
async def one_beat_of_v_per_cycle(dut):
    """The transposer does not rest between operations: the next tile enters as the last leaves."""
    bench = await started(dut)
    make = maker()
    rows = 1
    for fmt in FORMATS:
        for blocks in (1, 2):
            if blocks > CONFIG.act_blocks:
                continue
            jobs = [
                Job(
                    make.tensor((rows, blocks * BLOCK), FORMATS[-1], False),
                    make.tensor((blocks * BLOCK, BLOCK), fmt, False),
                    transpose=True,
                    pair=False,
                )
                for _ in range(16)
            ]
            for job in jobs:
                bench.submit(job)
            cycles = await bench.finish(LONG)
            beats = sum(len(job.beats(CONFIG)) for job in jobs)
            # Where a group has fewer neurons than V has columns, the drain may be the limit.
            tile = GEOMETRY.tile_rows * fmt.planes
            words = -(-BLOCK // CONFIG.vec_lanes) * (1 + BLOCK // CONFIG.group_outputs)
            limit = max(beats, len(jobs) * words) + 2 * tile + LATENCY
            assert cycles <= limit, f"{fmt}, {blocks} blocks: {cycles} cycles, at most {limit}"


@cocotb.test()
async def a_slow_drain_is_counted(dut):
    """Where a group has fewer beats than result transfers the array waits, and says so."""
    bench = await started(dut)
    geometry = bench.geometry
    activation = Format.MXFP4
    rows = GEOMETRY.most_rows(activation)
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
            if not GEOMETRY.most_paired_rows(activation):
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
                beats_before = (await bench.registers.counters())["beats"]
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
                stalls = after["stalls_weights"] - before["stalls_weights"]
                case = (
                    f"{activation} x {weight}: {steps} steps, {paired} paired, {stalls} stalls, "
                    f"{beats} beats"
                )
                assert steps + paired == beats, case
                assert paired == (steps if pairing else 0), case
                # The buffer may be full before the last beats: they follow at one per cycle.
                behind = max(0, len(job.beats(CONFIG)) - (before["beats"] - beats_before))
                assert stalls <= behind + 2, case


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
                    make.tensor((GEOMETRY.most_rows(activation), length), activation, False),
                    make.tensor((outputs, length), weight, False),
                    chunk=max(1, min(CONFIG.act_blocks, 50) // 2),
                )
            )
    await bench.finish(LONG)


@cocotb.test()
async def pairing_changes_within_a_chain(dut):
    """Chunks keep to the decision of the first: it is where the sums are."""
    bench = await started(dut)
    make = maker()
    length = 2 * BLOCK
    for toggles in ((1, 0), (0, 1)):
        await bench.registers.write("control", toggles[0])
        bench.operations.pauses = iter([False, True] + 60 * [True] + [False] * 9)
        bench.submit(
            Job(
                make.tensor((1, length), Format.MXFP4, False),
                make.tensor((CONFIG.group_outputs, length), Format.MXFP4, False),
                chunk=1,
            )
        )
        for _ in range(30):
            await RisingEdge(dut.clk)
        await bench.registers.write("control", toggles[1])
        await bench.finish(LONG)
        bench.pause(None)


@cocotb.test()
async def the_buffer_limit_holds(dut):
    """`stream.rows` bounds how far the fetch side runs ahead; less than 2 counts as 2."""
    bench = await started(dut)
    taken = {}
    most = GEOMETRY.buffer_rows
    for rows in (0, 1, 2, 3, most):
        await bench.registers.write("stream", rows)
        bench.activations.pauses = iter(lambda: True, None)
        before = (await bench.registers.counters())["beats"]
        job = plain_job(Format.MXFP4, Format.MXFP4, 1, 1 + 2 * most // CONFIG.acc_depth, 1)
        bench.submit(job)
        for _ in range(4 * most + 20):
            await RisingEdge(dut.clk)
        taken[rows] = (await bench.registers.counters())["beats"] - before
        bench.pause(None)
        await bench.finish(LONG)
    parities = 1 if CONFIG.acc_depth == 1 else 2
    for rows, beats in taken.items():
        limit = parities * max(2, rows)
        # Scale beats are taken beside the rows, one for 16 and one in advance at most.
        assert limit <= beats <= limit + limit // 16 + 2 + limit // CONFIG.acc_depth, taken


@cocotb.test()
async def rows_that_take_no_part(dut):
    """Every row mask, also none at all; what follows is not disturbed."""
    bench = await started(dut)
    make = maker()
    for activation in FORMATS:
        rows = min(GEOMETRY.most_rows(activation), 4)
        for pattern in range(1 << rows):
            mask = np.array([pattern >> i & 1 for i in range(rows)], bool)
            job = plain_job(activation, FORMATS[-1], rows, 1, 2)
            job.mask = mask
            job.pair = bool(make.rng.getrandbits(1))
            bench.submit(job)
    await bench.finish(LONG)


@cocotb.test()
async def ranges_move_with_the_token(dut):
    """Causal masks: every token sees one position more, and each head of it the same."""
    bench = await started(dut)
    for activation in FORMATS:
        rows = GEOMETRY.most_rows(activation)
        for heads in {1, 2, rows}:
            if rows % heads:
                continue
            for lo, hi in ((0, 1), (0, 3), (-2, 1), (1, 2), (-rows, 0)):
                job = plain_job(activation, FORMATS[-1], rows, 1, 1)
                job.heads, job.lo, job.hi, job.range_step = heads, lo, hi, True
                bench.submit(job)
    await bench.finish(LONG)


@cocotb.test()
async def results_that_nobody_takes(dut):
    """However long results wait, no group buffer is written before it was drained."""
    bench = await started(dut)
    for rows in {1, GEOMETRY.most_rows(Format.MXFP4)}:
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
        rows = GEOMETRY.most_rows(activation)
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
    """Only valid results must keep to their anchors: not those out of range, NaN, or not there."""
    bench = await started(dut)
    length = 16 * BLOCK
    activations = filled((1, length), Format.MXFP4, 7, 127)
    outputs = min(4, CONFIG.group_outputs)
    for lo in range(outputs + 1):
        for scale in (127, SCALE_NAN):
            weights = filled((outputs, length), Format.MXFP4, 7, 127)
            codes, scales = weights.codes.copy(), weights.scales.copy()
            if scale != SCALE_NAN:
                codes[lo:] = 0
            scales[lo:, -1] = scale
            nan = fp32.NAN_BITS if scale == SCALE_NAN else 0
            bench.submit(
                ForgedJob(
                    activations,
                    MXTensor(codes, scales, Format.MXFP4, length),
                    lo=lo,
                    # n of 2 for 16 blocks: the neurons below `lo` overflow.
                    forged={"last": BLOCK},
                    results={(0, j): 0 if j < lo else nan for j in range(outputs)},
                )
            )
            # The accumulators beside the only neuron still hold the sums from before, in one of
            # the two group buffers.
            for _ in range(2):
                narrow = plain_job(Format.MXFP4, Format.MXFP4, 1, 1, 1)
                narrow.weights = narrow.weights[:1]
                narrow.hi = 4
                bench.submit(narrow)
    await bench.finish(LONG)


# --- the checkers themselves; these must fail ----------------------------------------------------


def ones(outputs: int, blocks: int, **fields) -> ForgedJob:
    """Return a job in which every element is at its limit."""
    length = blocks * BLOCK
    return ForgedJob(
        filled((1, length), Format.MXFP4, 7, 127),
        filled((outputs, length), Format.MXFP4, 7, 127),
        **fields,
    )


@cocotb.test(skip=True)
async def a_wrong_bit_is_noticed(dut):
    """The scoreboard must object to one wrong bit."""
    bench = await started(dut)
    job = ones(1, 1)
    job.results = {place: bits ^ 1 for place, bits in job.expected(CONFIG).items()}
    bench.submit(job)
    await bench.finish(2_000)


@cocotb.test(skip=True)
async def a_missing_result_is_noticed(dut):
    """The testbench must object when a result does not come."""
    bench = await started(dut)
    job = ones(1, 1)
    job.results = job.expected(CONFIG) | {(0, 10_000): 0}
    bench.submit(job)
    await bench.finish(2_000)


@cocotb.test(skip=True)
async def a_malformed_operand_is_noticed(dut):
    """The overflow assertion must fire when an operand does not keep to its anchor."""
    bench = await started(dut)
    bench.submit(ones(1, 16, forged={"last": BLOCK}))
    await bench.finish(2_000)


@cocotb.test(skip=True)
async def an_illegal_operation_is_noticed(dut):
    """The descriptor assertion must fire."""
    bench = await started(dut)
    bench.submit(ones(1, 1, forged={"blocks": 0}))
    await bench.finish(2_000)


@cocotb.test(skip=True)
async def a_broken_chain_is_noticed(dut):
    """So must the one for an operation that goes on with nothing."""
    bench = await started(dut)
    bench.submit(ones(1, 1, forged={"clear": 0}))
    await bench.finish(2_000)
