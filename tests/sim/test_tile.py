"""What a simulated tile refuses before it runs; `tests.tb.test_tile` runs it."""

from types import SimpleNamespace

import pytest

from gen.kernels.program import build
from gen.memory_map import DoesNotFit
from rtl.config import PRESETS
from sim.tile import TileSession
from tests.sim.cases import Shape


def test_a_program_that_is_too_long_is_refused_before_anything_is_written():
    config = PRESETS["nano"].replace(program_bytes=1024)
    program = build(Shape().model(), config)
    size = 4 * len(program.program.words)
    sentence = f"The program has {size:,} bytes, {size - 1024:,} more than program_bytes, 1,024."
    with pytest.raises(DoesNotFit) as refused:
        TileSession(program, SimpleNamespace(config=config))
    assert str(refused.value) == sentence
