"""Faults put into the hardware on purpose: the tests of the block must notice every one.

Each is a change of one expression in a copy of `rtl`. They take a build each, so all but the first
few run at night; `docs/verification.md` lists them.
"""

import pytest

from rtl.config import PRESETS
from tests.tb.mutants import Mutant, notice, params

CONFIG = PRESETS["nano"]

MAC = [
    Mutant(
        "shift off by one",
        "mac/pair.py",
        "weights[lane].drop + self.stationary[lane].drop",
        "weights[lane].drop + self.stationary[lane].drop + 1",
    ),
    Mutant(
        "truncation instead of floor",
        "mac/accumulate.py",
        "self.dot[-1].replicate(bits)",
        "0",
    ),
    Mutant("dropped carry", "mac/dot.py", "total = (total + product)", "total = (total ^ product)"),
    Mutant(
        "swapped nibble planes",
        "mac/activations.py",
        "byte[4:] if lane == 0 else byte[:4]",
        "byte[:4] if lane == 0 else byte[4:]",
    ),
    Mutant(
        "late clear",
        "mac/sequence.py",
        "operation.clear & (walk.block == 0)",
        "operation.clear & (walk.block == 1)",
    ),
    Mutant("ties rounded away", "mac/to_float.py", "half & (rest | kept[0])", "half"),
    Mutant(
        "NaN forgotten with the next block",
        "mac/accumulate.py",
        "self.nan | (self.previous.nan & ~self.clear)",
        "self.nan",
    ),
    Mutant(
        "sign of a subnormal lost",
        "mac/to_float.py",
        "Cat(packed, negative)",
        "Cat(packed, negative & (exponent > 0))",
    ),
    Mutant("odd rows drained from primaries", "mac/drain.py", "step.group.paired & odd", "0 & odd"),
    Mutant("high plane one bit low", "mac/pair.py", "high << 4, 0", "high << 3, 0"),
    Mutant(
        "results pushed on without being taken",
        "mac/drain.py",
        "self.advance.eq(~aside_valid)",
        "self.advance.eq(1)",
    ),
    Mutant(
        "group buffer overwritten",
        "mac/sequence.py",
        "~operation.clear | ~bank_busy.bit_select(bank, 1)",
        "~operation.clear | 1",
    ),
    Mutant(
        "transposer shifts along one axis", "mac/transpose.py", "across.eq(~across)", "across.eq(0)"
    ),
    Mutant(
        "superblock a row short",
        "mac/unpack.py",
        "scale_row == SUPERBLOCK_ROWS - 1",
        "scale_row == SUPERBLOCK_ROWS - 2",
    ),
    Mutant("stale accumulator", "mac/pair.py", "transparent_for=(write,)", "transparent_for=()"),
    Mutant(
        "every row has the first row's n",
        "mac/activations.py",
        "Mux(operation.last_step, getting.token, 0)",
        "0",
    ),
    Mutant(
        "activations loaded over ones in use",
        "mac/activations.py",
        "room = reserved < config.act_blocks",
        "room = 1",
    ),
    Mutant(
        "range does not move with the token",
        "mac/drain.py",
        "Mux(wanted.range_step, row.token, 0)",
        "0",
    ),
    Mutant(
        "buffer limit ignored",
        "mac/fetch.py",
        "queue.w_rdy & (queue.level < limit)",
        "queue.w_rdy",
    ),
    Mutant(
        "results out of range checked for overflow",
        "mac/drain.py",
        "read.valid & read.keep[i] & in_range",
        "read.valid & read.keep[i]",
    ),
    Mutant(
        "results that do not exist checked for overflow",
        "mac/drain.py",
        "read.valid & read.keep[i] & in_range",
        "read.valid & in_range",
    ),
    Mutant(
        "NaN checked for overflow", "mac/drain.py", "value.overflow & ~value.nan", "value.overflow"
    ),
    Mutant(
        "pairing changes within a chain",
        "mac/engine.py",
        "                    unfinished,\n                    previous.pair,",
        "                    0,\n                    previous.pair,",
    ),
    Mutant(
        "transposer rests between operations",
        "mac/transpose.py",
        "self.beats.valid & (operation.weight == left.weight)",
        "0 & self.beats.valid",
    ),
    Mutant(
        "activations given back late",
        "mac/sequence.py",
        "self.loaded > Mux(walk.last_group, 0, walk.block)",
        "self.loaded > walk.block",
    ),
]

SAMPLE = 2
"""Faults that also run by day."""


@pytest.mark.parametrize("mutant", params(MAC, SAMPLE))
def test_the_matrix_engine_tests_notice(mutant, tmp_path):
    notice("mac", mutant, CONFIG, tmp_path)
