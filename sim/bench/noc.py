"""Figures of the network on chip: throughput, latency and fairness under Verilator, size by Yosys.

Meshes of 4x4 and 8x8 are measured, with flits of 8 bytes and the buffers of the configuration; the
router that is synthesised is theirs. Packets have one flit. Sources make them at random and keep up
to 2,000 in a queue, sinks are always ready.

``noc.<pattern><mesh>`` is what each tile gets through when all want to send in every cycle, and
``….last_load`` the last load, in steps of 0.02, at which the mean latency is at most three times
that without load. Latency counts from when a packet could first have entered.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from rtl.config import Mesh, TileConfig
from rtl.noc.router import Router
from rtl.noc.shares import count_bits
from sim import verilator
from sim.area import area
from sim.figures import Figure
from sim.mac import HardwareError
from sim.noc import FLIT_BYTES, PATTERNS, fair_shares, harness, saturation
from sim.progress import ProgressReporter

MESHES = (Mesh(4, 4), Mesh(8, 8))
SMALL = MESHES[0]

CELLS_TARGET = 8_500
UNIFORM_TARGET = 0.70
FAIR_TARGET = 0.7
LAST_LOAD_TARGETS = {"transpose": 0.32, "complement": 0.48}
"""For the smaller mesh."""


def run(config: TileConfig, progress: ProgressReporter) -> list[Figure]:
    """Measure the network on chip.

    Parameters
    ----------
    config
        The configuration; of it, `noc_buffer` counts.
    progress
        Where to show what takes its time.

    Raises
    ------
    HardwareError
        If a packet is lost, changed, or out of order.
    ToolError
        If a tool is missing or failed.
    """
    measured = {}
    for mesh in MESHES:
        shape = config.replace(mesh=list(mesh), flit_bytes=FLIT_BYTES)
        measured[mesh] = measure(shape, ["single", "full"], progress)
    figures = [_per_hop(measured)]
    fairness = {}
    for mesh, report in measured.items():
        for name, pattern in PATTERNS.items():
            found = report[name]
            figures += _throughput(name, mesh, found)
            shares = fair_shares(pattern, mesh)
            fairness[f"{name}{mesh}"] = min(
                injected / min(share, found["accepted"])
                for injected, share in zip(found["injected"], shares, strict=True)
            )
    worst = min(fairness, key=fairness.__getitem__)
    figures.append(
        Figure(
            "noc.min_node",
            fairness[worst],
            "of its share",
            f"weakest tile at full load, of the lesser of its max-min fair share and the mean; "
            f"{worst} is the worst of {len(fairness)} patterns",
            target=FAIR_TARGET,
        )
    )
    return figures + sizes(config, progress)


def measure(config: TileConfig, tests: list[str], progress: ProgressReporter) -> dict[str, Any]:
    """Return the report of some tests of `tb.run_noc`.

    Raises
    ------
    HardwareError
        If a packet is lost, changed, or out of order.
    ToolError
        If a tool is missing or failed.
    """
    with progress.task(f"generating a mesh of {config.mesh}"):
        found = harness(config)
    with progress.task("compiling a simulator: minutes, the first time"):
        build = verilator.build(found.sources, found.top, found.ports, asserts=False)
    work = Path(tempfile.mkdtemp(prefix="jalapeno-noc-"))
    report = work / "report.json"
    report.write_text("{}")
    with progress.task(f"running all patterns on {config.mesh}"):
        results = build.run(
            "tb.run_noc",  # by name: testbenches import this package, not the other way round
            seed=0,
            work_dir=work,
            testcases=tests,
            env={"JALAPENO_CONFIG": config.to_json(), "JALAPENO_REPORT": str(report)},
        )
    for name, message in results.failed.items():
        reason = message.partition("\n")[0]
        raise HardwareError(f"The mesh failed in {name}: {reason}; log {results.log}")
    measured = json.loads(report.read_text())
    shutil.rmtree(work)
    return measured


def _per_hop(measured: dict[Mesh, dict[str, Any]]) -> Figure:
    """Return by how much a packet is later for each link more on its way, at worst."""
    single = [
        (int(hops), latency)
        for report in measured.values()
        for hops, latencies in report["single"].items()
        for latency in latencies
    ]
    none = max(latency for hops, latency in single if hops == 0)
    return Figure(
        "noc.cycles_per_hop",
        max((latency - none) / hops for hops, latency in single if hops),
        "cycles",
        f"{len(single)} packets that were alone; {none} cycle without a hop",
        bound=1,
        target=1,
        at_most=True,
    )


def _throughput(name: str, mesh: Mesh, found: dict[str, Any]) -> list[Figure]:
    small = mesh == SMALL
    weakest, strongest = min(found["injected"]), max(found["injected"])
    return [
        Figure(
            f"noc.{name}{mesh}",
            found["accepted"],
            "flits/tile/cycle",
            f"full load; tiles from {weakest:.3f} to {strongest:.3f}",
            target=UNIFORM_TARGET if small and name == "uniform" else None,
        ),
        Figure(
            f"noc.{name}{mesh}.last_load",
            found["last_load"],
            "flits/tile/cycle",
            f"{found['idle']:.2f} cycles without load, at most triple with it",
            bound=saturation(PATTERNS[name], mesh),
            target=LAST_LOAD_TARGETS.get(name) if small else None,
        ),
    ]


def sizes(config: TileConfig, progress: ProgressReporter) -> list[Figure]:
    """Return size and depth of the router of the smaller mesh."""
    router = Router(FLIT_BYTES, config.noc_buffer, count_bits(SMALL))
    with progress.task("synthesising a router"):
        found = area(rtlil.convert(router, name="top", emit_src=False), "top")
    assert found.depth is not None
    what = (
        f"5 ports, {config.noc_buffer} slots each, flits of {8 * FLIT_BYTES} bits and the mark of "
        f"the last"
    )
    return [
        Figure(
            "noc.router_cells",
            found.total,
            "cells",
            f"{what}; {found.flops:,} flip-flops",
            target=CELLS_TARGET,
            at_most=True,
        ),
        Figure("noc.router_depth", found.depth, "gates", "its longest path, input to output"),
    ]
