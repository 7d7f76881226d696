"""Faults put between tile and ring on purpose: the tests of tiles in a ring must notice every one.

They take a build each, of minutes, so all run at night.
"""

import pytest

from sim import verilator
from sim.hbm.harness import attach
from sim.tile import ROWS
from sim.tiles import ring_of
from tests.tb.mutants import Mutant, emit_mutant
from tests.tb.test_ring_tiles import CONFIG, TILES

MUTANTS = [
    (
        Mutant(
            "a node in reset takes what comes",
            "ring/engine.py",
            "given.ready.eq(taken.ready & awake)",
            "given.ready.eq(taken.ready)",
        ),
        "reset_in_flight",
    ),
    (
        Mutant(
            "the clock of a node stops while flits of others pass",
            "tile.py",
            "            | Cat(link.valid for link in links).any()\n",
            "",
        ),
        "tiles_that_are_absent_pass_flits_by",
    ),
    (
        Mutant(
            "loads do not wait for collectives on memory",
            "core/window.py",
            "(through & (macro.engine != engine[i]))",
            "0",
        ),
        "a_gather_in_memory_is_longer_than_registers",
    ),
    (
        Mutant(
            "a collective that fails stops nobody",
            "tile.py",
            "core.collective_error.eq(self._ring.failed)",
            "core.collective_error.eq(0)",
        ),
        "disagreement_stops_all_tiles",
    ),
    (
        Mutant(
            "a collective that fails is said to be the oldest instruction",
            "core/core.py",
            "stop(Cause.COLLECTIVE, window.collective)",
            "stop(Cause.COLLECTIVE, window.oldest)",
        ),
        "disagreement_stops_all_tiles",
    ),
    (
        Mutant(
            "words that are lost are not told",
            "tile.py",
            "memory.failed | self._operands.failed | self._ring.memory_failed",
            "memory.failed | self._operands.failed",
        ),
        "a_word_that_is_lost_stops_its_tile",
    ),
    (
        Mutant(
            "an absent tile goes on as if it had taken part",
            "ring/engine.py",
            "fails.eq(differs | ~legal | ~place.present)",
            "fails.eq(differs | ~legal)",
        ),
        "an_absent_tile_refuses",
    ),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("mutant", "test"), [pytest.param(*m, id=m[0].name) for m in MUTANTS])
def test_the_tests_of_tiles_in_a_ring_notice(mutant, test, tmp_path):
    tile = attach(emit_mutant("tile", mutant, CONFIG, tmp_path), rows=ROWS)
    bench = ring_of(tile, TILES)
    results = verilator.build(bench.sources, bench.top, bench.ports).run(
        "tb.test_ring_tiles",
        seed=1,
        work_dir=tmp_path / "run",
        testcases=[test],
        env={
            "JALAPENO_CONFIG": CONFIG.to_json(),
            "JALAPENO_HBM_ROWS": str(ROWS),
            "JALAPENO_TILES": str(TILES),
        },
        timeout=1200,
    )
    assert results.failed, f"{test} did not notice: {mutant.name}"
