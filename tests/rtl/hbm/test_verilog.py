"""The Verilog of the HBM slice, as text."""

import os
import subprocess
import sys

import pytest

from gen.waivers import vlt
from sim.lint import lint, slang
from tests.tb.simulation import emitted
from tests.tb.test_hbm import SLICES

EMIT = """
import sys
from gen.blocks import find
from gen.verilog import emit
from rtl.config import PRESETS
config = PRESETS["small"]
sys.stdout.write(emit(find("hbm").build(config), "hbm", config).text)
"""


@pytest.mark.parametrize("name", SLICES)
def test_lint_and_second_front_end(name):
    design = emitted("hbm", SLICES[name])
    sources = {f"{design.top}.sv": design.text}
    lint(sources, vlt(), top=design.top)
    slang(sources)


def test_the_same_bytes_in_every_process():
    texts = {
        subprocess.run(
            [sys.executable, "-c", EMIT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
