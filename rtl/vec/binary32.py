"""IEEE binary32 as bits: its fields, and the one rounding of everything that rounds."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed

BIAS = 127
"""Exponent field of 1."""

ONE = 0x3F800000
INFINITY = 0x7F800000
SIGN = 0x80000000
QUIET_NAN = 0x7FC00000
"""The one NaN that arithmetic produces."""

EXPONENT = signed(10)
"""Shape of an exponent field before it is known to fit: sums of two of them do."""


class Binary32:
    """A binary32 number taken apart. Subnormals count as zeros.

    Parameters
    ----------
    bits
        The number.

    Attributes
    ----------
    fraction, exponent, negative : Value
        Its fields, lowest first.
    """

    def __init__(self, bits: Value) -> None:
        self.fraction = bits[:23]
        self.exponent = bits[23:31]
        self.negative = bits[31]

    @property
    def magnitude(self) -> Value:
        """All but the sign, 31 bits, which are ordered as the magnitudes are."""
        return Cat(self.fraction & (~self.is_zero).replicate(23), self.exponent)

    @property
    def significand(self) -> Value:
        """The fraction under its leading one, 24 bits; all zeros for a zero."""
        return Cat(self.magnitude[:23], ~self.is_zero)

    @property
    def is_zero(self) -> Value:
        """Whether it is a zero."""
        return ~self.exponent.any()

    @property
    def is_infinite(self) -> Value:
        """Whether it is an infinity."""
        return self.exponent.all() & ~self.fraction.any()

    @property
    def is_nan(self) -> Value:
        """Whether it is a NaN."""
        return self.exponent.all() & self.fraction.any()


def rounded(
    m: Module,
    *,
    exponent: Value,
    significand: Value,
    half: Value,
    rest: Value,
    gradual: bool = True,
) -> Value:
    """Round a magnitude to nearest even and return it, 31 bits.

    It is rounded with gradual underflow, and then becomes zero if its exponent field is 0. What is
    left of the subnormals are the magnitudes in [2**-127, 2**-126) that round up to 2**-126, those
    whose leading 24 bits are all ones.

    Parameters
    ----------
    m
        Where the hardware goes.
    exponent
        Biased, of shape `EXPONENT`.
    significand
        The leading 24 bits. If the first is not a one, the magnitude is zero.
    half, rest
        The next bit, and whether any bit behind it is a one.
    gradual
        Whether a magnitude below 2**-126 may have more bits than a subnormal has. Sums have not,
        and never round up to it.
    """
    up = Signal()
    magnitude = Signal(31)
    m.d.comb += [
        up.eq(half & (rest | significand[0])),
        # A carry out of the fraction moves the exponent on by itself, also to infinity.
        magnitude.eq(Cat(significand[:-1], exponent[:8]) + up),
    ]
    with m.If(exponent >= 255):
        m.d.comb += magnitude.eq(INFINITY)
    with m.If((exponent <= 0) | ~significand[-1]):
        smallest = (exponent == 0) & significand.all()
        m.d.comb += magnitude.eq(Mux(smallest, 1 << 23, 0) if gradual else 0)
    return magnitude
