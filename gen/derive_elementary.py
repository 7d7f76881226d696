"""Derives the table behind exp2, reciprocal and rsqrt.

``python -m gen.derive_elementary`` writes `rtl.elementary_tables`.

Each of the 64 segments of a curve gets the quadratic that is closest to it *as the hardware
evaluates it*, truncations included: the polynomial through the Chebyshev nodes first, then the
best of the integers around its coefficients. Everything is division, square root and single
operations of IEEE float64, so every machine derives the same table; a test compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEGMENT_BITS, POSITION_BITS, GUARD_BITS = 6, 17, 2
"""Bits of the fraction that choose the segment, and those within; bits below the result."""

SEGMENTS = 1 << SEGMENT_BITS
ONE = 1 << SEGMENT_BITS + POSITION_BITS + GUARD_BITS
HALF = 1 << GUARD_BITS - 1

TABLE = Path(__file__).resolve().parents[1] / "rtl" / "elementary_tables.py"
"""Where the table is kept."""

HEADER = '''\
"""The table behind exp2, reciprocal and rsqrt. Written by ``gen.derive_elementary``.

A curve maps a 23-bit fraction to [1, 2]. Row ``curve * 64 + fraction // 2**17`` holds c0, c1 and
c2 in units of ``2**-25``; with ``d = fraction % 2**17`` the result is

    c0 + ((c1 + (c2 * d >> 17)) * d >> 17) >> 2

in units of ``2**-23``. Shifts round down. `sim.golden.elementary` says what comes before and after.
"""

'''

Reals = NDArray[np.float64]


def exp2(f: Reals) -> Reals:
    """Return ``2**f`` for f from 0 to 1, by its Taylor series: library functions vary by an ulp."""
    result = np.zeros_like(f)
    for power in range(20, -1, -1):
        result = result * f + math.log(2) ** power / math.factorial(power)
    return result


CURVES: dict[str, tuple[Callable[[Reals], Reals], bool]] = {
    "exp2": (exp2, True),
    "reciprocal": (lambda f: 2 / (1 + f), True),
    "rsqrt_even": (lambda f: 2 / np.sqrt(1 + f), True),
    "rsqrt_odd": (lambda f: 2 / np.sqrt(2 * (1 + f)), False),
}
"""In the order of the table: curves over [0, 1) with values in [1, 2], and if f = 0 is exact."""


def evaluate(c0: Any, c1: Any, c2: Any, position: Any) -> Any:
    """Return the polynomial as the hardware computes it, shifts rounding down."""
    inner = c1 + (c2 * position >> POSITION_BITS)
    return c0 + (inner * position >> POSITION_BITS)


def quadratic(curve: Callable[[Reals], Reals], segment: int, exact: bool) -> tuple[float, float]:
    """Return c1 and c2 of the interpolation at three Chebyshev nodes of a segment, unrounded.

    Where the left end has to be `exact` the nodes are stretched so that the first lies on it.
    """
    nodes = np.cos(np.array([5, 3, 1]) * (math.pi / 6))  # of [-1, 1]
    nodes = (nodes - nodes[0]) / (1 - nodes[0]) if exact else (nodes + 1) / 2
    values = curve((segment + nodes) / SEGMENTS) * ONE
    slopes = np.diff(values) / np.diff(nodes)
    c2 = (slopes[1] - slopes[0]) / (nodes[2] - nodes[0])
    return float(slopes[0] - c2 * (nodes[0] + nodes[1])), float(c2)


def row(curve: Callable[[Reals], Reals], segment: int, exact: bool) -> tuple[int, int, int]:
    """Return the best integer coefficients of a segment.

    c0 holds the half that rounds the result, too.
    """
    positions = np.append(np.arange(0, 1 << POSITION_BITS, 128), (1 << POSITION_BITS) - 1)
    wanted = curve((segment + positions / (1 << POSITION_BITS)) / SEGMENTS) * ONE
    ideal1, ideal2 = quadratic(curve, segment, exact)

    def candidates() -> Iterator[tuple[float, int, int, int]]:
        for c2 in range(round(ideal2) - 2, round(ideal2) + 3):
            for c1 in range(round(ideal1 + ideal2 - c2) - 4, round(ideal1 + ideal2 - c2) + 5):
                rest = wanted - evaluate(0, c1, c2, positions)
                c0 = round(wanted[0] if exact else (rest.max() + rest.min()) / 2)
                yield float(abs(rest - c0).max()), c0 + HALF, c1, c2

    return min(candidates())[1:]


def source() -> str:
    """Return the text of the table's module."""
    lines = [
        *HEADER.splitlines(),
        f"SEGMENT_BITS = {SEGMENT_BITS}",
        f"POSITION_BITS = {POSITION_BITS}",
        f"GUARD_BITS = {GUARD_BITS}",
        "",
        ", ".join(name.upper() for name in CURVES) + f" = range({len(CURVES)})",
        "",
        "ROWS = (",
    ]
    for name, (curve, exact) in CURVES.items():
        lines.append(f"    # {name}")
        for segment in range(SEGMENTS):
            lines.append(f"    {row(curve, segment, exact and segment == 0)},")
    return "\n".join([*lines, ")", ""])


if __name__ == "__main__":
    TABLE.write_text(source())
