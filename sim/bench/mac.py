"""Figures of the matrix engine: beats per cycle under Verilator, and sizes by Yosys.

Targets lie above what others published: matrix products run at 0.97 (VMXDOTP, arXiv 2603.04979) to
0.994 (RedMulE) of their peak, products with a vector at 0.85 of the memory's bandwidth (4-bit
weights on an FPGA, arXiv 2502.10659).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gen.package import generate
from gen.quantise import quantise
from rtl.config import TileConfig
from rtl.formats import BLOCK, Format
from rtl.mac import MacGeometry
from sim.bench import mac_area
from sim.figures import Figure
from sim.mac import Measurement, simulate
from sim.products import Product, most_rows
from sim.progress import ProgressReporter

SIZE = 512
"""Outputs and inputs of the large products."""

TARGETS = {"mac.gemm": 0.97, "mac.gemv": 0.97}
PAIRED_TARGET = 1.9

FP4, INT8 = Format.MXFP4, Format.MXINT8


def run(
    config: TileConfig, progress: ProgressReporter, out_dir: Path = Path("build")
) -> list[Figure]:
    """Measure the matrix engine of a configuration.

    Parameters
    ----------
    config
        The configuration.
    progress
        Where to show what takes its time.
    out_dir
        Directory for the packages of the engine.

    Returns
    -------
    list of Figure
        Throughput, then sizes.

    Raises
    ------
    HardwareError
        If a result has a wrong bit.
    ToolError
        If a tool is missing or failed.
    """
    return [
        *streaming(config, progress, out_dir),
        paired(config, progress, out_dir),
        *mac_area.run(config, progress),
    ]


def streaming(config: TileConfig, progress: ProgressReporter, out_dir: Path) -> list[Figure]:
    """Measure products whose operands arrive at a beat per cycle, and what prefetching is worth.

    The parameters are those of `run`. Loading the activations and draining the last results are
    included.
    """
    products = [
        random_product("mac.gemm", most_rows(config, FP4)),
        random_product("mac.gemv", 1),
    ]
    if INT8 in config.element_formats:
        products += [
            random_product("mac.gemm_8x4", most_rows(config, INT8), INT8),
            random_product("mac.gemm_8x8", most_rows(config, INT8), INT8, INT8),
        ]
    # As many block rows, of four blocks along K, as the stream buffer holds.
    outputs = max(1, MacGeometry(config).buffer_rows // 2) * config.pseudo_channels
    shape = (outputs, 4 * BLOCK)
    products += [
        random_product("mac.prefetch_off", 1, shape=shape),
        random_product("mac.prefetch_on", 1, shape=shape, prefetch=True, pair=False),
        random_product("mac.prefetch_paired", 1, shape=shape, prefetch=True),
    ]
    measurements = _measure(config, products, progress, out_dir)
    figures = [
        Figure(
            name=product.name,
            value=measured.beats_per_cycle,
            unit="beats/cycle",
            workload=_workload(product, measured),
            bound=None if product.prefetch else 1,
            target=TARGETS.get(product.name),
        )
        for product, measured in zip(products, measurements, strict=True)
    ]
    cycles = sum(measured.cycles for measured in measurements)
    seconds = sum(measured.seconds for measured in measurements)
    return [
        *figures,
        Figure("mac.simulation", cycles / seconds, "cycles/s", "the above, on this machine"),
        _pairing_figure("mac.paired_own_buffer", products[-1], measurements[-1]),
    ]


def paired(config: TileConfig, progress: ProgressReporter, out_dir: Path) -> Figure:
    """Measure how fast a row of activations meets an operand that waits in the stream buffer.

    The parameters are those of `run`. The operand is as large as elsewhere, and the buffer is made
    large enough for it. Cycles count from the first activation offered to the last result taken.
    """
    whole = random_product("mac.paired", 1, prefetch=True)
    needed = whole.beats(config).element * config.beat_stride
    larger = config.replace(stream_bytes=max(needed, config.stream_bytes))
    (measured,) = _measure(larger, [whole], progress, out_dir)
    note = f"; stream_bytes {larger.stream_bytes}"
    return _pairing_figure(whole.name, whole, measured, note, PAIRED_TARGET)


def random_product(
    name: str,
    rows: int,
    activation: Format = FP4,
    weight: Format = FP4,
    *,
    shape: tuple[int, int] = (SIZE, SIZE),
    prefetch: bool = False,
    pair: bool = True,
) -> Product:
    """Return a product of normally distributed numbers, the same ones every time."""
    rng = np.random.default_rng(0)
    outputs, inputs = shape
    activations = quantise(rng.standard_normal((rows, inputs), np.float32), activation)
    weights = quantise(rng.standard_normal((outputs, inputs), np.float32), weight)
    return Product(name, activations, weights, prefetch, pair)


def _measure(
    config: TileConfig, products: list[Product], progress: ProgressReporter, out_dir: Path
) -> list[Measurement]:
    with progress.task("generating the matrix engine"):
        package = generate("mac", config, out_dir)
    with progress.task("compiling a simulator: half a minute, the first time"):
        engine = simulate(package)
    with progress.task(f"running {', '.join(product.name for product in products)}"):
        return engine.run(products)


def _pairing_figure(
    name: str,
    product: Product,
    measured: Measurement,
    note: str = "",
    target: float | None = None,
) -> Figure:
    rate, workload = measured.elements_per_cycle, _workload(product, measured) + note
    return Figure(name, rate, "element beats/cycle", workload, bound=2, target=target)


def _workload(product: Product, measured: Measurement) -> str:
    """Return what was run, in numbers."""
    outputs, inputs = product.weights.shape
    rows = product.activations.shape[0]
    ahead = f", {measured.prefetched:,} of them prefetched" if product.prefetch else ""
    single = "" if product.pair else ", unpaired"
    operands = (
        f"{outputs} × {inputs} {product.weights.format}, {rows} × {inputs} "
        f"{product.activations.format}"
    )
    beats = f"{measured.beats.total:,} beats{ahead}"
    return f"{operands}{single}: {beats}, {measured.cycles:,} cycles"
