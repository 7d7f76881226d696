"""exp2, reciprocal and rsqrt: one table, one polynomial, in integers that the hardware repeats.

Each function is reduced, exactly, to a sign, an exponent and a *curve* over a 23-bit fraction with
values in [1, 2]:

========== ============================= ======================================== ===============
function   argument                      result                                   curve
========== ============================= ======================================== ===============
exp2       n + f                         2^n · 2^f                                EXP2(f)
reciprocal ±(1 + f) · 2^(E - 127)        ±2/(1 + f) · 2^(126 - E)                 RECIPROCAL(f)
rsqrt      (1 + f) · 2^(E - 127), E odd  2/sqrt(1 + f) · 2^((127 - E)/2 - 1)      RSQRT_EVEN(f)
rsqrt      the same, E even              2/sqrt(2 + 2f) · 2^((128 - E)/2 - 1)     RSQRT_ODD(f)
========== ============================= ======================================== ===============

The top 6 bits of the fraction choose a row of the table, the other 17 are the position d in it:

    inner  = c1 + (c2 * d >> 17)          c2 unsigned, 14 bits; c1, inner signed, 21 bits
    result = c0 + (inner * d >> 17) >> 2  c0 and the sum unsigned, 27 bits; result 25 bits

All shifts round down; c0 holds the half that makes the last one round to nearest. Results are 2^23
to 2^24, the latter where a curve meets 2, and are *added* to the exponent field, into which the bit
of 2^24 carries. No result is subnormal: where one would be, the argument is a special case.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl import elementary_tables as tables
from sim.golden import fp32

Integers = NDArray[np.int64]

_C0, _C1, _C2 = np.array(tables.ROWS, np.int64).T
_FRACTION_BITS = 23
_BIAS = 127
_ONE = 1 << _FRACTION_BITS
_INFINITY = np.float32(np.inf)


def curve(which: Any, fraction: Any) -> Integers:
    """Evaluate a curve of the table.

    Parameters
    ----------
    which : int or integer array
        One of the curves of `rtl.elementary_tables`.
    fraction : integer array
        0 to ``2**23 - 1``.

    Returns
    -------
    int64 array
        The curve in units of ``2**-23``: ``2**23`` to ``2**24``.
    """
    fraction = np.asarray(fraction, np.int64)
    row = (which << tables.SEGMENT_BITS) + (fraction >> tables.POSITION_BITS)
    d = fraction & (1 << tables.POSITION_BITS) - 1
    inner = _C1[row] + (_C2[row] * d >> tables.POSITION_BITS)
    return _C0[row] + (inner * d >> tables.POSITION_BITS) >> tables.GUARD_BITS


def fixed_point(values: fp32.Floats) -> Integers:
    """Return finite values below 128 in magnitude in units of ``2**-23``.

    The magnitude is rounded to nearest, halves up. Only values below 1 have bits to lose.
    """
    bits = fp32.to_bits(fp32.flush(values)).astype(np.int64)
    exponent = bits >> _FRACTION_BITS & 0xFF
    significand = np.where(exponent == 0, 0, bits & _ONE - 1 | _ONE)
    # |x| < 128 has an exponent field of at most 133: 31 bits, of which the last is a guard bit.
    halves = significand << 7 >> (133 - exponent).clip(0, 63)
    magnitude = halves + 1 >> 1
    return np.where(bits >> 31 != 0, -magnitude, magnitude)


def exp2(values: fp32.Floats) -> fp32.Floats:
    """Return ``2**x``.

    Exact at integers; relative error below ``2**-22.7``; never decreasing.

    Parameters
    ----------
    values : float32 array
        Below -126 gives +0, 128 and above +Inf, NaN gives NaN.

    Returns
    -------
    float32 array
    """
    values = fp32.flush(values)
    inside = (values >= -126) & (values < 128)  # NaN is not
    fixed = fixed_point(np.where(inside, values, np.float32(0)))
    result = _assemble(fixed >> _FRACTION_BITS, curve(tables.EXP2, fixed & _ONE - 1))
    outside = np.where(values > 0, _INFINITY, np.float32(0))
    return _select(np.isnan(values), fp32.NAN, np.where(inside, result, outside))


def reciprocal(values: fp32.Floats) -> fp32.Floats:
    """Return ``1 / x``.

    Exact at powers of two; relative error below ``2**-22.3``; never increasing on either side of 0.

    Parameters
    ----------
    values : float32 array
        Zeros (subnormals are) give infinities of their sign, infinities and magnitudes above
        ``2**126`` zeros of their sign, NaN gives NaN.

    Returns
    -------
    float32 array
    """
    values = fp32.flush(values)
    magnitude = np.abs(values)
    bits = fp32.to_bits(magnitude).astype(np.int64)
    exponent = _BIAS - 1 - (bits >> _FRACTION_BITS)
    result = _assemble(exponent, curve(tables.RECIPROCAL, bits & _ONE - 1))
    result = _select(magnitude > 2.0**126, np.float32(0), result)
    result = np.copysign(_select(magnitude == 0, _INFINITY, result), values)
    return _select(np.isnan(values), fp32.NAN, result)


def rsqrt(values: fp32.Floats) -> fp32.Floats:
    """Return ``1 / sqrt(x)``.

    Exact at even powers of two; relative error below ``2**-23.1``; never increasing.

    Parameters
    ----------
    values : float32 array
        Zeros (subnormals are) give infinities of their sign, +Inf gives +0, negative numbers and
        NaN give NaN.

    Returns
    -------
    float32 array
    """
    values = fp32.flush(values)
    bits = fp32.to_bits(np.abs(values)).astype(np.int64)
    power = (bits >> _FRACTION_BITS) - _BIAS
    odd = power & 1
    exponent = -(power - odd >> 1) - 1
    result = _assemble(exponent, curve(tables.RSQRT_EVEN + odd, bits & _ONE - 1))
    result = _select(np.isinf(values), np.float32(0), result)
    result = np.where(values == 0, np.copysign(_INFINITY, values), result)
    return _select(np.isnan(values) | (values < 0), fp32.NAN, result)


def _assemble(exponent: Integers, significand: Integers) -> fp32.Floats:
    """Return ``significand * 2**(exponent - 23)``; a significand of ``2**24`` carries."""
    return fp32.from_bits((exponent + _BIAS << _FRACTION_BITS) + (significand - _ONE))


def _select(condition: Any, value: Any, otherwise: fp32.Floats) -> fp32.Floats:
    return np.where(condition, np.float32(value), otherwise)
