"""Exact oracles in rational arithmetic, written from the definitions and from nothing of ours."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np

NAN = 0x7FC00000
INFINITY = 0x7F800000
SIGN = 0x80000000

E2M1 = [Fraction(n, 2) for n in (0, 1, 2, 3, 4, 6, 8, 12)]
"""Values of the E2M1 codes 0 to 7."""

EXPONENT_OF_UNIT = {"mxfp4": -128, "mxint8": -133}
"""Exponent of one unit under scale byte 0."""


def power(exponent: int) -> Fraction:
    """2 to an integer power."""
    return Fraction(2) ** exponent


def log2_floor(value: Fraction) -> int:
    """Exponent of the greatest power of two that is at most `value`, which is positive."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if power(guess) <= value else guess - 1


def fp32_bits(value: Fraction, negative: bool = False) -> int:
    """Round once to binary32 with gradual underflow, then turn subnormals into signed zeros.

    `negative` is the sign of a `value` that is zero.
    """
    negative = value < 0 if value else negative
    sign, value = SIGN if negative else 0, abs(value)
    if value:
        quantum = power(max(log2_floor(value) - 23, -149))
        value = round(value / quantum) * quantum  # Fraction rounds half to even
    if value >= power(128):
        return sign | INFINITY
    if value < power(-126):
        return sign
    return sign | struct.unpack("<I", struct.pack("<f", float(value)))[0]


def fp32_value(bits: int) -> Fraction | None:
    """The number behind binary32 bits, subnormals being zero; None for NaN and infinities."""
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 255:
        return None
    magnitude = (0x800000 | fraction) * power(exponent - 150) if exponent else Fraction(0)
    return -magnitude if bits & SIGN else magnitude


def units(code: int, fmt: str) -> int:
    """The integer behind an element code."""
    if fmt == "mxint8":
        return code - 256 if code > 127 else code
    return int(2 * E2M1[code & 7]) * (-1 if code & 8 else 1)


def quantise_block(bits: list[int], fmt: str, rule: str) -> tuple[int, list[int]]:
    """Scale and element codes of one block of binary32 bits."""
    values = [fp32_value(b) for b in bits]
    if None in values:
        return 255, [0] * len(bits)
    grid = E2M1 if fmt == "mxfp4" else [Fraction(n, 64) for n in range(128)]
    largest = max(abs(v) for v in values)
    scale = 0
    if largest and rule == "floor":
        scale = log2_floor(largest) - (2 if fmt == "mxfp4" else 0) + 127
    elif largest:
        scale = log2_floor(largest) + 120  # surely too small
        while largest > grid[-1] * power(scale - 127):
            scale += 1
    scale = min(max(scale, 0), 254)
    codes = []
    for b, value in zip(bits, values, strict=True):
        wanted = abs(value) * power(127 - scale)
        if fmt == "mxint8":
            code = min(round(wanted * 64), 127)
            codes.append((256 - code) % 256 if b & SIGN else code)
        else:
            code = min(range(8), key=lambda c: (abs(grid[c] - wanted), c & 1))
            codes.append(code | (8 if b & SIGN else 0))
    return scale, codes


BITS = {
    ("mxfp4", "mxfp4"): 13,
    ("mxint8", "mxfp4"): 16,
    ("mxfp4", "mxint8"): 16,
    ("mxint8", "mxint8"): 20,
}


def window_dot(a, w, acc_bits: int, n: int | None = None) -> tuple[int, int, int]:
    """One output of the matrix engine: FP32 bits, accumulator and exponent of its lowest bit.

    `a` and `w` are (format, scales, codes) of one row: a list of bytes, and a list of lists.
    """
    (fa, xa, ca), (fw, xw, cw) = a, w
    n = len(xa) if n is None else n
    ea = [x + EXPONENT_OF_UNIT[fa] for x in xa]
    ew = [x + EXPONENT_OF_UNIT[fw] for x in xw]
    top_a = max([e for e, x in zip(ea, xa, strict=True) if x != 255], default=EXPONENT_OF_UNIT[fa])
    top_w = max([e for e, x in zip(ew, xw, strict=True) if x != 255], default=EXPONENT_OF_UNIT[fw])
    anchor = top_a + top_w + BITS[fa, fw] + math.ceil(math.log2(n)) + 1
    lsb = anchor - acc_bits
    acc, nan = 0, False
    for b in range(len(xa)):
        if 255 in (xa[b], xw[b]):
            nan = True
            continue
        dot = sum(units(p, fa) * units(q, fw) for p, q in zip(ca[b], cw[b], strict=True))
        acc += math.floor(dot * power(ea[b] + ew[b] - lsb))
    assert -(2 ** (acc_bits - 1)) <= acc < 2 ** (acc_bits - 1)
    return (NAN if nan else fp32_bits(acc * power(lsb))), acc, lsb


def row(tensor, index: int) -> tuple[str, list[int], list[list[int]]]:
    """A row of an MXTensor as `window_dot` takes it."""
    return str(tensor.format), tensor.scales[index].tolist(), tensor.codes[index].tolist()


def bits_of(values) -> np.ndarray:
    """The bits of a float32 array."""
    assert values.dtype == np.float32
    return np.asarray(values).view(np.uint32)
