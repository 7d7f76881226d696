"""Figures of the ring: cycles under Verilator, and the size of a node by Yosys.

Rings of several sizes are simulated, each with the registers of its tiles, which are made long
enough for the largest size; nothing else depends on how long they are but the width of counters.

A node of N tiles must get ``(N - 1) / N`` of what is gathered over two links, and the farthest flit
goes ``N // 2`` hops. Collectives of others reach 0.82 of the wires (ring all-reduce on eight H100,
nccl-tests) to 0.95 (in-network reduction, SHARP).
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from gen.blocks import find
from gen.verilog import emit
from rtl.config import TileConfig
from rtl.core.isa import PHYSICAL_VECTORS
from rtl.ring import RingEngine
from rtl.ring.geometry import WORD_BYTES, RingGeometry
from sim import verilator
from sim.area import area
from sim.figures import Figure
from sim.mac import HardwareError
from sim.progress import ProgressReporter

TILES = (2, 3, 4, 8, 16)
"""Rings that are measured."""

SIZE = 64 << 10
"""Bytes of the largest whole, a register."""

TARGETS = {4 << 10: 0.90, SIZE: 0.97}
BARRIER_TARGET = 8

PASSES = {"broadcast": 1, "reduce_scatter": 1, "allreduce": 2, "maximum": 2}
"""Operations beside the all-gather, and how often what is reduced goes around."""

Measured = Mapping[int, Mapping[str, Any]]
"""What was measured, by number of tiles."""


def bound(tiles: int, size: int, config: TileConfig) -> int:
    """Return the cycles that gathering `size` bytes takes at least.

    Parameters
    ----------
    tiles
        How many there are.
    size
        Bytes of the whole.
    config
        Of a tile.
    """
    both_links = 2 * WORD_BYTES * RingGeometry(config).flit_words
    return -(-(tiles - 1) * size // (tiles * both_links)) + tiles // 2


def run(config: TileConfig, progress: ProgressReporter) -> list[Figure]:
    """Measure the ring of a configuration.

    Parameters
    ----------
    config
        The configuration of a tile.
    progress
        Where to show what takes its time.

    Raises
    ------
    HardwareError
        If a result has a wrong bit.
    ToolError
        If a tool is missing or failed.
    """
    measured = measure(config, progress)
    return [
        *gathers(config, measured),
        *others(config, measured),
        *barriers(measured),
        node(config, progress),
    ]


def gathers(config: TileConfig, measured: Measured) -> list[Figure]:
    """Return the all-gathers: the worst ring at each size that has a target, then every ring."""
    figures = []
    for size, target in TARGETS.items():
        shares = {
            n: bound(n, size, config) / m["allgather"][str(size)] for n, m in measured.items()
        }
        cycles = ", ".join(f"{n}: {m['allgather'][str(size)]:,}" for n, m in measured.items())
        worst = min(shares.values())
        workload = f"the worst of these rings; cycles by number of tiles: {cycles}"
        figures.append(
            Figure(f"ring.allgather.{size >> 10}KiB", worst, "of bound", workload, 1.0, target)
        )
    for n, m in measured.items():
        size = n * WORD_BYTES
        figures.append(
            Figure(
                f"ring.allgather.word.{n}_tiles",
                m["allgather"][str(size)],
                "cycles",
                f"a word of each tile, {size} bytes: latency",
                bound(n, size, config),
            )
        )
    return figures


def others(config: TileConfig, measured: Measured) -> list[Figure]:
    """Return the other operations, on the largest ring."""
    n = max(measured)
    figures = []
    for name, passes in PASSES.items():
        least = passes * bound(n, SIZE, config)
        if name == "broadcast":  # the whole comes in, not all but a share
            least = SIZE // (2 * WORD_BYTES * RingGeometry(config).flit_words) + n // 2
        cycles = measured[n][name]
        workload = f"{SIZE >> 10} KiB on {n} tiles in {cycles:,} cycles, at least {least:,}"
        figures.append(Figure(f"ring.{name}", least / cycles, "of bound", workload, 1.0))
    return figures


def barriers(measured: Measured) -> list[Figure]:
    """Return what barriers take beyond the number of tiles: the worst."""
    taken = {n: max(m["barrier"].values()) for n, m in measured.items()}
    cycles = ", ".join(f"{n}: {cycles}" for n, cycles in taken.items())
    return [
        Figure(
            "ring.barrier",
            max(cycles - n for n, cycles in taken.items()),
            "cycles",
            f"from the last arrival to the last release, beyond N; cycles by N: {cycles}",
            target=BARRIER_TARGET,
            at_most=True,
        )
    ]


def node(config: TileConfig, progress: ProgressReporter) -> Figure:
    """Return the size of a node of the configuration itself."""
    text = rtlil.convert(RingEngine(config), name="top", emit_src=False)
    with progress.task("synthesising a node"):
        found = area(text, "top", memory="separate")
    workload = (
        f"a node: {found.flops:,} flip-flops, {found.memory_bits:,} bits of queues, "
        f"depth {found.depth}"
    )
    return Figure("ring.node_cells", found.cells, "cells", workload)


def measure(
    config: TileConfig, progress: ProgressReporter, rings: Sequence[int] = TILES
) -> Measured:
    """Simulate rings of several sizes and return what was measured.

    Parameters
    ----------
    config
        The configuration of a tile.
    progress
        Where to show what takes its time.
    rings
        Numbers of tiles.

    Raises
    ------
    HardwareError
        If a result has a wrong bit.
    ToolError
        If a tool is missing or failed.
    """
    length = max(config.vector_bytes, PHYSICAL_VECTORS * SIZE)
    return {
        tiles: _simulate(config.replace(mesh=f"{tiles}x1", vector_bytes=length), progress)
        for tiles in rings
    }


def _simulate(config: TileConfig, progress: ProgressReporter) -> dict[str, Any]:
    tiles = config.tiles
    with progress.task(f"generating a ring of {tiles} tiles: half a minute"):
        design = emit(find("ring").build(config), "ring", config)
    ports = [port.name for port in design.ports]
    with progress.task("compiling a simulator: some minutes, the first time"):
        build = verilator.build({f"{design.top}.sv": _shortened(design.text)}, design.top, ports)
    work = Path(tempfile.mkdtemp(prefix="jalapeno-ring-"))
    report = work / "report.json"
    with progress.task(f"running collectives on {tiles} tiles"):
        results = build.run(
            "tb.ring_bench",  # by name: testbenches import this package, not the other way round
            seed=0,
            work_dir=work,
            env={"JALAPENO_CONFIG": config.to_json(), "JALAPENO_REPORT": str(report)},
        )
    for name, message in results.failed.items():
        reason = message.partition("\n")[0]
        raise HardwareError(f"The ring failed in {name}: {reason}; log {results.log}")
    measured = json.loads(report.read_text())
    shutil.rmtree(work)
    return measured


def _shortened(text: str) -> str:
    """Return Verilog without the statements that say of each line of registers that it begins as 0.

    It does anyway. With registers as long as these, they are nearly all of the text, and take
    the compiler minutes.
    """
    return re.sub(r"^ +\w+\[\d+\] = \d+'h0+;\n", "", text, flags=re.MULTILINE)
