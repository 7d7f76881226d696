"""The demonstration: a pretrained language model writes text on generated hardware.

Weights lie in HBM and stream through its controller; every instruction of the model's program is
executed by the RTL of a tile under Verilator, and every logit compared with numpy, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gen.models import glassllm
from gen.models.library import open_model
from gen.package import generate
from rtl.config import TileConfig
from sim.engines import GoldenEngine
from sim.figures import Figure
from sim.lint import lint, slang
from sim.progress import ProgressReporter
from sim.run import CheckedEngine, Generation, Prompt, greedy
from sim.tile_engine import TileEngine

MODEL = "glassllm"
PROMPT = "The old man went to the sea"
TOKENS = 24

Say = Callable[[str, str], None]
"""Tell the user something: a word that says what about, and a sentence."""


def run(
    config: TileConfig,
    progress: ProgressReporter,
    console: Console,
    out_dir: Path = Path("build"),
    tokens: int = TOKENS,
) -> list[Figure]:
    """Generate the hardware, run the model on it, and say what happens and what came out.

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
    tokens
        Tokens to add to the prompt.

    Returns
    -------
    list of Figure
        What came out, for machines.

    Raises
    ------
    Mismatch
        If a logit has a wrong bit.
    HardwareError
        If something else goes wrong in the hardware.
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

    _verilog(config, progress, say, out_dir)
    opened = open_model(MODEL)
    prompt = Prompt.of(PROMPT, opened)
    parameters = sum(weights.size for weights in glassllm.load().weights.values())
    say(
        "Model",
        f"{MODEL}, {parameters:,} trained parameters in {len(opened.model.layers)} layers; weights "
        "of 4 bits (MXFP4), activations, keys and values of 8 (MXINT8).",
    )
    positions = len(prompt.tokens) + tokens - 1
    with progress.task("compiling a simulator; two minutes, the first time"):
        engine = TileEngine(opened.model, config, positions, out_dir)
    checked = CheckedEngine("the hardware", engine, GoldenEngine(opened.model, config, positions))
    try:
        generation = Generation(checked, prompt, tokens, greedy)
        console.print(f"\n{PROMPT}", end="", style="bold")
        for token in generation:
            console.print(token.text, end="", markup=False)
        console.print(generation.rest, markup=False)
        figures = {figure.name: figure for figure in engine.figures()}
        activity = engine.activity()
    finally:
        checked.close()

    console.print()
    say(
        "Result",
        f"all {checked.compared:,} logits have, bit for bit, the values of the golden model; none "
        "of the commands to HBM broke a timing rule.",
    )
    say(
        "Cycles",
        f"{figures['run.token_cycles'].value:,.0f} per token: {figures['run.roofline'].value:.1%} "
        "of what memory allows, if it brought nothing but what a token needs, in every cycle.",
    )
    for part in activity:
        say(part.part, f"{part.strip} {part.active:.0%} {part.work}")
    say("", "█ at work, ░ waiting, · without a clock")
    say("Speed", f"{figures['run.speed'].value:,.0f} clock cycles were simulated per second.")
    logits = Figure("demo.logits", checked.compared, "logits", "equal to golden's, all of them")
    return [logits, *figures.values()]


def _verilog(config: TileConfig, progress: ProgressReporter, say: Say, out_dir: Path) -> None:
    """Generate a tile and look for faults in it."""
    say(
        "Hardware",
        f"a tile: core, matrix engine of {config.macs_per_cycle} multipliers of 4 bits, vector "
        f"unit, L1, and the controller of its slice of HBM; configuration {config.hash}.",
    )
    with progress.task("generating it"):
        package = generate("tile", config, out_dir)
    lines = package.verilog.read_text().count("\n")
    modules = len(package.manifest["modules"])
    say("Verilog", f"{package.verilog}, {lines:,} lines, {modules} modules.")
    with progress.task("linting"):
        lint([package.verilog.with_suffix(".vlt"), package.verilog])
        slang([package.verilog])
    say("Lint", "Verilator and slang find no fault in it.")
