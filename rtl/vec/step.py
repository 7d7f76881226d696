"""A step of a vector instruction, for one lane."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.core import isa
from rtl.core.isa import MatrixFormat
from rtl.leaf import Leaf
from rtl.vec.add import Adder
from rtl.vec.binary32 import QUIET_NAN, Binary32
from rtl.vec.compare import flush, less
from rtl.vec.ldexp import Ldexp
from rtl.vec.multiply import Multiplier

KIND_BITS = 4
"""Width of a `rtl.core.isa.Step`."""

_ADDS = (isa.Step.ADD, isa.Step.SUB)
_MULTIPLIES = (isa.Step.MUL, isa.Step.ROTATE_ADJACENT, isa.Step.ROTATE_HALVES)
_LDEXPS = (isa.Step.LDEXP_MXFP4, isa.Step.LDEXP_MXINT8)


class Step(Leaf):
    """Do with x and y what a `rtl.core.isa.Step` says. Each pair may have its own kind.

    Adder and multiplier, where a kind does not use them, see +0 and give +0, all of whose bits are
    zeros: so nothing in them toggles, and the result is the or of both and of what other kinds do.

    Members
    -------
    advance : In
        Let the pipeline go on.
    kind : In
        What is done, a `rtl.core.isa.Step`. NONE copies the bits of x; the two kinds of rotation
        multiply.
    x, y : In
        Operands.
    value : Out
        The result, `LATENCY` steps later.
    """

    LATENCY = 2

    def __init__(self) -> None:
        super().__init__(
            {"advance": In(1), "kind": In(KIND_BITS), "x": In(32), "y": In(32), "value": Out(32)}
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "vec_step"

    def build(self, platform: Any) -> Module:
        """Return the lane."""
        m = Module()

        def used(*kinds: isa.Step) -> Value:
            return reduce(or_, (self.kind == kind for kind in kinds)).replicate(32)

        m.submodules.adder = adder = Adder()
        m.submodules.multiplier = multiplier = Multiplier()
        minus = self.kind == isa.Step.SUB
        m.d.comb += [
            adder.advance.eq(self.advance),
            adder.a.eq(self.x & used(*_ADDS)),
            adder.b.eq(Cat(self.y[:31], self.y[31] ^ minus) & used(*_ADDS)),
            multiplier.advance.eq(self.advance),
            multiplier.a.eq(self.x & used(*_MULTIPLIES)),
            multiplier.b.eq(self.y & used(*_MULTIPLIES)),
        ]

        # All others have done what they do in the first step.
        m.submodules.ldexp = ldexp = Ldexp()
        other = Signal(32)
        first, second = Signal(32), Signal(32)
        m.d.comb += [
            ldexp.x.eq(self.x & used(*_LDEXPS)),
            ldexp.scale.eq(self.y & used(*_LDEXPS)),
            ldexp.format.eq(
                Mux(
                    self.kind == isa.Step.LDEXP_MXINT8,
                    MatrixFormat.MXINT8.value,
                    MatrixFormat.MXFP4.value,
                )
            ),
        ]
        with m.Switch(self.kind):
            with m.Case(isa.Step.NONE):
                m.d.comb += other.eq(self.x)
            with m.Case(isa.Step.TAKE):
                m.d.comb += other.eq(flush(self.y))
            with m.Case(isa.Step.MINIMUM, isa.Step.MAXIMUM, isa.Step.CLAMP):
                m.d.comb += other.eq(self._extreme(m))
            with m.Case(*_LDEXPS):
                m.d.comb += other.eq(ldexp.value)
        with m.If(self.advance):
            m.d.sync += [first.eq(other), second.eq(first)]
        m.d.comb += self.value.eq(adder.value | multiplier.value | second)
        return m

    def _extreme(self, m: Module) -> Value:
        """Return the minimum, maximum or clamped value of x and y."""
        x, y = Signal(32), Signal(32)
        chosen = Signal(32)
        m.d.comb += [x.eq(flush(self.x)), y.eq(flush(self.y))]
        lower = Signal()
        m.d.comb += lower.eq(less(x, y))
        with m.Switch(self.kind):
            with m.Case(isa.Step.MINIMUM):
                m.d.comb += chosen.eq(Mux(lower, x, y))
            with m.Case(isa.Step.MAXIMUM):
                m.d.comb += chosen.eq(Mux(lower, y, x))
            with m.Case(isa.Step.CLAMP):
                # Both bounds are y if it is negative; otherwise the sign is that of x.
                outside = y[31] | (x[:31] > y[:31])
                m.d.comb += chosen.eq(Cat(Mux(outside, y, x)[:31], x[31] | y[31]))
        nan = Binary32(self.x).is_nan | Binary32(self.y).is_nan
        return Mux(nan, QUIET_NAN, chosen)
