"""Renaming: which physical vector register is which, and which are free."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.core.isa import PHYSICAL_VECTORS, VECTORS


class Rename(wiring.Component):
    """The map of vector registers, and the physical ones that nobody has.

    After reset register i is physical register i, and those behind are free.

    Members
    -------
    register : In
        A register of the program.
    physical : Out
        What it is now.
    allocate : In
        Give it a new one, at the end of the cycle; only while there is one.
    available : Out
        There is one.
    fresh : Out
        Which one it would be.
    release : In
        Physical registers that nobody uses any more, a bit each.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "register": In(range(PHYSICAL_VECTORS)),
                "physical": Out(range(PHYSICAL_VECTORS)),
                "allocate": In(1),
                "available": Out(1),
                "fresh": Out(range(PHYSICAL_VECTORS)),
                "release": In(PHYSICAL_VECTORS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return map and free list."""
        m = Module()
        table = Array(Signal(range(PHYSICAL_VECTORS), init=i, name=f"v{i}") for i in range(VECTORS))
        spare = PHYSICAL_VECTORS - VECTORS
        free = Signal(PHYSICAL_VECTORS, init=(1 << spare) - 1 << VECTORS)
        m.d.comb += [self.physical.eq(table[self.register]), self.available.eq(free.any())]
        for i in reversed(range(PHYSICAL_VECTORS)):
            with m.If(free[i]):
                m.d.comb += self.fresh.eq(i)
        taken = Mux(self.allocate, 1, 0) << self.fresh
        m.d.sync += free.eq((free & ~taken) | self.release)
        with m.If(self.allocate):
            m.d.sync += table[self.register].eq(self.fresh)
        return m


def one_hot(bits: int, number: Any) -> Any:
    """Return a number as one bit of so many."""
    return Cat(number == i for i in range(bits))
