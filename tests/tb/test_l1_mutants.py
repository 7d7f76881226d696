"""Faults put into the L1 cache on purpose: its tests must notice every one."""

import pytest

from tests.tb.mutants import Mutant, notice, params
from tests.tb.test_l1 import SHAPES

MUTANTS = [
    Mutant("a line on its way to memory is read", "l1/lookup.py",
           '"conflict": busy & fetch & self.found', '"conflict": busy & fetch & 0'),
    Mutant("the bytes of a line overwrite what was written since", "l1/access.py",
           "put.en.eq(~kept)", "put.en.eq(~0)"),
    Mutant("more is fetched than the memory can hold", "l1/cache.py",
           "(self._client.reads - 1) // ACCESS_BEATS", "self._client.reads"),
    Mutant("what was changed is seen a request too late", "l1/lookup.py",
           "memory.read_port(transparent_for=[write_port])", "memory.read_port()"),
    Mutant("poison is told of bytes that were written", "l1/access.py",
           "depends & marked.data", "marked.data"),
    Mutant("poison is not told", "l1/access.py", "depends & marked.data", "0"),
    Mutant("bytes that were not written go to memory", "l1/access.py",
           "sent_mask.eq(mask.word_select(beat_gone, g.beat_bytes))", "sent_mask.eq(~0)"),
    Mutant("a range is a set too short", "l1/lookup.py",
           "Mux(lines >= g.sets, g.sets - 1, lines)", "Mux(lines >= g.sets, g.sets - 2, lines)"),
    Mutant("the line behind a range leaves too", "l1/lookup.py",
           "(number <= last_line)", "(number <= last_line + 1)"),
    Mutant("a range does not wait for the memory", "l1/lookup.py",
           "settling & self.idle", "settling"),
    Mutant("requests pass a range", "l1/lookup.py",
           "serving & ~self.ranges.valid & (~busy | go)", "serving & (~busy | go)"),
    Mutant("the line that was just used is given away", "l1/recency.py",
           "~way[levels - depth - 1]", "way[levels - depth - 1]"),
    Mutant("an answer is read without room for it", "l1/access.py",
           "answers.level + came < ANSWERS", "answers.level < ANSWERS"),
    Mutant("a hit does not wait for the second beat of its line", "l1/access.py",
           "(~rest | (arrives & entry.read & ~entry.evict))",
           "(~rest | (entry.read & ~entry.evict))"),
    Mutant("a line that was only written counts as fetched", "l1/lookup.py",
           "(hit & chosen.fetched) | fetch", "(hit & chosen.fetched) | fetch | now.write"),
    Mutant("lines stay over a reset", "l1/lookup.py", "clearing = Signal(init=1)",
           "clearing = Signal(init=0)"),
    Mutant("a tag is a bit short", "l1/lookup.py", "(state.tag == tag)",
           "(state.tag[:-1] == tag[:-1])"),
    Mutant("departures are forgotten in the wrong order", "l1/departures.py",
           "self.accepted & (first == i)", "self.accepted & (first + 1 == i)"),
]  # fmt: skip

SAMPLE = 3
"""Mutants of every run."""


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_cache_tests_notice(mutant, tmp_path):
    notice("l1", mutant, SHAPES["nano"], tmp_path)
