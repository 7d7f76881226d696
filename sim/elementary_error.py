"""How far the elementary functions are from the truth, as a plot.

``python -m sim.elementary_error`` writes ``docs/vector-error.svg``: a histogram per function of the
error in units of the last place, against float64. The golden model computes; hardware and golden
model agree to the bit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.golden import elementary, formulas, fp32

__all__ = ["CURVES", "Curve", "main", "plot"]

DEFAULT_PATH = Path(__file__).parents[1] / "docs" / "vector-error.svg"
SEED = 1


@dataclass(frozen=True)
class Curve:
    """A function and the arguments it is measured at.

    Attributes
    ----------
    name
        What it is called.
    function
        What the vector unit computes.
    exact
        The same in float64.
    low, high
        Arguments are spread evenly from one to the other.
    """

    name: str
    function: Callable[[fp32.Floats], fp32.Floats]
    exact: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    low: float
    high: float

    def errors(self, count: int) -> NDArray[np.float64]:
        """Return the errors at `count` random arguments, in units of the exact result's last place.

        One unit is the distance between the FP32 numbers around the exact result; a result that is
        rounded correctly is wrong by half a unit at most.
        """
        x = np.random.default_rng(SEED).uniform(self.low, self.high, count).astype(np.float32)
        exact = self.exact(x.astype(np.float64))
        _, exponent = np.frexp(exact)
        return np.ldexp(self.function(x).astype(np.float64) - exact, 24 - exponent)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


CURVES: Sequence[Curve] = (
    Curve("exp2", elementary.exp2, np.exp2, -16, 16),
    Curve("reciprocal", elementary.reciprocal, lambda x: 1 / x, 1, 2),
    Curve("rsqrt", elementary.rsqrt, lambda x: 1 / np.sqrt(x), 1, 4),
    Curve("exp", formulas.exp, np.exp, -16, 0),
    Curve("sigmoid", formulas.sigmoid, _sigmoid, -8, 8),
    Curve("silu", formulas.silu, lambda x: x * _sigmoid(x), -8, 8),
)
"""The three functions, and the formulas made of them, where they are mostly used."""


def plot(path: Path, count: int = 1 << 22) -> None:
    """Write the plot; the same bytes every time with the same version of matplotlib.

    Parameters
    ----------
    path
        An SVG file.
    count
        Arguments per function.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": path.name, "font.size": 8}):
        figure, axes = pyplot.subplots(2, 3, figsize=(9, 4.5), layout="constrained")
        for axis, curve in zip(axes.flat, CURVES, strict=True):
            errors = curve.errors(count)
            largest = np.abs(errors).max()
            limit = np.ceil(2 * largest) / 2
            share, edges = np.histogram(errors, 100, (-limit, limit))
            axis.stairs(share / count, edges, fill=True, color="#4a6fa5")
            axis.set_title(f"{curve.name}, x from {curve.low:g} to {curve.high:g}")
            axis.set_xlabel(f"error in ulp, at most {largest:.2f}")
            axis.set_yticks([])
            for half in (-0.5, 0.5):
                axis.axvline(half, color="#b0413e", linewidth=0.8, linestyle="--")
            for side in ("left", "top", "right"):
                axis.spines[side].set_visible(False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the plot to the file that is named, or into the documentation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("path", nargs="?", type=Path, default=DEFAULT_PATH)
    plot(parser.parse_args(arguments).path)


if __name__ == "__main__":
    main()
