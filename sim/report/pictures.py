"""The same plots as pictures, by matplotlib, for documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot
from matplotlib.axes import Axes

from sim.report.data import Group, front, short, text, value_of
from sim.report.interactive import GREY, ORANGE, PALETTE
from sim.sweep.metrics import METRICS
from sim.sweep.store import Row

STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 130,
}


def pictures(group: Group, folder: Path, stem: str) -> Iterator[Path]:
    """Write the pictures of a group, and yield their files."""
    mpl.use("agg")
    if group.area:
        for gain in ("throughput", "cycles"):
            if group.has(gain):
                yield _save(folder / f"{stem}-pareto-{gain}.png", _pareto, group, gain)
    if group.has("operations", "needed_bytes", "peak_bytes", "peak_operations"):
        yield _save(folder / f"{stem}-roofline.png", _roofline, group)
    if len(group.axes) > 1:
        yield _save(folder / f"{stem}-axes.png", _axes, group)
        yield _save(folder / f"{stem}-parallel.png", _parallel, group)


def _save(path: Path, draw: Any, *arguments: Any) -> Path:
    with mpl.rc_context(STYLE):
        figure = draw(*arguments)
        figure.savefig(path, metadata={"Software": None})
        pyplot.close(figure)
    return path


def _pareto(group: Group, gain: str) -> Any:
    cost = group.area
    assert cost is not None
    figure, axis = pyplot.subplots(figsize=(5.6, 3.6), layout="constrained")
    best = front(group.rows, cost, gain)
    for rows, colour, label in (
        ([row for row in group.rows if row not in best], GREY, "dominated"),
        (best, ORANGE, "Pareto front"),
    ):
        x = [row.metrics[cost] for row in rows]
        axis.scatter(x, [row.metrics[gain] for row in rows], s=22, c=colour, label=label, zorder=3)
    xs, ys = [row.metrics[cost] for row in best], [row.metrics[gain] for row in best]
    axis.step(xs, ys, where="post", color=ORANGE, linewidth=1)
    for row in best:
        at = row.metrics[cost], row.metrics[gain]
        axis.annotate(group.title(row), at, xytext=(4, -8), textcoords="offset points", fontsize=6)
    axis.set_xlabel(group.label(cost))
    axis.set_ylabel(group.label(gain))
    axis.set_title(f"{group.name}: better is left and "
                   f"{'down' if METRICS[gain].best == 'low' else 'up'}")  # fmt: skip
    axis.legend()
    return figure


def _roofline(group: Group) -> Any:
    figure, axis = pyplot.subplots(figsize=(5.6, 3.6), layout="constrained")
    rows = group.rows
    xs = [row.metrics["operations"] / row.metrics["needed_bytes"] for row in rows]
    low, high = min(xs) / 8, max(xs) * 8
    roofs = dict.fromkeys(
        (row.metrics["peak_operations"], row.metrics["peak_bytes"]) for row in rows
    )
    for number, (peak, bandwidth) in enumerate(roofs):
        line = sorted({low, high, min(max(peak / bandwidth, low), high)})
        axis.plot(
            line,
            [min(peak, bandwidth * x) for x in line],
            color=PALETTE[number % len(PALETTE)],
            label=f"{text(bandwidth)} bytes, {text(peak)} operations per cycle",
        )
    ys = [row.metrics["operations"] / row.metrics["cycles"] for row in rows]
    axis.scatter(xs, ys, marker="D", s=18, c=ORANGE, zorder=3, label="measured on the RTL")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("useful 4x4-bit operations per byte that must move")
    axis.set_ylabel("useful operations per cycle")
    axis.set_title(f"{group.name}: roofline")
    axis.legend()
    return figure


def _axes(group: Group) -> Any:
    """Draw for each axis a line per combination of the others."""
    target = "roofline" if group.has("roofline") else "cycles"
    count = len(group.axes)
    figure, panels = pyplot.subplots(
        1, count, figsize=(2.6 * count + 0.6, 3.2), sharey=True, squeeze=False, layout="constrained"
    )
    for panel, axis in zip(panels[0], group.axes, strict=True):
        _panel(panel, group, axis, target)
    panels[0][0].set_ylabel(group.label(target))
    figure.suptitle(f"{group.name}: a line for each choice of everything else")
    return figure


def _panel(panel: Axes, group: Group, axis: str, target: str) -> None:
    others = [name for name in group.axes if name != axis]
    place = {value: number for number, value in enumerate(group.axes[axis])}
    lines: dict[tuple[Any, ...], list[Row]] = {}
    for row in group.rows:
        lines.setdefault(tuple(value_of(row, name) for name in others), []).append(row)
    for number, rows in enumerate(lines.values()):
        rows.sort(key=lambda row: place[value_of(row, axis)])
        x, y = [place[value_of(row, axis)] for row in rows], [row.metrics[target] for row in rows]
        panel.plot(x, y, marker=".", linewidth=1, color=PALETTE[number % len(PALETTE)])
    panel.set_xticks(list(place.values()), [text(value) for value in place])
    panel.set_xlabel(short(axis))


def _parallel(group: Group) -> Any:
    names = [name for name in ("roofline", "throughput", group.area, "energy_pj") if name]
    metrics = [name for name in names if group.has(name)]
    figure, axis = pyplot.subplots(figsize=(7.2, 3.4), layout="constrained")
    scales: list[tuple[str, list[float], str, str]] = []
    for name, values in group.axes.items():
        at = {value: number / max(1, len(values) - 1) for number, value in enumerate(values)}
        heights = [at[value_of(row, name)] for row in group.rows]
        scales.append((short(name), heights, text(values[0]), text(values[-1])))
    for name in metrics:
        numbers = [row.metrics[name] for row in group.rows]
        low, high = min(numbers), max(numbers)
        heights = [(number - low) / (high - low or 1) for number in numbers]
        scales.append((group.label(name).replace(" [", "\n["), heights, text(low), text(high)))
    shade = scales[len(group.axes)][1] if metrics else [0.5] * len(group.rows)
    colours = mpl.colormaps["viridis"]
    for number in range(len(group.rows)):
        axis.plot([s[1][number] for s in scales], color=colours(shade[number]), linewidth=0.9)
    for place, (_, _, low_text, high_text) in enumerate(scales):
        axis.axvline(place, color="black", linewidth=0.6)
        axis.text(place, -0.03, low_text, ha="center", va="top")
        axis.text(place, 1.03, high_text, ha="center", va="bottom")
    axis.set_xticks(range(len(scales)), [scale[0] for scale in scales])
    axis.tick_params(axis="x", length=0, pad=14)
    axis.set_yticks([])
    axis.set_ylim(-0.02, 1.02)
    axis.spines[:].set_visible(False)
    axis.set_title(f"{group.name}: every line is a point", pad=16)
    return figure
