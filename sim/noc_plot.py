"""Latency of the mesh by load, as a plot.

``python -m sim.noc_plot`` writes ``docs/noc-load.svg``: 4x4 tiles, 4 slots for each input, packets
of one flit. It builds a simulation of the mesh and runs it, see `sim.bench.noc`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rtl.config import TileConfig
from sim.bench.noc import SMALL, measure
from sim.noc import FLIT_BYTES, PATTERNS, saturation
from sim.progress import NoProgress

__all__ = ["main", "plot"]

DEFAULT_PATH = Path(__file__).parents[1] / "docs" / "noc-load.svg"
HIGHEST = 30
"""Cycles of latency up to which the plot goes."""

Curves = Mapping[str, Sequence[tuple[float, float]]]


def plot(curves: Curves, path: Path) -> None:
    """Write a plot of latency by load for each pattern, with what the fullest channel allows."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "noc"  # the same file for the same numbers
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, points in curves.items():
        (line,) = axes.plot(*zip(*points, strict=True), marker=".", label=name.replace("_", ", a "))
        axes.axvline(saturation(PATTERNS[name], SMALL), color=line.get_color(), linestyle=":")
    axes.set(
        xlabel="packets sent per tile and cycle (dotted: what the fullest channel allows)",
        ylabel="mean latency, cycles",
        xlim=(0, 1),
        ylim=(0, HIGHEST),
    )
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure and plot."""
    config = TileConfig(mesh=SMALL, flit_bytes=FLIT_BYTES, noc_buffer=4)
    plot(measure(config, ["curves"], NoProgress())["curves"], DEFAULT_PATH)


if __name__ == "__main__":
    main()
