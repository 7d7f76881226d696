"""Bring the data of writes to the bus when it is due."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from rtl.hbm.ecc import SecdedEncoder
from rtl.hbm.interface import ACCESS_BYTES, BEAT_BYTES, CHECK_BITS
from rtl.hbm.pool import SLOT_BITS
from rtl.hbm.returns import WORDS
from rtl.hbm.timing import BURST, LATENCY_MAX

CLOCK_BITS = 6


class Writer(wiring.Component):
    """Wait until writes are due, fetch their data, and add check bits.

    Parameters
    ----------
    ecc
        Whether there are check bits.

    Members
    -------
    latency : In
        WL: from the command on its bus to the data.
    issue, issue_slot : In
        A WR is chosen; it is on the bus in the next cycle.
    fetch, fetch_slot, in_data, in_enable
        See `rtl.hbm.pool.WritePool`.
    data, enable, check : Out
        To the device.
    """

    def __init__(self, *, ecc: bool) -> None:
        self.ecc = ecc
        super().__init__(
            {
                "latency": In(CLOCK_BITS),
                "issue": In(1),
                "issue_slot": In(SLOT_BITS),
                "fetch": Out(1),
                "fetch_slot": Out(SLOT_BITS),
                "in_data": In(8 * ACCESS_BYTES),
                "in_enable": In(ACCESS_BYTES),
                "data": Out(8 * BEAT_BYTES),
                "enable": Out(BEAT_BYTES),
                "check": Out(CHECK_BITS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the writes under way, and the encoders."""
        m = Module()
        clock = Signal(CLOCK_BITS)
        m.submodules.due = due = SyncFIFO(
            width=SLOT_BITS + CLOCK_BITS, depth=LATENCY_MAX // BURST + 2
        )
        slot, at = due.r_data[:SLOT_BITS], due.r_data[SLOT_BITS:]
        first, second = Signal(), Signal()
        when = Signal(CLOCK_BITS)
        m.d.comb += [
            when.eq(clock + self.latency),
            due.w_en.eq(self.issue),
            due.w_data.eq(Cat(self.issue_slot, when)),
            self.fetch.eq(due.r_rdy & (at == clock)),
            self.fetch_slot.eq(slot),
            due.r_en.eq(self.fetch),
            self.data.eq(self.in_data.word_select(second, 8 * BEAT_BYTES)),
        ]
        m.d.sync += [
            clock.eq(clock + 1),
            first.eq(self.fetch),
            second.eq(first),
            Assert(~self.issue | due.w_rdy),
        ]
        with m.If(first):
            m.d.comb += self.enable.eq(self.in_enable[:BEAT_BYTES])
        with m.If(second):
            m.d.comb += self.enable.eq(self.in_enable[BEAT_BYTES:])
        if self.ecc:
            for i in range(WORDS):
                m.submodules[f"encoder{i}"] = encoder = SecdedEncoder()
                m.d.comb += [
                    encoder.data.eq(self.data.word_select(i, 64)),
                    self.check.word_select(i, 8).eq(encoder.check),
                ]
        return m
