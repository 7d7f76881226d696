"""Two independent readers of the Verilog: Verilator with every warning on, and slang.

Each sees what the other does not. Verilator checks widths, latches, loops and multiple drivers of
the whole design, but cannot tell an unused port from an unused intermediate result; slang can, and
keeps to the letter of the standard.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sim.process import execute
from sim.verilator import package, read_sources

__all__ = ["LintError", "lint", "slang"]

_SHOWN = 60
"""Lines of a report that an error quotes."""


class LintError(Exception):
    """A reader found faults; the message is its report, cut to a readable length."""

    def __init__(self, reader: str, report: str) -> None:
        lines = report.splitlines()
        cut = [f"... and {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
        super().__init__("\n".join([f"{reader} found faults:", *lines[:_SHOWN], *cut]))


def lint(
    sources: Mapping[str, str] | Sequence[str | Path],
    waivers: str = "",
    *,
    top: str | None = None,
) -> None:
    """Read a design with ``verilator --lint-only -Wall``.

    Parameters
    ----------
    sources : mapping of str to str, or sequence of paths
        Verilog texts by file name, or files.
    waivers : str
        Text of a Verilator control file, for generated Verilog that of `gen.waivers`.
    top : str, optional
        Name of the top module, where the design has several that no other uses.

    Raises
    ------
    LintError
        If there is an error or a warning that is not waived.
    """
    texts = read_sources(sources)
    if waivers:
        texts = {"waivers.vlt": waivers} | texts
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in texts.items():
            (folder / file).write_text(text)
        log = folder / "log"
        verilator = package() / "bin" / "verilator_bin"
        options = ["--lint-only", "-Wall", "--quiet", *(["--top-module", top] if top else [])]
        env = os.environ | {"VERILATOR_ROOT": str(package())}
        if execute([verilator, *options, *texts], cwd=folder, log=log, env=env):
            raise LintError("Verilator", log.read_text())


def slang(sources: Mapping[str, str] | Sequence[str | Path]) -> None:
    """Read a design with slang, and accept neither errors nor warnings.

    The warnings are slang's usual ones, and that for unused ports other than ``rst``.

    Parameters
    ----------
    sources : mapping of str to str, or sequence of paths
        Verilog texts by file name, or files.

    Raises
    ------
    LintError
        If there is an error or a warning.
    ModuleNotFoundError
        If pyslang is not installed: it is a dependency of development only.
    """
    import pyslang
    from pyslang import analysis, ast, syntax

    manager = pyslang.SourceManager()
    design = ast.Compilation()
    for file, text in read_sources(sources).items():
        design.addSyntaxTree(syntax.SyntaxTree.fromText(text, manager, file))
    found = list(design.getAllDiagnostics())
    design.freeze()
    options = analysis.AnalysisOptions()
    options.flags = analysis.AnalysisFlags.CheckUnused
    drivers_and_uses = analysis.AnalysisManager(options)
    drivers_and_uses.analyze(design)
    found += drivers_and_uses.getDiagnostics()

    report = pyslang.TextDiagnosticClient()
    report.showColors(False)
    engine = pyslang.DiagnosticEngine(manager)
    engine.setWarningOptions(["unused-port"])
    engine.addClient(report)
    for diagnostic in found:
        # Amaranth gives clock and reset together; a module of memories alone has no use for one.
        if "UnusedPort" not in str(diagnostic.code) or list(diagnostic.args) != ["rst"]:
            engine.issue(diagnostic)
    if engine.numErrors or engine.numWarnings:
        raise LintError("slang", report.getString())
