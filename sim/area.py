"""Area and depth of a design, as Yosys counts them.

Two scripts, both from the design's RTLIL or Verilog and without any cell library:

``gates``
    ``synth -flatten -top T; abc -g gates; opt_clean; stat -tech cmos; ltp -noff``: two-input gates
    and inverters, mapped for area. For comparing designs with each other, also in depth.
``ecp5``
    ``synth_ecp5 -top T -nobram -nodsp; stat``: what a Lattice ECP5 needs of its fabric.

Assertions and prints are removed first: they are no hardware.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from sim import cache
from sim.process import ToolError, complaint, execute

__all__ = ["Area", "area"]

_SCRIPTS = {
    "gates": [
        "synth -flatten -top {top}",
        "abc -g gates",
        "opt_clean",
        "tee -q -o cells.json stat -json -tech cmos",
        "tee -q -o path.txt ltp -noff",
    ],
    "ecp5": [
        "synth_ecp5 -top {top} -nobram -nodsp",
        "tee -q -o cells.json stat -json",
    ],
}

_SEPARATE_MEMORIES = [
    "hierarchy -check -top {top}",
    "proc",
    "flatten",
    "opt_clean",
    "tee -q -o memories.json stat -json",
    "memory -nomap",
    "expose -evert t:$mem_v2",  # out of the module: its ports become the module's
]

_GATES = r"\$_(NOT|AND|NAND|ANDNOT|OR|NOR|ORNOT|XOR|XNOR)_"

_YOSYS = """\
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""


@dataclass(frozen=True)
class Area:
    """What a design is made of.

    Attributes
    ----------
    cells : int
        Combinational cells, without flip-flops. ``gates``: gates of two inputs, and inverters.
        ``ecp5``: LUT4 + 2 CCU2C (a carry cell holds two LUTs).
    flops : int
        Flip-flops, one per bit; enable and synchronous reset count as part of them.
    transistors : int or None
        Of the combinational cells in static CMOS, as Yosys estimates; ``gates`` only.
    depth : int or None
        Combinational cells on the longest path between ports and flip-flops; ``gates`` only.
    memory_bits : int
        Bits of the memories that were kept apart.
    by_type : dict of str to int
        Number of cells of each type, flip-flops included.
    seconds : float
        What the synthesis took when it ran; a cached result keeps this figure.
    """

    cells: int
    flops: int
    transistors: int | None
    depth: int | None
    memory_bits: int
    by_type: dict[str, int]
    seconds: float

    @property
    def total(self) -> int:
        """Cells and flip-flops: what Yosys prints as the number of cells of a gate netlist."""
        return self.cells + self.flops


def area(
    text: str,
    top: str,
    script: Literal["gates", "ecp5"] = "gates",
    *,
    memory: Literal["flops", "separate"] = "flops",
    language: Literal["rtlil", "verilog"] = "rtlil",
    timeout: float | None = None,
) -> Area:
    """Synthesise a design and count.

    Yosys runs in a process of its own, and results are cached by content.

    Parameters
    ----------
    text : str
        The design.
    top : str
        Name of its top module.
    script : {"gates", "ecp5"}
        See the module.
    memory : {"flops", "separate"}
        ``"flops"`` leaves memories to the script: flip-flops and multiplexers, or distributed RAM
        on the ECP5. ``"separate"`` takes them out: their bits are counted in `Area.memory_bits`,
        and the rest is synthesised against their ports. Registers of read ports go with them.
    language : {"rtlil", "verilog"}
        Language of `text`.
    timeout : float, optional
        Seconds after which the synthesis is ended.

    Raises
    ------
    ToolError
        If Yosys failed, with its words, or took longer than `timeout`.
    """
    commands = [
        "read_rtlil design" if language == "rtlil" else "read_verilog -sv design",
        "chformal -remove",
        "delete */t:$print",
        *(_SEPARATE_MEMORIES if memory == "separate" else []),
        *_SCRIPTS[script],
    ]
    commands = [command.format(top=top) for command in commands]

    def synthesise(folder: Path) -> None:
        start = time.perf_counter()
        log = folder / "yosys.log"
        (folder / "design").write_text(text)
        command = [sys.executable, "-c", _YOSYS, *commands]
        if execute(command, cwd=folder, log=log, timeout=timeout):
            raise complaint(f"Yosys failed on {top}", log)
        result = _count(folder, top, script, time.perf_counter() - start)
        (folder / "area.json").write_text(json.dumps(asdict(result)))
        (folder / "design").unlink()

    key = cache.content_key([text, commands, importlib.metadata.version("pyosys")])
    path, _ = cache.entry("area", key, "area.json", synthesise)
    return Area(**json.loads(path.read_text()))


def _count(folder: Path, top: str, script: str, seconds: float) -> Area:
    """Return the area from what the script left in `folder`."""
    statistics = json.loads((folder / "cells.json").read_text())["design"]
    by_type = statistics["num_cells_by_type"]
    by_type.pop("$scopeinfo", None)  # notes of where flattened modules were
    memories = folder / "memories.json"
    bits = json.loads(memories.read_text())["design"]["num_memory_bits"] if memories.exists() else 0
    if script == "ecp5":
        cells = by_type.get("LUT4", 0) + 2 * by_type.get("CCU2C", 0)
        return Area(cells, by_type.get("TRELLIS_FF", 0), None, None, bits, by_type, seconds)

    flops = {kind: n for kind, n in by_type.items() if re.match(r"\$_[A-Z]*FF[A-Z]*_", kind)}
    gates = {kind: n for kind, n in by_type.items() if re.fullmatch(_GATES, kind)}
    if others := by_type.keys() - flops.keys() - gates.keys():
        raise ToolError(f"{top} has cells that are neither gates nor flip-flops: {sorted(others)}")
    # Yosys counts 16 transistors for a flip-flop without enable and reset, and none for the others.
    plain = flops.get("$_DFF_P_", 0) + flops.get("$_DFF_N_", 0)
    transistors = int(statistics["estimated_num_transistors"].rstrip("+")) - 16 * plain
    depth = re.search(r"\(length=(\d+)\)", (folder / "path.txt").read_text())
    assert depth is not None
    return Area(
        sum(gates.values()), sum(flops.values()), transistors, int(depth[1]), bits, by_type, seconds
    )
