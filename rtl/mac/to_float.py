"""From a window accumulator to IEEE binary32, rounded once."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.leaf import Leaf

EXPONENT = signed(11)
"""Shape of an accumulator's lsb exponent, and of every exponent on the way."""

QUIET_NAN = 0x7FC00000


class WindowToFloat(Leaf):
    """Round ``sum * 2**lsb`` to binary32, to nearest even, in two pipeline stages.

    Rounding is with gradual underflow, after which a result whose exponent field is 0 becomes
    zero of the same sign: what is left of the subnormals are the magnitudes in [2**-127, 2**-126)
    that round up to 2**-126, those whose leading 24 bits are all ones.

    Parameters
    ----------
    bits
        Width of the accumulator, at least 26.

    Members
    -------
    advance : In
        Let the pipeline go on.
    sum : In
        The accumulator.
    lsb : In
        Exponent of its lowest bit.
    nan : In
        The result is NaN.
    zero : In
        The result is +0, whatever else is said.
    value : Out
        The result, two steps later.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        super().__init__(
            {
                "advance": In(1),
                "sum": In(signed(bits)),
                "lsb": In(EXPONENT),
                "nan": In(1),
                "zero": In(1),
                "value": Out(32),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return f"mac_window_to_float_{self.bits}"

    def build(self, platform: Any) -> Module:
        """Return the converter."""
        m = Module()
        bits = self.bits

        # First stage: normalise, so that the leading one of the magnitude is the top bit.
        magnitude = Signal(bits)
        m.d.comb += magnitude.eq(Mux(self.sum < 0, -self.sum, self.sum))
        shifted = magnitude
        zeros: list[Any] = []
        for i in reversed(range(ceil_log2(bits))):
            empty = Signal(name=f"empty{i}")
            stage = Signal(bits, name=f"stage{i}")
            m.d.comb += [
                empty.eq(shifted[bits - min(bits, 1 << i) :] == 0),
                stage.eq(Mux(empty, shifted << (1 << i), shifted)),
            ]
            zeros.insert(0, empty)
            shifted = stage
        normal = Signal(bits)
        exponent = Signal(EXPONENT)  # biased
        negative = Signal()
        nan = Signal()
        zero = Signal()
        with m.If(self.advance):
            m.d.sync += [
                normal.eq(shifted),
                exponent.eq(self.lsb + (127 + bits - 1) - Cat(zeros)),
                negative.eq(self.sum < 0),
                nan.eq(self.nan),
                zero.eq(self.zero | (~self.nan & (self.sum == 0))),
            ]

        # Second stage: round and pack. A carry out of the fraction moves the exponent on by itself.
        kept = normal[bits - 24 :]
        half = normal[bits - 25]
        rest = normal[: bits - 25].any()
        up = half & (rest | kept[0])
        packed = Signal(31)
        infinite = (exponent >= 255) | ((exponent == 254) & kept.all() & up)
        smallest = (exponent == 0) & kept.all()
        m.d.comb += packed.eq(Cat(kept[:23], exponent[:8]) + up)
        with m.If(exponent <= 0):
            m.d.comb += packed.eq(Mux(smallest, 1 << 23, 0))
        with m.If(infinite):
            m.d.comb += packed.eq(0xFF << 23)
        with m.If(self.advance):
            m.d.sync += self.value.eq(Cat(packed, negative))
            with m.If(nan):
                m.d.sync += self.value.eq(QUIET_NAN)
            with m.If(zero):
                m.d.sync += self.value.eq(0)
        return m
