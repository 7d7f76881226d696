"""What orders FP32 numbers: flushing, extremes, and the key of top-k. All combinational."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Value

from rtl.vec.binary32 import QUIET_NAN, Binary32


def flush(bits: Value) -> Value:
    """Return a number with subnormals replaced by zeros of their sign and NaN by the one NaN."""
    x = Binary32(bits)
    return Mux(x.is_nan, QUIET_NAN, Cat(x.magnitude, x.negative))


def less(a: Value, b: Value) -> Value:
    """Return whether a < b, with -0 below +0; true of equal negative numbers, false of others.

    Parameters
    ----------
    a, b
        Flushed numbers, not NaN. One comparison of magnitudes serves whoever takes one of the two.
    """
    return Mux(a[31] ^ b[31], a[31], (a[:31] < b[:31]) ^ a[31])


def maximum(a: Value, b: Value) -> Value:
    """Return the greater of two flushed numbers: NaN if either is NaN, and +0 above -0."""
    return _either(a, b, Mux(less(a, b), b, a))


def minimum(a: Value, b: Value) -> Value:
    """Return the lesser of two flushed numbers: NaN if either is NaN, and -0 below +0."""
    return _either(a, b, Mux(less(a, b), a, b))


def _either(a: Value, b: Value, chosen: Value) -> Value:
    return Mux(Binary32(a).is_nan | Binary32(b).is_nan, QUIET_NAN, chosen)


def order_key(bits: Value) -> Value:
    """Return 32 bits that are ordered as numbers are compared, by top-k for example.

    As unsigned integers they are in the order of `sim.golden.fp32.order_key`: -0 and +0 are the
    same, subnormals are zeros, and every NaN is the same and below -Inf.
    """
    x = Binary32(bits)
    minus = x.negative & ~x.is_zero
    key = Cat(Mux(minus, ~x.magnitude, x.magnitude), ~minus)
    return Mux(x.is_nan, 0, key)
