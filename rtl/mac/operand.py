"""How nibbles become multiplier operands.

With MXINT8 in the configuration, one unsigned 5 x 4 bit multiplier serves 4x4, 8x4, 4x8 and 8x8. A
weight nibble is the 5-bit number ``w`` (E2M1 half units, signed high nibble or unsigned low
nibble); an activation nibble is a sign ``s`` and a 4-bit magnitude ``m``. With ``u = w + 16``,
unsigned, and ``~u`` its ones' complement, ``31 - u``:

    w·m = (u - 16)·m,    -w·m = (~u - 15)·m    so that    ±w·m = (u ^ s)·m + (s - 16)·m

The second term does not depend on the weight. It is summed once when the activation block is
loaded (`correction`) and enters the sum as one more operand: the multiplier array needs no sign.

With MXFP4 alone, operands are a sign, a 2-bit significand and a one-hot shift (0, 1 or 2), because
products of significands are then at most 9 and a shift is cheaper than a wider product.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Mux, Value, signed, unsigned
from amaranth.lib import data

from rtl.formats import BLOCK

CORRECTION = signed(14)
"""Shape of a block's correction: at least ``-16 * 32 * 15``."""

STREAM = unsigned(5)
"""A weight operand beside MXINT8: the nibble's number plus 16."""

STATIONARY = data.StructLayout({"magnitude": 4, "sign": 1})
"""An activation operand beside MXINT8."""

SIGNIFICAND = data.StructLayout({"significand": 2, "shift": 3, "sign": 1})
"""Either operand of an MXFP4-only engine; `shift` is one-hot."""


def e2m1_magnitude(code: Value) -> Value:
    """Return the 4-bit magnitude, in half units, of an E2M1 code."""
    exponent, mantissa = code[1:3], code[0]
    subnormal = exponent == 0
    significand = Cat(mantissa, ~subnormal)
    return Mux(exponent[1], Mux(exponent[0], significand << 2, significand << 1), significand)[:4]


def stream_operand(nibble: Value, *, integer: Value, low: Value) -> Value:
    """Return ``w + 16`` of a weight nibble.

    Parameters
    ----------
    nibble
        4 bits.
    integer
        Whether it is half of an MXINT8 element; otherwise it is an E2M1 code.
    low
        Whether it is the low, unsigned half.
    """
    magnitude = e2m1_magnitude(nibble)
    e2m1 = Mux(nibble[3], 16 - magnitude, 16 + magnitude)[:5]
    # A signed nibble plus 16: its sign inverted is bit 4, its sign bit 3.
    return Mux(integer, Cat(nibble, low | ~nibble[3]), e2m1)


def stationary_operand(nibble: Value, *, integer: Value, low: bool) -> Value:
    """Return sign and magnitude, as `STATIONARY`, of an activation nibble.

    Parameters
    ----------
    nibble
        4 bits.
    integer
        Whether it is half of an MXINT8 element; otherwise it is an E2M1 code.
    low
        Whether this operand is for the odd lane of a pair, which holds unsigned low nibbles.
    """
    e2m1 = Cat(e2m1_magnitude(nibble), nibble[3])
    if low:
        return Mux(integer, nibble, e2m1)
    negative = nibble[3]
    magnitude = Mux(negative, -nibble.as_signed(), nibble)[:4]
    return Mux(integer, Cat(magnitude, negative), e2m1)


def correction(operands: Value) -> Value:
    """Return the sum of ``(s - 16)·m`` over a block of `STATIONARY` operands."""
    total: Value = Const(0)
    for i in range(BLOCK):
        operand = data.View(STATIONARY, operands.word_select(i, 5))
        term = Mux(operand.sign, operand.magnitude, 0)
        total = total + term - (operand.magnitude << 4)
    return total[: CORRECTION.width].as_signed()


def significand_operand(nibble: Value) -> Value:
    """Return an E2M1 code as `SIGNIFICAND`."""
    exponent, mantissa = nibble[1:3], nibble[0]
    shift = Cat(~exponent[1], exponent == 2, exponent == 3)
    return Cat(mantissa, exponent.any(), shift, nibble[3])
