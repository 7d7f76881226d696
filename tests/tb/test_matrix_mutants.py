"""Faults put into the matrix unit on purpose: its tests must notice every one."""

import pytest

from rtl.config import PRESETS
from tests.tb.mutants import Mutant, notice, params

TINY = PRESETS["nano"].replace(
    lanes=4, formats="mxfp4", transposer=False, acc_depth=4, act_blocks=4
)
"""As little of the engine as there can be: nothing is wrong with that."""

MUTANTS = [
    Mutant("results that go over a line are lost", "matrix/results.py",
           "enable.eq(over), over.eq(0)", "enable.eq(0), over.eq(0)"),
    Mutant("equals go to the last", "matrix/argmax.py",
           "order_key(high.value) > order_key(low.value)",
           "order_key(high.value) >= order_key(low.value)"),
    Mutant("a refused read counts", "matrix/activations.py",
           "self.lines.requests.ready & self.words.requests.ready", "self.lines.requests.ready"),
    Mutant("a mask does not count", "matrix/operation.py",
           "(~o.masked).replicate(config.lanes)", "(~o.masked | 1).replicate(config.lanes)"),
    Mutant("ranges count without being wanted", "matrix/operation.py",
           "Mux(o.ranged, o.hi, o.outputs)", "o.hi"),
    Mutant("blocks of a row are one", "matrix/activations.py",
           "source.start.eq(o.offset + next_block)", "source.start.eq(o.offset)"),
    Mutant("heads of a token go on from one to the next", "matrix/activations.py",
           "head.eq(Mux(wrap, 0, head + 1))", "head.eq(head + 1)"),
    Mutant("blocks are read without room for them", "matrix/activations.py",
           "entries.level + asked < DEPTH", "entries.level < DEPTH"),
    Mutant("a chain is done after its first block", "matrix/activations.py",
           "granted & last & ~o.drain", "granted & last_row & (block == 0) & ~o.drain"),
    Mutant("results are in the places of lines", "matrix/results.py",
           "range(exact_log2(g.lanes))", "range(exact_log2(g.lanes) - 1)"),
    Mutant("a refused line is lost", "matrix/results.py",
           "line_done.eq(~self.lines.valid | self.lines.ready)", "line_done.eq(1)"),
    Mutant("done before it is written", "matrix/results.py",
           "self.written.eq(done & last)",
           "self.written.eq(done & coming.last & self.results.valid)"),
    Mutant("results that are not wanted are written", "matrix/unit.py",
           "Mux(want.results, result.keep, 0)", "result.keep"),
    Mutant("equals of a row go to the last", "matrix/argmax.py",
           "a.output < b.output", "a.output > b.output"),
    Mutant("the best of the last instruction counts", "matrix/argmax.py",
           "m.d.sync += known.eq(0)", "m.d.sync += known.eq(known)"),
    Mutant("equals of what was there win", "matrix/argmax.py",
           "order_key(old.value) > order_key(self.read.word)",
           "order_key(old.value) >= order_key(self.read.word)"),
    Mutant("the index is that of the group", "matrix/argmax.py",
           "best.output + best.candidates[0].lane", "best.output"),
    Mutant("done with the best, but not with the results", "matrix/unit.py",
           "argmax.may_end.eq(writer.empty)", "argmax.may_end.eq(1)"),
    Mutant("chains end with the results before them", "matrix/unit.py",
           "there.eq(ending.rows & awaited & (event", "there.eq(ending.rows & (event"),
    Mutant("tokens are in one place", "mac/activations.py",
           "results + operation.result_pitch", "results"),
    Mutant("every word is the last", "mac/drain_walk.py",
           "step.last.eq(last & last_group)", "step.last.eq(last)"),
]  # fmt: skip

SAMPLE = 2
"""Mutants of every run."""


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_matrix_unit_tests_notice(mutant, tmp_path):
    notice("matrix", mutant, TINY, tmp_path)
