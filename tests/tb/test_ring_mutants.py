"""Faults put into the ring on purpose: its tests must notice every one."""

import pytest

from rtl.config import PRESETS
from tests.tb.mutants import Mutant, notice, params

MUTANTS = [
    Mutant("a sum begins with the tile that it belongs to", "ring/walk.py",
           "*(tile_.eq(next_tile) for tile_ in (tile, first_tile)),", ""),
    Mutant("a header's count is not compared", "ring/receive.py",
           "self.flits.payload.header.as_value() != self.header.as_value()",
           "self.flits.payload.header.kind != self.header.kind"),
    Mutant("the first half of a share is the smaller one", "ring/walk.py",
           "half.eq((length + 1) >> 1)", "half.eq(length >> 1)"),
    Mutant("data moves whether tiles agree or not", "ring/engine.py",
           "with m.If(fails | barrier)", "with m.If(barrier)"),
    Mutant("a barrier does not wait for headers from below", "ring/engine.py",
           "idle.eq(up.idle & down.idle & memory.idle)", "idle.eq(down.idle & memory.idle)"),
    Mutant("scale bytes are left where they are", "ring/engine.py",
           "writes.scaled.eq(plan.blocks)", "writes.scaled.eq(0)"),
    Mutant("scale bytes of words are written", "ring/engine.py",
           "writes.scaled.eq(plan.blocks)", "writes.scaled.eq(1)"),
    Mutant("what starts a sum is not flushed", "ring/direction.py",
           "send.flushes.eq(reduces)", "send.flushes.eq(0)"),
    Mutant("a tile that is alone does not flush", "ring/engine.py",
           "plan.flush.eq(alone & (scatters | reduces))", "plan.flush.eq(0)"),
    Mutant("own words of a maximum are not flushed", "ring/combine.py",
           "maximum(came, flush(mine))", "maximum(came, mine)"),
    Mutant("the longer shares come last", "ring/walk.py",
           "longer.eq(tile < plan.rest)", "longer.eq(tile >= plan.rest)"),
    Mutant("a flit overtakes one that waits", "ring/buffer.py",
           "Mux(waiting, fifo.r_data, self.link.payload)",
           "Mux(waiting & ~self.link.valid, fifo.r_data, self.link.payload)"),
    Mutant("a flit that passes is kept too", "ring/buffer.py",
           "self.link.valid & ~passes", "self.link.valid"),
    Mutant("the link's register does not wait", "ring/send.py",
           "room.eq(~self.link.valid | self.link.ready)", "room.eq(1)"),
    Mutant("a block is written over one that waits", "ring/assemble.py",
           "self.arrivals.ready.eq(~arrival.last | room)", "self.arrivals.ready.eq(1)"),
    Mutant("a fetch has no room for its block", "ring/fetch.py",
           "SyncFIFO(width=BlockLayout().size, depth=DEPTH)",
           "SyncFIFO(width=BlockLayout().size, depth=2)"),
    Mutant("an all-reduce does not wait for its first half", "ring/direction.py",
           "& ~assemble.runs.valid", ""),
    Mutant("the sequence is not counted", "ring/engine.py",
           "header.sequence.eq(header.sequence + 1)", "header.sequence.eq(0)"),
    Mutant("roots that there are not", "ring/engine.py",
           "broadcasts & (o.root >= place.tiles)", "0"),
    Mutant("sums of blocks", "ring/engine.py",
           "((gathers | broadcasts) & blocks)", "blocks"),
    Mutant("absent tiles take part", "ring/direction.py",
           "receive.flits.valid.eq(buffer.flits.valid & self.place.present)",
           "receive.flits.valid.eq(buffer.flits.valid)"),
    Mutant("words beyond the last one are written", "ring/walk.py",
           "Mux(block == last_block, (end - 1)[:WORD_BITS], BLOCK_WORDS - 1)",
           "BLOCK_WORDS - 1"),
    Mutant("the rest of a division is lost", "ring/divide.py",
           "self.rest.eq(remainder)", "self.rest.eq(0)"),
    Mutant("the block that goes both ways goes twice", "ring/walk.py",
           "m.d.comb += mine.eq(round_[0] != self.upward)", "m.d.comb += mine.eq(1)"),
    Mutant("a share's last block is one too early", "ring/walk.py",
           "more.eq((begin < end) & (block < last_block))",
           "more.eq((begin < end) & (block + 1 < last_block))"),
    Mutant("an error is remembered", "ring/engine.py", "differs.eq(0), second", "second"),
    Mutant("sums forget who waits behind", "ring/combine.py",
           "advance.eq(~last_valid | self.out.ready)", "advance.eq(1)"),
    Mutant("the first of two beats is forgotten", "ring/memory.py",
           "Mux(apart, kept, came)", "came"),
    Mutant("what comes from memory goes to who asks now", "ring/registers.py",
           "asked.head.payload.reader == i", "chosen == i"),
    Mutant("an operation ends before memory has taken everything", "ring/engine.py",
           "idle.eq(up.idle & down.idle & memory.idle)", "idle.eq(up.idle & down.idle)"),
    Mutant("whole quads are written", "ring/memory.py",
           "bits.replicate(4)", "(is_low | is_high).replicate(4)"),
    Mutant("an all-reduce in memory gathers what it began with", "ring/engine.py",
           "plan.address.eq(Mux(second, o.result, o.address))", "plan.address.eq(o.address)"),
    Mutant("both quads are in the first beat", "ring/memory.py",
           "request.payload.beat.eq(head.beat + (~low & ~together))",
           "request.payload.beat.eq(head.beat)"),
]  # fmt: skip

RING = PRESETS["nano"].replace(mesh="8x1")
"""Where they are put: quick to build, and long enough that the order of a sum shows."""

SAMPLE = 2
"""Mutants of every run."""


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_ring_tests_notice(mutant, tmp_path):
    notice("ring", mutant, RING, tmp_path)
