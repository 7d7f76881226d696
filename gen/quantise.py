"""The quantiser: FP32 to MX, exactly as the vector unit does it.

It stands here rather than in the golden model because model import needs it too and imports go one
way. `sim.golden` exports it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.mx import Bytes, MXTensor
from rtl.formats import BLOCK, SCALE_MAX, SCALE_NAN, Format, ScaleRule

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_SMALLEST_NORMAL = np.uint32(0x00800000)


def quantise(values: NDArray[Any], fmt: Format, rule: ScaleRule = ScaleRule.FLOOR) -> MXTensor:
    """Quantise rows of FP32 numbers in blocks of 32 along the last axis.

    Subnormals count as zero. Each element is rounded once, to nearest with ties to the even code,
    and saturates (MXFP4 at ±6, MXINT8 at ±127/64 of the scale). MXFP4 keeps the sign of what rounds
    to zero. A block with a NaN or an infinity becomes scale 255 with all codes 0; a zero block has
    scale 0.

    Parameters
    ----------
    values : float32 [..., K]
        Any values; K is at least 1 and padded with plus zero to a multiple of 32.
    fmt : Format
        Element format.
    rule : ScaleRule
        ``floor`` or ``ceil``.

    Returns
    -------
    MXTensor [..., K]

    Raises
    ------
    ValueError
        If `values` is not float32 or has no elements along its last axis.
    """
    values = np.asarray(values)
    if values.dtype != np.float32:
        raise ValueError(f"values has dtype {values.dtype}, the quantiser takes float32.")
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ValueError(f"values has shape {values.shape}, rows need at least one element.")
    fmt, rule = Format(fmt), ScaleRule(rule)

    length = values.shape[-1]
    padding = [(0, 0)] * (values.ndim - 1) + [(0, -length % BLOCK)]
    bits = np.pad(values, padding).view(np.uint32).reshape(*values.shape[:-1], -1, BLOCK)
    nan = (bits & _INFINITY == _INFINITY).any(-1)
    bits = np.where(nan[..., None], np.uint32(0), bits)
    negative, magnitude = bits > _MAGNITUDE, bits & _MAGNITUDE
    magnitude = np.where(magnitude < _SMALLEST_NORMAL, np.uint32(0), magnitude)

    amax = magnitude.max(-1)  # the bits of magnitudes are ordered as the magnitudes are
    scales = np.where(nan, np.uint8(SCALE_NAN), _scale(amax, fmt, rule))

    # 24 significant bits times a power of two between 2^-127 and 2^133: exact in float64.
    units = np.ldexp(
        magnitude.view(np.float32).astype(np.float64),
        (fmt.unit_offset - scales.astype(np.int32))[..., None],
    )
    encode = _round_int8 if fmt is Format.MXINT8 else _round_e2m1
    return MXTensor(encode(units, negative), scales, fmt, length)


def _scale(amax: NDArray[np.uint32], fmt: Format, rule: ScaleRule) -> Bytes:
    """Scale bytes from the FP32 bits of the largest magnitudes, which must be finite."""
    exponent = (amax >> 23).astype(np.int32)  # FP32 and E8M0 share the bias, so it cancels
    saturates = (amax & 0x7FFFFF) > fmt.largest_fraction
    scale = exponent - fmt.emax + (saturates if rule is ScaleRule.CEIL else 0)
    return scale.clip(0, SCALE_MAX).astype(np.uint8)


def _round_int8(units: NDArray[np.float64], negative: NDArray[np.bool_]) -> Bytes:
    magnitude = np.minimum(np.rint(units), 127).astype(np.int8)
    return np.where(negative, -magnitude, magnitude).view(np.uint8)


def _round_e2m1(units: NDArray[np.float64], negative: NDArray[np.bool_]) -> Bytes:
    # Counts the midpoints of the grid 0 1 2 3 4 6 8 12 that lie below; one that is met exactly
    # counts when the code above it is even.
    code = (units > 0.5).astype(np.uint8)
    for midpoint, rounds_up in ((1.5, 1), (2.5, 0), (3.5, 1), (5.0, 0), (7.0, 1), (10.0, 0)):
        code += units >= midpoint if rounds_up else units > midpoint
    return np.where(negative, code | np.uint8(8), code)
