"""How pytest builds and runs the tests of the HBM device and its checker by themselves."""

import functools
from pathlib import Path

from gen.verilog import emit
from rtl.config import TileConfig
from sim import verilator
from sim.hbm.harness import Harness, attach
from sim.hbm.wires import BusWires
from tb.hbm_script import CHANNELS
from tests.tb.simulation import SEED, WAVES

ROWS = 256
"""Rows of the devices: 4 MiB each."""


@functools.cache
def harness() -> Harness:
    """Return device and checker behind wires."""
    return attach(emit(BusWires(CHANNELS), "bus", TileConfig()), rows=ROWS)


def run(test_module: str, work_dir: Path, testcases: list[str] | None = None) -> verilator.Results:
    """Run cocotb tests on them."""
    bench = harness()
    build = verilator.build(bench.sources, bench.top, bench.ports, waves=WAVES)
    return build.run(
        test_module,
        seed=SEED,
        work_dir=work_dir,
        testcases=testcases,
        env={"JALAPENO_HBM_ROWS": str(ROWS)},
        waves=WAVES,
        timeout=600,
    )
