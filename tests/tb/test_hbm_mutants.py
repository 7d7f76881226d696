"""Faults put into the HBM controller on purpose: its tests must notice every one.

Each is a change of one expression in a copy of `rtl`. They take a build each, so all but the first
run at night.
"""

import pytest

from rtl.config import PRESETS
from tests.tb.mutants import Mutant, notice, params
from tests.tb.test_hbm import ROWS

CONFIG = PRESETS["small"]
CASES = [
    *("everybody_at_random", "a_read_sees_what_was_answered", "one_bank_only", "sequential"),
    *("bytes_of_an_access_are_written_together",),
    *("double_errors_are_poison", "a_lost_word_stays_lost", "reset_in_flight"),
    "nobody_waits_for_ever",
]

HBM = [
    Mutant(
        "a read does not wait for a write",
        "hbm/intake.py",
        "Mux(access.write, read_found, self.pool_found) | same_place",
        "Mux(access.write, read_found, 0) | same_place",
    ),
    Mutant(
        "a write does not wait for a read",
        "hbm/intake.py",
        "Mux(access.write, read_found, self.pool_found) | same_place",
        "Mux(access.write, 0, self.pool_found) | same_place",
    ),
    Mutant(
        "groups do not matter for ACT",
        "hbm/rows.py",
        "Mux(same, distance.rrd_l, distance.rrd_s)",
        "distance.rrd_s",
    ),
    Mutant(
        "more than four ACT in a window",
        "hbm/rows.py",
        "(mine, distance.faw)",
        "(mine, distance.rrd_s)",
    ),
    Mutant(
        "groups do not matter after a WR",
        "hbm/columns.py",
        "Mux(same, distance.wr_rd_l, distance.wr_rd_s)",
        "distance.wr_rd_s",
    ),
    Mutant(
        "PREA is for open banks", "hbm/rows.py", "self.grant.eq(~0)", "self.grant.eq(self.is_open)"
    ),
    Mutant(
        "refreshes wait for ever",
        "hbm/refresh.py",
        "self.held.eq(Mux(last, lowest(pending), 0))",
        "self.held.eq(0)",
    ),
    Mutant(
        "who has waited for long does not turn the bus",
        "hbm/columns.py",
        "(ends | self.due_there) & ~self.due_here",
        "ends",
    ),
    Mutant(
        "errors are not told",
        "hbm/delivery.py",
        "buffer.beat.error.eq(Mux(fill, self.broken, 1))",
        "buffer.beat.error.eq(Mux(fill, 0, 1))",
    ),
    Mutant(
        "a lost word is written",
        "hbm/partial.py",
        "(word.all() | ~self.broken[i])",
        "(word.all() | 1)",
    ),
    Mutant(
        "two may merge into the same access",
        "hbm/intake.py",
        "self.merger_idle & ~same_place",
        "self.merger_idle",
    ),
    Mutant(
        "the second to merge gets what was read for the first",
        "hbm/delivery.py",
        "(tag.client == first + i)",
        "(tag.client >= first)",
    ),
    Mutant(
        "others may have what is being merged",
        "hbm/intake.py",
        "hazard.eq(Mux(access.write, read_found, self.pool_found) | same_place)",
        "hazard.eq(Mux(access.write, read_found, self.pool_found))",
    ),
    Mutant(
        "parts of words join what has not read the rest",
        "hbm/combine.py",
        "~(some & ~whole & ~kept).any()",
        "~(some & 0 & ~kept).any()",
    ),
    Mutant(
        "a write joins one that has been given",
        "hbm/combine.py",
        "given.eq(self.issue & (self.issue_slot == slot))",
        "given.eq(0)",
    ),
    Mutant(
        "a write joins while an older one of its bytes is read",
        "hbm/intake.py",
        "self.fits & ~own & ~same_place",
        "self.fits & ~own",
    ),
    Mutant(
        "bytes that are not written are joined too",
        "hbm/pool.py",
        "Mux(self.add, self.enable, self.take.replicate(ACCESS_BYTES))",
        "(self.add | self.take).replicate(ACCESS_BYTES)",
    ),
    Mutant(
        "a row that is opened for writes is read",
        "hbm/lane.py",
        "bank.may_read & ~prepared",
        "bank.may_read",
    ),
    Mutant(
        "a row is closed in the cycle of its last RD",
        "hbm/bank.py",
        "(self.read, distance.rtp),",
        "(0 & self.read, distance.rtp),",
    ),
    Mutant(
        "the second beat goes where the first went",
        "hbm/delivery.py",
        "returns.half & tag.wanted[0]",
        "0 & tag.wanted[0]",
    ),
]

SAMPLE = 1
"""Faults that also run by day."""


@pytest.mark.parametrize("mutant", params(HBM, SAMPLE))
def test_the_hbm_tests_notice(mutant, tmp_path):
    notice("hbm", mutant, CONFIG, tmp_path, rows=ROWS, testcases=CASES)
