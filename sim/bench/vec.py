"""Figures of the vector unit: cycles under Verilator, and sizes by Yosys."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from gen.blocks import find
from gen.verilog import VerilogDesign, emit
from rtl.config import TileConfig
from sim import verilator
from sim.bench import vec_area
from sim.figures import Figure
from sim.mac import HardwareError
from sim.progress import ProgressReporter

SOFTMAX_TARGET = 2.2

WORK = {
    "norm": "residual sum and squares, factor, normalise and quantise",
    "gate": "SiLU, multiply, quantise",
    "rotate_adjacent": "rotate adjacent pairs and quantise, 8 heads",
    "rotate_halves": "rotate halves and quantise, 8 heads",
    "topk4": "top 4",
    "topk8": "top 8",
}
"""What is measured against lanes and passes."""


def run(config: TileConfig, progress: ProgressReporter) -> list[Figure]:
    """Measure the vector engine of a configuration.

    Parameters
    ----------
    config
        The configuration.
    progress
        Where to show what takes its time.

    Raises
    ------
    HardwareError
        If a result has a wrong bit.
    ToolError
        If a tool is missing or failed.
    """
    with progress.task("generating the vector engine"):
        design = emit(find("vec").build(config), "vec", config)
    measured = _simulate(design, config, progress)
    lanes = config.vec_lanes
    softmax = measured["softmax"]
    figures = [
        Figure(
            "vec.softmax",
            softmax["cycles"] * lanes / softmax["elements"],
            "lane cycles per element",
            f"4 rows of {softmax['elements'] // 4} scores to quantised weights in "
            f"{softmax['cycles']:,} cycles, two passes",
            2.0,
            SOFTMAX_TARGET,
            at_most=True,
        )
    ]
    for name, what in WORK.items():
        found = measured[name]
        bound = found["elements"] * found["passes"] / lanes
        figures.append(
            Figure(
                f"vec.{name}",
                bound / found["cycles"],
                "of lanes",
                f"{what}: {found['elements']} elements in {found['cycles']} cycles, "
                f"passes: {found['passes']}",
                1.0,
            )
        )
    for name, found in measured.items():
        if name.startswith("latency "):
            what = name.removeprefix("latency ")
            figures.append(
                Figure(
                    f"vec.latency.{what.replace(' ', '_')}",
                    found["cycles"],
                    "cycles",
                    "from an instruction being accepted to its result being written",
                )
            )
    parts = vec_area.run(config, progress)
    cells = {figure.name: figure.value for figure in parts}
    # Steps b, c and d; an adder for partial sums, and one to fold them.
    lane = sum(
        count * cells[f"vec.{part}_cells"]
        for part, count in (("step", 3), ("function", 1), ("adder", 2), ("quantiser", 1))
    )
    whole = Figure(
        "vec.lane_cells", lane, "cells", "all arithmetic of a lane: the sum of its parts"
    )
    return [*figures, *parts, whole]


def _simulate(
    design: VerilogDesign, config: TileConfig, progress: ProgressReporter
) -> dict[str, Any]:
    """Return what was measured, by name."""
    ports = [port.name for port in design.ports]
    with progress.task("compiling a simulator: a minute, the first time"):
        build = verilator.build({f"{design.top}.sv": design.text}, design.top, ports)
    work = Path(tempfile.mkdtemp(prefix="jalapeno-vec-"))
    report = work / "report.json"
    with progress.task("running all workloads"):
        results = build.run(
            "tb.run_vec",  # by name: testbenches import this package, not the other way round
            seed=0,
            work_dir=work,
            env={"JALAPENO_CONFIG": config.to_json(), "JALAPENO_REPORT": str(report)},
        )
    for name, message in results.failed.items():
        reason = message.partition("\n")[0]
        raise HardwareError(f"The vector engine failed in {name}: {reason}; log {results.log}")
    measured = json.loads(report.read_text())
    shutil.rmtree(work)
    del measured["compared"]
    return measured
