"""Plots for the page, by plotly: every point says what it is when it is pointed at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import plotly.graph_objects as go

from sim.report.data import Group, front, short, text, value_of
from sim.sweep.metrics import METRICS
from sim.sweep.store import Row

BLUE, ORANGE, GREY = "#4878a8", "#d1603d", "#8a8a8a"
PALETTE = (BLUE, ORANGE, "#5a9e6f", "#8d6cab", "#c2a13f", "#5bb0b8", "#b0578d", "#6b6b6b")
HEIGHT = 420

Plot = tuple[str, go.Figure]
"""A caption, which says how to read it, and the plot."""


def plots(group: Group) -> Iterator[Plot]:
    """Yield what there is to see of a group."""
    if group.area:
        for gain in ("throughput", "cycles", "energy_pj"):
            if group.has(gain):
                yield _pareto(group, group.area, gain)
    if group.has("operations", "needed_bytes", "peak_bytes", "peak_operations"):
        yield _roofline(group)
    target = "roofline" if group.has("roofline") else "cycles"
    for axis, values in group.axes.items():
        if len(group.axes) > 1 and len(values) > 1:
            yield _along(group, axis, target)
    if len(group.axes) > 1:
        yield _parallel(group)


def hover(group: Group, row: Row) -> str:
    """Return what a point says of itself."""
    shown = [name for name in METRICS if name in row.metrics and METRICS[name].best]
    numbers = [f"{group.label(name)}: {text(row.metrics[name])}" for name in shown]
    return "<br>".join([f"<b>{group.title(row) or group.name}</b>", *numbers])


def _figure(x: str, y: str, **more: Any) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        template="simple_white",
        height=HEIGHT,
        margin={"l": 70, "r": 20, "t": 50, "b": 60},
        xaxis_title=x,
        yaxis_title=y,
        hoverlabel={"align": "left"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "font": {"size": 11}},
        **more,
    )
    return figure


def _pareto(group: Group, cost: str, gain: str) -> Plot:
    best = front(group.rows, cost, gain)
    rest = [row for row in group.rows if row not in best]
    figure = _figure(group.label(cost), group.label(gain))
    for name, rows, colour, mode in (
        ("dominated: another point is smaller and no worse", rest, GREY, "markers"),
        ("Pareto front", best, ORANGE, "lines+markers"),
    ):
        figure.add_scatter(
            x=[row.metrics[cost] for row in rows],
            y=[row.metrics[gain] for row in rows],
            text=[hover(group, row) for row in rows],
            hovertemplate="%{text}<extra></extra>",
            mode=mode,
            name=name,
            line={"shape": "hv", "width": 1, "color": colour},
            marker={"size": 9, "color": colour},
        )
    better = "down" if METRICS[gain].best == "low" else "up"
    return (
        f"{short(gain).capitalize()} against area. Better is left and {better}; on the line are "
        "the points that no other beats in both.",
        figure,
    )


def _roofline(group: Group) -> Plot:
    figure = _figure(
        "useful operations per byte that must move", "useful operations per cycle",
        xaxis_type="log", yaxis_type="log",
    )  # fmt: skip
    rows = group.rows
    intensities = [row.metrics["operations"] / row.metrics["needed_bytes"] for row in rows]
    low, high = min(intensities) / 8, max(intensities) * 8
    roofs = dict.fromkeys(
        (row.metrics["peak_operations"], row.metrics["peak_bytes"]) for row in rows
    )
    for number, (peak, bandwidth) in enumerate(roofs):
        xs = sorted({low, high, min(max(peak / bandwidth, low), high)})
        figure.add_scatter(
            x=xs,
            y=[min(peak, bandwidth * x) for x in xs],
            mode="lines",
            name=f"roof: {text(bandwidth)} bytes and {text(peak)} operations per cycle",
            line={"color": PALETTE[number % len(PALETTE)], "width": 1.5},
        )
    figure.add_scatter(
        x=intensities,
        y=[row.metrics["operations"] / row.metrics["cycles"] for row in rows],
        text=[hover(group, row) for row in rows],
        hovertemplate="%{text}<extra></extra>",
        mode="markers",
        name="measured on the RTL",
        marker={"size": 8, "color": ORANGE, "symbol": "diamond"},
    )
    return (
        "Roofline. An operation is a useful multiply-accumulate of 4x4 bits; 8-bit operands count "
        "twice each. The slope is what memory brings, the flat part what the array can do; the "
        "nearer to the roof the better.",
        figure,
    )


def _along(group: Group, axis: str, target: str) -> Plot:
    """Return a line per combination of the other axes, for each of which one value changes."""
    figure = _figure(short(axis), group.label(target))
    others = [name for name in group.axes if name != axis]
    lines: dict[tuple[Any, ...], list[Row]] = {}
    for row in group.rows:
        lines.setdefault(tuple(value_of(row, name) for name in others), []).append(row)
    order = {value: number for number, value in enumerate(group.axes[axis])}
    for number, (values, rows) in enumerate(lines.items()):
        rows.sort(key=lambda row: order[value_of(row, axis)])
        name = ", ".join(f"{short(o)} {text(v)}" for o, v in zip(others, values, strict=True))
        figure.add_scatter(
            x=[text(value_of(row, axis)) for row in rows],
            y=[row.metrics[target] for row in rows],
            text=[hover(group, row) for row in rows],
            hovertemplate="%{text}<extra></extra>",
            mode="lines+markers",
            name=name,
            line={"color": PALETTE[number % len(PALETTE)], "width": 1.2},
        )
    figure.update_xaxes(
        type="category", categoryorder="array", categoryarray=[text(v) for v in group.axes[axis]]
    )
    figure.update_layout(
        showlegend=len(lines) <= 12,
        legend={"orientation": "v", "y": 1, "yanchor": "top", "font": {"size": 10}},
    )
    return (
        f"What {short(axis)} does: a line for each choice of everything else.",
        figure,
    )


def _parallel(group: Group) -> Plot:
    names = [name for name in ("roofline", "throughput", group.area, "energy_pj") if name]
    metrics = [name for name in names if group.has(name)]
    dimensions: list[dict[str, Any]] = []
    for axis, values in group.axes.items():
        positions = {value: number for number, value in enumerate(values)}
        dimensions.append(
            {
                "label": short(axis),
                "values": [positions[value_of(row, axis)] for row in group.rows],
                "tickvals": list(positions.values()),
                "ticktext": [text(value) for value in values],
            }
        )
    for name in metrics:
        values = [row.metrics[name] for row in group.rows]
        dimensions.append({"label": group.label(name), "values": values})
    colours: Sequence[float] = [row.metrics[metrics[0]] for row in group.rows] if metrics else []
    figure = go.Figure(
        go.Parcoords(
            dimensions=dimensions,
            line={"color": colours, "colorscale": "Viridis", "showscale": False},
        )
    )
    figure.update_layout(height=HEIGHT, margin={"l": 90, "r": 60, "t": 60, "b": 30})
    note = f"; bright is a high {short(metrics[0])}" if metrics else ""
    return (
        f"Every line is a point{note}. Drag along an axis to keep the lines that cross there; "
        "click beside it to let go.",
        figure,
    )
