"""What `jalapeno sweep` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sim.figures import format_number
from sim.progress import ProgressReporter
from sim.sweep.points import Point, expand, points
from sim.sweep.run import sweep
from sim.sweep.spec import Spec
from sim.sweep.store import Row, Store
from sim.sweep.versions import tools_hash

SHOWN = ("cycles", "roofline", "throughput", "cells", "lut4", "area_um2", "frequency_mhz", "depth",
         "energy_pj")  # fmt: skip
"""Metrics in the table on the terminal."""


def run(spec: Spec, path: Path, progress: ProgressReporter, **options: Any) -> list[Row]:
    """Run a sweep into the store at `path`; `options` are those of `sim.sweep.run.sweep`."""
    with Store(path) as store:
        return sweep(spec, store, progress, **options)


def plan(spec: Spec, path: Path) -> list[dict[str, Any]]:
    """Return what would be measured, without measuring; of a search, only its workloads."""
    tools = tools_hash()
    listed = expand(spec) if spec.search is None else points(spec, [{}])
    if not path.is_file():
        return [_planned(point, "to measure") for point in listed]
    with Store(path, existing=True) as store:
        found = [(point, store.get(point.key(tools))) for point in listed]
    return [_planned(point, row.status if row else "to measure") for point, row in found]


def _planned(point: Point, state: str) -> dict[str, Any]:
    return {
        "workload": point.workload.name,
        **{axis: _plain(value) for axis, value in point.varied.items()},
        "config_hash": point.config_hash,
        "workload_hash": point.workload_hash,
        "state": f"refused: {point.refusal}" if point.refusal else state,
    }


def facts(spec: Spec, path: Path, rows: Sequence[Row]) -> dict[str, Any]:
    """Return a finished sweep as plain JSON values."""
    return {
        "sweep": spec.name,
        "store": str(path),
        "points": [row.to_dict() for row in rows],
        "failed": sum(not row.ok for row in rows),
    }


def table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows as a table for people: what was varied, and what came out."""
    axes = unique(axis for row in rows for axis in row.varied)
    shown = [name for name in SHOWN if any(name in row.metrics for row in rows)]
    return [
        {
            "workload": row.label,
            **{axis: _plain(row.varied.get(axis, "")) for axis in axes},
            **{
                name: format_number(row.metrics[name]) if name in row.metrics else ""
                for name in shown
            },
            "result": row.reason or "checked",
        }
        for row in rows
    ]


def summary(path: Path, rows: Sequence[Row]) -> str:
    """Return a sentence about how it went."""
    states = Counter(row.status for row in rows)
    failed = f", {states['failed']} failed" if states["failed"] else ""
    return f"{states['ok']} points measured and checked{failed}; see jalapeno report {path}"


def unique(names: Iterable[str]) -> list[str]:
    """Return names without repetition, in their order."""
    return list(dict.fromkeys(names))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else str(value)
