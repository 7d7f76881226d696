"""The quantiser: FP32 to MX, bit for bit that of `gen.quantise`. All combinational."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from rtl.core.isa import MatrixFormat, Rule
from rtl.formats import SCALE_MAX, SCALE_NAN, Format
from rtl.leaf import Leaf
from rtl.vec.binary32 import Binary32


def scale_of(amax: Value, *, format: Value, rule: Value) -> Value:
    """Return the scale byte of a block.

    Parameters
    ----------
    amax
        The greatest of the block's elements without their signs, 31 bits: NaN and infinities are
        above all numbers, subnormals count as zero.
    format
        A `rtl.core.isa.MatrixFormat`.
    rule
        A `rtl.core.isa.Rule`.
    """
    x = Binary32(Cat(amax, 0))
    integer = format == MatrixFormat.MXINT8
    largest = Mux(integer, Format.MXINT8.largest_fraction, Format.MXFP4.largest_fraction)
    emax = Mux(integer, Format.MXINT8.emax, Format.MXFP4.emax)
    saturates = (x.magnitude[:23] > largest) & (rule == Rule.CEIL)
    return Mux(x.exponent.all(), SCALE_NAN, _clamped(x.exponent + saturates, emax))


def _clamped(exponent: Value, emax: Value) -> Value:
    scale = (exponent - emax).as_signed()
    return Mux(scale < 0, 0, Mux(scale > SCALE_MAX, SCALE_MAX, scale))[:8]


class Quantiser(Leaf):
    """Turn an element into a code under the scale of its block.

    Members
    -------
    x : In
        The element; if it is NaN or infinite, the scale is 255.
    scale : In
        Scale byte of its block, by `scale_of`; 255 makes every code 0.
    format : In
        A `rtl.core.isa.MatrixFormat`.
    code : Out
        The code; one of MXFP4 takes the lower half.
    """

    def __init__(self) -> None:
        super().__init__({"x": In(32), "scale": In(8), "format": In(1), "code": Out(8)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "vec_quantiser"

    def build(self, platform: Any) -> Module:
        """Return the hardware."""
        m = Module()
        x = Binary32(self.x)
        negative = x.negative

        # Binades above the scale: 2 at most with MXFP4, 0 with MXINT8; more saturates.
        binade = Signal(signed(9))
        below = Signal(4)
        m.d.comb += [
            binade.eq(x.exponent - self.scale),
            below.eq(Mux(binade >= 0, 0, Mux(binade < -8, 8, -binade))),
        ]

        # The leading 8 bits, and whether there is a one behind them, shifted below the scale: 7
        # bits of an MXINT8 magnitude and a half, or, two places of an MXFP4 code and a half.
        word = Signal(9)
        m.d.comb += word.eq(Cat(x.significand[:16].any(), x.significand[16:]))
        for i in range(4):
            by = 1 << i
            shifted = Signal(9, name=f"shifted{i}")
            m.d.comb += shifted.eq(Mux(below[i], Cat(word[: by + 1].any(), word[by + 1 :]), word))
            word = shifted
        integer, fraction = word[2:], word[7:]
        saturated = Signal()
        up = Signal()
        code = Signal(8)
        with m.If(self.format == MatrixFormat.MXINT8):
            m.d.comb += [
                saturated.eq((binade > 0) | integer.all()),
                up.eq(word[1] & (word[0] | word[2])),
                code.eq(
                    (Cat(integer | saturated.replicate(7), 0) ^ negative.replicate(8))
                    + ((up & ~saturated) ^ negative)
                ),
            ]
        with m.Else():
            m.d.comb += [
                saturated.eq((binade > 2) | ((binade == 2) & fraction.all())),
                up.eq(word[6] & (word[:6].any() | word[7])),
                code.eq(
                    Cat(
                        Mux(
                            saturated,
                            7,
                            fraction + (Mux(binade > 0, binade[:2], 0) << 1) + up,
                        )[:3],
                        negative,
                    )
                ),
            ]
        m.d.comb += self.code.eq(Mux(self.scale == SCALE_NAN, 0, code))
        return m
