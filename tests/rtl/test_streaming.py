"""The Verilog of the streaming engine, as text, and what its manifest says."""

import pytest

from gen.package import generate
from gen.waivers import vlt
from rtl.config import PRESETS
from sim.lint import lint, slang
from tests.tb.simulation import CONFIGURATIONS, emitted


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_lint_and_second_front_end(name):
    design = emitted("streaming", CONFIGURATIONS[name])
    sources = {f"{design.top}.sv": design.text}
    lint(sources, vlt(), top=design.top)
    slang(sources)


def test_the_package_describes_every_window(tmp_path):
    package = generate("streaming", PRESETS["nano"], tmp_path)
    offsets = {r["name"]: r["offset"] for r in package.manifest["registers"]}
    assert offsets["hbm_identity"] == 0
    assert offsets["mac_identity"] == 0x200
    assert offsets["operands_identity"] == 0x400
    assert "operands_waits_for_memory" in {c["name"] for c in package.manifest["counters"]}
    header = (package.directory / "jalapeno_streaming.h").read_text()
    assert "#define JALAPENO_STREAMING_OPERANDS_STATUS_ERROR_MASK 0x00000001u" in header


def test_a_package_gives_its_design_back(tmp_path):
    config = PRESETS["nano"]
    package = generate("streaming", config, tmp_path)
    design = emitted("streaming", config)
    again = package.design
    assert (again.top, again.text, again.ports) == (design.top, design.text, design.ports)
    assert (again.modules, again.config) == (design.modules, design.config)
