"""The demonstration: what it says, what it measures, and that it fails when a bit is wrong."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from rtl.config import PRESETS
from sim import cli, demo, mac
from sim.products import save
from sim.progress import NoProgress

NANO = PRESETS["nano"]
TOKENS = 17


def test_the_layer_runs_and_is_explained(tmp_path):
    text = io.StringIO()
    console = Console(file=text, width=200)
    figures = {figure.name: figure for figure in demo.run(NANO, NoProgress(), console, tmp_path)}
    said = text.getvalue()

    results = (341 + 128) * (TOKENS + 2)
    assert figures["demo.results"].value == results
    assert f"all {results:,} results" in said
    assert f"{tmp_path}/streaming-{NANO.hash}/jalapeno_streaming.sv" in said.replace("\n", "")
    assert "find no fault" in said
    assert f"{figures['demo.commands'].value:,} commands" in said
    for name in ("W1", "W2"):
        # A single token waits for the first beats, more than 100 cycles of 1,600.
        assert 0.90 < figures[f"demo.{name}.decode"].value < 1
        assert 0.97 < figures[f"demo.{name}.prefill"].value < 1
        assert 0.91 < figures[f"demo.{name}.decode_delivered"].value < 1
        assert 0.97 < figures[f"demo.{name}.prefill_delivered"].value < 1
        assert figures[f"demo.{name}.prefetched"].value > figures[f"demo.{name}.decode"].value
        assert f"{figures[f'demo.{name}.prefill_cycles'].value:,}" in said
        # What the model loses to 4-bit weights, and what the engine's one rounding may add.
        assert 0.02 < figures[f"demo.{name}.error"].value < 0.15
        assert figures[f"demo.{name}.engine_error"].value < 2**-24


def test_a_wrong_bit_fails_the_command(tmp_path, monkeypatch, capfd):
    def save_corrupted(path, products, values):
        first, *others = products
        codes = first.activations.codes.copy()
        codes[0, 0, 0] ^= 0x40
        activations = replace(first.activations, codes=codes)
        save(path, [replace(first, activations=activations), *others], values)

    monkeypatch.setattr(mac, "save", save_corrupted)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", "--preset", "nano"])
    assert end.value.code != 0
    output = capfd.readouterr()
    assert output.err.startswith("jalapeno: The hardware failed in W1 decode: result (0, ")
    assert len(output.err.splitlines()) == 1
    assert "bit for bit" not in output.out
