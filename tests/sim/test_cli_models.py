"""The commands about models: run, info and import."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from gen.models.formats import ModelFormats
from rtl.config import PRESETS, TileConfig
from rtl.core import isa
from sim import cli, engines
from sim.golden import elementary
from sim.interpreter import vector
from sim.tile_engine import TileEngine
from tests.gen.models.samples import CONFIGS, state, write_huggingface
from tests.sim.conftest import Run

ROOT = Path(__file__).parents[2]

TEXT = "Alice was"

INTERPRETER = ["run", "glassllm", "--prompt", TEXT, "--engine", "interpreter"]


@pytest.fixture
def model(tmp_path) -> str:
    write_huggingface(tmp_path / "m", CONFIGS["mixtral"], state(CONFIGS["mixtral"]))
    return "m"


class Wrong(engines.GoldenEngine):
    """Is golden, but for the sign of one logit of the second token."""

    def decode(self, token):
        logits = super().decode(token)
        logits[77] = -logits[77]
        return logits


# --- run -----------------------------------------------------------------------------------------


def test_run(jalapeno: Run) -> None:
    status, out, err = jalapeno("run", "glassllm", "--prompt", TEXT, "--tokens", "8")
    assert status == 0
    assert out.startswith(TEXT)
    assert out.endswith("\n")
    assert len(out) > len(TEXT) + 8
    assert err.startswith("8 tokens, ")
    assert err.endswith(" per second, on golden.\n")


def test_run_as_json(jalapeno: Run) -> None:
    arguments = ("run", "glassllm", "--prompt", TEXT, "--tokens", "5")
    text = jalapeno(*arguments)[1]
    status, out, err = jalapeno(*arguments, "--check", "--preset", "nano", "--json")
    result = json.loads(out)
    assert (status, err) == (0, "")
    assert TEXT + result["text"] + "\n" == text
    assert len(result["tokens"]) == 5
    assert result["logits_compared"] == 5 * 1024
    assert result["configuration"] == PRESETS["nano"].hash
    assert result["formats"] == ModelFormats().to_dict()
    assert (result["model"], result["engine"], result["stopped"]) == ("glassllm", "golden", "count")


def test_formats_change_the_logits(jalapeno: Run, monkeypatch) -> None:
    seen = []

    class Watched(engines.GoldenEngine):
        def __init__(self, model, config, positions) -> None:
            super().__init__(model, config, positions)
            seen.append(model)

    monkeypatch.setitem(engines.ENGINES, "watched", Watched)
    options = ("--experts", "mxint8/ceil", "--router-inputs", "mxfp4", "--embedding", "fp32")
    jalapeno("run", "glassllm", "--prompt", TEXT, "--tokens", "1", "--engine", "watched", *options)
    assert seen[0].layers[3].feed_forward.experts[0].down.weights.format == "mxint8"
    assert seen[0].layers[3].attention.query.weights.format == "mxfp4"
    assert seen[0].embedding.dtype == np.float32


def test_sampling_depends_on_the_seed_alone(jalapeno: Run) -> None:
    def text(seed: str) -> str:
        options = ("--temperature", "1.5", "--seed", seed, "--tokens", "12")
        return jalapeno("run", "glassllm", "--prompt", TEXT, *options)[1]

    assert text("1") == text("1") != text("2")


def test_a_wrong_bit_fails(jalapeno: Run, monkeypatch) -> None:
    monkeypatch.setitem(engines.ENGINES, "wrong", Wrong)
    arguments = ("run", "glassllm", "--prompt", TEXT, "--tokens", "4", "--engine", "wrong")
    assert jalapeno(*arguments)[0] == 0
    status, out, err = jalapeno(*arguments, "--check")
    assert status == cli.FAILED
    assert out.startswith(TEXT)
    assert err.startswith("jalapeno: Logit 77 after ")
    assert len(err.splitlines()) == 1


def test_ctrl_c_while_text_comes_ends_with_one_line(jalapeno: Run, monkeypatch) -> None:
    class Interrupted(engines.GoldenEngine):
        def decode(self, token):
            raise KeyboardInterrupt

    monkeypatch.setitem(engines.ENGINES, "slow", Interrupted)
    status, out, err = jalapeno("run", "glassllm", "--prompt", TEXT, "--engine", "slow")
    assert (status, err) == (cli.INTERRUPTED, "jalapeno: interrupted.\n")
    assert out.endswith("\n")


# --- import --------------------------------------------------------------------------------------


def test_import_and_run_the_image(jalapeno: Run, model: str, tmp_path: Path) -> None:
    options = ("--prompt", "the", "--tokens", "6", "--json")
    first = json.loads(jalapeno("run", model, "--keys", "mxfp4", *options)[1])
    status, out, err = jalapeno("import", model, "--out", "a b/m.safetensors", "--keys", "mxfp4")
    assert (status, err) == (0, "")
    assert "a b/m.safetensors" in out
    second = json.loads(jalapeno("run", "a b/m.safetensors", *options)[1])
    for name in ("tokens", "text", "formats"):
        assert first[name] == second[name]


def test_import_as_json_gives_the_same_bytes(jalapeno: Run, model: str, tmp_path: Path) -> None:
    facts = [
        json.loads(jalapeno("import", model, "--out", f"{n}.safetensors", "--json")[1])
        for n in range(2)
    ]
    assert facts[0]["hash"] == facts[1]["hash"]
    assert len(facts[0]["hash"]) == 64
    images = [(tmp_path / fact["file"]).read_bytes() for fact in facts]
    assert images[0] == images[1]
    assert facts[0]["bytes"] == len(images[0])


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    program = (
        # A shell's background jobs ignore Ctrl-C, and so would this child of theirs.
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import safetensors.numpy\n"
        "def slow(arrays, path, metadata):\n"
        "    path.write_bytes(b'half')\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "safetensors.numpy.save_file = slow\n"
        "from sim import cli\n"
        "cli.main(['import', 'glassllm', '--out', 'out/g.safetensors'])\n"
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
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (cli.INTERRUPTED, "jalapeno: interrupted.\n")
    assert list((tmp_path / "out").iterdir()) == []


# --- info ----------------------------------------------------------------------------------------


def test_info(jalapeno: Run, model: str) -> None:
    status, out, err = jalapeno("info", model, "--preset", "base", "--context", "9")
    assert (status, err) == (0, "")
    for text in (
        PRESETS["base"].hash,
        "experts_per_token",
        "mxfp4/ceil",
        "context 9",
        "cycles_per_token",
        "layer 1 cache",
    ):
        assert text in out


def test_info_as_json(jalapeno: Run) -> None:
    facts = json.loads(jalapeno("info", "glassllm", "--keys", "mxfp4", "--json")[1])
    assert facts["formats"] == ModelFormats.from_dict({"keys": "mxfp4"}).to_dict()
    assert facts["stored"][-1]["parameters"] == 852_608 + 1024 * 128  # the head is a copy
    assert facts["decode"]["roofline"][1]["tiles"] == TileConfig().tiles


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "info", "import"])
def test_formats_are_explained(jalapeno: Run, command: str) -> None:
    status, out, err = jalapeno(command, "--help")
    assert (status, err) == (0, "")
    for name in ModelFormats.describe():
        assert f"--{name.replace('_', '-')}" in out
    for text in ("mxfp4/ceil if left out", "--tokenizer", "MODEL"):
        assert text in " ".join(out.replace("│", "").split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run"], "Missing argument 'MODEL'; see jalapeno --help."),
        (["run", "glasllm"], "There is no model glasllm; choose from glassllm, glassllm:pt, or gi"),
        (["run", "glassllm"], "The prompt is empty; this model needs at least one character"),
        (["run", "m", "--prompt", "a" * 41], "The prompt has 42 tokens; the context of m holds 40"),
        (["run", "glassllm", "--engine", "gold"], "There is no engine gold; did you mean golden?"),
        (["run", "glassllm", "--tokens", "0"], "Invalid value for '--tokens': "),
        (["run", "glassllm", "--temperature", "-1"], "Invalid value for '--temperature': "),
        (["run", "glassllm", "--keys", "mxfp8"], 'keys is "mxfp8"; it must be mxfp4 or mxint8, wi'),
        (["run", "m", "--tokenizer", "none.json"], "none.json: No such file or directory."),
        (["run", "glassllm", "--tokenizer", "x"], "--tokenizer is x; glassllm has its own, so it"),
        (["run", "bare", "--prompt", "a"], "bare has no tokenizer; give one with --tokenizer FILE"),
        (["run", "odd.bin"], "odd.bin is not a llama2.c checkpoint: it does not begin like one."),
        (["run", "odd.safetensors"], "odd.safetensors is damaged or is not a safetensors file: "),
        (["run", "other.safetensors"], "other.safetensors is not a model image; give the directo"),
        (["run", "wrong"], "wrong/config.json is not JSON: "),
        (["info", "glassllm", "--context", "129"], "context is 129; for glassllm it must be 1 to"),
        (["info", "glassllm", "--set", "lanes=3"], "lanes is 3; it must be an even number from"),
        (["program", "glassllm", "--context", "129"], "context is 129; for glassllm it must be"),
        ([*INTERPRETER, "--set", "transposer=false"], "transposer is false; attention needs one"),
        ([*INTERPRETER, "--set", "formats=mxfp4"], "formats is mxfp4; glassllm has inputs in mxi"),
        (["info", "--context", "5"], "Formats, --context and --tokenizer are about a model; name"),
        (["info", "--keys", "mxfp4"], "Formats, --context and --tokenizer are about a model; nam"),
        (["import", "glassllm"], "Missing option '--out'; see jalapeno --help."),
        (["import", "glassllm", "--out", "g.bin"], "The image cannot be g.bin; it must be a file"),
        (["import", "glassllm", "--out", "odd.bin/g.safetensors"], "odd.bin: File exists."),
    ],
    ids=str,
)
def test_refusals_are_one_sentence(
    jalapeno: Run, model: str, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    write_huggingface(tmp_path / "bare", CONFIGS["llama"], state(CONFIGS["llama"]), tokenizer=False)
    (tmp_path / "odd.bin").write_bytes(b"GGUF" * 20)
    (tmp_path / "odd.safetensors").write_bytes(b"GGUF" * 20)
    safetensors.numpy.save_file({"x": np.zeros(1, np.float32)}, tmp_path / "other.safetensors")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "config.json").write_text("{")
    before = sorted(tmp_path.rglob("*"))
    status, out, err = jalapeno(*arguments)
    assert (status, out) == (cli.REFUSED, "")
    assert err.startswith(f"jalapeno: {sentence}")
    assert len(err.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


# --- programs ------------------------------------------------------------------------------------


def test_run_on_the_interpreter(jalapeno: Run) -> None:
    arguments = ("run", "glassllm", "--prompt", TEXT, "--tokens", "4")
    golden = jalapeno(*arguments)[1]
    status, out, err = jalapeno(*arguments, "--engine", "interpreter", "--check")
    assert (status, out) == (0, golden)
    assert "all 4,096 logits have the bits of golden" in err
    assert "run.matrix: " in err


def test_run_on_the_hardware(jalapeno: Run, monkeypatch) -> None:
    """It is what runs a model if nothing else is said."""
    monkeypatch.delenv("JALAPENO_ENGINE")
    arguments = ("run", "glassllm", "--prompt", TEXT, "--tokens", "3", "--preset", "nano")
    golden = jalapeno(*arguments, "--engine", "golden")[1]
    status, out, err = jalapeno(*arguments, "--check")
    assert (status, out) == (0, golden)
    assert "all 3,072 logits have the bits of golden" in err
    for words in ("memory bus   ███", "run.token_cycles: 3", "run.roofline: 0.8", "on rtl"):
        assert words in err


def test_hardware_interrupted_leaves_nothing_running(jalapeno: Run, monkeypatch) -> None:
    monkeypatch.delenv("JALAPENO_ENGINE")
    seen = []

    def decode(self, token):
        seen.append(self._tile)
        raise KeyboardInterrupt

    monkeypatch.setattr(TileEngine, "decode", decode)
    arguments = ("run", "glassllm", "--prompt", TEXT, "--preset", "nano")
    status, _, err = jalapeno(*arguments)
    assert (status, err) == (cli.INTERRUPTED, "jalapeno: interrupted.\n")
    assert not seen[0]._thread.is_alive()


def test_a_wrong_instruction_fails_the_check(jalapeno: Run, monkeypatch) -> None:
    monkeypatch.setitem(vector._FUNCTIONS, isa.Function.EXP, elementary.exp2)
    arguments = ("run", "glassllm", "--prompt", TEXT, "--tokens", "4", "--engine", "interpreter")
    status, _, err = jalapeno(*arguments, "--check")
    assert status == 1
    assert err.splitlines()[-1].startswith("jalapeno: Logit ")


def test_program(jalapeno: Run, model: str) -> None:
    status, out, _ = jalapeno("program", model, "--context", "33")
    assert status == 0
    for name in ("memory map", "embedding", "cache.0", "64 positions", "chunks in flight"):
        assert name in out


def test_program_as_json_and_listing(jalapeno: Run, model: str) -> None:
    facts = json.loads(jalapeno("program", model, "--json")[1])
    assert facts["memory"][0]["region"] == "embedding"
    status, listing, _ = jalapeno("program", model, "--listing")
    assert status == 0
    lines = [line for line in listing.splitlines() if not line.startswith((" " * 8, "l", "c"))]
    assert facts["program"]["bytes"] > facts["program"]["instructions"] >= len(lines) / 2
    assert listing.rstrip().endswith("stop")
    assert listing == jalapeno("program", model, "--listing")[1]


def test_a_tile_that_runs_no_programs(jalapeno: Run, model: str) -> None:
    status, out, err = jalapeno("program", model, "--preset", "slice")
    assert (status, out) == (2, "")
    assert err == "jalapeno: pseudo_channels is 6; programs need a power of two.\n"
