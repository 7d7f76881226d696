"""Shares of a whole: a count divided by a number of tiles."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.ring.layouts import RANK_BITS, TILES_BITS

BITS_PER_CYCLE = 7


class Divider(wiring.Component):
    """Divide by the number of tiles, some bits per cycle.

    Parameters
    ----------
    width
        Bits of what is divided.

    Members
    -------
    start : In
        Begin with `count`.
    count, tiles : In
        Operands; `tiles` is never 0.
    done : Out
        The results are there.
    each, rest : Out
        Quotient and remainder.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                "start": In(1),
                "count": In(width),
                "tiles": In(TILES_BITS),
                "done": Out(1),
                "each": Out(width),
                "rest": Out(RANK_BITS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a restoring divider."""
        m = Module()
        steps = -(-self.width // BITS_PER_CYCLE)
        quotient = Signal(steps * BITS_PER_CYCLE)
        left = Signal(range(steps + 1))
        # What has not been divided yet leaves the quotient's register at the top.
        value: Value = quotient
        remainder: Value = self.rest
        for step in range(BITS_PER_CYCLE):
            brought = Signal(TILES_BITS + 1, name=f"brought{step}")
            fits = Signal(name=f"fits{step}")
            reduced = Signal(RANK_BITS, name=f"reduced{step}")
            m.d.comb += [
                brought.eq(Cat(value[-1], remainder)),
                fits.eq(brought >= self.tiles),
                reduced.eq(Mux(fits, brought - self.tiles, brought)),
            ]
            value, remainder = Cat(fits, value[:-1]), reduced
        with m.If(self.start):
            m.d.sync += [quotient.eq(self.count), self.rest.eq(0), left.eq(steps)]
        with m.Elif(left != 0):
            m.d.sync += [quotient.eq(value), self.rest.eq(remainder), left.eq(left - 1)]
        m.d.comb += [self.done.eq(left == 0), self.each.eq(quotient)]
        return m
