"""Words of memory for the scalar unit."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.l1.geometry import L1Geometry
from rtl.l1.share import L1UserSignature
from rtl.vec.queue import CommandQueue


class WordAccessLayout(data.StructLayout):
    """A word that is read or written.

    Fields
    ------
    store
        It is written.
    address
        Byte address.
    value
        What is written.
    """

    def __init__(self) -> None:
        super().__init__({"store": 1, "address": 32, "value": 32})


class WordAccess(wiring.Component):
    """Load and store words, in order.

    Parameters
    ----------
    geometry
        Sizes of the cache.

    Members
    -------
    access : In
        What to do, see `WordAccessLayout`.
    answers : Out
        What was read; something also for what was written.
    cache : Out
        To L1.
    failed : Out
        A word could not be read.
    """

    def __init__(self, geometry: L1Geometry) -> None:
        self.geometry = geometry
        super().__init__(
            {
                "access": In(stream.Signature(WordAccessLayout())),
                "answers": Out(stream.Signature(32)),
                "cache": Out(L1UserSignature(geometry)),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return one access at a time per answer, with a queue of where the words are."""
        m = Module()
        g = self.geometry
        access, request = self.access.payload, self.cache.requests.payload
        words = g.beat_bytes // 4
        word = access.address[2 : g.offset_bits]
        layout = data.StructLayout({"store": 1, "word": g.offset_bits - 2})
        m.submodules.asked = asked = CommandQueue(layout, 2)
        m.d.comb += [
            request.beat.eq(access.address[g.offset_bits :]),
            request.write.eq(access.store),
            request.data.eq(access.value.replicate(words)),
            request.enable.eq(Const(0xF, g.beat_bytes) << Cat(Const(0, 2), word)),
            self.cache.requests.valid.eq(self.access.valid & asked.commands.ready),
            self.access.ready.eq(asked.commands.ready & self.cache.requests.ready),
            asked.commands.valid.eq(self.access.valid & self.cache.requests.ready),
            asked.commands.payload.store.eq(access.store),
            asked.commands.payload.word.eq(word),
        ]
        found, answer = asked.head.payload, self.cache.answers
        m.d.comb += [
            self.answers.valid.eq(asked.head.valid & (found.store | answer.valid)),
            self.answers.payload.eq(
                Mux(found.store, 0, answer.payload.data.word_select(found.word, 32))
            ),
            asked.head.ready.eq(self.answers.valid & self.answers.ready),
            answer.ready.eq(asked.head.ready & ~found.store),
            self.failed.eq(answer.valid & answer.ready & answer.payload.error),
        ]
        return m
