"""What is said on a machine that lacks something."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from sim import preflight

FILE = Path(preflight.__file__)


def test_this_machine_is_complete() -> None:
    assert list(preflight.problems()) == []


def test_missing_tools_are_named(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(FILE)],
        env={"PATH": str(tmp_path), "CXX": "ccache clang++"},
        capture_output=True,
        text=True,
        check=False,
    )
    compiler, make = result.stderr.splitlines()
    assert compiler.startswith("There is no C++ compiler (ccache clang++), which Verilator needs;")
    assert make == "There is no make, which Verilator needs; install GNU make."
    assert result.returncode == 1


def test_old_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    first = next(preflight.problems())
    assert first == f"Python 3.11 or later is needed, and {sys.executable} is 3.9."


def test_missing_venv_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ensurepip" else find_spec(name)
    )
    (sentence,) = preflight.problems()
    assert "(ensurepip is missing)" in sentence


def test_missing_shared_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"LIBDIR": "/nowhere", "LDLIBRARY": "libpython3.11.a", "INSTSONAME": "x.so"}
    monkeypatch.setattr(sysconfig, "get_config_var", settings.get)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(sys, "base_prefix", "/nowhere")
    (sentence,) = preflight.problems()
    assert sentence.startswith("This Python has no shared library, which cocotb loads;")


def test_shared_library_in_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "arch").mkdir()
    (tmp_path / "arch" / "libpython3.11.so.1.0").touch()
    settings = {
        "LIBDIR": str(tmp_path),
        "MULTIARCH": "arch",
        "LDLIBRARY": "libpython3.11.so",
        "INSTSONAME": "libpython3.11.so.1.0",
    }
    monkeypatch.setattr(sysconfig, "get_config_var", settings.get)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(sys, "base_prefix", os.devnull)
    assert preflight.has_shared_library()
