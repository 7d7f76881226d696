"""The demonstration: what it says, what it measures, and that it fails when a bit is wrong."""

import io

import pytest
from rich.console import Console

from rtl.config import PRESETS
from sim import cli, demo
from sim.engines import GoldenEngine
from sim.progress import NoProgress

NANO = PRESETS["nano"]


def test_the_model_writes_and_is_explained(tmp_path):
    text = io.StringIO()
    console = Console(file=text, width=200)
    made = demo.run(NANO, NoProgress(), console, tmp_path, tokens=3)
    figures, said = {figure.name: figure for figure in made}, text.getvalue()

    assert figures["demo.logits"].value == 3 * 1024
    assert "all 3,072 logits" in said
    assert f"{tmp_path}/tile-{NANO.hash}/jalapeno_tile.sv" in said.replace("\n", "")
    assert "find no fault" in said
    assert 0.7 < figures["run.roofline"].value < 1
    assert f"{figures['run.token_cycles'].value:,.0f} per token" in said
    written = said.split(demo.PROMPT)[1].split("Result")[0]
    assert len(written.strip()) >= 3


def test_a_wrong_bit_fails_the_command(tmp_path, monkeypatch, capfd):
    class Wrong(GoldenEngine):
        def prefill(self, tokens):
            logits = super().prefill(tokens)
            logits[77] = -logits[77]
            return logits

    monkeypatch.setattr(demo, "GoldenEngine", Wrong)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", "--preset", "nano"])
    assert end.value.code == cli.FAILED
    output = capfd.readouterr()
    assert output.err.startswith("jalapeno: Logit 77 after ")
    assert len(output.err.splitlines()) == 1
    assert "bit for bit" not in output.out
