"""Small components that the tests of Verilog emission share.

Amaranth reads members from annotations, so ``from __future__ import annotations`` must not be here.
"""

from typing import Any

from amaranth.hdl import Assert, Module, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.leaf import Leaf

PAIR = data.StructLayout({"a": signed(5), "b": 5})


class Accumulator(wiring.Component):
    """Adds up ``a ^ b``; an assertion makes sure that those are handled, too."""

    pair: In(PAIR)
    total: Out(signed(12))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.sync += self.total.eq(self.total + (self.pair.a ^ self.pair.b))
        m.d.sync += Assert(self.total != 5, "unlucky")
        return m


class Increment(Leaf):
    """Adds a constant that is part of its name; combinational, so it has no clock."""

    i: In(4)
    o: Out(5)

    def __init__(self, step: int = 1) -> None:
        super().__init__()
        self.step = step

    @property
    def module_name(self) -> str:
        return f"increment_{self.step}"

    def build(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += self.o.eq(self.i + self.step)
        return m


class Cell(Leaf):
    """A leaf with registers, an ordinary submodule, another leaf, and a stream always ready."""

    pair: In(PAIR)
    o: Out(signed(12))
    extra: In(stream.Signature(4, always_ready=True))
    module_name = "cell_unit"

    def build(self, platform: Any) -> Module:
        m = Module()
        m.submodules.accumulator = accumulator = Accumulator()
        m.submodules.increment = increment = Increment()
        m.d.comb += [
            accumulator.pair.eq(self.pair),
            increment.i.eq(accumulator.total),
            self.o.eq(accumulator.total ^ increment.o),
        ]
        with m.If(self.extra.valid):
            m.d.comb += self.o.eq(self.extra.payload)
        return m


class Block(wiring.Component):
    """Twin submodules, repeated leaves, a memory, a state machine and awkward internal names."""

    i: In(stream.Signature(PAIR))
    o: Out(stream.Signature(signed(16)))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        total = 0
        for n in range(3):
            m.submodules[f"twin{n}"] = twin = Accumulator()
            m.submodules[f"cell{n}"] = cell = Cell()
            m.d.comb += [twin.pair.eq(self.i.payload), cell.pair.eq(self.i.payload)]
            total = total + twin.total + cell.o
        for n, step in enumerate((1, 2, 1)):
            m.submodules[f"leaf{n}"] = leaf = Increment(step)
            m.d.comb += leaf.i.eq(self.i.payload.b)
            total = total + leaf.o
        m.submodules.table = table = memory.Memory(shape=8, depth=4, init=[3, 1, 4, 1])
        read = table.read_port()
        m.d.comb += read.addr.eq(self.i.payload.b)
        always = Signal(8, name="always")
        m.d.sync += always.eq(read.data)
        with m.FSM(name="control"):
            with m.State("IDLE"), m.If(self.i.valid):
                m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        m.d.comb += [self.o.payload.eq(total + always), self.i.ready.eq(self.o.ready)]
        return m
