"""What was read, on its way to whoever asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.hbm.interface import BEAT_BYTES, CHECK_BITS
from rtl.hbm.partial import WRITERS
from rtl.hbm.place import PlaceLayout
from rtl.hbm.ports import ReadBeatLayout
from rtl.hbm.reorder import ReorderBuffer, advanced
from rtl.hbm.returns import WORDS, ReadLayout, ReadTagLayout, Returns


class Delivery(wiring.Component):
    """Give beats to the reorder buffers of clients, and to the partial writer.

    Parameters
    ----------
    sources
        How many may read; the last ones are the partial writers.
    depths
        Beats of the reorder buffer of each source that has one.
    ecc
        Whether there are check bits.

    Members
    -------
    issue, issued : In
        A read is given, see `rtl.hbm.returns.ReadLayout`.
    valid, data, check, unprotected : In
        A beat from the device.
    pick, reserve : In
        The source whose access is taken, and the slots that it needs.
    fault : In
        Its read goes nowhere: a slot of `pick` is filled with an error.
    room, slots, may_answer : Out
        Of each source: slots are free, the first of them, and an error could be put there now.
    beats : array of Out
        What the sources get, in order; nothing to those without a buffer.
    own_valid, half, corrected, lost : Out
        A beat for a partial writer, a bit for each; which of the access, the data, and which words
        are lost.
    scrub, place : Out
        A beat for somebody else was corrected; where any beat comes from.
    fixed, broken : Out
        A beat was corrected; a beat could not be.
    """

    def __init__(self, sources: int, depths: Mapping[int, int], *, ecc: bool) -> None:
        self.sources, self.depths, self.ecc = sources, dict(depths), ecc
        super().__init__(
            {
                "issue": In(1),
                "issued": In(ReadLayout()),
                "valid": In(1),
                "data": In(8 * BEAT_BYTES),
                "check": In(CHECK_BITS),
                "unprotected": In(1),
                "pick": In(sources),
                "reserve": In(2),
                "fault": In(1),
                "room": Out(sources),
                "slots": Out(ReadTagLayout()["slot"].shape).array(sources),
                "may_answer": Out(sources),
                "beats": Out(stream.Signature(ReadBeatLayout())).array(sources),
                "own_valid": Out(WRITERS),
                "half": Out(1),
                "corrected": Out(8 * BEAT_BYTES),
                "lost": Out(WORDS),
                "scrub": Out(1),
                "place": Out(PlaceLayout()),
                "fixed": Out(1),
                "broken": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the reads under way, and the buffers."""
        m = Module()
        m.submodules.returns = returns = Returns(ecc=self.ecc)
        first = self.sources - WRITERS
        tag, own, wanted = returns.read.tag, Signal(), Signal()
        m.d.comb += [
            returns.issue.eq(self.issue),
            returns.issued.eq(self.issued),
            returns.valid.eq(self.valid),
            returns.data.eq(self.data),
            returns.check.eq(self.check),
            returns.unprotected.eq(self.unprotected),
            wanted.eq(self.valid & tag.wanted.bit_select(returns.half, 1)),
            own.eq(tag.client >= first),
            *(self.own_valid[i].eq(self.valid & (tag.client == first + i)) for i in range(WRITERS)),
            self.half.eq(returns.half),
            self.corrected.eq(returns.corrected),
            self.lost.eq(returns.lost),
            self.place.eq(returns.read.place),
            self.fixed.eq(returns.fixed.any()),
            self.broken.eq(returns.lost.any()),
            self.scrub.eq(self.fixed & ~own),
        ]
        for i in range(self.sources):
            if i not in self.depths:
                m.d.comb += self.room[i].eq(1)
                continue
            m.submodules[f"buffer{i}"] = buffer = ReorderBuffer(self.depths[i])
            connect(m, buffer.beats, flipped(self.beats[i]))
            fill, fault, skip = Signal(), Signal(), Signal()
            m.d.comb += [
                fill.eq(wanted & (tag.client == i)),
                fault.eq(self.fault & self.pick[i]),
                skip.eq(returns.half & tag.wanted[0]),  # the first beat has the first slot
                self.room[i].eq(buffer.room),
                self.slots[i].eq(buffer.slot),
                self.may_answer[i].eq(~fill),
                buffer.reserve.eq(Mux(self.pick[i], self.reserve, 0)),
                buffer.fill.eq(fill | fault),
                buffer.fill_slot.eq(Mux(fill, advanced(tag.slot, skip, buffer.depth), buffer.slot)),
                buffer.beat.data.eq(returns.corrected),
                buffer.beat.error.eq(Mux(fill, self.broken, 1)),
            ]
        return m
