"""Faults put into hardware on purpose, each a change of one expression in a copy of `rtl`."""

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import rtl
from gen.verilog import VerilogDesign
from rtl.config import TileConfig
from sim import verilator
from sim.hbm.harness import attach

ROOT = Path(rtl.__file__).parents[1]
EMIT = """
import json, pickle, sys
from gen.blocks import find
from gen.verilog import emit
from rtl.config import TileConfig
block, config = sys.argv[1], TileConfig.from_dict(json.loads(sys.argv[2]))
sys.stdout.buffer.write(pickle.dumps(emit(find(block).build(config), block, config)))
"""


@dataclass(frozen=True)
class Mutant:
    """A fault: in `file`, under ``rtl``, `good`, which is there once, is replaced by `bad`."""

    name: str
    file: str
    good: str
    bad: str
    config: str = "nano"


def params(mutants: Sequence[Mutant], sample: int) -> list:
    """Parameters for pytest: all but the first few run at night, since each takes a build."""
    return [
        pytest.param(mutant, id=mutant.name, marks=[] if i < sample else [pytest.mark.nightly])
        for i, mutant in enumerate(mutants)
    ]


def emit_mutant(block: str, mutant: Mutant, config: TileConfig, folder: Path) -> VerilogDesign:
    """Return a block with the fault."""
    shutil.copytree(ROOT / "rtl", folder / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "rtl" / mutant.file
    text = path.read_text()
    assert text.count(mutant.good) == 1, f"{mutant.good} is not once in {mutant.file}"
    path.write_text(text.replace(mutant.good, mutant.bad))
    output = subprocess.run(
        [sys.executable, "-c", EMIT, block, config.to_json()],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        check=True,
    ).stdout
    return pickle.loads(output)


def notice(
    block: str,
    mutant: Mutant,
    config: TileConfig,
    folder: Path,
    *,
    rows: int | None = None,
    testcases: Sequence[str] | None = None,
) -> None:
    """Fail unless a cocotb test of the block fails.

    Parameters
    ----------
    block, mutant, config, folder
        What is tested, the fault, and where.
    rows
        Rows of each bank of an HBM device that is put to it; it has none if left out.
    testcases
        The tests, by default all.
    """
    design, env = emit_mutant(block, mutant, config, folder), {}
    sources, top = {f"{design.top}.sv": design.text}, design.top
    ports = tuple(port.name for port in design.ports)
    if rows is not None:
        bench = attach(design, rows=rows)
        sources, top, ports = dict(bench.sources), bench.top, bench.ports
        env = {"JALAPENO_HBM_ROWS": str(rows)}
    results = verilator.build(sources, top, ports).run(
        f"tb.test_{block}",
        seed=1,
        work_dir=folder / "run",
        testcases=testcases,
        env={
            "JALAPENO_CONFIG": config.to_json(),
            "COCOTB_MAX_FAILURES": "1",  # one is enough
            **env,
        },
        timeout=600,
    )
    assert results.failed, f"no test noticed: {mutant.name}"
    print("noticed by", next(iter(results.failed)))
