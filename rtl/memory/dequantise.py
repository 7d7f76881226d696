"""From the code of an MX element to binary32, rounded once."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from rtl.core.isa import MatrixFormat
from rtl.formats import E2M1_HALF_UNITS, SCALE_BIAS, SCALE_NAN, Format
from rtl.leaf import Leaf
from rtl.vec.binary32 import INFINITY, QUIET_NAN


class Dequantiser(Leaf):
    """Multiply a code by the unit of its block. Combinational.

    A code has 8 bits at most, so nothing is ever rounded but to zero: a product below the normal
    range never has the 24 leading ones that would round up into it.

    Members
    -------
    code : In
        The code; one of MXFP4 takes the lower half.
    scale : In
        Scale byte of its block; 255 gives NaN.
    format : In
        A `rtl.core.isa.MatrixFormat`.
    value : Out
        The product. A zero keeps the sign of its code.
    """

    def __init__(self) -> None:
        super().__init__({"code": In(8), "scale": In(8), "format": In(1), "value": Out(32)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "memory_dequantiser"

    def build(self, platform: Any) -> Module:
        """Return the hardware."""
        m = Module()
        integer = self.format == MatrixFormat.MXINT8
        negative, magnitude = Signal(), Signal(8)
        with m.If(integer):
            m.d.comb += [
                negative.eq(self.code[7]),
                magnitude.eq(Mux(negative, -self.code, self.code)),
            ]
        with m.Else():
            m.d.comb += negative.eq(self.code[3])
            with m.Switch(self.code[:3]):
                for code, units in enumerate(E2M1_HALF_UNITS):
                    with m.Case(code):
                        m.d.comb += magnitude.eq(units)

        # Normalise: the leading one becomes bit 7.
        fraction, exponent = magnitude, Const(SCALE_BIAS + 7)
        for by in (4, 2, 1):
            empty = Signal(name=f"empty{by}")
            shifted = Signal(8, name=f"shifted{by}")
            m.d.comb += [
                empty.eq(fraction[8 - by :] == 0),
                shifted.eq(Mux(empty, fraction << by, fraction)),
            ]
            fraction, exponent = shifted, exponent - Mux(empty, by, 0)
        biased = Signal(signed(11))
        offset = Mux(integer, Format.MXINT8.unit_offset, Format.MXFP4.unit_offset)
        m.d.comb += biased.eq(exponent + self.scale - offset)

        bits = Signal(31)
        with m.If(fraction[7] & (biased > 0)):
            m.d.comb += bits.eq(Cat(Const(0, 16), fraction[:7], biased[:8]))
            with m.If(biased >= 255):
                m.d.comb += bits.eq(INFINITY)
        m.d.comb += self.value.eq(Cat(bits, negative))
        with m.If(self.scale == SCALE_NAN):
            m.d.comb += self.value.eq(QUIET_NAN)
        return m
