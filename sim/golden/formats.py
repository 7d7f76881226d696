"""What MX codes and scales are worth as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.mx import Bytes, MXTensor, decode_elements
from rtl.formats import SCALE_BIAS, SCALE_NAN, Format
from sim.golden import fp32


def element_values(codes: Bytes, fmt: Format) -> NDArray[np.float64]:
    """Return the exact values of element codes under scale 1, with the sign of MXFP4 zeros.

    Parameters
    ----------
    codes : uint8 array of any shape
        MXFP4: 0 to 15. MXINT8: two's complement bytes.
    fmt : Format
        Element format.

    Returns
    -------
    float64 array
        MXFP4: ±0 to ±6. MXINT8: -2 to 127/64.
    """
    return np.ldexp(_signed_units(codes, fmt), SCALE_BIAS - fmt.unit_offset)


def scale_values(scales: Bytes) -> NDArray[np.float64]:
    """Return the exact values of E8M0 bytes: ``2**(X - 127)``, and NaN for 255."""
    powers = np.ldexp(1.0, np.asarray(scales, np.int32) - SCALE_BIAS)
    return np.where(np.asarray(scales) == SCALE_NAN, np.nan, powers)


def dequantise(tensor: MXTensor) -> fp32.Floats:
    """Return the FP32 values of a tensor, each ``q * 2**e`` rounded once.

    Products beyond the FP32 range give ±Inf (such as MXINT8 -128 or MXFP4 6 under scale 254),
    products below it a zero of the same sign, a NaN block canonical NaNs, and MXFP4 code 8 minus
    zero.

    Parameters
    ----------
    tensor : MXTensor [..., K]
        Any tensor.

    Returns
    -------
    float32 [..., K]
    """
    units = _signed_units(tensor.codes, tensor.format)
    exact = np.ldexp(units, tensor.exponents[..., None])  # at most 2^133 from 1: exact in float64
    values = fp32.rounded(np.where(tensor.nan[..., None], np.nan, exact))
    return values.reshape(*tensor.shape[:-1], -1)[..., : tensor.length]


def fold_scale(values: fp32.Floats, scales: Bytes, fmt: Format) -> fp32.Floats:
    """Multiply FP32 values by the unit of the block they belong to: ``ldexp(p, e)``.

    This is how the scale of V enters the probabilities.

    Parameters
    ----------
    values : float32 array
        Any values.
    scales : uint8 array
        E8M0 bytes, broadcast against `values`; 255 gives NaN.
    fmt : Format
        Element format of the blocks, which fixes the unit.

    Returns
    -------
    float32 array
    """
    scales = np.asarray(scales)
    scaled = fp32.ldexp(values, scales.astype(np.int32) - fmt.unit_offset)
    return np.where(scales == SCALE_NAN, fp32.NAN, scaled)


def _signed_units(codes: Bytes, fmt: Format) -> NDArray[Any]:
    """Elements in units of the format as float64, which can tell the two MXFP4 zeros apart."""
    units = decode_elements(codes, fmt).astype(np.float64)
    if fmt is Format.MXFP4:
        units = np.copysign(units, np.where(codes & 8, -1.0, 1.0))
    return units
