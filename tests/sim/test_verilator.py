"""Builds and runs of a small register: caching, failures, odd paths."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim import cache, verilator
from sim.process import ToolError
from sim.verilator import TestFailure, build

TESTS = "tests.sim.register_tests"
PORTS = ["clk", "d", "q"]
REGISTER = """\
module register(input clk, input [7:0] d, output reg [7:0] q);
  reg [7:0] hidden;
  always @(posedge clk) begin hidden <= ~d; q <= d; end
  always @* assert (q != 200);
endmodule
"""


@pytest.fixture
def new_cache(tmp_path, monkeypatch):
    """An empty cache, except that it shares the run-time library with the usual one."""
    path = tmp_path / "cache"
    path.mkdir()
    library = cache.directory() / "verilator-runtime"
    library.mkdir(parents=True, exist_ok=True)
    (path / "verilator-runtime").symlink_to(library)
    monkeypatch.setenv("JALAPENO_CACHE", str(path))
    return path


def build_register(**options):
    return build({"register.v": REGISTER}, "register", PORTS, **options)


def test_passing_tests(tmp_path):
    results = build_register().run(TESTS, seed=7, work_dir=tmp_path / "a run")
    assert results.check() is results
    passed = ("draws", "follows/value=1", "follows/value=42", "read_after_edge", "sees_ports_only")
    assert sorted(results.passed) == [f"{TESTS}.{name}" for name in passed]
    skipped = ("fails", "never_ends", "violates_assertion")
    assert sorted(results.skipped) == [f"{TESTS}.{name}" for name in skipped]
    assert results.waves is None
    assert "follows/value=42 passed" in results.log.read_text()


def test_seed_decides_what_is_drawn(tmp_path):
    def draw(seed):
        build_register().run(
            TESTS, seed=seed, work_dir=tmp_path, testcases=["draws"], env={"EXTRA": "1"}
        ).check()
        return (tmp_path / "drawn").read_text()

    assert draw(7) == draw(7) != draw(8)
    assert draw(7).endswith(" 1")
    assert (tmp_path / "simulation.log").read_text().count("draws passed") == 1


def test_failing_test_is_reported(tmp_path):
    results = build_register().run(TESTS, seed=1, work_dir=tmp_path, testcases=["follows", "fails"])
    assert len(results.passed) == 2
    assert list(results.failed) == [f"{TESTS}.fails"]
    with pytest.raises(
        TestFailure, match=r"(?s)1 of 3 tests failed \(seed 1.*cannot hold that"
    ) as error:
        results.check()
    assert str(results.log) in str(error.value)


def test_violated_assertion_fails_the_test(tmp_path):
    run = {"seed": 1, "work_dir": tmp_path, "testcases": ["violates_assertion"]}
    results = build_register().run(TESTS, **run)
    (message,) = results.failed.values()
    assert "register.v:4: Assertion failed" in message
    assert not build_register(asserts=False).run(TESTS, **run).failed


def test_simulation_without_end_is_ended(tmp_path):
    with pytest.raises(ToolError, match="took longer"):
        build_register().run(
            TESTS, seed=1, work_dir=tmp_path, testcases=["never_ends"], timeout=1.5
        )


def test_nothing_to_run_is_an_error(tmp_path):
    simulation = build_register()
    with pytest.raises(ToolError, match="no test in"):
        simulation.run(TESTS, seed=1, work_dir=tmp_path, testcases=["misspelt"])
    with pytest.raises(ToolError, match="No module named 'misspelt'"):
        simulation.run("misspelt", seed=1, work_dir=tmp_path)


def test_waves(tmp_path):
    with pytest.raises(ValueError, match="waves=True"):
        build_register().run(TESTS, seed=1, work_dir=tmp_path, waves=True)
    results = build_register(waves=True).run(
        TESTS, seed=1, work_dir=tmp_path, testcases=["follows"], waves=True
    )
    assert results.check().waves == tmp_path / "dump.vcd"
    assert " hidden " in results.waves.read_text()


def test_build_is_cached_by_content(new_cache, tmp_path):
    first = build_register()
    again = build_register()
    assert (first.cached, again.cached) == (False, True)
    assert first == again
    source = tmp_path / "register.v"
    source.write_text(REGISTER)
    assert build([source], "register", PORTS) == first
    source.write_text(REGISTER.replace("200", "201"))
    assert build([source], "register", PORTS) != first


def start_build(cache_path):
    script = f"from {__name__} import build_register as b; print(b().cached)"
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "JALAPENO_CACHE": str(cache_path),
        },
        stdout=subprocess.PIPE,
        text=True,
    )


def test_parallel_processes_build_once(new_cache):
    builders = [start_build(new_cache) for _ in range(2)]
    assert sorted(builder.communicate(timeout=120)[0] for builder in builders) == [
        "False\n",
        "True\n",
    ]


def test_killed_build_is_built_again(new_cache, tmp_path):
    builder = start_build(new_cache)
    while not list(new_cache.glob("verilator/*.partial/obj/*.mk")):
        assert builder.poll() is None
        time.sleep(0.005)
    builder.send_signal(signal.SIGKILL)
    builder.communicate()
    simulation = build_register()
    assert not simulation.cached
    simulation.run(TESTS, seed=1, work_dir=tmp_path / "run", testcases=["follows"]).check()


def test_first_error_is_shown(new_cache):
    with pytest.raises(ToolError, match=r"(?s)log /.*%Error: bad.v:1:\d+: syntax error"):
        build({"bad.v": "module bad(input clk); assign = ; endmodule"}, "bad", ["clk"])
    foreign = 'import "DPI-C" function int nowhere(int d);\n  assign q = nowhere(d);'
    with pytest.raises(ToolError, match=r"C\+\+.*\n.*undefined reference to .nowhere"):
        build(
            {"top.sv": f"module top(input int d, output int q); {foreign} endmodule"}, "top", ["d"]
        )


def test_sources_with_the_same_name_are_refused(tmp_path):
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        (folder / "register.v").write_text(REGISTER)
    with pytest.raises(ValueError, match="same name"):
        build([tmp_path / "register.v", tmp_path / "other" / "register.v"], "register", PORTS)


def test_top_without_ports_is_refused():
    with pytest.raises(ValueError, match="no ports"):
        build({"top.v": "module top; endmodule"}, "top", [])


def test_missing_tools_are_named(monkeypatch, tmp_path):
    compiler = shutil.which("c++")
    with monkeypatch.context() as patch:
        patch.setattr(verilator, "_libpython", lambda: None)
        with pytest.raises(ToolError, match="libpython"):
            build_register()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="no C\\+\\+ compiler"):
        build_register()
    (tmp_path / "c++").symlink_to(compiler)
    with pytest.raises(ToolError, match="no make"):
        build_register()


def test_verilator_on_the_path_is_not_used(new_cache, tmp_path, monkeypatch):
    for name in ("verilator", "verilator_bin"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MAKEFLAGS", "-n")
    assert not build_register().cached


def test_everything_in_a_path_with_spaces(tmp_path):
    """A checkout, its virtual environment, the cache and the run, all below "some dir"."""
    checkout = tmp_path / "some dir" / "checkout"
    root = Path(verilator.__file__).parents[1]
    for package in ("sim", "tests"):
        shutil.copytree(root / package, checkout / package)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True, timeout=60
    )
    (site,) = (checkout / ".venv").glob("lib/python*/site-packages")
    packages = Path(pytest.__file__).parents[1]
    for package in ("verilator", "cocotb", "cocotb_tools", "pygpi"):
        shutil.copytree(packages / package, site / package)
    (site / "others.pth").write_text(f"{packages}\n")
    script = (
        "from tests.sim.test_verilator import *; import cocotb\n"
        f"assert cocotb.__file__.startswith({str(checkout)!r}), cocotb.__file__\n"
        "build_register().run(TESTS, seed=1, work_dir='a run', testcases=['follows']).check()\n"
        "print('passed')"
    )
    output = subprocess.run(
        [checkout / ".venv" / "bin" / "python", "-c", script],
        cwd=checkout,
        env={"PATH": os.environ["PATH"], "JALAPENO_CACHE": str(tmp_path / "some dir" / "cache")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    assert output == "passed\n"
