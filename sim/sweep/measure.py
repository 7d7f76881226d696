"""Measure a point: generate, read, count, run and check; whatever goes wrong becomes a row."""

from __future__ import annotations

import datetime
import re
import time
from typing import Any

from rtl.config import TileConfig
from sim.sweep import workloads
from sim.sweep.blocks import run_hbm, run_mac, run_ring, run_vec
from sim.sweep.energy import EnergyTable
from sim.sweep.outcome import Outcome
from sim.sweep.packages import generated
from sim.sweep.physical import measure_block
from sim.sweep.points import Point
from sim.sweep.store import Row
from sim.sweep.tokens import run_tokens
from sim.sweep.versions import tools, tools_hash
from sim.sweep.workloads import Workload, block_of


class OtherTools(Exception):
    """A worker has other tools or sources than the one that wants a point measured."""


def measure(point: Point, sweep: str, table: EnergyTable, expected_tools: str) -> Row:
    """Return the result of a point.

    Parameters
    ----------
    point
        What to measure.
    sweep
        Name of the sweep.
    table
        Energies.
    expected_tools
        Hash of the tools that the result shall be of.

    Raises
    ------
    OtherTools
        The tools here are others. Every other fault is told by the row.
    """
    if tools_hash() != expected_tools:
        raise OtherTools(
            "A worker has other tools or sources than this process; give all the same checkout, "
            "and start again."
        )
    if point.refusal:
        return failure(point, sweep, point.refusal)
    start = time.perf_counter()
    try:
        config = point.config
        package = generated(block_of(point.workload), config)
        metrics = measure_block(package, point.measure)
        outcome = run(config, point.workload)
    except Exception as error:
        return failure(point, sweep, explain(error))
    metrics |= _numbers(config, outcome)
    metrics["seconds"] = time.perf_counter() - start
    row = Row(
        **_facts(point, sweep),
        status="ok",
        reason="",
        metrics=metrics,
        work_unit=outcome.work_unit,
        least_is=outcome.limit,
        events=outcome.events,
        figures=outcome.figures,
    )
    return row.priced(table)


def run(config: TileConfig, workload: Workload) -> Outcome:
    """Run a workload on the RTL of a configuration, with its functional check.

    Raises
    ------
    HardwareError
        If the hardware did something wrong.
    """
    match workload:
        case workloads.Mac():
            return run_mac(config, workload)
        case workloads.Vec():
            return run_vec(config, workload)
        case workloads.Hbm():
            if workload.limits.timing:
                config = config.replace(timing=workload.limits.timing)
            return run_hbm(config, workload)
        case workloads.Ring():
            return run_ring(config, workload)
        case _:
            return run_tokens(config, workload)


def failure(point: Point, sweep: str, reason: str) -> Row:
    """Return the row of a point that could not be measured."""
    return Row(**_facts(point, sweep), status="failed", reason=reason)


def explain(error: BaseException) -> str:
    """Return why, in a few words: what tools say of each other's logs is left out."""
    kind = type(error)
    text = re.sub(r"; log \S+", "", str(error)).strip()
    first = " ".join(text.splitlines()[:3])[:400]
    ours = kind.__module__.partition(".")[0] in ("rtl", "gen", "sim")
    return first if ours and first else f"{kind.__name__}: {first}".rstrip(": ")


def _facts(point: Point, sweep: str) -> dict[str, Any]:
    return {
        "key": point.key(tools_hash()),
        "sweep": sweep,
        "label": point.workload.name,
        "configuration": point.fields,
        "workload": point.workload.content,
        "measured": point.measure.content,
        "tools": tools(),
        "varied": point.varied,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
    }


def _numbers(config: TileConfig, outcome: Outcome) -> dict[str, float]:
    numbers: dict[str, float] = {
        "cycles": outcome.cycles,
        "throughput": 1e6 * outcome.work / outcome.cycles,
        "work": outcome.work,
        "compared": outcome.compared,
    }
    if outcome.least_cycles:
        numbers["least_cycles"] = outcome.least_cycles
        numbers["roofline"] = outcome.least_cycles / outcome.cycles
    if outcome.needed_bytes:
        numbers["needed_bytes"] = outcome.needed_bytes
        numbers["peak_bytes"] = config.beat_bytes
    if outcome.operations:
        numbers["operations"] = outcome.operations
        numbers["peak_operations"] = config.macs_per_cycle
    return numbers
