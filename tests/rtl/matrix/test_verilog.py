"""The Verilog of the matrix unit, as text."""

import pytest

from gen.waivers import vlt
from sim.lint import lint, slang
from tests.tb.simulation import CONFIGURATIONS, emitted


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_lint_and_second_front_end(name):
    design = emitted("matrix", CONFIGURATIONS[name])
    sources = {f"{design.top}.sv": design.text}
    lint(sources, vlt(), top=design.top)
    slang(sources)
