"""How fast an all-gather is at every size, as a plot.

``python -m sim.ring_bandwidth`` measures the ring of a preset and writes
``docs/ring-bandwidth.svg``: bytes that come to a node per cycle, from a word to 64 KiB.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rtl.config import DEFAULT_PRESET, TileConfig, preset
from rtl.ring.geometry import WORD_BYTES, RingGeometry
from sim.bench.ring import Measured, measure
from sim.progress import BarProgress

__all__ = ["main", "plot"]

DEFAULT_PATH = Path(__file__).parents[1] / "docs" / "ring-bandwidth.svg"


def plot(path: Path, config: TileConfig, measured: Measured) -> None:
    """Write the plot; the same bytes every time with the same version of matplotlib.

    Parameters
    ----------
    path
        An SVG file.
    config
        The configuration that was measured.
    measured
        What `sim.bench.ring.measure` returned.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    limit = 2 * WORD_BYTES * RingGeometry(config).flit_words
    with pyplot.rc_context({"svg.hashsalt": path.name, "font.size": 8}):
        figure, axis = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
        for tiles, found in measured.items():
            cycles = {int(size): taken for size, taken in found["allgather"].items()}
            rates = [(tiles - 1) / tiles * size / taken for size, taken in cycles.items()]
            axis.plot(list(cycles), rates, marker=".", label=f"{tiles} tiles")
        axis.axhline(limit, color="#b0413e", linewidth=0.8, linestyle="--")
        axis.text(WORD_BYTES, limit, "both links", va="bottom", color="#b0413e")
        axis.set_xscale("log", base=2)
        axis.set_xlabel("bytes that are gathered in total")
        axis.set_ylabel("bytes that come to a node per cycle")
        axis.legend(frameon=False)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the plot to the file that is named, or into the documentation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("path", nargs="?", type=Path, default=DEFAULT_PATH)
    parser.add_argument("--preset", default=DEFAULT_PRESET)
    options = parser.parse_args(arguments)
    config = preset(options.preset)
    measured = measure(config, BarProgress(Console(stderr=True)))
    plot(options.path, config, measured)


if __name__ == "__main__":
    main()
