"""Figures of the HBM slice: bandwidth and latency under Verilator, and sizes by Yosys.

With and without error correction, for both real timing sets; one simulator for each hardware.
Anchors are what Ramulator 2.1 gives for one pseudo-channel, saturated, with queues of 32 and
refresh on.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from gen.blocks import find
from gen.verilog import VerilogDesign, emit
from rtl.config import TileConfig
from rtl.hbm.policy import BATCH
from rtl.hbm.timing import BURST, TIMINGS, Timing
from sim import verilator
from sim.area import area
from sim.bench import hbm_stream
from sim.figures import Figure
from sim.hbm.harness import attach
from sim.mac import HardwareError
from sim.progress import ProgressReporter

ROWS = 256
"""Rows of each bank of the device: 4 MiB per pseudo-channel."""

TARGETS = {
    "sequential.hbm3-6400": 0.98,
    "sequential.hbm4-8000": 0.97,
    "random64.hbm3-6400": 0.60,
    "mix64.hbm3-6400": 0.75,
    "mix4k.hbm3-6400": 0.85,
}
IDLE_TARGET = 4
SHORT = "hbm3-6400"
"""The timing set that figures are about that do not name one."""


def run(config: TileConfig, progress: ProgressReporter) -> list[Figure]:
    """Measure the HBM slice of a configuration.

    Parameters
    ----------
    config
        The configuration.
    progress
        Where to show what takes its time.

    Raises
    ------
    HardwareError
        If a beat is wrong, or a timing rule broken.
    ToolError
        If a tool is missing or failed.
    """
    figures = []
    other = config.replace(ecc=not config.ecc)
    for variant, suffix in ((config, ""), (other, f".ecc_{'on' if other.ecc else 'off'}")):
        with progress.task("generating the HBM slice"):
            design = emit(find("hbm").build(variant), "hbm", variant)
        for name, measured in _simulate(design, variant, progress).items():
            pattern, _, timing = name.partition(".")
            make = _idle if pattern == "idle" else _bandwidth
            figures.append(make(pattern, TIMINGS[timing], measured, suffix))
        figures += _sizes(design, suffix, progress)
    return [*figures, *hbm_stream.run(config, progress)]


def _simulate(
    design: VerilogDesign, config: TileConfig, progress: ProgressReporter
) -> dict[str, Any]:
    """Return what was measured, by pattern."""
    harness = attach(design, rows=ROWS)
    with progress.task("compiling a simulator: a minute, the first time"):
        build = verilator.build(harness.sources, harness.top, harness.ports)
    work = Path(tempfile.mkdtemp(prefix="jalapeno-hbm-"))
    report = work / "report.json"
    report.write_text("{}")
    with progress.task("running all patterns for both timing sets"):
        results = build.run(
            "tb.run_hbm",  # by name: testbenches import this package, not the other way round
            seed=0,
            work_dir=work,
            env={
                "JALAPENO_CONFIG": config.to_json(),
                "JALAPENO_HBM_ROWS": str(ROWS),
                "JALAPENO_REPORT": str(report),
            },
        )
    for name, message in results.failed.items():
        reason = message.partition("\n")[0]
        raise HardwareError(f"The HBM slice failed in {name}: {reason}; log {results.log}")
    measured = json.loads(report.read_text())
    shutil.rmtree(work)
    return measured


def _name(pattern: str, t: Timing, suffix: str) -> str:
    keep = pattern == "sequential" or t.name != SHORT
    return f"hbm.{pattern}{f'.{t.name}' if keep else ''}{suffix}"


def _limit(pattern: str, t: Timing) -> float:
    """Return what no controller could exceed that keeps to the timing set."""
    if pattern == "random64":
        # Four ACT in a window, and none closer than these, for accesses of two bursts each.
        return min(1.0, 2 * BURST * min(4 / t.faw, 1 / t.rrd_s, t.banks / t.rc))
    if pattern.startswith("mix"):
        # Two reads for each write, and turns of so many writes.
        used = 3 * BATCH * BURST
        return used / (used + t.rtw - BURST + t.wr_to_rd_s - BURST)
    return 1.0


def _bandwidth(pattern: str, t: Timing, measured: dict[str, Any], suffix: str) -> Figure:
    counters = measured["counters"]
    workload = (
        f"{measured['beats']:,} beats in {measured['cycles']:,} cycles, {measured['compared']:,} "
        f"compared; {counters['activations']:,} ACT, {counters['refreshes']:,} refreshes, "
        f"{counters['turns']:,} turns"
    )
    return Figure(
        _name(pattern, t, suffix),
        measured["beats"] / measured["cycles"],
        "of peak",
        workload,
        _limit(pattern, t),
        TARGETS.get(f"{pattern}.{t.name}"),
    )


def _idle(pattern: str, t: Timing, measured: dict[str, list[int]], suffix: str) -> Figure:
    bounds = {"hit": t.read_hit, "closed": t.read_closed, "conflict": t.read_conflict}
    extra = {name: max(measured[name]) - bound for name, bound in bounds.items()}
    workload = ", ".join(
        f"{name}: {min(measured[name])} to {max(measured[name])} cycles, {bound} at best"
        for name, bound in bounds.items()
    )
    return Figure(
        _name("idle_extra", t, suffix),
        max(extra.values()),
        "cycles",
        workload,
        bound=0,
        target=IDLE_TARGET,
        at_most=True,
    )


def _sizes(design: VerilogDesign, suffix: str, progress: ProgressReporter) -> list[Figure]:
    """Return the sizes of a bank's part, of a controller, and of everything."""
    figures = []
    (lane,) = [module for module in design.modules if module.startswith("hbm_lane")]
    tops = {"bank_cells": lane, "controller_cells": f"{design.top}__channel0", "cells": design.top}
    for name, top in tops.items():
        with progress.task(f"synthesising {top}"):
            found = area(design.text, top, memory="separate", language="verilog")
        workload = (
            f"{top}: {found.flops:,} flip-flops, {found.memory_bits:,} bits of memory, "
            f"depth {found.depth}"
        )
        figures.append(Figure(f"hbm.{name}{suffix}", found.cells, "cells", workload))
    return figures
