"""Faults put into the vector engine on purpose: its tests must notice every one."""

import pytest

from rtl.config import PRESETS
from tests.tb.mutants import Mutant, notice, params

CONFIGS = {
    "two": PRESETS["nano"].replace(vec_lanes=2),
    "four": PRESETS["nano"],
    "wide": PRESETS["nano"].replace(vec_lanes=32),
}

MUTANTS = [
    Mutant("partial sums begin at -0", "vec/sums.py", "m.d.comb += base.eq(stored)",
           "m.d.comb += base.eq(stored ^ 0)\n        with m.Else():\n"
           "            m.d.comb += base.eq(0x80000000)", "two"),
    Mutant("the range does not move with the token", "vec/sequence.py",
           "go & wrap & o.range_step", "go & wrap & 0", "two"),
    Mutant("lanes behind the end are added", "vec/sums.py",
           "counts = x.mark.keep[lane] & ~resting", "counts = ~resting", "two"),
    Mutant("sums of a set that is still folded", "vec/sums.py",
           "~taken.bit_select(filling, 1)\n                & ", "", "two"),
    Mutant("the rest of a state is lost", "vec/sums.py",
           "x.mark.row_last & (~wants_state | last_group)", "x.mark.row_last", "two"),
    Mutant("lanes are folded in another order", "vec/fold.py",
           "distance = SLOT >> level + 1\n        assert distance < self.geometry.lanes",
           "distance = self.geometry.lanes >> 1", "four"),
    Mutant("another function begins too early", "vec/middle.py", "(idle | same)", "1", "two"),
    Mutant("what was handed out comes again", "vec/middle.py",
           "valid & ~Cat(at == i for i in range(_DEEPEST))", "valid", "two"),
    Mutant("x overtakes in a step that copies", "vec/stage.py",
           "queue.head.valid & idle & self.out.ready", "queue.head.valid & self.out.ready",
           "two"),
    Mutant("runs overwrite what has not gone out", "vec/partner.py",
           "((place < pair) | ((place == pair) & self.out.ready))", "1", "two"),
    Mutant("partners of a collected row the other way", "vec/partner.py",
           "Mux(column < distance, column + distance, column - distance)",
           "Mux(column < distance, column - distance, column + distance)", "four"),
    Mutant("a block is a transfer short", "vec/blocks.py", "ends = at == block.count",
           "ends = at + 1 >= block.count", "two"),
    Mutant("maxima count NaN", "vec/blocks.py", "(scale != SCALE_NAN) & (scale > start)",
           "(scale > start)", "two"),
    Mutant("maxima of tokens begin anew with each head", "vec/blocks.py",
           "Mux(goes_on | block.row.shared, so_far, old)", "Mux(goes_on, so_far, old)", "two"),
    Mutant("what is not selected stays", "vec/output.py",
           "Mux(x.mark.inside[lane], x.words[lane], 0)", "x.words[lane]", "two"),
    Mutant("the maximum keeps that of the row before", "vec/maximum.py",
           "Mux(last, MINUS_INFINITY, maximum(row, lanes))", "maximum(row, lanes)", "two"),
    Mutant("ties go to the highest", "vec/topk.py", "_rank(high) > _rank(low)",
           "_rank(high) >= _rank(low)", "two"),
    Mutant("a sweep finds its start again", "vec/topk.py", "c.index > found.index",
           "c.index >= found.index", "two"),
    Mutant("instructions end out of order", "vec/unit.py",
           "(reduced != 0) & (written != 0)", "(written != 0)", "two"),
    Mutant("masked rows are counted as the last", "vec/sequence.py", "~left[1:].any()",
           "row + 1 == o.rows", "two"),
    Mutant("heads begin anew at every row", "vec/place.py", "to_token = self.wrap & ~self.linear",
           "to_token = self.wrap", "two"),
    Mutant("lines are read without room for them", "vec/reader.py",
           "room.eq(entries.level + asked < DEPTH)", "room.eq(1)", "two"),
    Mutant("a bank gives the port that waits", "vec/registers.py", "granted.eq(wants & ~taken)",
           "granted.eq(wants)", "two"),
    Mutant("an addition that is under way is forgotten", "vec/sums.py",
           "f.valid & (f.group == group) & (f.set == filling) for f in flight[:-1]",
           "f.valid & 0 for f in flight[:-1]", "wide"),
]  # fmt: skip

SAMPLE = 3
"""Mutants of every run."""


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_vector_engine_tests_notice(mutant, tmp_path):
    notice("vec", mutant, CONFIGS[mutant.config], tmp_path)
