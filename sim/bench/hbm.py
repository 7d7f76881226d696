"""Figures of the HBM slice: bandwidth and latency under Verilator, and sizes by Yosys.

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
from rtl.hbm.timing import TIMINGS, Timing
from sim import verilator
from sim.area import area
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
    with progress.task("generating the HBM slice"):
        design = emit(find("hbm").build(config), "hbm", config)
    report = _simulate(design, config, progress)
    figures = []
    for name in report:
        pattern, _, timing = name.partition(".")
        if pattern == "idle":
            figures.append(_idle(report[name], TIMINGS[timing]))
        else:
            figures.append(_bandwidth(name, pattern, timing, report[name]))
    return [*figures, *_sizes(design, progress)]


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


def _bandwidth(name: str, pattern: str, timing: str, measured: dict[str, Any]) -> Figure:
    t, counters = TIMINGS[timing], measured["counters"]
    # Four ACT in a window, and none closer than these, for accesses of two bursts each.
    activates = min(4 / t.faw, 1 / t.rrd_s, t.banks / t.rc)
    bound = min(1.0, 4 * activates) if pattern == "random64" else 1.0
    workload = (
        f"{measured['beats']:,} beats in {measured['cycles']:,} cycles, {measured['compared']:,} "
        f"compared; {counters['activations']:,} ACT, {counters['refreshes']:,} refreshes, "
        f"{counters['turns']:,} turns"
    )
    keep = pattern == "sequential" or timing != SHORT
    full = f"hbm.{name}" if keep else f"hbm.{pattern}"
    return Figure(
        full, measured["beats"] / measured["cycles"], "of peak", workload, bound, TARGETS.get(name)
    )


def _idle(measured: dict[str, list[int]], t: Timing) -> Figure:
    bounds = {"hit": t.read_hit, "closed": t.read_closed, "conflict": t.read_conflict}
    extra = {name: max(measured[name]) - bound for name, bound in bounds.items()}
    workload = ", ".join(
        f"{name}: {min(measured[name])} to {max(measured[name])} cycles, {bound} at best"
        for name, bound in bounds.items()
    )
    keep = "" if t.name == SHORT else f".{t.name}"
    return Figure(
        f"hbm.idle_extra{keep}",
        max(extra.values()),
        "cycles",
        workload,
        bound=0,
        target=IDLE_TARGET,
        at_most=True,
    )


def _sizes(design: VerilogDesign, progress: ProgressReporter) -> list[Figure]:
    """Return the sizes of a bank's part, and of everything."""
    figures = []
    (lane,) = [module for module in design.modules if module.startswith("hbm_lane")]
    for name, top in (("hbm.bank_cells", lane), ("hbm.cells", design.top)):
        with progress.task(f"synthesising {top}"):
            found = area(design.text, top, memory="separate", language="verilog")
        workload = (
            f"{top}: {found.flops:,} flip-flops, {found.memory_bits:,} bits of memory, "
            f"depth {found.depth}"
        )
        figures.append(Figure(name, found.cells, "cells", workload))
    return figures
