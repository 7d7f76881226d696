"""FP32 multipliers: of two numbers, and of one by a constant."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.leaf import Leaf
from rtl.vec.binary32 import BIAS, EXPONENT, INFINITY, QUIET_NAN, Binary32, rounded

LATENCY = 2


class Multiplier(Leaf):
    """Multiply two binary32 numbers, in two steps.

    Members
    -------
    advance : In
        Let the pipeline go on.
    a, b : In
        Operands.
    value : Out
        ``a * b``, `LATENCY` steps later.
    """

    LATENCY = LATENCY

    def __init__(self) -> None:
        super().__init__({"advance": In(1), "a": In(32), "b": In(32), "value": Out(32)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "vec_multiplier"

    def build(self, platform: Any) -> Module:
        """Return the multiplier."""
        m = Module()
        a, b = Binary32(self.a), Binary32(self.b)
        product = Signal(48)
        m.d.comb += product.eq(a.significand * b.significand)
        m.d.comb += self.value.eq(_finished(m, self.advance, a, b, product))
        return m


class ConstantMultiplier(Leaf):
    """Multiply a binary32 number by a constant, in two steps.

    Parameters
    ----------
    constant
        Bits of a normal number.

    Members
    -------
    advance : In
        Let the pipeline go on.
    a : In
        Operand.
    value : Out
        ``a * constant``, `LATENCY` steps later.
    """

    LATENCY = LATENCY

    def __init__(self, constant: int) -> None:
        self.constant = constant
        super().__init__({"advance": In(1), "a": In(32), "value": Out(32)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return f"vec_multiplier_{self.constant:08x}"

    def build(self, platform: Any) -> Module:
        """Return the multiplier."""
        m = Module()
        a, b = Binary32(self.a), Binary32(Const(self.constant, 32))
        product = Signal(48)
        significand = 1 << 23 | self.constant & (1 << 23) - 1
        terms: Value = Const(0, 48)
        for place, digit in signed_digits(significand):
            term = a.significand << place
            terms = (terms + term if digit > 0 else terms - term)[:48]
        m.d.comb += product.eq(terms)
        m.d.comb += self.value.eq(_finished(m, self.advance, a, b, product))
        return m


def signed_digits(number: int) -> list[tuple[int, int]]:
    """Return places and signs of the fewest powers of two that a positive number is the sum of.

    >>> signed_digits(0b1110111)  # 128 - 8 - 1
    [(0, -1), (3, -1), (7, 1)]
    """
    digits = []
    place = 0
    while number:
        if number & 1:
            digit = 2 - (number & 3)  # the one that makes the rest a multiple of four
            digits.append((place, digit))
            number -= digit
        number >>= 1
        place += 1
    return digits


def _finished(m: Module, advance: Value, a: Binary32, b: Binary32, product: Value) -> Value:
    """Return the product of two numbers from that of their significands, two steps later."""
    # First step: the product, of which only the bits matter that rounding looks at.
    kept = Signal(26)
    rest = Signal()
    exponent = Signal(EXPONENT)
    negative, infinite, nan = Signal(), Signal(), Signal()
    with m.If(advance):
        m.d.sync += [
            kept.eq(product[22:]),
            rest.eq(product[:22].any()),
            exponent.eq(a.exponent + b.exponent - BIAS),
            negative.eq(a.negative ^ b.negative),
            infinite.eq(a.exponent.all() | b.exponent.all()),
            nan.eq(a.is_nan | b.is_nan | (a.is_infinite & b.is_zero) | (a.is_zero & b.is_infinite)),
        ]

    # Second step: normalise, which is by one place at most, and round.
    carry = kept[-1]
    normal = Signal(25)
    place = Signal(EXPONENT)
    m.d.comb += [normal.eq(Mux(carry, kept[1:], kept)), place.eq(exponent + carry)]
    magnitude = rounded(
        m,
        exponent=place,
        significand=normal[1:],
        half=normal[0],
        rest=rest | (carry & kept[0]),
    )
    value = Signal(32)
    with m.If(advance):
        m.d.sync += value.eq(Cat(magnitude, negative))
        with m.If(infinite):
            m.d.sync += value.eq(Cat(Const(INFINITY, 31), negative))
        with m.If(nan):
            m.d.sync += value.eq(QUIET_NAN)
    return value
