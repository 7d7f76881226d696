"""The demonstration: matrices of a real language model on generated hardware, every bit checked.

The matrices are W1 and W2 of a feed-forward block of `gen.models.glassllm`. They lie in HBM and
stream through its controller to the matrix engine. Both leave remainders: W1 has 341 outputs, W2
sums over 341 inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from gen.models import glassllm
from gen.mx import MXTensor
from gen.package import generate
from gen.quantise import quantise
from rtl.config import TileConfig
from rtl.formats import Format
from sim.figures import Figure
from sim.golden import dequantise
from sim.lint import lint, slang
from sim.products import Product, most_rows
from sim.progress import ProgressReporter
from sim.streaming import StreamedMeasurement, StreamingSimulation, simulate

PROMPT = "The old man went to the sea, and the boy came with him."
BLOCK = "blocks.0.ffn"
MATRICES = ("W1", "W2")

Say = Callable[[str, str], None]
"""Tell the user something: a word that says what about, and a sentence."""


def run(
    config: TileConfig,
    progress: ProgressReporter,
    console: Console,
    out_dir: Path = Path("build"),
) -> list[Figure]:
    """Generate the hardware, run the matrices on it, and say what happens and what came out.

    Parameters
    ----------
    config
        Configuration of the hardware.
    progress
        Where to show what takes its time.
    console
        Where to say it.
    out_dir
        Directory for the package of the hardware.

    Returns
    -------
    list of Figure
        What came out, for machines.

    Raises
    ------
    HardwareError
        If a result has a wrong bit, or something else goes wrong in the hardware.
    LintError
        If the Verilog has a fault.
    ToolError
        If a tool is missing or failed.
    """

    def say(what: str, sentence: str) -> None:
        line = Table.grid(padding=(0, 1))
        line.add_column(style="bold", width=10)
        line.add_column(overflow="fold")
        line.add_row(what, sentence)
        console.print(line)

    engine = _engine(config, progress, say, out_dir)
    runs = []
    for matrix in _matrices(config, say):
        with progress.task(f"running {matrix.name}"):
            runs.append(_Run(matrix, *engine.run(matrix.products)))

    measured = [measurement for run in runs for measurement in run.measurements]
    compared = sum(measurement.compared for measurement in measured)
    cycles = sum(measurement.cycles for measurement in measured)
    speed = cycles / sum(measurement.seconds for measurement in measured)
    commands = sum(measurement.commands for measurement in measured)
    say("Result", f"all {compared:,} results have, bit for bit, the values of the golden model.")
    say("Memory", f"got {commands:,} commands, refreshes among them; none broke a timing rule.")
    say("Speed", f"{cycles:,} clock cycles were simulated, {speed:,.0f} per second.")
    console.print(_table(runs))
    _explain(config, runs, say)
    return [
        Figure("demo.results", compared, "results", "equal to the golden model's, all of them"),
        Figure("demo.commands", commands, "commands", "to HBM, none against its timing rules"),
        *(figure for run in runs for figure in run.figures),
        Figure("demo.speed", speed, "cycles/s", f"{cycles:,} cycles, on this machine"),
    ]


@dataclass(frozen=True)
class _Matrix:
    """A matrix of the model, and what the model multiplies it with.

    Attributes
    ----------
    name : str
        Its name.
    inputs : float32 [tokens, K]
        One row per token of the prompt.
    weights : float32 [N, K]
        Its elements.
    format : Format
        What the inputs become. The weights become MXFP4.
    """

    name: str
    inputs: NDArray[np.float32]
    weights: NDArray[np.float32]
    format: Format

    @property
    def operands(self) -> tuple[MXTensor, MXTensor]:
        """Inputs and weights, quantised."""
        return quantise(self.inputs, self.format), quantise(self.weights, Format.MXFP4)

    @property
    def products(self) -> list[Product]:
        """One token alone, as in decoding, without and with prefetching; all, as in prefill."""
        inputs, weights = self.operands
        return [
            Product(f"{self.name} decode", inputs[-1:], weights),
            Product(f"{self.name} prefetched", inputs[-1:], weights, prefetch=True),
            Product(f"{self.name} prefill", inputs, weights),
        ]


@dataclass(frozen=True)
class _Run:
    """A matrix, and what came of its products."""

    matrix: _Matrix
    decode: StreamedMeasurement
    prefetched: StreamedMeasurement
    prefill: StreamedMeasurement

    @property
    def measurements(self) -> list[StreamedMeasurement]:
        """What came of the products, in their order."""
        return [self.decode, self.prefetched, self.prefill]

    @property
    def error(self) -> float:
        """Distance of the results from those of float64, relative to these (root mean squares)."""
        return _distance(self.prefill.values, self.matrix.inputs, self.matrix.weights)

    @property
    def engine_error(self) -> float:
        """The same for float64 results of the quantised operands: what the engine adds."""
        inputs, weights = (dequantise(operand) for operand in self.matrix.operands)
        return _distance(self.prefill.values, inputs, weights)

    @property
    def figures(self) -> list[Figure]:
        """All of this for machines."""
        outputs, length = self.matrix.weights.shape
        name = f"demo.{self.matrix.name}"
        figures = []
        for kind in ("decode", "prefetched", "prefill"):
            measured: StreamedMeasurement = getattr(self, kind)
            what = f"{outputs} × {length}, tokens: {len(measured.values)}"
            ahead, beats = measured.prefetched, measured.beats.total
            figures += [
                Figure(
                    f"{name}.{kind}",
                    measured.beats_per_cycle,
                    "beats/cycle",
                    f"{what}, {ahead:,} of {beats:,} beats prefetched",
                    bound=None if ahead else 1,
                ),
                Figure(f"{name}.{kind}_cycles", measured.cycles, "cycles", what),
            ]
            if not ahead:
                figures.append(
                    Figure(f"{name}.{kind}_delivered", measured.delivered, "of peak", what, bound=1)
                )
        return [
            *figures,
            Figure(f"{name}.error", self.error, "", "relative RMS distance from float64"),
            Figure(f"{name}.engine_error", self.engine_error, "", "the part not of quantisation"),
        ]


def _distance(values: NDArray[np.float32], inputs: NDArray[Any], weights: NDArray[Any]) -> float:
    reference = inputs.astype(np.float64) @ weights.astype(np.float64).T
    return float(np.linalg.norm(values - reference) / np.linalg.norm(reference))


def _engine(
    config: TileConfig, progress: ProgressReporter, say: Say, out_dir: Path
) -> StreamingSimulation:
    say(
        "Hardware",
        f"a matrix engine of {config.lanes} lanes with {config.macs_per_cycle} multipliers of 4 "
        f"bits, and the controller of its slice of HBM; configuration {config.hash}.",
    )
    with progress.task("generating it"):
        package = generate("streaming", config, out_dir)
    lines = package.verilog.read_text().count("\n")
    modules = len(package.manifest["modules"])
    say("Verilog", f"{package.verilog}, {lines:,} lines, {modules} modules.")
    with progress.task("linting"):
        lint([package.verilog.with_suffix(".vlt"), package.verilog])
        slang([package.verilog])
    say("Lint", "Verilator and slang find no fault in it.")
    with progress.task("compiling a simulator; a minute, the first time"):
        engine = simulate(package)
    made = "from the cache" if engine.build.cached else f"made in {engine.build.seconds:.0f} s"
    say(
        "Simulator",
        f"that Verilog with a model of {config.timing.upper()} that checks every command, compiled "
        f"by Verilator ({made}).",
    )
    return engine


def _matrices(config: TileConfig, say: Say) -> list[_Matrix]:
    model = glassllm.load()
    tokens = model.tokenizer.encode(PROMPT)
    through = model.capture(tokens)
    parameters = sum(weights.size for weights in model.weights.values())
    say(
        "Model",
        f"glassllm, {parameters:,} trained parameters; of its first feed-forward block "
        f"{' and '.join(MATRICES)}, and what they meet in the {len(tokens)} tokens of "
        f'"{PROMPT}"',
    )
    fmt = Format.MXINT8 if Format.MXINT8 in config.element_formats else Format.MXFP4
    say(
        "Numbers",
        f"{Format.MXFP4.upper()} weights of 4 bits, {fmt.upper()} activations of "
        f"{4 * fmt.planes}; 32 neighbours share a scale.",
    )
    return [
        _Matrix(name, through[f"{BLOCK}.{name}"].inputs, model.weights[f"{BLOCK}.{name}"], fmt)
        for name in MATRICES
    ]


def _table(runs: list[_Run]) -> Table:
    heads = ("size", "tokens", "beats", "cycles", "beats per cycle", "delivered")
    table = Table("", *heads, box=box.SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for run in runs:
        outputs, length = run.matrix.weights.shape
        for product, measured in zip(run.matrix.products, run.measurements, strict=True):
            table.add_row(
                product.name,
                f"{outputs} × {length}",
                f"{len(measured.values)}",
                f"{measured.beats.total:,}",
                f"{measured.cycles:,}",
                f"{measured.beats_per_cycle:.3f}",
                "" if product.prefetch else f"{measured.delivered:.3f}",
            )
    return table


def _explain(config: TileConfig, runs: list[_Run], say: Say) -> None:
    rows = most_rows(config, runs[0].matrix.format)
    prefetched = " and ".join(f"{run.prefetched.prefetched:,}" for run in runs)
    errors = ", ".join(f"{run.matrix.name} {run.error:.1%}" for run in runs)
    own = max(run.engine_error for run in runs)
    say(
        "Beats",
        f"memory brings at most one per cycle, {config.beat_bytes} bytes of weights or scales: a "
        "rate of 1 is the roofline.",
    )
    say(
        "Delivered",
        "is the part of these cycles in which the engine got a beat, from the first request on.",
    )
    say("Decode", "is one token alone, from asking for its first beat to its last result.")
    say(
        "Prefetched",
        f"means that the clock starts with the activations, when {prefetched} beats wait in the "
        "engine already. It takes up to two of them per cycle, where half of its lanes are free.",
    )
    say("Prefill", f"is the whole prompt; tokens per pass of the weights: {rows}.")
    say(
        "Error",
        f"of {errors}: root mean square, against float64. Quantisation makes it; what the engine "
        f"adds is {own:.1g}.",
    )
