"""The command line: what it prints, what it refuses and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from gen import blocks
from rtl.config import PRESETS, TileConfig
from sim import bench, cli
from sim.figures import Figure
from sim.process import ToolError
from tests.gen.components import Block as Hardware
from tests.sim.conftest import Run

ROOT = Path(__file__).parents[2]
NANO = PRESETS["nano"]


@pytest.fixture
def small_block(monkeypatch) -> None:
    """Put one small block in the place of the real ones."""
    block = blocks.Block("small", "a small block", lambda config: Hardware())
    monkeypatch.setattr(blocks, "BLOCKS", {"small": block})


def use_bench(monkeypatch, run: Callable) -> None:
    monkeypatch.setattr(bench, "BENCHES", {"fake": bench.Bench("fake", "measures nothing", run)})


# --- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["generate", "test", "bench", "demo", "run", "info"])
def test_every_command_explains_itself(jalapeno: Run, command: str) -> None:
    status, out, err = jalapeno(command, "--help")
    assert (status, err) == (0, "")
    for option in ("--preset", "--config", "--set"):
        assert option in out


def test_overview(jalapeno: Run) -> None:
    for arguments in ((), ("--help",)):
        status, out, err = jalapeno(*arguments)
        assert "jalapeno demo shows it at work" in out
        assert err == ""
        assert status == (0 if arguments else cli.REFUSED)


def test_version(jalapeno: Run) -> None:
    status, out, _ = jalapeno("--version")
    assert status == 0
    assert out.startswith("jalapeno-rtl 0.")


# --- generate ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_block")
def test_generate(jalapeno: Run, tmp_path: Path) -> None:
    status, out, err = jalapeno("generate", "small", "--preset", "nano", "--set", "ecc=false")
    config = NANO.replace(ecc=False)
    assert (status, err) == (0, "")
    assert f"build/small-{config.hash}" in out
    directory = tmp_path / "build" / f"small-{config.hash}"
    assert config.hash in (directory / "jalapeno_small.sv").read_text()
    assert "jalapeno_small.sv" in out


@pytest.mark.usefixtures("small_block")
def test_generate_everything_as_json(jalapeno: Run, tmp_path: Path) -> None:
    status, out, _ = jalapeno("generate", "--out", "else where", "--json")
    (built,) = json.loads(out)["packages"]
    assert status == 0
    assert built["directory"] == f"else where/small-{TileConfig().hash}"
    manifest = json.loads((tmp_path / built["directory"] / "manifest.json").read_text())
    assert manifest == built["manifest"]


# --- test ----------------------------------------------------------------------------------------


@pytest.fixture
def fake_tests(jalapeno: Run, small_block: None, monkeypatch, tmp_path: Path) -> Path:
    """Put a test of the small block into a checkout of its own, and return where it reports to."""
    checkout = tmp_path / "check out"
    (checkout / "tests" / "tb").mkdir(parents=True)
    record = tmp_path / "record.json"
    (checkout / "tests" / "tb" / "test_small.py").write_text(
        "import json, os, pathlib\n"
        "def test_it(tmp_path):\n"
        "    (tmp_path / 'dump.vcd').touch()\n"
        "    names = ('JALAPENO_SEED', 'JALAPENO_WAVES', 'JALAPENO_CONFIG')\n"
        "    values = {name: os.environ.get(name) for name in names}\n"
        f"    pathlib.Path({str(record)!r}).write_text(json.dumps(values))\n"
        "    assert values['JALAPENO_SEED'] != '13'\n"
    )
    monkeypatch.setattr(cli, "ROOT", checkout)
    for name in ("JALAPENO_SEED", "JALAPENO_WAVES", "JALAPENO_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return record


def test_test_passes_nothing_on_by_default(jalapeno: Run, fake_tests: Path) -> None:
    for arguments in (("test",), ("test", "small")):
        status, out, _ = jalapeno(*arguments)
        assert status == 0
        assert "1 passed" in out
        assert set(json.loads(fake_tests.read_text()).values()) == {None}


def test_test_passes_options_on(jalapeno: Run, fake_tests: Path, tmp_path: Path) -> None:
    status, out, _ = jalapeno("test", "small", "--waves", "--seed", "7", "--preset", "nano")
    assert status == 0
    values = json.loads(fake_tests.read_text())
    assert (values["JALAPENO_SEED"], values["JALAPENO_WAVES"]) == ("7", "1")
    assert TileConfig.from_dict(json.loads(values["JALAPENO_CONFIG"])) == NANO
    (waveform,) = [line for line in out.splitlines() if line.startswith("waveform: ")]
    assert Path(waveform.removeprefix("waveform: ")).is_relative_to(tmp_path / "build" / "test")


def test_a_failing_test_fails_the_command(jalapeno: Run, fake_tests: Path) -> None:
    status, out, _ = jalapeno("test", "small", "--seed", "13")
    assert status == cli.FAILED
    assert "1 failed" in out


def test_missing_tests_are_explained(jalapeno: Run, fake_tests: Path, monkeypatch) -> None:
    monkeypatch.setattr(cli, "ROOT", fake_tests.parent)
    status, _, err = jalapeno("test", "small")
    assert status == cli.REFUSED
    assert "test_small.py does not exist; run this from a checkout" in err


# --- bench and demo ------------------------------------------------------------------------------


def figures(config: TileConfig, *_: object) -> list[Figure]:
    return [
        Figure("fake.lanes", config.lanes, "lanes", "nothing", target=4),
        Figure("fake.size", 10, "cells", "nothing", bound=9, target=10, at_most=True),
    ]


def test_bench_table_and_json(jalapeno: Run, monkeypatch) -> None:
    use_bench(monkeypatch, figures)
    status, out, err = jalapeno("bench", "fake")
    assert (status, err) == (0, "")
    assert "fake.lanes" in out
    assert "≤ 10" in out
    status, out, _ = jalapeno("bench", "fake", "--preset", "nano", "--json")
    result = json.loads(out)
    assert status == 0
    assert (result["bench"], result["hash"]) == ("fake", NANO.hash)
    assert [figure["met"] for figure in result["figures"]] == [False, True]


def test_bench_check_fails_on_a_missed_target(jalapeno: Run, monkeypatch) -> None:
    use_bench(monkeypatch, figures)
    assert jalapeno("bench", "fake", "--check")[0] == 0
    assert jalapeno("bench", "fake", "--check", "--set", "lanes=2")[0] == cli.FAILED


def test_demo(jalapeno: Run, monkeypatch) -> None:
    demo = types.ModuleType("sim.demo")

    def run(config: TileConfig, progress, console) -> list[Figure]:
        with progress.task("working", total=2) as advance:
            advance(2)
        console.print("every bit is the same")
        return figures(config)

    demo.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sim.demo", demo)
    monkeypatch.setattr("sim.demo", demo, raising=False)
    status, out, err = jalapeno("demo")
    assert (status, err) == (0, "")
    assert "every bit is the same" in out
    assert json.loads(jalapeno("demo", "--json")[1])["bench"] == "demo"


# --- info ----------------------------------------------------------------------------------------


def test_info_shows_everything(jalapeno: Run) -> None:
    status, out, _ = jalapeno("info", "--preset", "base")
    assert status == 0
    for text in (PRESETS["base"].hash, "beat_stride", "slice", "4x2", "verilator", "mac"):
        assert text in out
    for field in TileConfig.fields():
        assert field.name in out
        assert field.allowed in " ".join(out.split())


def test_info_as_json(jalapeno: Run) -> None:
    facts = json.loads(jalapeno("info", "--json", "--set", "mesh=1x1")[1])
    assert TileConfig.from_dict(facts["configuration"]) == TileConfig(mesh=(1, 1))
    assert {row["name"]: row["value"] for row in facts["derived"]}["tiles"] == 1
    assert facts["presets"]["nano"] == NANO.to_dict()
    assert facts["tools"]["amaranth"].startswith("0.5.")


def test_info_schema(jalapeno: Run) -> None:
    schema = json.loads(jalapeno("info", "--schema")[1])
    assert schema["properties"]["lanes"]["maximum"] == 512


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["info", "--set", "lanes=3"], "lanes is 3; it must be an even number from 2 to 512."),
        (["info", "--set", "lanes"], '"lanes" is not a setting; write field=value'),
        (["info", "--preset", "big"], 'preset is "big"; it must be one of nano, small, base, sl'),
        (["info", "--config", "none.toml"], "none.toml cannot be read: No such file or directory."),
        (["generate", "mca"], "There is no block mca; did you mean mac?"),
        (["test", "mca"], "There is no block mca; did you mean mac?"),
        (["bench", "mca"], "There is no bench mca; did you mean mac?"),
        (["bench"], "Missing argument 'BLOCK'; see jalapeno --help."),
        (["frob"], "No such command 'frob'; see jalapeno --help."),
        (["test", "--seed", "x"], "Invalid value for '--seed': "),
        (["info", "--frob"], "No such option: --frob"),
    ],
    ids=str,
)
def test_refusals_are_one_sentence(jalapeno: Run, arguments: list[str], sentence: str) -> None:
    status, out, err = jalapeno(*arguments)
    assert (status, out) == (cli.REFUSED, "")
    assert err.startswith(f"jalapeno: {sentence}")
    assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("small_block")
def test_unwritable_output(jalapeno: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, _, err = jalapeno("generate", "--out", "file")
    assert status == cli.REFUSED
    assert err == "jalapeno: file: File exists.\n"


def test_errors_of_tools_and_of_the_program_show_no_traceback(jalapeno: Run, monkeypatch) -> None:
    def raise_(error: Exception) -> None:
        raise error

    use_bench(monkeypatch, lambda *_: raise_(ToolError("no C++ compiler: install one")))
    assert jalapeno("bench", "fake")[0::2] == (2, "jalapeno: no C++ compiler: install one\n")
    use_bench(monkeypatch, lambda *_: raise_(MemoryError("Unable to allocate 75 GiB")))
    sentence = "jalapeno: there is not enough memory (Unable to allocate 75 GiB).\n"
    assert jalapeno("bench", "fake")[0::2] == (2, sentence)
    use_bench(monkeypatch, lambda *_: raise_(KeyError("x")))
    status, _, err = jalapeno("bench", "fake")
    assert status == cli.REFUSED
    assert err == "jalapeno: internal error (KeyError: 'x'); set JALAPENO_DEBUG=1 to see where.\n"
    monkeypatch.setenv("JALAPENO_DEBUG", "1")
    with pytest.raises(KeyError, match="x"):
        cli.main(["bench", "fake"])


# --- interruption --------------------------------------------------------------------------------


def test_ctrl_c_ends_with_one_line(tmp_path: Path) -> None:
    program = (
        # A shell's background jobs ignore Ctrl-C, and so would this child of theirs.
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from sim import bench, cli\n"
        "def run(*_):\n"
        "    print('running', flush=True)\n"
        "    time.sleep(60)\n"
        "bench.BENCHES = {'fake': bench.Bench('fake', '', run)}\n"
        "cli.main(['bench', 'fake'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == cli.INTERRUPTED
    assert err == "jalapeno: interrupted.\n"


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    result = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -m sim.cli info | head -1'],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.startswith("configuration ")
    assert result.stderr == ""
