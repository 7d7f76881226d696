"""Faults put into what is between the parts of a tile: its tests must notice every one.

Each is a change of one expression in a copy of `rtl`. They take a build each, so all but the first
run at night.
"""

import pytest

from gen.package import write
from rtl.config import PRESETS
from rtl.tile import Tile
from sim import verilator
from sim.hbm.harness import attach
from sim.tile import ROWS, HardwareError, RunningTile
from tests.tb.mutants import Mutant, emit_mutant, notice, params
from tests.tb.simulation import SEED
from tests.tb.test_tile import KERNELS, compare, lost_weights_stop_the_model

CONFIG = PRESETS["nano"]

TILE = [
    Mutant(
        "L1 is not flushed at the end",
        "tile.py",
        "everything.flush.eq(1)",
        "everything.flush.eq(0)",
    ),
    Mutant(
        "L1 keeps what it holds from program to program",
        "tile.py",
        "everything.last.eq(~0)",
        "everything.last.eq(0)",
    ),
    Mutant(
        "the clock of the memory engine stops while it waits for memory",
        "tile.py",
        "            | Cat(stream.valid for stream in streams).any()\n",
        "",
    ),
    Mutant(
        "the clock of an engine stops while it works",
        "activity.py",
        "self.clock.eq(self.offered | self.busy | (left != 0))",
        "self.clock.eq(self.offered | (left != 0))",
    ),
    Mutant(
        "a program starts after a fault",
        "core/core.py",
        "self.start & ~self.running & (self.cause == Cause.NONE)",
        "self.start & ~self.running",
    ),
    Mutant(
        "loads that fail are not told",
        "tile.py",
        "memory.failed | self._operands.failed | self._ring.memory_failed",
        "self._operands.failed | self._ring.memory_failed",
    ),
    Mutant(
        "a fault says where the core is, not where it was",
        "core/core.py",
        "Mux(window.idle, macro.pc, window.oldest)",
        "macro.pc",
    ),
    Mutant(
        "results of the vector unit go to one register for all",
        "tile.py",
        '**{name: getattr(vector, f"write_{name}") for name in LINE_WRITES},',
        '**{name: getattr(vector, f"write_{LINE_WRITES[0]}") for name in LINE_WRITES[:1]},',
    ),
    Mutant(
        "a program ends before its stores are accepted",
        "tile.py",
        "core.finish & memory.idle",
        "core.finish",
    ),
]

OPERANDS = [
    Mutant(
        "operands do not wait for fences",
        "core/operands.py",
        "(fences_left == 0) | fences_left[-1]",
        "1",
    ),
    Mutant(
        "operands wait for all but the last fence",
        "core/operands.py",
        "coming.behind.eq(entered)",
        "coming.behind.eq(entered - 1)",
    ),
    Mutant(
        "the fetch side is not told what operands look like",
        "core/operands.py",
        "*fetched(coming.fetch, o),",
        "",
    ),
    Mutant(
        "an error of an operand is not told",
        "tile.py",
        "memory.failed | self._operands.failed | self._ring.memory_failed",
        "memory.failed | self._ring.memory_failed",
    ),
]

SAMPLE = 1
"""Faults that also run by day."""


@pytest.mark.parametrize("mutant", params(TILE, SAMPLE))
def test_the_tile_tests_notice(mutant, tmp_path):
    notice("tile", mutant, CONFIG, tmp_path, rows=ROWS)


def run_everything(tile: RunningTile) -> None:
    """Run all kernels."""
    for shape, requests in KERNELS.values():
        compare(tile, shape, requests, SEED)
    lost_weights_stop_the_model(tile)


@pytest.mark.nightly
@pytest.mark.parametrize("mutant", OPERANDS, ids=lambda mutant: mutant.name)
def test_whole_models_notice(mutant, tmp_path):
    """What is about products: by logits, by memory, or by a simulation that ends."""
    bench = attach(emit_mutant("tile", mutant, CONFIG, tmp_path), rows=ROWS)
    build = verilator.build(bench.sources, bench.top, bench.ports)
    package = write("tile", Tile(CONFIG), CONFIG, tmp_path)
    wrong = (AssertionError, HardwareError, pytest.fail.Exception)
    with RunningTile(package, build, ROWS) as tile, pytest.raises(wrong) as noticed:
        run_everything(tile)
    print("noticed:", noticed.value)
