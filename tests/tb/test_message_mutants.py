"""Faults put into the message engines on purpose: their tests must notice every one."""

import pytest

from rtl.config import PRESETS
from tests.tb.mutants import Mutant, notice, params

NANO = PRESETS["nano"]
SHAPES = {
    "pair": NANO.replace(mesh="2x1"),
    "column": NANO.replace(mesh="1x2"),
    "narrow": NANO.replace(mesh="2x1", flit_bytes=4, pseudo_channels=3),
    "wide": NANO.replace(mesh="2x1", flit_bytes=64, vec_lanes=32, pseudo_channels=2),
}
"""Where they are put: quick to build."""

MUTANTS = [
    Mutant("those that do not fit are not put back", "message/inbox.py",
           """                    with m.Else():
                        m.d.comb += queue.w_en.eq(1)""",
           """                    with m.Else():
                        m.d.comb += queue.w_en.eq(0)""", "pair"),
    Mutant("a search ends before those behind have followed", "message/inbox.py",
           "with m.If(~kept):", "with m.If(1):", "pair"),
    Mutant("two are found on one way around", "message/inbox.py",
           "with m.If(~over & fits(head)):", "with m.If(fits(head)):", "pair"),
    Mutant("a message that comes while one is searched is not seen", "message/inbox.py",
           "with m.If(self.announced.valid & fit):", "with m.If(0):", "pair"),
    Mutant("one that fits is taken and kept", "message/inbox.py",
           "queue.w_en.eq(self.announced.valid & ~fit)", "queue.w_en.eq(self.announced.valid)",
           "pair"),
    Mutant("the tag does not matter", "message/inbox.py",
           "self.wanted.any_tag | (message.tag == self.wanted.tag)", "1", "pair"),
    Mutant("the sender does not matter", "message/inbox.py",
           "self.wanted.any_tile | (message.source == self.wanted.tile)", "1", "pair"),
    Mutant("an inbox is too small", "message/geometry.py",
           "return self.tiles * MESSAGES", "return self.tiles * MESSAGES - 4", "pair"),
    Mutant("slots are used twice", "message/engine.py",
           "m.d.comb += outbox.take.eq(1)", "m.d.comb += outbox.take.eq(0)", "pair"),
    Mutant("slots are not given back", "message/serve.py",
           "self.release.eq(ends & ~ask.memory)", "self.release.eq(0)", "pair"),
    Mutant("remote reads give slots back", "message/serve.py",
           "self.release.eq(ends & ~ask.memory)", "self.release.eq(ends)", "pair"),
    Mutant("a slot is given back with the first block", "message/serve.py",
           "self.release.eq(ends & ~ask.memory)",
           "self.release.eq(pieces.valid & pieces.ready & ~ask.memory)", "pair"),
    Mutant("a message is announced before its last block is there", "message/engine.py",
           "with m.If((index == amount) & ~asked):", "with m.If(index + 1 >= amount):", "pair"),
    Mutant("messages of nothing are not answered", "message/serve.py",
           "busy & (empty | Mux", "busy & (Mux", "pair"),
    Mutant("a message that is another one is written", "message/engine.py",
           "fetch.drop.eq(receives & ~expected)", "fetch.drop.eq(0)", "pair"),
    Mutant("units are not compared", "message/engine.py",
           "expected.eq((message.blocks == blocks) & (message.count == count))",
           "expected.eq(message.count == count)", "pair"),
    Mutant("the envelope has tag and sender", "message/engine.py",
           "words.payload.word.eq(message.source)", "words.payload.word.eq(message.tag)", "pair"),
    Mutant("what is beyond a register is written", "message/engine.py",
           "offset * SLOT + count <= self.config.vector_length", "1", "pair"),
    Mutant("tiles that there are not", "message/engine.py",
           "(any_tile | (tile < g.tiles))", "1", "pair"),
    Mutant("addresses of half a word", "message/engine.py",
           "((remote.address + remote.address_offset)[:2] == 0)", "1", "pair"),
    Mutant("the address has no offset", "message/engine.py",
           "(remote.address + remote.address_offset)[:32]", "remote.address", "pair"),
    Mutant("scales are left where they are", "message/engine.py",
           "registers.scaled.eq(blocks)", "registers.scaled.eq(0)", "pair"),
    Mutant("the scale of a block is that of the next", "message/packer.py",
           "Mux(index == i, piece.block.scale, scales[i])",
           "Mux(index == i + 1, piece.block.scale, scales[i])", "pair"),
    Mutant("errors are forgotten within a packet", "message/packer.py",
           "packet.head.error.eq(error | piece.error)", "packet.head.error.eq(piece.error)",
           "pair"),
    Mutant("errors are forgotten from packet to packet", "message/fetch.py",
           "wrong.eq(wrong | head.error)", "wrong.eq(head.error)", "pair"),
    Mutant("an error stays", "message/fetch.py",
           "ended.eq(0), wrong.eq(0)", "ended.eq(0)", "pair"),
    Mutant("words beyond the last are written", "message/fetch.py",
           "Mux(index + 1 == self.blocks, self.high, BLOCK_WORDS - 1)", "BLOCK_WORDS - 1", "pair"),
    Mutant("a block is written over one that waits", "message/fetch.py",
           "self.flits.ready.eq(~complete | room)", "self.flits.ready.eq(1)", "wide"),
    Mutant("memory is read from the beginning of its first beat", "message/memory.py",
           "offset.eq(self.address[2:offset_bits])", "offset.eq(0)", "pair"),
    Mutant("a block from memory begins where the last one ended", "message/memory.py",
           "filled.eq(Mux(full, 0, filled + fill))", "filled.eq(filled + fill)", "pair"),
    Mutant("bytes are read that were not asked for", "message/memory.py",
           "wanted.eq(((1 << take) - 1) << offset)", "wanted.eq(1 << offset)", "pair"),
    Mutant("rows of the mesh do not count", "message/layouts.py",
           "y = Mux(reached, row, y)", "y = y", "column"),
    Mutant("a hole is read", "message/memory.py",
           "piece.error.eq(wrong | answer.payload.error | what.hole)",
           "piece.error.eq(wrong | answer.payload.error)", "narrow"),
    Mutant("flits of a request are in the wrong order", "message/frames.py",
           "Cat(*parts, flit.data)", "Cat(flit.data, *parts)", "narrow"),
]  # fmt: skip

SAMPLE = 2
"""Mutants of every run."""


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_message_tests_notice(mutant, tmp_path):
    notice("message", mutant, SHAPES[mutant.config], tmp_path)
