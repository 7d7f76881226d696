"""The Verilog of the matrix engine, as text."""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import rtl
from gen.verilog import emit
from gen.waivers import vlt
from rtl.config import PRESETS
from rtl.mac import MatrixEngine
from sim.lint import lint, slang
from tests.tb.simulation import CONFIGURATIONS, emitted

EMIT = """
import sys
from gen.verilog import emit
from rtl.config import PRESETS
from rtl.mac import MatrixEngine
config = PRESETS["nano"]
sys.stdout.write(emit(MatrixEngine(config), "mac", config).text)
"""


def modules(text):
    """Return the text of every module with its name taken out."""
    found = re.findall(r"^module (\w+)(.*?)^endmodule", text, re.MULTILINE | re.DOTALL)
    return {name: re.sub(rf"\b{name}\b", "", body) for name, body in found}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_lint_and_second_front_end(name):
    design = emitted("mac", CONFIGURATIONS[name])
    sources = {f"{design.top}.sv": design.text}
    lint(sources, vlt(), top=design.top)
    slang(sources)


def test_base_has_no_two_identical_modules():
    design = emitted("mac", PRESETS["base"])
    bodies = Counter(modules(design.text).values())
    assert len(bodies) > 15
    assert max(bodies.values()) == 1


def test_size_grows_linearly_with_lanes():
    sizes = [
        len(emitted("mac", PRESETS["small"].replace(lanes=lanes, transposer=False)).text)
        for lanes in (4, 12, 20)
    ]
    first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert 0.9 < second / first < 1.1, sizes


def test_the_same_bytes_for_every_hash_seed_and_directory(tmp_path):
    root = Path(rtl.__file__).parents[1]
    texts = set()
    for seed in ("0", "1"):
        folder = tmp_path / f"folder {seed}"
        folder.mkdir()
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        texts.add(
            subprocess.run(
                [sys.executable, "-c", EMIT],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert texts == {emitted("mac", PRESETS["nano"]).text}


def test_no_paths_and_no_dates():
    text = emitted("mac", PRESETS["small"]).text
    for part in (Path(rtl.__file__).parents[1], Path.home(), Path(sys.prefix), Path.cwd()):
        assert str(part) not in text
    assert "site-packages" not in text
    assert ".py" not in text
    assert str(time.gmtime().tm_year) not in re.sub(r"\d+'h\w+", "", text)


@pytest.mark.nightly
def test_slice_in_under_two_minutes():
    config = PRESETS["slice"]
    start = time.perf_counter()
    design = emit(MatrixEngine(config), "mac", config)
    assert time.perf_counter() - start < 120
    assert max(Counter(modules(design.text).values()).values()) == 1
