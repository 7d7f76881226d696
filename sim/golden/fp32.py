"""FP32 as the vector unit computes it.

IEEE binary32, to nearest even. Subnormal operands count as zero, results are rounded once *with*
gradual underflow and become zero when their exponent field is 0 then, and every NaN is 0x7FC00000.
Numpy's own operations followed by a flush are exactly that; the flush-to-zero modes of processors
are not, since they differ in when they detect tininess.

All functions take float32 arrays (or numpy scalars), broadcast like numpy, and raise ``ValueError``
for any other dtype: a float64 that were rounded on the way in would be rounded twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl.formats import BLOCK

Floats = NDArray[np.float32]
"""Results."""

Operand = Floats | np.float32
"""What they are computed from: an array, or a constant."""

NAN_BITS = 0x7FC00000
"""The one NaN that arithmetic produces."""

NAN = np.uint32(NAN_BITS).view(np.float32)
"""The same as a float32."""

PARTIALS = BLOCK
"""Partial sums of a reduction, whatever the width of the hardware."""

_EXPONENT = np.uint32(0x7F800000)
_SIGN = np.uint32(0x80000000)


def flush(values: Operand) -> Floats:
    """Return `values` with subnormals replaced by zeros of the same sign and NaNs made canonical.

    Applied to operands it is DAZ, applied to what numpy computed it is FTZ.
    """
    bits = to_bits(values)
    tiny = (bits & _EXPONENT) == 0
    bits = np.where(tiny, bits & _SIGN, bits)
    return np.where(np.isnan(values), NAN, bits.view(np.float32))


def rounded(exact: Any) -> Floats:
    """Round exact float64 values to FP32, once.

    Parameters
    ----------
    exact : float64 array
        Values that are exact as float64; a value that was itself rounded would be rounded twice.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return flush(np.asarray(exact, np.float64).astype(np.float32))


def to_bits(values: Operand) -> NDArray[np.uint32]:
    """Return the bits of float32 values as uint32."""
    return _float32(values).view(np.uint32)


def from_bits(bits: Any) -> Floats:
    """Return the float32 values of uint32 bits, as they are."""
    return np.asarray(bits, np.uint32).view(np.float32)


def add(a: Operand, b: Operand) -> Floats:
    """Return ``a + b``."""
    with np.errstate(all="ignore"):
        return flush(flush(a) + flush(b))


def sub(a: Operand, b: Operand) -> Floats:
    """Return ``a - b``."""
    with np.errstate(all="ignore"):
        return flush(flush(a) - flush(b))


def mul(a: Operand, b: Operand) -> Floats:
    """Return ``a * b``."""
    with np.errstate(all="ignore"):
        return flush(flush(a) * flush(b))


def ldexp(values: Operand, exponents: Any) -> Floats:
    """Return ``values * 2**exponents``, rounded once.

    Parameters
    ----------
    values : float32 array
        Any values; zeros, infinities and NaN stay what they are.
    exponents : integer array
        Any integers.
    """
    # Beyond ±400 every finite value has become zero or infinity; within, float64 is exact.
    exponents = np.clip(exponents, -400, 400)
    return rounded(np.ldexp(flush(values).astype(np.float64), exponents))


def maximum(a: Operand, b: Operand) -> Floats:
    """Return the greater of two: NaN if either is NaN, and +0 above -0."""
    a, b = flush(a), flush(b)
    greater = np.where(_signed_order(a) >= _signed_order(b), a, b)
    return np.where(np.isnan(a) | np.isnan(b), NAN, greater)


def minimum(a: Operand, b: Operand) -> Floats:
    """Return the lesser of two: NaN if either is NaN, and -0 below +0."""
    a, b = flush(a), flush(b)
    lesser = np.where(_signed_order(a) <= _signed_order(b), a, b)
    return np.where(np.isnan(a) | np.isnan(b), NAN, lesser)


def clamp(values: Operand, low: Operand, high: Operand) -> Floats:
    """Return ``minimum(maximum(values, low), high)``; NaN passes through."""
    return minimum(maximum(values, low), high)


def reduce_max(values: Floats) -> Floats:
    """Return the maximum along the last axis, in the order of `maximum`.

    Parameters
    ----------
    values : float32 [..., n]
        At least one element per row.
    """
    values = flush(values)
    index = np.argmax(_signed_order(values), axis=-1)
    greatest = np.take_along_axis(values, index[..., None], axis=-1)[..., 0]
    return np.where(np.isnan(values).any(-1), NAN, greatest)


