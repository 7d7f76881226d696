"""Measures the HBM slice through its client ports, checks every beat, and reports what it took.

`sim.bench.hbm` starts this module under the simulator and says through the environment what to do:

====================  =========================================================
``JALAPENO_CONFIG``   the configuration of the slice, as JSON
``JALAPENO_HBM_ROWS`` rows of each bank of the device
``JALAPENO_REPORT``   where to write the report: results by name of the pattern
====================  =========================================================
"""

from __future__ import annotations

import functools
import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.hbm.timing import BURST, TIMINGS
from tb.hbm_clients import HbmTestbench, Port

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
ROWS = int(os.environ["JALAPENO_HBM_ROWS"])
REPORT = Path(os.environ["JALAPENO_REPORT"])

SEQUENTIAL = 40_000
HOST = 8_000
RANDOM = 6_000
MIXED = 24_000
"""Beats, or reads of 64 bytes per pseudo-channel."""

UNIT = 2 * BURST
"""Beats of 64 bytes per pseudo-channel."""

AHEAD = 512
"""Beats by which a stream of a mix may be ahead of its share."""


async def filled(dut: Any, timing: str, beats: int) -> HbmTestbench:
    """Return a testbench whose memory begins with random data."""
    bench = HbmTestbench(dut, CONFIG, TIMINGS[timing], ROWS)
    await bench.hbm.clear()
    await bench.reset()
    image = np.random.default_rng(0).integers(0, 256, (beats, bench.beat_bytes), np.uint8)
    await bench.hbm.load(image.reshape(-1))
    for beat, data in enumerate(image):
        bench.reference.load(beat, data.tobytes())
    return bench


async def run(bench: HbmTestbench, beats: int) -> dict[str, Any]:
    """Wait until all is done, and return what it took."""
    cycles = await bench.finish()
    counters = await bench.registers.counters()
    return {
        "beats": beats,
        "cycles": cycles,
        "compared": bench.checked,
        "counters": counters,
    }


async def sequential(dut: Any, timing: str) -> dict[str, Any]:
    """One long read."""
    bench = await filled(dut, timing, SEQUENTIAL)
    bench.ports["matrix"].read(0, SEQUENTIAL)
    return await run(bench, SEQUENTIAL)


async def host(dut: Any, timing: str) -> dict[str, Any]:
    """One long read through the host port, whose reorder buffer is small."""
    bench = await filled(dut, timing, HOST)
    bench.ports["host"].read(0, HOST)
    return await run(bench, HOST)


async def random64(dut: Any, timing: str) -> dict[str, Any]:
    """Read 64 bytes per pseudo-channel, anywhere in all of the memory."""
    bench = await filled(dut, timing, UNIT * 16 * 16 * ROWS)
    rng = random.Random(1)
    for _ in range(RANDOM):
        bench.ports["matrix"].read(rng.randrange(bench.beats // UNIT) * UNIT, UNIT)
    return await run(bench, RANDOM * UNIT)


async def mix(dut: Any, timing: str, unit: int) -> dict[str, Any]:
    """Two beats read for one written, by two streams."""
    bench = await filled(dut, timing, MIXED)
    matrix, stores = bench.ports["matrix"], bench.ports["stores"]
    bench.owner = lambda beat: "stores"  # type: ignore[method-assign]
    there = bench.beats // 2 + 2 * BURST * 128
    rng = random.Random(2)
    everything = (1 << bench.beat_bytes) - 1
    reads, writes = 2 * MIXED // 3 // unit, MIXED // 3 // unit
    read, written = 0, 0
    start = bench.now
    while read < reads or written < writes:
        read_done, written_done = read - len(matrix.reads), stores.answered
        if read < reads and read * unit < 2 * written_done * unit + 2 * max(AHEAD, unit):
            matrix.read(read * unit, unit)
            read += 1
        if written < writes and 2 * written * unit < read_done * unit + 2 * max(AHEAD, unit):
            data = [(rng.getrandbits(8 * bench.beat_bytes), everything) for _ in range(unit)]
            stores.write(there + written * unit, data)
            written += 1
        await RisingEdge(dut.clk)
    result = await run(bench, (reads + writes) * unit)
    written_back = await bench.hbm.dump(writes * unit, there)
    rows = written_back.reshape(-1, bench.beat_bytes)
    for i, row in enumerate(rows):
        assert {row.tobytes()} == bench.reference.allowed(there + i, 1 << 30, 1 << 30)
    return result | {"cycles": bench.now - start}


async def idle(dut: Any, timing: str) -> dict[str, Any]:
    """Single reads of an access, everything else being quiet."""
    bench = await filled(dut, timing, 1)
    unit = 64 * bench.timing.banks  # a row of every bank
    port = bench.ports["l1"]
    banks = range(0, UNIT * bench.timing.bank_groups, UNIT)
    latencies: dict[str, list[int]] = {"hit": [], "closed": [], "conflict": []}
    for bank in banks:  # this period's refresh comes after the first use
        await single(bench, port, bank)
    await bench.cycles(2 * bench.timing.rfc_pb)
    for bank in banks:
        latencies["closed"].append(await single(bench, port, unit + bank))
        latencies["hit"].append(await single(bench, port, unit + bank + BURST))
        latencies["conflict"].append(await single(bench, port, 2 * unit + bank))
    return latencies


async def single(bench: HbmTestbench, port: Port, beat: int) -> int:
    """Read an access; return the cycles from its descriptor to the one after its last beat."""
    read = port.read(beat, BURST)
    await bench.finish()
    await bench.cycles(bench.timing.rc)
    return read.done - read.accepted + 1


async def mix64(dut: Any, timing: str) -> dict[str, Any]:
    """Mix in 64 bytes per pseudo-channel."""
    return await mix(dut, timing, UNIT)


async def mix4k(dut: Any, timing: str) -> dict[str, Any]:
    """Mix in 4 KiB per pseudo-channel."""
    return await mix(dut, timing, 64 * UNIT)


PATTERNS = {
    f"{measure.__name__}.{timing}": functools.partial(measure, timing=timing)
    for timing in ("hbm3-6400", "hbm4-8000")
    for measure in (sequential, host, random64, mix64, mix4k, idle)
}
"""What is measured."""


@cocotb.test()
@cocotb.parametrize(name=list(PATTERNS))
async def run_pattern(dut, name):
    """Run one pattern, and add it to the report."""
    report = json.loads(REPORT.read_text())
    report[name] = await PATTERNS[name](dut)
    REPORT.write_text(json.dumps(report))
