"""Where the rows of an operand are, one after the other."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Place(wiring.Component):
    """The place of a row, kept up to date from row to row.

    A row is a pair of a token and a head. Adding is enough, since rows come in their order.

    Parameters
    ----------
    bits
        Width of a place.

    Members
    -------
    load : In
        Begin with `start`.
    start : In
        Place of token 0, head 0.
    head, token : In
        What is added from one head to the next, and from one token's head 0 to the next one's.
    linear : In
        `head` is added from every row to the next.
    advance, wrap : In
        Go on to the next row; it is the head 0 of the next token.
    place : Out
        Where the row is.
    """

    def __init__(self, bits: int) -> None:
        super().__init__(
            {
                "load": In(1),
                "start": In(bits),
                "head": In(bits),
                "token": In(bits),
                "linear": In(1),
                "advance": In(1),
                "wrap": In(1),
                "place": Out(bits),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return two adders."""
        m = Module()
        first = Signal.like(self.place)  # that of head 0
        next_first = Signal.like(self.place)
        m.d.comb += next_first.eq(first + self.token)
        with m.If(self.load):
            m.d.sync += [self.place.eq(self.start), first.eq(self.start)]
        with m.Elif(self.advance):
            to_token = self.wrap & ~self.linear
            m.d.sync += self.place.eq(Mux(to_token, next_first, self.place + self.head))
            with m.If(self.wrap):
                m.d.sync += first.eq(next_first)
        return m
