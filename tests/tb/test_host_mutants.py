"""Faults put into the host port on purpose: its tests must notice every one."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import rtl
from sim import verilator
from tests.tb.test_host import CONFIGURATIONS

ROOT = Path(rtl.__file__).parents[1]
EMIT = """
import json, sys
from gen.verilog import emit
from rtl.config import TileConfig
from rtl.host import HostPort
config = TileConfig.from_dict(json.loads(sys.argv[1]))
design = emit(HostPort(config), "host", config)
sys.stdout.write("\\n".join([design.top, " ".join(p.name for p in design.ports), design.text]))
"""


@dataclass(frozen=True)
class Mutant:
    """A fault: in `file`, `good`, which is there once, is replaced by `bad`."""

    name: str
    file: str
    good: str
    bad: str
    config: str = "nano"


MUTANTS = [
    Mutant("WRAP does not wrap", "burst", "(self.position & ~wrap) | (behind & wrap)", "behind"),
    Mutant("B without an answer", "write", "ticket.refused | self.answers.valid", "1"),
    Mutant("unaligned bursts stay so", "burst", "(self.position | within_transfer(burst)) + 1",
           "self.position + within_transfer(burst) + 1", "six"),
    Mutant("FIXED moves on", "burst", "following.eq(self.position)", "following.eq(behind)"),
    Mutant("bursts leave their page", "burst", "last_position(burst)[PAGE_BITS:].any()",
           "Const(0)"),
    Mutant("unaligned WRAP", "burst", "~wraps | unaligned", "~wraps"),
    Mutant("addresses behind memory come round", "burst",
           "address[ADDRESS_BITS + offset_bits(config) :].any()", "Const(0)"),
    Mutant("reads fill the way of writes", "read", "client(config).reads - 1",
           "4 * client(config).reads"),
    Mutant("reads fill it by one beat", "read", "client(config).reads - 1",
           "client(config).reads"),
    Mutant("WRAP reads a beat too many", "read", "(burst.position - 1)[offset:]",
           "burst.position[offset:]"),
    Mutant("WRAP within a beat reads it twice", "read", "& (low[offset:] != high[offset:])", ""),
    Mutant("poison is OKAY", "read", "Mux(beat.error, Response.SLVERR, Response.OKAY)",
           "Response.OKAY"),
    Mutant("holes read as OKAY", "read", "hole.eq(walk.position", "hole.eq(0 & walk.position",
           "six"),
    Mutant("refused reads take a beat", "read", "walk.step & walk.leaves & ~refused",
           "walk.step & walk.leaves"),
    Mutant("strobes live on in the next beat", "write", "held.enable.eq(0)",
           "held.enable.eq(merged.enable)"),
    Mutant("the first byte stays", "write", "strobe[byte],", "strobe[byte] & ~held.enable[byte],"),
    Mutant("a B for every descriptor", "write", "final.eq(walk.last)", "final.eq(1)"),
    Mutant("early errors are forgotten", "write", "resp_before.eq(Mux(ticket.final, 0, resp))",
           "resp_before.eq(0)"),
    Mutant("errors stay for ever", "write", "resp_before.eq(Mux(ticket.final, 0, resp))",
           "resp_before.eq(resp)"),
    Mutant("WLAST is not looked at", "write", "transfer.last != walk.last", "0"),
    Mutant("bytes in holes are OKAY", "write", "strobe[config.beat_bytes :].any()", "0 & strobe[0]",
           "six"),
    Mutant("more responses than room", "write", "self.bursts.ready.eq(under_way < BURSTS)",
           "self.bursts.ready.eq(bursts.i.ready)"),
    Mutant("descriptors across their boundary", "write",
           "walk.jumps | beat[: CHUNK.bit_length() - 1].all()", "walk.jumps | (number == 7)"),
    Mutant("requests are accepted in reset", "axi", "target.ready & live", "target.ready"),
    Mutant("descriptors are pushed on", "axi", "free.eq(~chosen.valid | chosen.ready)",
           "free.eq(1)"),
    Mutant("only reads while there are some", "axi", "free & ~(reads.valid & wrote)",
           "free & ~reads.valid"),
    Mutant("strobes of registers ignored", "lite", "bus.write_mask.eq(write.strb)",
           "bus.write_mask.eq(15)"),
    Mutant("a register is written before its data", "lite", "has_address & has_data &",
           "has_address &"),
    Mutant("registers that are not there", "lite", "Mux(bus.mapped, Response.OKAY",
           "Mux(1, Response.OKAY"),
    Mutant("register data taken late", "lite", "with m.If(reading):",
           "with m.If(self.reads.valid):"),
]  # fmt: skip

SAMPLE = 2
"""Faults that also run by day."""


def emit_mutant(mutant: Mutant, folder: Path) -> tuple[str, list[str], str]:
    """Return top, ports and text of the port with the fault."""
    shutil.copytree(ROOT / "rtl", folder / "rtl", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "rtl" / "host" / f"{mutant.file}.py"
    text = path.read_text()
    assert text.count(mutant.good) == 1, f"{mutant.good} is not once in {mutant.file}"
    path.write_text(text.replace(mutant.good, mutant.bad))
    output = subprocess.run(
        [sys.executable, "-c", EMIT, CONFIGURATIONS[mutant.config].to_json()],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    top, ports, verilog = output.split("\n", maxsplit=2)
    return top, ports.split(), verilog


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.name, marks=[] if i < SAMPLE else [pytest.mark.nightly])
        for i, mutant in enumerate(MUTANTS)
    ],
)
def test_the_host_port_tests_notice(mutant, tmp_path):
    top, ports, verilog = emit_mutant(mutant, tmp_path)
    results = verilator.build({f"{top}.sv": verilog}, top, ports).run(
        "tb.test_host",
        seed=1,
        work_dir=tmp_path / "run",
        env={
            "JALAPENO_CONFIG": CONFIGURATIONS[mutant.config].to_json(),
            "COCOTB_MAX_FAILURES": "1",  # one is enough
        },
        timeout=300,
    )
    assert results.failed, f"no test noticed: {mutant.name}"
    print("noticed by", next(iter(results.failed)))
