"""What comes back from the device: which read it belongs to, and whether it is right."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Value
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from rtl.hbm.ecc import SecdedDecoder
from rtl.hbm.interface import BEAT_BYTES, CHECK_BITS
from rtl.hbm.place import PlaceLayout
from rtl.hbm.timing import BURST, LATENCY_MAX

WORDS = 2
"""Words of 64 bits in a beat."""

CLIENT_BITS = 3
SLOT_BITS = 9


class ReadTagLayout(data.StructLayout):
    """What to do with the data of a read.

    Fields
    ------
    client
        Whose it is.
    slot
        Slot of the first wanted beat in the client's reorder buffer.
    wanted
        A bit for each beat.
    """

    def __init__(self) -> None:
        super().__init__({"client": CLIENT_BITS, "slot": SLOT_BITS, "wanted": 2})


class ReadLayout(data.StructLayout):
    """A read under way: ``tag`` and ``place``."""

    def __init__(self) -> None:
        super().__init__({"tag": ReadTagLayout(), "place": PlaceLayout()})


class Returns(wiring.Component):
    """Join beats with the reads they answer, and correct them.

    Parameters
    ----------
    ecc
        Whether there are check bits.

    Members
    -------
    issue, issued : In
        A read is given.
    valid, data, check : In
        A beat from the device.
    unprotected : In
        Do not look at the check bits.
    read : Out
        Which read the beat belongs to.
    half : Out
        Which of its beats it is.
    corrected : Out
        The beat.
    fixed, lost : Out
        Words of it, while valid, that were corrected, and that could not be.
    """

    def __init__(self, *, ecc: bool) -> None:
        self.ecc = ecc
        super().__init__(
            {
                "issue": In(1),
                "issued": In(ReadLayout()),
                "valid": In(1),
                "data": In(8 * BEAT_BYTES),
                "check": In(CHECK_BITS),
                "unprotected": In(1),
                "read": Out(ReadLayout()),
                "half": Out(1),
                "corrected": Out(8 * BEAT_BYTES),
                "fixed": Out(WORDS),
                "lost": Out(WORDS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the reads under way, and the decoders."""
        m = Module()
        m.submodules.reads = reads = SyncFIFO(
            width=ReadLayout().size, depth=LATENCY_MAX // BURST + 2
        )
        m.d.comb += [
            reads.w_data.eq(self.issued),
            reads.w_en.eq(self.issue),
            Value.cast(self.read).eq(reads.r_data),
            reads.r_en.eq(self.valid & self.half),
        ]
        m.d.sync += [
            self.half.eq(self.half ^ self.valid),
            Assert(~self.issue | reads.w_rdy),
            Assert(~self.valid | reads.r_rdy),
        ]
        if not self.ecc:
            m.d.comb += [self.corrected.eq(self.data), self.fixed.eq(0), self.lost.eq(0)]
            return m
        parts = []
        for i in range(WORDS):
            m.submodules[f"decoder{i}"] = decoder = SecdedDecoder()
            counts = self.valid & ~self.unprotected
            m.d.comb += [
                decoder.data.eq(self.data.word_select(i, 64)),
                decoder.check.eq(self.check.word_select(i, 8)),
                self.fixed[i].eq(decoder.single & counts),
                self.lost[i].eq(decoder.uncorrectable & counts),
            ]
            parts.append(decoder.corrected)
        m.d.comb += self.corrected.eq(Mux(self.unprotected, self.data, Cat(parts)))
        return m