def order_key(values: Operand) -> NDArray[np.int32]:
    """Return integers in the order of comparison, top-k and argmax.

    -0 and +0 (and subnormals) have the same key; every NaN has one key, below that of -Inf.
    """
    bits = to_bits(flush(values)).view(np.int32)
    magnitude = bits & 0x7FFFFFFF
    key = np.where(bits < 0, -magnitude, magnitude)
    return np.where(np.isnan(values), np.int32(-0x7F800001), key)


def less(a: Operand, b: Operand) -> NDArray[np.bool_]:
    """Return ``a < b`` in the order of `order_key`: NaN is less than any number."""
    return order_key(a) < order_key(b)


def equal(a: Operand, b: Operand) -> NDArray[np.bool_]:
    """Return ``a == b`` in the order of `order_key`: -0 equals +0, NaN equals NaN."""
    return order_key(a) == order_key(b)


def top_k(values: Floats, k: int) -> NDArray[np.intp]:
    """Return the indices of the `k` greatest along the last axis, in descending order.

    Parameters
    ----------
    values : float32 [..., n]
        Ordered by `order_key`; among equals the lowest index comes first.
    k : int
        1 to n.

    Returns
    -------
    integer [..., k]

    Raises
    ------
    ValueError
        If `k` is out of range.
    """
    count = values.shape[-1]
    if not 1 <= k <= count:
        raise ValueError(f"k is {k}, with {count} values it must be 1 to {count}.")
    return np.argsort(-order_key(values), axis=-1, kind="stable")[..., :k]


def argmax(values: Floats) -> NDArray[np.intp]:
    """Return the index of the greatest along the last axis, the lowest index among equals."""
    return np.argmax(order_key(values), axis=-1)


def sum_partials(values: Floats, partials: Floats | None = None, start: int = 0) -> Floats:
    """Add a run of elements to 32 partial sums.

    The element at absolute position i is added to partial ``i mod 32``, in the order of positions.
    So a row may be cut into runs anywhere, and the width of the hardware does not show. Only real
    elements are added: a partial can be -0 (a negative sum that was flushed), and padding with +0
    would turn it into +0.

    Parameters
    ----------
    values : float32 [..., n]
        Elements at positions `start` to ``start + n - 1``.
    partials : float32 [..., 32], optional
        State to continue from; by default all +0.
    start : int
        Absolute position of the first element.

    Returns
    -------
    float32 [..., 32]
        The new state.

    Raises
    ------
    ValueError
        If `partials` has another shape or `start` is negative.
    """
    values = _float32(values)
    shape = (*values.shape[:-1], PARTIALS)
    state = np.zeros(shape, np.float32) if partials is None else np.array(_float32(partials))
    if state.shape != shape:
        raise ValueError(f"partials has shape {state.shape}, for these values it must be {shape}.")
    if start < 0:
        raise ValueError(f"start is {start}, it must be at least 0.")
    end = start + values.shape[-1]
    for base in range(start - start % PARTIALS, end, PARTIALS):
        low, high = max(base, start), min(base + PARTIALS, end)
        lanes = slice(low - base, high - base)
        state[..., lanes] = add(state[..., lanes], values[..., low - start : high - start])
    return state


def fold_partials(partials: Floats) -> Floats:
    """Return the sum of 32 partials: i and i + 16, then i + 8, i + 4, i + 2, i + 1.

    Parameters
    ----------
    partials : float32 [..., 32]
        State from `sum_partials`.

    Returns
    -------
    float32 [...]
    """
    while (half := partials.shape[-1] // 2) > 0:
        partials = add(partials[..., :half], partials[..., half:])
    return partials[..., 0]


def reduce_sum(values: Floats) -> Floats:
    """Return the sum along the last axis, from position 0: `sum_partials`, then `fold_partials`."""
    return fold_partials(sum_partials(values))


def _float32(values: Any) -> Floats:
    array = np.asarray(values)
    if array.dtype != np.float32:
        raise ValueError(f"operand has dtype {array.dtype}, FP32 operations take float32.")
    return array


def _signed_order(values: Operand) -> NDArray[np.int32]:
    """Integers in the order of the numbers, -0 below +0; NaN must be dealt with apart."""
    bits = to_bits(values).view(np.int32)
    return bits ^ (bits >> 31 & 0x7FFFFFFF)
