"""Messages that were announced and not taken, in the order in which that was."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from rtl.message.geometry import MessageGeometry
from rtl.message.layouts import TAG_BITS, TILE_BITS, AnnouncementLayout


class WantedLayout(data.StructLayout):
    """Which messages fit.

    Members
    -------
    any_tile, any_tag : unsigned(1)
        From whom and about what does not matter.
    tile, tag : unsigned
        From whom and about what, otherwise.
    """

    def __init__(self) -> None:
        super().__init__({"any_tile": 1, "any_tag": 1, "tile": TILE_BITS, "tag": TAG_BITS})


class Inbox(wiring.Component):
    """Find the first message that fits.

    Announcements are a queue. A search takes them out one by one and puts back, behind the others,
    those that do not fit; once around, they are in order again. Then it looks at what comes. Every
    tile has a bounded number of messages under way, so all that can be announced has room, and
    announcements never wait for longer than a search goes around.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    announced : In
        What comes.
    search : In
        Look for one; until it is found, `wanted` stays.
    wanted : In
        Which.
    found : Out
        It; offered until it is taken.
    """

    def __init__(self, geometry: MessageGeometry) -> None:
        self.geometry = geometry
        layout = AnnouncementLayout(geometry)
        super().__init__(
            {
                "announced": In(stream.Signature(layout)),
                "search": In(1),
                "wanted": In(WantedLayout()),
                "found": Out(stream.Signature(layout)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the queue, and the search through it."""
        m = Module()
        layout = AnnouncementLayout(self.geometry)
        depth = self.geometry.waiting + 1  # one is put back while all are there
        m.submodules.queue = queue = SyncFIFO(width=layout.size, depth=depth)
        head, entry = Signal(layout), Signal(layout)
        left = Signal(range(depth + 1))
        kept = Signal()  # some were put back: the others have to follow them
        over = Signal()  # it was found on this way around

        def fits(message: Any) -> Any:
            return (self.wanted.any_tile | (message.source == self.wanted.tile)) & (
                self.wanted.any_tag | (message.tag == self.wanted.tag)
            )

        looks = Signal()
        m.d.comb += [
            head.eq(queue.r_data),
            looks.eq(self.search & ~self.found.valid),
            entry.eq(self.announced.payload),
            queue.w_data.eq(entry),
        ]
        with m.If(self.found.ready):
            m.d.sync += self.found.valid.eq(0)
        with m.FSM():
            with m.State("rest"):
                m.d.comb += [
                    self.announced.ready.eq(1),
                    queue.w_en.eq(self.announced.valid),
                ]
                with m.If(looks):
                    m.d.comb += [self.announced.ready.eq(0), queue.w_en.eq(0)]
                    m.d.sync += [left.eq(queue.level), kept.eq(0), over.eq(0)]
                    m.next = "around"
            with m.State("around"):
                m.d.comb += entry.eq(head)
                with m.If(left == 0):
                    m.next = "wait"
                    with m.If(over):
                        m.next = "rest"
                with m.Else():
                    m.d.comb += queue.r_en.eq(1)
                    m.d.sync += left.eq(left - 1)
                    with m.If(~over & fits(head)):
                        m.d.sync += [
                            self.found.valid.eq(1),
                            self.found.payload.eq(head),
                            over.eq(1),
                        ]
                        with m.If(~kept):
                            m.next = "rest"
                    with m.Else():
                        m.d.comb += queue.w_en.eq(1)
                        m.d.sync += kept.eq(1)
            with m.State("wait"):
                fit = fits(self.announced.payload)
                m.d.comb += [
                    self.announced.ready.eq(1),
                    queue.w_en.eq(self.announced.valid & ~fit),
                ]
                with m.If(self.announced.valid & fit):
                    m.d.sync += [
                        self.found.valid.eq(1),
                        self.found.payload.eq(self.announced.payload),
                    ]
                    m.next = "rest"
        m.d.sync += Assert(~queue.w_en | queue.w_rdy)
        return m
