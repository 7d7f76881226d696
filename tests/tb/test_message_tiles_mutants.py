"""Faults put between tile and message engine on purpose: the tests of tiles must notice every one.

They take a build each, of minutes, so all run at night.
"""

import pytest

from sim import verilator
from sim.hbm.harness import attach
from sim.tile import ROWS
from sim.tiles import ring_of
from tests.tb.mutants import Mutant, emit_mutant
from tests.tb.simulation import emitted
from tests.tb.test_message_tiles import CONFIG

MUTANTS = [
    (
        Mutant(
            "a message does not wait for the fence before it",
            "core/window.py",
            "(_seen(macro.engine) & (_seen(engine[i]) | fences[i]))",
            "(_seen(macro.engine) & _seen(engine[i]))",
        ),
        "remote_reads_see_what_was_stored_before_a_fence",
    ),
    (
        Mutant(
            "a fence does not wait for the message before it",
            "core/window.py",
            "(macro.fence & _seen(engine[i]))",
            "0",
        ),
        "remote_reads_see_what_was_stored_before_a_fence",
    ),
    (
        Mutant(
            "a message that fails stops nobody",
            "tile.py",
            "core.message_error.eq(self._message.failed)",
            "core.message_error.eq(0)",
        ),
        "what_cannot_be_done_stops_the_tile",
    ),
    (
        Mutant(
            "a message that fails is said to be the oldest instruction",
            "core/core.py",
            "stop(Cause.MESSAGE, window.message)",
            "stop(Cause.MESSAGE, window.oldest)",
        ),
        "what_cannot_be_done_stops_the_tile",
    ),
    (
        Mutant(
            "memory has no clock while only others read it",
            "tile.py",
            "            | message.reading  # others' programs wait for that, not this tile's\n",
            "",
        ),
        "what_cannot_be_done_stops_the_tile",
    ),
]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("mutant", "testcase"), [pytest.param(*case, id=case[0].name) for case in MUTANTS]
)
def test_the_tests_of_tiles_notice(mutant, testcase, tmp_path):
    tile = attach(emit_mutant("tile", mutant, CONFIG, tmp_path), rows=ROWS)
    bench = ring_of(tile, CONFIG.tiles, emitted("noc", CONFIG))
    results = verilator.build(bench.sources, bench.top, bench.ports).run(
        "tb.test_message_tiles",
        seed=1,
        work_dir=tmp_path / "run",
        testcases=[testcase],
        env={
            "JALAPENO_CONFIG": CONFIG.to_json(),
            "JALAPENO_HBM_ROWS": str(ROWS),
            "COCOTB_MAX_FAILURES": "1",
        },
        timeout=1200,
    )
    assert results.failed, f"no test noticed: {mutant.name}"
