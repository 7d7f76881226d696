"""Figures of the HBM slice with the matrix engine attached: how many beats get there."""

from __future__ import annotations

import itertools
from pathlib import Path

from gen.package import generate
from rtl.config import TileConfig
from sim.bench.mac import SIZE, random_product
from sim.figures import Figure
from sim.products import Product
from sim.progress import ProgressReporter
from sim.streaming import StreamedMeasurement, simulate

SETS = ("hbm3-6400", "hbm4-8000")
OUTPUTS = 4 * SIZE
PIECES = {"hbm.stream": 0, "hbm.stream_short": 64}
"""Beats of an operand; 64 are keys of some 60 positions and 32 dimensions, for example."""


def run(
    config: TileConfig, progress: ProgressReporter, out_dir: Path = Path("build")
) -> list[Figure]:
    """Measure what the matrix engine gets of the slice's bandwidth, with ECC and without.

    ``hbm.stream``: one operand of several refresh periods, for one row of activations.
    ``hbm.stream_short``: the same in operands of 64 beats, scattered over the memory.

    Parameters
    ----------
    config
        The configuration.
    progress
        Where to show what takes its time.
    out_dir
        Directory for the package of the hardware.

    Raises
    ------
    HardwareError
        If a result has a wrong bit, or a timing rule is broken.
    ToolError
        If a tool is missing or failed.
    """
    other = config.replace(ecc=not config.ecc)
    product = random_product("", 1, shape=(OUTPUTS, SIZE))
    figures = []
    for variant, suffix in ((config, ""), (other, f".ecc_{'on' if other.ecc else 'off'}")):
        with progress.task("generating the matrix engine on the HBM slice"):
            package = generate("streaming", variant, out_dir)
        with progress.task("compiling a simulator: a minute, the first time"):
            streaming = simulate(package)
        with progress.task("streaming operands for both timing sets"):
            for timing, (name, piece) in itertools.product(SETS, PIECES.items()):
                (measured,) = streaming.run([product], timing, piece)
                figures.append(_figure(f"{name}.{timing}{suffix}", product, measured))
    return figures


def _figure(name: str, product: Product, measured: StreamedMeasurement) -> Figure:
    operands, memory = measured.operands, measured.memory
    outputs, inputs = product.weights.shape
    workload = (
        f"{outputs} × {inputs}, operands: {operands['operands']:,}; {operands['beats']:,} beats in "
        f"{operands['active']:,} cycles from the first request to the last beat; "
        f"{operands['waits_for_memory']:,} waited for memory, {operands['waits_for_engine']:,} for "
        f"the engine; {memory['refreshes']:,} refreshes; {measured.compared:,} results compared"
    )
    return Figure(name, measured.delivered, "of peak", workload, bound=1.0)
