"""Faults put into host port, slice and operand stream: the tests of all together must notice.

Each is a change of one expression in a copy of `rtl`. They take a build each, so all but the first
run at night.
"""

import pytest

from rtl.config import PRESETS
from tests.tb.mutants import Mutant, notice, params
from tests.tb.test_streaming import ROWS

CONFIG = PRESETS["nano"]

STREAMING = [
    Mutant(
        "a beat is dropped where the engine waits",
        "mac/operand_stream.py",
        "reads.ready.eq(self.beats.ready)",
        "reads.ready.eq(1)",
    ),
    Mutant(
        "operands begin a beat late",
        "mac/operand_stream.py",
        "operand.payload.address + asked",
        "operand.payload.address + asked + 1",
    ),
    Mutant(
        "errors are not told",
        "mac/operand_stream.py",
        "block.status.error.eq(wrong)",
        "block.status.error.eq(0)",
    ),
    Mutant(
        "waits for memory are not all counted",
        "mac/operand_stream.py",
        "active & ~reads.valid",
        "active & ~reads.valid & self.beats.ready",
    ),
    Mutant(
        "the host writes to half the address",
        "host/write.py",
        "Cat(walk.position[offset:], burst.page)",
        "Cat(walk.position[offset:], burst.page)[1:]",
    ),
    Mutant(
        "the host is answered before its write is accepted",
        "host/write.py",
        "ticket.refused | self.answers.valid",
        "1",
    ),
    Mutant(
        "strobes are swapped",
        "hbm/slice.py",
        "given.enable.word_select(i, BEAT_BYTES)",
        "given.enable.word_select(i, BEAT_BYTES)[::-1]",
    ),
    Mutant(
        "a window answers for all that are behind it",
        "register_windows.py",
        "(bus.address[within:] == number)",
        "(bus.address[within:] >= number)",
    ),
    Mutant(
        "what is behind a map is the map again",
        "register_windows.py",
        "bus.address[len(window.address) : within] == 0",
        "1",
    ),
]

SAMPLE = 1
"""Faults that also run by day."""


@pytest.mark.parametrize("mutant", params(STREAMING, SAMPLE))
def test_the_streaming_tests_notice(mutant, tmp_path):
    notice("streaming", mutant, CONFIG, tmp_path, rows=ROWS)
