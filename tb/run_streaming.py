"""Runs given matrix products with their operands in HBM, and reports what it took.

`sim.streaming` starts this module under the simulator and says through the environment what to do,
in the variables of `tb.run_mac` and

=====================  =========================================
``JALAPENO_TIMING``    name of the HBM timing set
``JALAPENO_HBM_ROWS``  rows of each bank of the device
``JALAPENO_PIECE``     beats of an operand, see `StreamingTestbench`
=====================  =========================================
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cocotb

from rtl.config import TileConfig
from rtl.hbm.timing import TIMINGS
from sim.products import load
from tb.run_mac import check_hash, measure
from tb.streaming import StreamingTestbench


@cocotb.test()
async def run(dut: Any) -> None:
    """Run every product, and write the report after each."""
    config = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
    timing, rows = TIMINGS[os.environ["JALAPENO_TIMING"]], int(os.environ["JALAPENO_HBM_ROWS"])
    piece = int(os.environ["JALAPENO_PIECE"])
    report_file = Path(os.environ["JALAPENO_REPORT"])
    report = []
    bench = StreamingTestbench(dut, config, timing, rows, piece)
    await check_hash(bench)
    for product, results in load(Path(os.environ["JALAPENO_JOBS"])):
        measured = await measure(bench, product, results)
        report.append(measured | await memory_report(bench))
        report_file.write_text(json.dumps(report))


async def memory_report(bench: StreamingTestbench) -> dict[str, Any]:
    """Return what stream and memory counted since reset, after a look at the checkers."""
    bench.hbm.check()
    operands = await bench.windows["operands"].counters()
    assert not operands["errors"], f"{operands['errors']} beats could not be read"
    tallies = [bench.hbm.tally(channel) for channel in range(bench.hbm.channels)]
    return {
        "operands": operands,
        "memory": await bench.windows["hbm"].counters(),
        "commands": sum(sum(tally.values()) for tally in tallies),
    }
