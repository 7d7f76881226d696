"""Multiply by the scale of an MX block: ``ldexp(x, e)``, e being the exponent of its unit."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.core.isa import MatrixFormat
from rtl.formats import SCALE_NAN, Format
from rtl.leaf import Leaf
from rtl.vec.binary32 import EXPONENT, INFINITY, QUIET_NAN, Binary32, rounded


class Ldexp(Leaf):
    """Multiply a binary32 number by the unit of a block. Combinational.

    Members
    -------
    x : In
        The number.
    scale : In
        Scale byte of the block; 255 gives NaN.
    format : In
        Format of the block, a `rtl.core.isa.MatrixFormat`.
    value : Out
        ``x * 2**(scale - 128)`` (MXFP4) or ``x * 2**(scale - 133)`` (MXINT8).
    """

    def __init__(self) -> None:
        super().__init__({"x": In(32), "scale": In(8), "format": In(1), "value": Out(32)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "vec_ldexp"

    def build(self, platform: Any) -> Module:
        """Return the hardware."""
        m = Module()
        x = Binary32(self.x)
        offset = Mux(
            self.format == MatrixFormat.MXINT8,
            Format.MXINT8.unit_offset,
            Format.MXFP4.unit_offset,
        )
        exponent = Signal(EXPONENT)
        m.d.comb += exponent.eq(x.exponent + self.scale - offset)
        magnitude = rounded(
            m, exponent=exponent, significand=x.significand, half=Const(0), rest=Const(0)
        )
        m.d.comb += self.value.eq(Cat(magnitude, x.negative))
        with m.If(x.is_infinite):
            m.d.comb += self.value.eq(Cat(Const(INFINITY, 31), x.negative))
        with m.If(x.is_nan | (self.scale == SCALE_NAN)):
            m.d.comb += self.value.eq(QUIET_NAN)
        return m
