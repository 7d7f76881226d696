"""Lanes that are not in use do not toggle: counted in a waveform of Amaranth's own simulator."""

import re
from collections import Counter

import numpy as np
import pytest
from amaranth.sim import Simulator

from rtl.config import TileConfig
from rtl.formats import Format
from rtl.mac import ActivationRequestLayout, MatrixEngine
from sim.golden import quantise
from tb.mac import Job, unpack

CONFIG = TileConfig(act_blocks=4, acc_depth=4, stream_bytes=128, transposer=False)
LANES = [(pair, lane) for pair in range(CONFIG.lane_pairs) for lane in range(2)]


def simulate(job, vcd):
    """Run a job without pauses, write its waveform and return the number of result transfers."""
    engine = MatrixEngine(CONFIG)
    simulator = Simulator(engine)
    simulator.add_clock(1e-8)
    transfers = []

    async def operations(ctx):
        for fields in job.operations(CONFIG):
            ctx.set(engine.operations.payload, fields)
            ctx.set(engine.operations.valid, 1)
            await ctx.tick().until(engine.operations.ready)
        ctx.set(engine.operations.valid, 0)

    async def beats(ctx):
        for beat in job.beats(CONFIG):
            ctx.set(engine.beats.payload, int.from_bytes(beat.tobytes(), "little"))
            ctx.set(engine.beats.valid, 1)
            await ctx.tick().until(engine.beats.ready)
        ctx.set(engine.beats.valid, 0)

    async def activations(ctx):
        layout = ActivationRequestLayout(CONFIG)
        ctx.set(engine.requests.ready, 1)
        # No endless loop: Amaranth cannot close one that waits.
        for _ in range(job.active.sum() * job.blocks):
            (request,) = (
                await ctx.tick().sample(engine.requests.payload).until(engine.requests.valid)
            )
            token, column = unpack(layout, request.as_bits(), "token", "column")
            ctx.set(engine.requests.ready, 0)
            ctx.set(engine.activations.payload.as_value(), job.activation(CONFIG, token, column))
            ctx.set(engine.activations.valid, 1)
            await ctx.tick().until(engine.activations.ready)
            ctx.set(engine.activations.valid, 0)
            ctx.set(engine.requests.ready, 1)

    async def results(ctx):
        ctx.set(engine.results.ready, 1)
        wanted = len(job.expected(CONFIG))
        while wanted:
            (keep,) = (
                await ctx.tick().sample(engine.results.payload.keep).until(engine.results.valid)
            )
            wanted -= keep.bit_count()
            transfers.append(keep)
        await ctx.tick().repeat(4)

    simulator.add_testbench(operations, background=True)
    simulator.add_testbench(beats, background=True)
    simulator.add_testbench(activations, background=True)
    simulator.add_testbench(results)
    with simulator.write_vcd(str(vcd)):
        simulator.run()
    return len(transfers)


def toggles(vcd):
    """Return the changes of all signals behind the operand registers, by (pair, lane)."""
    scopes, names, changes = [], {}, Counter()
    started = False
    for line in vcd.read_text().splitlines():
        words = line.split()
        if line.startswith("$scope"):
            scopes.append(words[2])
        elif line.startswith("$upscope"):
            scopes.pop()
        elif line.startswith("$var"):
            path = ".".join([*scopes, words[4]])
            if found := re.search(r"\.pair(\d+)_\d+\.(.*)$", path):
                inside = re.fullmatch(
                    r"(?:weight|dot|complete|whole|high|distance|nan|add)(\d)(?:_aligned)?(?:\..*)?",
                    found[2],
                )
                if inside:
                    names.setdefault(words[3], set()).add((int(found[1]), int(inside[1])))
            if found := re.search(r"\.activations(\d+)\.stationary__(\d)", path):
                names.setdefault(words[3], set()).add((int(found[1]), int(found[2])))
        elif line.startswith("#"):
            started = int(line[1:]) > 0
        elif started and words:
            symbol = words[1] if line[0] in "bs" else line[1:]
            changes.update(names.get(symbol, ()))
    return {lane: changes[lane] for lane in LANES}


def job(activation, rows, *, pair=False, mask=None):
    rng = np.random.default_rng(1)
    return Job(
        quantise(rng.standard_normal((rows, 96)).astype(np.float32), activation),
        quantise(rng.standard_normal((10, 96)).astype(np.float32), Format.MXFP4),
        pair=pair,
        mask=mask,
    )


FP4, INT8 = Format.MXFP4, Format.MXINT8


@pytest.mark.parametrize(
    ("case", "busy"),
    [
        (job(FP4, 1), {(0, 0)}),
        (job(FP4, 1, pair=True), {(0, 0), (0, 1)}),
        (job(FP4, 3), {(0, 0), (1, 0), (0, 1)}),
        (job(FP4, 4, mask=np.array([False, True, False, True])), {(1, 0), (1, 1)}),
        (job(INT8, 1), {(0, 0), (0, 1)}),
        (job(INT8, 2, mask=np.array([False, True])), {(1, 0), (1, 1)}),
        (job(INT8, 1, pair=True), set(LANES)),
    ],
)
def test_only_lanes_in_use_toggle(case, busy, tmp_path):
    assert simulate(case, tmp_path / "waves.vcd")
    count = toggles(tmp_path / "waves.vcd")
    assert {lane for lane in LANES if count[lane] > 100} == busy, count
    assert all(count[lane] == 0 for lane in LANES if lane not in busy), count
