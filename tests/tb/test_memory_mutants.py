"""Faults put into the memory engine on purpose: its tests must notice every one."""

import pytest

from tests.tb.mutants import Mutant, notice, params
from tests.tb.test_memory import SHAPES

MUTANTS = [
    Mutant("a fence does not wait for the memory", "memory/append.py",
           "self.idle.eq(~queue.head.valid & (pending == 0))", "self.idle.eq(~queue.head.valid)"),
    Mutant("blocks do not wait for their scales", "memory/unpack.py",
           "scales_there = ~of_blocks | ~first | self.quiet", "scales_there = 1"),
    Mutant("the rest of a row is forgotten", "memory/assemble.py",
           "rest.eq(chunk.last & (total > lanes))", "rest.eq(0)"),
    Mutant("words behind the end are written", "memory/assemble.py",
           "enable.eq(Cat(total > i for i in range(lanes)))", "enable.eq(~0)"),
    Mutant("rows of the mask are counted from the other end", "memory/sequence.py",
           "m.Elif(mask[0] | ~store.masked)", "m.Elif(mask[31] | ~store.masked)"),
    Mutant("scales do not move with their rows", "memory/sequence.py",
           "scales.eq(scales + pitch)", "scales.eq(scales)"),
    Mutant("a stream asks for one beat too many", "memory/walk.py",
           "pair = ~beat[0] & (left > in_beat)", "pair = ~beat[0]"),
    Mutant("bytes behind the end are stored", "memory/walk.py",
           "request.enable.eq(enable << offset)", "request.enable.eq(~0 << offset)"),
    Mutant("a run goes on in the hole", "memory/walk.py",
           "in_beat.eq(g.beat_bytes - offset)", "in_beat.eq(g.config.beat_stride - offset)", "odd"),
    Mutant("the planes of a block are exchanged", "memory/append.py",
           "Mux(step == 0, nibbles[1], nibbles[0])", "Mux(step == 0, nibbles[0], nibbles[1])"),
    Mutant("the low plane is not a beat behind", "memory/append.py",
           "((step == 1) & ~is_byte)", "(0 & ~is_byte)"),
    Mutant("infinity is a number", "memory/dequantise.py", "biased >= 255", "biased > 255"),
    Mutant("NaN is a number", "memory/dequantise.py", "self.scale == SCALE_NAN", "0"),
    Mutant("zeros lose their sign", "memory/dequantise.py",
           "self.value.eq(Cat(bits, negative))",
           "self.value.eq(Cat(bits, negative & (magnitude != 0)))"),
    Mutant("instructions end out of order", "memory/engine.py",
           'Mux(order.head.payload.loads, ended["loads"], ended["others"])',
           '(ended["loads"] | ended["others"])'),
    Mutant("answers go to whoever is first", "l1/share.py",
           "user.answers.valid.eq(answers.valid & (asked.head.payload.user == i))",
           "user.answers.valid.eq(answers.valid & (i == 0))"),
    Mutant("a word of the scalar unit is always the first", "memory/scalar.py",
           "word_select(found.word, 32)", "word_select(0, 32)"),
]  # fmt: skip

SAMPLE = 2
"""Mutants of every run."""


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_memory_engine_tests_notice(mutant, tmp_path):
    notice("memory", mutant, SHAPES[mutant.config], tmp_path)
