"""Figures of a tile: whole models on its RTL, where their cycles go, and its size.

Points that were published for the real chip lie at 0.06 to 0.22 of the memory's roofline in
decoding, and at 0.14 to 0.26 of its peak in prefill.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gen.kernels.program import TileProgram, build
from gen.models.model import Model
from gen.package import generate
from rtl.config import TileConfig
from sim.activity import activities, moved
from sim.area import area
from sim.estimate.report import CONTEXT, DECODE_TARGETS, PREFILL_TARGET, useful_planes
from sim.estimate.workloads import WORKLOADS
from sim.figures import Figure
from sim.profile import Phase, profile
from sim.progress import ProgressReporter
from sim.tile import RunningTile, TileSession, TileSimulation, simulate
from sim.traffic import DecodeTraffic

DECODE = ("glassllm", "gpt-oss-shaped layer")
"""Of these the smaller figure is that of the tile; others are reported."""

CHOICES: Mapping[str, Mapping[str, Any]] = {
    "in_order": {"window": 1},
    "no_prefetch": {"prefetch": False},
    "no_pairing": {"pairing": False},
    "no_ecc": {"ecc": False},
    "hbm4-8000": {"timing": "hbm4-8000"},
}
"""What can be turned off, or be otherwise, at run time."""

BLOCKS = (
    *("core", "control", "operand_stream", "matrix", "vector", "memory", "cache", "vectors"),
    *("rows", "slice", "host"),
)
"""Parts of the tile whose sizes are told, as their modules are called."""


def run(
    config: TileConfig, progress: ProgressReporter, out_dir: Path = Path("build")
) -> list[Figure]:
    """Measure a tile.

    Parameters
    ----------
    config
        The configuration.
    progress
        Where to show what takes its time.
    out_dir
        Directory for the package of the tile.

    Raises
    ------
    HardwareError
        If something goes wrong in the hardware.
    ToolError
        If a tool is missing or failed.
    """
    with progress.task("generating the tile"):
        package = generate("tile", config, out_dir)
    models = {name: make() for name, make in WORKLOADS.items()}
    programs = {name: build(model, config) for name, model in models.items()}
    memory = max(program.stored.map.end for program in programs.values())
    with progress.task("compiling a simulator: two minutes, the first time"):
        simulation = simulate(package, memory)
    figures, decoded, phases = [], {}, {}
    for name, model in models.items():
        with progress.task(f"running {name}"), simulation.start() as tile:
            figure, phases[name] = _decode(name, model, programs[name], tile)
            decoded[name] = figure
    worst = min((decoded[name] for name in DECODE), key=lambda figure: figure.value)
    figures.append(
        Figure("tile.decode_roofline", worst.value, "", worst.workload, 1.0, DECODE_TARGETS[0])
    )
    glassllm = "glassllm"
    with progress.task("running a prompt"), simulation.start() as tile:
        figures += _prefill(models[glassllm], programs[glassllm], tile)
    figures += decoded.values()
    for choice, settings in CHOICES.items():
        with progress.task(f"running {choice}"), simulation.start(settings) as tile:
            figure, _ = _decode(glassllm, models[glassllm], programs[glassllm], tile, choice)
            figures.append(figure)
    figures += [_phase(name, phase) for name in phases for phase in phases[name]]
    return [*figures, *_sizes(simulation, progress)]


def _decode(
    name: str, model: Model, program: TileProgram, tile: RunningTile, choice: str = ""
) -> tuple[Figure, list[Phase]]:
    """Return the fraction of the roofline of the last token of a context, and its phases."""
    session = TileSession(program, tile)
    tokens = [1 + i for i in range(CONTEXT)]
    session.advance(tokens[:-1])
    record = session.record(tokens[-1:])
    needed = DecodeTraffic(model, CONTEXT).bytes / tile.config.beat_bytes
    suffix = f".{choice}" if choice else ""
    figure = Figure(
        f"tile.decode_roofline.{name.split('-shaped')[0]}{suffix}",
        needed / len(record),
        "",
        f"{name}, context {CONTEXT}: {needed:,.0f} beats needed, {len(record):,} cycles",
        1.0,
    )
    return figure, profile(tile.config, record, program.program)


def _prefill(model: Model, program: TileProgram, tile: RunningTile) -> list[Figure]:
    """Return the fraction of the array's peak over a prompt, what the parts did, and the speed."""
    session = TileSession(program, tile)
    before, start = tile.counters(), time.perf_counter()
    session.advance([1 + i for i in range(CONTEXT)])
    seconds, (cycles,) = time.perf_counter() - start, session.cycles
    needed = useful_planes(model, CONTEXT) / tile.config.macs_per_cycle
    workload = f"{model.name}, {CONTEXT} tokens: {needed:,.0f} cycles at peak, {cycles:,} taken"
    figures = [Figure("tile.prefill_peak", needed / cycles, "", workload, 1.0, PREFILL_TARGET)]
    for activity in activities(tile.config, moved(before, tile.counters())):
        figures.append(
            Figure(
                f"tile.active.{activity.part.replace('/', '_').replace(' ', '_')}",
                activity.active,
                "of cycles",
                f"in prefill, with {activity.work}; dark {activity.dark:.2f}",
                1.0,
            )
        )
    speed = cycles / seconds
    return [*figures, Figure("tile.speed", speed, "cycles/s", "simulated, on this machine")]


def _phase(name: str, phase: Phase) -> Figure:
    lost = ", ".join(f"{cause} {count:,}" for cause, count in phase.lost.most_common())
    part = phase.name.replace(", ", "_").replace(" ", "_")
    return Figure(
        f"tile.lost.{name.split('-shaped')[0]}.{part}",
        phase.lost.total(),
        "cycles",
        f"of {phase.cycles:,}; lost to {lost}" if lost else f"of {phase.cycles:,}",
    )


def _sizes(simulation: TileSimulation, progress: ProgressReporter) -> list[Figure]:
    """Return the cells of each part."""
    package, figures = simulation.package, []
    text = package.verilog.read_text()
    for block in BLOCKS:
        top = f"{package.manifest['top']}__{block}"
        with progress.task(f"synthesising {top}: vector and matrix take a while, the first time"):
            found = area(text, top, memory="separate", language="verilog")
        figures.append(
            Figure(
                f"tile.cells.{block}",
                found.cells,
                "cells",
                f"{found.flops:,} flip-flops, {found.memory_bits:,} bits of memory, depth "
                f"{found.depth}",
            )
        )
    total = sum(figure.value for figure in figures)
    return [*figures, Figure("tile.cells", total, "cells", "all of these")]
