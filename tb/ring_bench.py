"""Measures the ring, checks every result, and reports what it took.

`sim.bench.ring` starts this module under the simulator and says through the environment what to do:

===================  ======================================================
``JALAPENO_CONFIG``  the configuration of the tiles, and how many, as JSON
``JALAPENO_REPORT``  where to write the report: measurements by name
===================  ======================================================

Cycles count from the one in which the first tile takes its instruction to the one in which the last
tile has done it. All tiles are offered theirs in the same cycle.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from rtl.config import TileConfig
from rtl.core.isa import Collective
from tb.ring import RingOracle, RingTestbench, collective

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
REPORT = Path(os.environ["JALAPENO_REPORT"])
TILES = CONFIG.tiles

LATE = (0, 7, 100)
"""How many cycles the last tile comes after the others to a barrier."""

KINDS = {
    "broadcast": Collective.BROADCAST,
    "reduce_scatter": Collective.REDUCE_SCATTER_SUM,
    "allreduce": Collective.ALL_REDUCE_SUM,
    "maximum": Collective.ALL_REDUCE_MAXIMUM,
}
"""What is measured beside all-gathers, with as many words as fit."""

SOURCE, TO = 0, 5


def sizes() -> list[int]:
    """Return sizes in words: powers of two, and a word of each tile."""
    found = {1 << i for i in range(CONFIG.vector_length.bit_length())}
    return sorted(found | {TILES})


async def measured(bench: RingTestbench, kind: Collective, count: int, late: int = 0) -> int:
    """Return the cycles of an operation; `late` cycles before, all tiles but one begin."""
    instruction = collective(kind=kind, count=count, source=SOURCE, to=TO, into=True)
    delays = [[late if i == TILES // 3 else 0] for i in range(TILES)]
    await bench.run([[instruction]] * TILES, delays)
    assert not any(bench.failed)
    return max(bench.ended) - (max(bench.begun) if late else min(bench.begun))


@cocotb.test()
async def measure(dut: Any) -> None:
    """Run everything, and write the report."""
    bench = RingTestbench(dut, CONFIG)
    await bench.reset()
    oracle = RingOracle(CONFIG, TILES, np.random.default_rng(0))
    await bench.load(oracle, [SOURCE, TO])
    report: dict[str, Any] = {"allgather": {}, "barrier": {}}

    async def check(kind: Collective, count: int) -> None:
        instruction = collective(kind=kind, count=count, source=SOURCE, to=TO, into=True)
        oracle.run([[instruction]] * TILES)
        await bench.check(oracle, [TO], words=count)

    for count in sizes():
        report["allgather"][4 * count] = await measured(bench, Collective.ALL_GATHER, count)
        await check(Collective.ALL_GATHER, count)
    for name, kind in KINDS.items():
        report[name] = await measured(bench, kind, CONFIG.vector_length)
        await check(kind, CONFIG.vector_length)
    for late in LATE:
        report["barrier"][late] = await measured(bench, Collective.BARRIER, 0, late)
    report["compared"] = bench.checked
    REPORT.write_text(json.dumps(report))
