"""The Verilog of the message engines, as text."""

import pytest

from gen.waivers import vlt
from sim.lint import lint, slang
from tests.tb.simulation import emitted
from tests.tb.test_message import MORE, SHAPES

ALL = SHAPES | {name: MORE[name] for name in ("narrow", "wide") if name in MORE}


@pytest.mark.parametrize("name", ALL)
def test_lint_and_second_front_end(name):
    design = emitted("message", ALL[name])
    sources = {f"{design.top}.sv": design.text}
    lint(sources, vlt(), top=design.top)
    slang(sources)


def test_tiles_are_emitted_once():
    for config in ALL.values():
        assert emitted("message", config).modules.count("message_tile") == 1
