"""The scalar unit: 32 registers, arithmetic and branches."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.core.fields import WORD_BITS
from rtl.core.isa import OPCODES, SCALARS

ARITHMETIC = ("add", "sub", "mul", "and", "or", "xor", "shl", "shr", "min", "max")
BRANCHES = ("beq", "bne", "blt", "bge")


class ScalarRegisters(wiring.Component):
    """Two read ports that answer at once, and one that writes; register 0 stays 0.

    Members
    -------
    a, b : In
        Registers to read.
    a_value, b_value : Out
        What is in them.
    write, to, value : In
        What is written to a register.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "a": In(range(SCALARS)),
                "b": In(range(SCALARS)),
                "a_value": Out(WORD_BITS),
                "b_value": Out(WORD_BITS),
                "write": In(1),
                "to": In(range(SCALARS)),
                "value": In(WORD_BITS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the registers."""
        m = Module()
        m.submodules.words = words = Memory(shape=WORD_BITS, depth=SCALARS, init=[])
        write = words.write_port()
        m.d.comb += [
            write.en.eq(self.write & (self.to != 0)),
            write.addr.eq(self.to),
            write.data.eq(self.value),
        ]
        for address, value in ((self.a, self.a_value), (self.b, self.b_value)):
            read = words.read_port(domain="comb")
            m.d.comb += [read.addr.eq(address), value.eq(read.data)]
        return m


class Arithmetic(wiring.Component):
    """What scalar instructions compute. All combinational.

    Members
    -------
    opcode : In
        Opcode of arithmetic or of a branch.
    a, b : In
        Operands.
    value : Out
        Result of arithmetic.
    taken : Out
        Whether a branch is.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "opcode": In(8),
                "a": In(WORD_BITS),
                "b": In(WORD_BITS),
                "value": Out(WORD_BITS),
                "taken": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the operations."""
        m = Module()
        a, b = self.a, self.b
        less = Signal()
        m.d.comb += less.eq(a.as_signed() < b.as_signed())
        values: dict[str, Value] = {
            "add": a + b,
            "sub": a - b,
            "mul": a * b,
            "and": a & b,
            "or": a | b,
            "xor": a ^ b,
            "shl": a << b[:5],
            "shr": a >> b[:5],
            "min": Mux(less, a, b),
            "max": Mux(less, b, a),
        }
        taken: dict[str, Value] = {"beq": a == b, "bne": a != b, "blt": less, "bge": ~less}
        with m.Switch(self.opcode):
            for name, value in values.items():
                with m.Case(OPCODES[name].number):
                    m.d.comb += self.value.eq(value)
            for name, condition in taken.items():
                with m.Case(OPCODES[name].number):
                    m.d.comb += self.taken.eq(condition)
        return m
