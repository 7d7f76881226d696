"""Faults put into the host port on purpose: its tests must notice every one."""

import pytest

from tests.tb.mutants import Mutant, notice, params
from tests.tb.test_host import CONFIGURATIONS

MUTANTS = [
    Mutant(
        "WRAP does not wrap", "host/burst.py", "(self.position & ~wrap) | (behind & wrap)", "behind"
    ),
    Mutant("B without an answer", "host/write.py", "ticket.refused | self.answers.valid", "1"),
    Mutant(
        "unaligned bursts stay so",
        "host/burst.py",
        "(self.position | within_transfer(burst)) + 1",
        "self.position + within_transfer(burst) + 1",
        "six",
    ),
    Mutant(
        "FIXED moves on", "host/burst.py", "following.eq(self.position)", "following.eq(behind)"
    ),
    Mutant(
        "bursts leave their page",
        "host/burst.py",
        "last_position(burst)[PAGE_BITS:].any()",
        "Const(0)",
    ),
    Mutant("unaligned WRAP", "host/burst.py", "~wraps | unaligned", "~wraps"),
    Mutant(
        "addresses behind memory come round",
        "host/burst.py",
        "address[ADDRESS_BITS + offset_bits(config) :].any()",
        "Const(0)",
    ),
    Mutant(
        "reads fill the way of writes",
        "host/read.py",
        'find_client(config, "host").reads - 1',
        '4 * find_client(config, "host").reads',
    ),
    Mutant(
        "reads fill it by one beat",
        "host/read.py",
        'find_client(config, "host").reads - 1',
        'find_client(config, "host").reads',
    ),
    Mutant(
        "WRAP reads a beat too many",
        "host/read.py",
        "(burst.position - 1)[offset:]",
        "burst.position[offset:]",
    ),
    Mutant(
        "WRAP within a beat reads it twice", "host/read.py", "& (low[offset:] != high[offset:])", ""
    ),
    Mutant(
        "poison is OKAY",
        "host/read.py",
        "Mux(beat.error, Response.SLVERR, Response.OKAY)",
        "Response.OKAY",
    ),
    Mutant(
        "holes read as OKAY",
        "host/read.py",
        "hole.eq(walk.position",
        "hole.eq(0 & walk.position",
        "six",
    ),
    Mutant(
        "refused reads take a beat",
        "host/read.py",
        "walk.step & walk.leaves & ~refused",
        "walk.step & walk.leaves",
    ),
    Mutant(
        "strobes live on in the next beat",
        "host/write.py",
        "held.enable.eq(0)",
        "held.enable.eq(merged.enable)",
    ),
    Mutant(
        "the first byte stays",
        "host/write.py",
        "strobe[byte],",
        "strobe[byte] & ~held.enable[byte],",
    ),
    Mutant("a B for every descriptor", "host/write.py", "final.eq(walk.last)", "final.eq(1)"),
    Mutant(
        "early errors are forgotten",
        "host/write.py",
        "resp_before.eq(Mux(ticket.final, 0, resp))",
        "resp_before.eq(0)",
    ),
    Mutant(
        "errors stay for ever",
        "host/write.py",
        "resp_before.eq(Mux(ticket.final, 0, resp))",
        "resp_before.eq(resp)",
    ),
    Mutant("WLAST is not looked at", "host/write.py", "transfer.last != walk.last", "0"),
    Mutant(
        "bytes in holes are OKAY",
        "host/write.py",
        "strobe[config.beat_bytes :].any()",
        "0 & strobe[0]",
        "six",
    ),
    Mutant(
        "more responses than room",
        "host/write.py",
        "self.bursts.ready.eq(under_way < BURSTS)",
        "self.bursts.ready.eq(bursts.i.ready)",
    ),
    Mutant(
        "descriptors across their boundary",
        "host/write.py",
        "walk.jumps | beat[: CHUNK.bit_length() - 1].all()",
        "walk.jumps | (number == 7)",
    ),
    Mutant("requests are accepted in reset", "host/axi.py", "target.ready & live", "target.ready"),
    Mutant(
        "descriptors are pushed on",
        "host/axi.py",
        "free.eq(~chosen.valid | chosen.ready)",
        "free.eq(1)",
    ),
    Mutant(
        "only reads while there are some",
        "host/axi.py",
        "free & ~(reads.valid & wrote)",
        "free & ~reads.valid",
    ),
    Mutant(
        "strobes of registers ignored",
        "host/lite.py",
        "bus.write_mask.eq(write.strb)",
        "bus.write_mask.eq(15)",
    ),
    Mutant(
        "a register is written before its data",
        "host/lite.py",
        "has_address & has_data &",
        "has_address &",
    ),
    Mutant(
        "registers that are not there",
        "host/lite.py",
        "Mux(bus.mapped, Response.OKAY",
        "Mux(1, Response.OKAY",
    ),
    Mutant(
        "register data taken late",
        "host/lite.py",
        "with m.If(reading):",
        "with m.If(self.reads.valid):",
    ),
]

SAMPLE = 2
"""Faults that also run by day."""


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_host_port_tests_notice(mutant, tmp_path):
    notice("host", mutant, CONFIGURATIONS[mutant.config], tmp_path)
