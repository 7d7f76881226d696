"""Who is offered an output: each input in its share of the turns, and nobody in vain."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import lowest

__all__ = ["ShareArbiter"]


class ShareArbiter(wiring.Component):
    """Choose one of the requests, by turns of which each input has its share.

    Where the input whose turn it is asks for nothing, another is chosen, from a place that moves
    on slowly: that has no memory, so nobody is kept waiting for having been served before.

    Parameters
    ----------
    inputs
        How many ask.
    bits
        Width of the count of turns.

    Members
    -------
    requests : In
        Who asks.
    starts : In
        Where the ranges of the inputs begin, but for the first; see `rtl.noc.shares`.
    advance : In
        The turn is over.
    choice : Out
        One of the requests, if there is one.
    """

    def __init__(self, inputs: int, bits: int) -> None:
        self.inputs, self.bits = inputs, bits
        super().__init__(
            {
                "requests": In(inputs),
                "starts": In(data.ArrayLayout(bits + 1, inputs - 1)),
                "advance": In(1),
                "choice": Out(inputs),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the count, and the choice."""
        m = Module()
        count = Signal(self.bits)
        with m.If(self.advance):
            m.d.sync += count.eq(count + 1)

        reached = Signal(self.inputs)  # the ranges that begin before the place of the turn
        turn, mine = Signal(self.inputs), Signal(self.inputs)
        later, following = Signal(self.inputs), Signal(self.inputs)
        place = Cat(reversed([count[bit] for bit in range(self.bits)]))
        slow = count[-min(2, (self.inputs - 1).bit_length()) :]
        top = (1 << len(slow)) - 1
        m.d.comb += [
            reached.eq(Cat(1, *(place >= self.starts[i] for i in range(self.inputs - 1)))),
            turn.eq(reached & ~(reached >> 1)),
            mine.eq(self.requests & turn),
            later.eq(Cat(slow <= i if i < top else 1 for i in range(self.inputs))),
            following.eq(self.requests & later),
        ]
        with m.If(mine.any()):
            m.d.comb += self.choice.eq(mine)
        with m.Elif(following.any()):
            m.d.comb += self.choice.eq(lowest(following))
        with m.Else():
            m.d.comb += self.choice.eq(lowest(self.requests))
        return m
