"""Faults put into host port, slice and operand stream: the tests of all together must notice.

Each is a change of one expression in a copy of `rtl`. They take a build each, so all but the first
run at night.
"""

import os
import pickle
import shutil
import subprocess
import sys

import pytest

from gen.verilog import VerilogDesign
from rtl.config import PRESETS
from sim import verilator
from sim.hbm.harness import attach
from tests.tb.mutants import ROOT, Mutant, params
from tests.tb.test_streaming import ROWS

CONFIG = PRESETS["nano"]
EMIT = """
import pickle, sys
from gen.blocks import find
from gen.verilog import emit
from rtl.config import PRESETS
config = PRESETS["nano"]
sys.stdout.buffer.write(pickle.dumps(emit(find("streaming").build(config), "streaming", config)))
"""

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


def emit_mutant(mutant: Mutant, folder) -> VerilogDesign:
    """Return the design with the fault."""
    shutil.copytree(ROOT / "rtl", folder / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "rtl" / mutant.file
    text = path.read_text()
    assert text.count(mutant.good) == 1, f"{mutant.good} is not once in {mutant.file}"
    path.write_text(text.replace(mutant.good, mutant.bad))
    output = subprocess.run(
        [sys.executable, "-c", EMIT],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        check=True,
    ).stdout
    return pickle.loads(output)


@pytest.mark.parametrize("mutant", params(STREAMING, SAMPLE))
def test_the_streaming_tests_notice(mutant, tmp_path):
    bench = attach(emit_mutant(mutant, tmp_path), rows=ROWS)
    build = verilator.build(bench.sources, bench.top, bench.ports)
    results = build.run(
        "tb.test_streaming",
        seed=1,
        work_dir=tmp_path / "run",
        env={
            "JALAPENO_CONFIG": CONFIG.to_json(),
            "JALAPENO_HBM_ROWS": str(ROWS),
            "COCOTB_MAX_FAILURES": "1",  # one is enough
        },
        timeout=600,
    )
    assert results.failed, f"no test noticed: {mutant.name}"
    print("noticed by", ", ".join(results.failed))
