"""The FP32 adder."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.leaf import Leaf
from rtl.vec.binary32 import EXPONENT, INFINITY, QUIET_NAN, Binary32, rounded

GUARD = 3
"""Bits behind a significand: two that a normalised sum can reach, and one for all below them."""

SUM = 1 + 24 + GUARD
"""Width of a sum of significands, its carry on top."""


class Adder(Leaf):
    """Add two binary32 numbers, in two steps. To subtract, flip the sign of `b`.

    Members
    -------
    advance : In
        Let the pipeline go on.
    a, b : In
        Operands.
    value : Out
        ``a + b``, `LATENCY` steps later.
    """

    LATENCY = 2

    def __init__(self) -> None:
        super().__init__({"advance": In(1), "a": In(32), "b": In(32), "value": Out(32)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "vec_adder"

    def build(self, platform: Any) -> Module:
        """Return the adder."""
        m = Module()
        a, b = Binary32(self.a), Binary32(self.b)

        # First step: align the smaller magnitude to the larger one, and add or subtract it. Of two
        # equal ones the positive counts as the larger, so that it gives a sum of zero its sign.
        swap = Signal()
        x, y = Signal(32), Signal(32)
        larger, smaller = Signal(32), Signal(32)
        m.d.comb += [
            x.eq(Cat(a.magnitude, a.negative)),
            y.eq(Cat(b.magnitude, b.negative)),
            swap.eq(Cat(a.negative, b.magnitude) > Cat(b.negative, a.magnitude)),
            larger.eq(Mux(swap, y, x)),
            smaller.eq(Mux(swap, x, y)),
        ]
        high, low = Binary32(larger), Binary32(smaller)
        distance = Signal(8)
        aligned = Signal(SUM)
        subtract = Signal()
        m.d.comb += [
            distance.eq(Mux(swap, b.exponent - a.exponent, a.exponent - b.exponent)),
            aligned.eq(_shifted_right(m, _significand(low) << GUARD, distance)),
            subtract.eq(high.negative ^ low.negative),
        ]
        total = Signal(SUM)
        exponent = Signal(8)
        negative, infinite, nan = Signal(), Signal(), Signal()
        with m.If(self.advance):
            m.d.sync += [
                total.eq(
                    (_significand(high) << GUARD) + (aligned ^ subtract.replicate(SUM)) + subtract
                ),
                exponent.eq(high.exponent),
                negative.eq(high.negative),
                infinite.eq(high.exponent.all()),
                nan.eq(a.is_nan | b.is_nan | (a.is_infinite & b.is_infinite & subtract)),
            ]

        # Second step: normalise, so that the leading one is the top bit, and round.
        normal, zeros = _normalised(m, total)
        place = Signal(EXPONENT)
        m.d.comb += place.eq(exponent + 1 - zeros)
        magnitude = rounded(
            m,
            exponent=place,
            significand=normal[-24:],
            half=normal[-25],
            rest=normal[:-25].any(),
            gradual=False,
        )
        with m.If(self.advance):
            m.d.sync += self.value.eq(Cat(magnitude, negative))
            with m.If(infinite):
                m.d.sync += self.value.eq(Cat(Const(INFINITY, 31), negative))
            with m.If(nan):
                m.d.sync += self.value.eq(QUIET_NAN)
        return m


def _significand(x: Binary32) -> Value:
    """Return the significand of what is no subnormal any more."""
    return Cat(x.fraction, ~x.is_zero)


def _shifted_right(m: Module, value: Value, distance: Value) -> Value:
    """Return `value` shifted right, its last bit being the or of all that would fall off."""
    width = len(value)
    levels = ceil_log2(width)
    for i in range(levels):
        by = 1 << i
        shifted = Signal(width, name=f"aligned{i}")
        lost = value[: by + 1].any()
        m.d.comb += shifted.eq(Mux(distance[i], Cat(lost, value[by + 1 :]), value))
        value = shifted
    return Mux(distance[levels:].any(), value.any(), value)


def _normalised(m: Module, value: Value) -> tuple[Value, Value]:
    """Return `value` shifted left until its top bit is a one, and by how much that was."""
    width = len(value)
    zeros: list[Value] = []
    for i in reversed(range(ceil_log2(width))):
        by = 1 << i
        empty = Signal(name=f"empty{i}")
        shifted = Signal(width, name=f"normal{i}")
        m.d.comb += [
            empty.eq(~value[-by:].any()),
            shifted.eq(Mux(empty, value << by, value)),
        ]
        zeros.insert(0, empty)
        value = shifted
    return value, Cat(zeros)
