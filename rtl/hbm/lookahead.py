"""Where streams are and will be, bank by bank."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import select
from rtl.hbm.interface import ROW_BITS
from rtl.hbm.place import BANKS, GeometryLayout, SetLayout, exists, within_of


class LookAhead(wiring.Component):
    """Show the banks which rows streams will need, one stream's at a time.

    Parameters
    ----------
    streams
        How many.

    Members
    -------
    geometry : In
        See `GeometryLayout`.
    active, pages, ahead, next_pages : In
        Of each stream, see `rtl.hbm.generator.Generator`.
    hint : Out
        Banks in which `row` will be needed.
    row : Out
        Which one.
    reserved : Out
        Banks where a stream is or soon will be.
    """

    def __init__(self, streams: int) -> None:
        self.streams = streams
        super().__init__(
            {
                "geometry": In(GeometryLayout()),
                "active": In(streams),
                "pages": In(SetLayout()).array(streams),
                "ahead": In(streams),
                "next_pages": In(SetLayout()).array(streams),
                "hint": Out(BANKS),
                "row": Out(ROW_BITS),
                "reserved": Out(BANKS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return whose turn it is to be shown, and its pages."""
        m = Module()
        turn = Signal(self.streams, init=1)
        m.d.sync += turn.eq(turn.rotate_left(1))
        ahead, pages = Signal(), Signal(SetLayout())
        following = [Value.cast(of_one) for of_one in self.next_pages]
        m.d.sync += [
            ahead.eq((turn & self.ahead).any()),
            Value.cast(pages).eq(select(turn, following)),
        ]
        m.d.comb += self.row.eq(pages.row)
        for b in range(BANKS):
            within = Signal(3, name=f"within_{b}")
            m.d.comb += [
                within.eq(within_of(self.geometry.groups, b)),
                self.hint[b].eq(ahead & (pages.within == within) & exists(self.geometry, b)),
            ]
            m.d.sync += self.reserved[b].eq(
                Cat(
                    (self.active[i] & (self.pages[i].within == within))
                    | (self.ahead[i] & (self.next_pages[i].within == within))
                    for i in range(self.streams)
                ).any()
            )
        return m
