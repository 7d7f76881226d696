"""Results, sorted by what ran, and what of them is worth drawing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim.figures import format_number
from sim.sweep.metrics import METRICS
from sim.sweep.store import Row

AREAS = ("area_um2", "cells", "lut4")
"""Metrics that say how large a configuration is, the preferred one first."""

NAMED = 3
"""Axes in the name of a point."""


@dataclass(frozen=True)
class Group:
    """Points that ran the same.

    Attributes
    ----------
    name
        What their workload is called.
    about
        What it is, as a phrase.
    rows
        Those that were measured.
    axes
        What differs between them, with all values in order.
    """

    name: str
    about: str
    rows: Sequence[Row]
    axes: Mapping[str, Sequence[Any]]

    @property
    def area(self) -> str | None:
        """The metric that says how large points are; nothing if their area was not measured."""
        return next((n for n in AREAS if all(n in row.metrics for row in self.rows)), None)

    @property
    def metrics(self) -> list[str]:
        """Metrics that some point has."""
        return [name for name in METRICS if any(name in row.metrics for row in self.rows)]

    def has(self, *names: str) -> bool:
        """Return whether every point has these metrics."""
        return all(name in row.metrics for row in self.rows for name in names)

    def label(self, name: str) -> str:
        """Return a metric's name and unit, as an axis says them; of throughput, of what it is."""
        metric, (unit, *_) = METRICS[name], [row.work_unit for row in self.rows]
        return f"throughput [{unit} {metric.unit}]" if name == "throughput" else metric.title

    def title(self, row: Row) -> str:
        """Return what tells a point from the others."""
        return ", ".join(f"{short(axis)} {text(value_of(row, axis))}" for axis in self.axes)


@dataclass(frozen=True)
class Results:
    """Everything that is shown.

    Attributes
    ----------
    groups
        Measured points by what ran.
    failed
        Points that were not measured.
    """

    groups: Sequence[Group]
    failed: Sequence[Row]

    @property
    def rows(self) -> list[Row]:
        """Every result."""
        return [*(row for group in self.groups for row in group.rows), *self.failed]


def sort(rows: Sequence[Row]) -> Results:
    """Return results sorted for a report."""
    by_content: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.ok:
            content = {name: value for name, value in row.workload.items() if name != "limits"}
            key = row.label, json.dumps(content, sort_keys=True)
            by_content.setdefault(key, []).append(row)
    groups = [
        Group(label, _about(json.loads(content)), found, _axes(found))
        for (label, content), found in by_content.items()
    ]
    return Results(groups, [row for row in rows if not row.ok])


def value_of(row: Row, axis: str) -> Any:
    """Return the value of a field of the configuration or of a limit."""
    if axis.startswith("limits."):
        return row.workload.get("limits", {}).get(axis.removeprefix("limits."))
    value = row.configuration.get(axis)
    return tuple(value) if isinstance(value, list) else value


def front(rows: Sequence[Row], cost: str, gain: str) -> list[Row]:
    """Return the points that no other beats: none is as cheap and better, or as good and cheaper.

    Parameters
    ----------
    rows
        Points that have both metrics.
    cost
        Metric of which less is better.
    gain
        Metric whose own `best` counts.

    Returns
    -------
    list of Row
        By increasing cost; of equal points one.
    """
    sign = -1 if METRICS[gain].best == "low" else 1
    found: list[Row] = []
    for row in sorted(rows, key=lambda row: (row.metrics[cost], -sign * row.metrics[gain])):
        if not found or sign * row.metrics[gain] > sign * found[-1].metrics[gain]:
            found.append(row)
    return found


def text(value: Any) -> str:
    """Return a value as people write it."""
    match value:
        case None:
            return "as built"
        case bool():
            return "on" if value else "off"
        case int() | float():
            return format_number(value)
        case list() | tuple():
            return "x".join(map(str, value))
        case _:
            return str(value)


def short(axis: str) -> str:
    """Return the name of an axis without its kind."""
    return axis.removeprefix("limits.").replace("_", " ")


def _axes(rows: Sequence[Row]) -> dict[str, list[Any]]:
    names = dict.fromkeys(axis for row in rows for axis in row.varied)
    axes = {}
    for name in names:
        values = list(dict.fromkeys(value_of(row, name) for row in rows))
        if len(values) > 1:
            axes[name] = sorted(values, key=_order)
    return axes


def _order(value: Any) -> tuple[bool, bool, float, str]:
    number = isinstance(value, int | float)
    return value is None, not number, float(value) if number else 0.0, str(value)


def _about(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != "kind" and value != {}}
    facts = ", ".join(f"{short(name)} {text(value)}" for name, value in rest.items())
    return f"{content['kind']}: {facts}" if facts else str(content["kind"])
