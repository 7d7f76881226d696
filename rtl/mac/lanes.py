"""Which lanes work for which rows.

Lanes come in pairs, an *even* and an *odd* one. Row ``i`` of an operation has its *primary* in

- 4-bit activations: the even lane of pair ``i``, or the odd lane of pair ``i - pairs``;
- 8-bit activations: both lanes of pair ``i``, high nibbles in the even one, low in the odd one.

When the rows use at most half of the lanes, each row may have a *copy* in spare lanes, which works
on the next block row of the same beat stream:

- 4-bit activations: the odd lane of the same pair;
- 8-bit activations: the pair `MacGeometry.upper` places further on.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, Value

from rtl.formats import Format
from rtl.mac.geometry import MacGeometry


def active_rows(geometry: MacGeometry, operation: Any) -> Value:
    """Return one bit per row: whether it takes part in `operation`."""
    lanes = geometry.config.lanes
    return operation.mask & Cat(operation.rows > i for i in range(lanes))


def can_pair(geometry: MacGeometry, operation: Any) -> Value:
    """Return whether `operation` leaves room for copies of all its rows."""
    most = [geometry.most_paired_rows(fmt) for fmt in (Format.MXFP4, Format.MXINT8)]
    return operation.rows <= Mux(operation.activation, most[1], most[0])


def primary_lanes(geometry: MacGeometry, rows: Value, wide: Value) -> tuple[Value, Value]:
    """Return the even and the odd lanes, a bit per pair, that hold any of `rows`.

    Parameters
    ----------
    geometry
        Sizes.
    rows
        One bit per row.
    wide
        The activations are 8-bit.
    """
    low, high = rows[: geometry.pairs], rows[geometry.pairs :]
    return low, Mux(wide, low, high)


def copy_lanes(geometry: MacGeometry, rows: Value, wide: Value) -> tuple[Value, Value]:
    """Return the even and the odd lanes, a bit per pair, that hold a copy of any of `rows`.

    Parameters
    ----------
    geometry
        Sizes.
    rows
        One bit per row.
    wide
        The activations are 8-bit.
    """
    low = rows[: geometry.pairs]
    shifted = (low << geometry.upper)[: geometry.pairs]
    return Mux(wide, shifted, 0), Mux(wide, shifted, low)
