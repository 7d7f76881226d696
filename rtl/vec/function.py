"""The function in the middle of a vector instruction, for one lane."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.core.isa import Function
from rtl.leaf import Leaf
from rtl.vec.add import Adder
from rtl.vec.binary32 import ONE
from rtl.vec.elementary import Exp2, Root
from rtl.vec.multiply import ConstantMultiplier, Multiplier

FUNCTION_BITS = 3
"""Width of a `rtl.core.isa.Function`."""

LOG2E = 0x3FB8AA3B
"""log2 e as FP32."""

_EXP = ConstantMultiplier.LATENCY + Exp2.LATENCY
_SIGMOID = _EXP + Adder.LATENCY + Root.LATENCY

LATENCIES: dict[Function, int] = {
    Function.NONE: 0,
    Function.EXP: _EXP,
    Function.EXP2: Exp2.LATENCY,
    Function.RECIPROCAL: Root.LATENCY,
    Function.RSQRT: Root.LATENCY,
    Function.SIGMOID: _SIGMOID,
    Function.GATE: Multiplier.LATENCY + _SIGMOID + Multiplier.LATENCY,
}
"""Steps from `FunctionLane.x` to its value."""


class FunctionLane(Leaf):
    """Apply a function to a number, a new one each step.

    ===========  ==========================================================================
    EXP          multiply by log2 e → exp2
    EXP2         exp2
    RECIPROCAL   root
    RSQRT        root
    SIGMOID      multiply by -log2 e → exp2 → add 1 → root
    GATE         side multiplier: factor · x → SIGMOID → multiply by x, which waited meanwhile
    ===========  ==========================================================================

    The side multiplier is free with all other functions, and then multiplies for others. Units that
    a function does not use see +0 or what does not change.

    Members
    -------
    advance : In
        Let the pipeline go on.
    kind : In
        A `rtl.core.isa.Function`. It stays while a number is on its way; with NONE there is no
        value.
    x : In
        Operand.
    factor : In
        FP32 bits that GATE multiplies with.
    value : Out
        The result, as many steps later as `LATENCIES` says.
    side_a, side_b : In
        Operands of the side multiplier, except with GATE; +0 for nothing.
    side_value : Out
        Their product, `rtl.vec.multiply.LATENCY` steps later.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "advance": In(1),
                "kind": In(FUNCTION_BITS),
                "x": In(32),
                "factor": In(32),
                "value": Out(32),
                "side_a": In(32),
                "side_b": In(32),
                "side_value": Out(32),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "vec_function_lane"

    def build(self, platform: Any) -> Module:
        """Return the lane."""
        m = Module()
        m.submodules.side = side = Multiplier()
        m.submodules.log2e = log2e = ConstantMultiplier(LOG2E)
        m.submodules.exp2 = exp2 = Exp2()
        m.submodules.plus_one = plus_one = Adder()
        m.submodules.root = root = Root()
        m.submodules.gate = gate = Multiplier()
        for unit in (side, log2e, exp2, plus_one, root, gate):
            m.d.comb += unit.advance.eq(self.advance)

        def when(*functions: Function) -> Value:
            chosen = Signal(name="_".join(["when", *(f.name.lower() for f in functions)]))
            m.d.comb += chosen.eq(Cat(self.kind == f for f in functions).any())
            return chosen

        is_gate = when(Function.GATE)
        sigmoid = when(Function.SIGMOID, Function.GATE)
        m.d.comb += [
            side.a.eq(Mux(is_gate, self.x, self.side_a)),
            side.b.eq(Mux(is_gate, self.factor, self.side_b)),
            self.side_value.eq(side.value),
        ]
        # exp(-x) of a sigmoid is had by the sign of x.
        direct = when(Function.EXP, Function.SIGMOID)
        argument = (self.x & direct.replicate(32)) | (side.value & is_gate.replicate(32))
        m.d.comb += [
            log2e.a.eq(Cat(argument[:31], argument[31] ^ sigmoid)),
            exp2.x.eq(Mux(when(Function.EXP2), self.x, log2e.value)),
            plus_one.a.eq(exp2.value & sigmoid.replicate(32)),
            plus_one.b.eq(Const(ONE, 32)),
            root.square.eq(when(Function.RSQRT)),
            root.x.eq(Mux(when(Function.RECIPROCAL, Function.RSQRT), self.x, plus_one.value)),
        ]
        # GATE's x waits.
        waiting = self.x & is_gate.replicate(32)
        for i in range(LATENCIES[Function.GATE] - Multiplier.LATENCY):
            later = Signal(32, name=f"waiting{i}")
            with m.If(self.advance):
                m.d.sync += later.eq(waiting)
            waiting = later
        m.d.comb += [
            gate.a.eq(waiting),
            gate.b.eq(root.value & is_gate.replicate(32)),
        ]
        with m.Switch(self.kind):
            with m.Case(Function.EXP, Function.EXP2):
                m.d.comb += self.value.eq(exp2.value)
            with m.Case(Function.RECIPROCAL, Function.RSQRT, Function.SIGMOID):
                m.d.comb += self.value.eq(root.value)
            with m.Case(Function.GATE):
                m.d.comb += self.value.eq(gate.value)
        return m
