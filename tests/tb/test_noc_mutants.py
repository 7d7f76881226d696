"""Faults put into the network on chip on purpose: its tests must notice every one."""

import pytest

from tests.tb.mutants import Mutant, notice, params
from tests.tb.test_noc import shape

SHAPES = {"square": shape("2x2", depth=2), "row": shape("1x4", depth=2)}

MUTANTS = [
    Mutant("a packet to nowhere is dropped but for its rest", "noc/endpoint.py",
           "drop.eq(Mux(inside, dropping, outside))", "drop.eq(~inside & outside)", "square"),
    Mutant("y may be beyond the mesh", "noc/endpoint.py",
           "(header.x >= self.mesh.x) | (header.y >= self.mesh.y)",
           "header.x >= self.mesh.x", "square"),
    Mutant("a packet is refused that is not offered", "noc/endpoint.py",
           "self.refused.eq(self.flits.valid & drop & flit.last)",
           "self.refused.eq(drop & flit.last)", "square"),
    Mutant("every flit is refused", "noc/endpoint.py",
           "self.refused.eq(self.flits.valid & drop & flit.last)",
           "self.refused.eq(self.flits.valid & drop)", "square"),
    Mutant("what a tile does not take is overwritten", "noc/endpoint.py",
           "m.If(~full)", "m.If(1)", "square"),
    Mutant("what a tile does not take is dropped", "noc/endpoint.py",
           "full.eq(self.flits.valid & ~self.flits.ready)", "full.eq(0)", "square"),
    Mutant("a slot is never used", "noc/buffer.py",
           "link.space.eq(free.any())", "link.space.eq(free[1:].any())", "square"),
    Mutant("a full buffer takes more", "noc/buffer.py",
           "link.space.eq(free.any())", "link.space.eq(1)", "square"),
    Mutant("slots are not free after a reset", "noc/buffer.py",
           'name=f"route_{s}")', 'name=f"route_{s}", reset_less=True)', "square"),
    Mutant("a packet goes on over a reset", "noc/buffer.py",
           "inside = Signal()  # a packet", "inside = Signal(reset_less=True)  # a packet",
           "square"),
    Mutant("the younger flit goes first", "noc/buffer.py",
           "routes[t][o] & older[t][s]", "routes[t][o] & older[s][t]", "square"),
    Mutant("first y, then x", "noc/buffer.py",
           "Side.EAST: header.x > self.x", "Side.EAST: (header.x > self.x) & at_y", "square"),
    Mutant("packets are torn apart", "noc/allocator.py", "(held[n] | idle[o])", "1", "square"),
    Mutant("an output is held over a reset", "noc/allocator.py",
           "held = Signal(len(PAIRS))", "held = Signal(len(PAIRS), reset_less=True)", "square"),
    Mutant("space does not count", "noc/allocator.py", "self.space[o] & (", "(", "square"),
    Mutant("all inputs have the same share", "noc/arbiter.py",
           "mine.eq(self.requests & turn)", "mine.eq(0)", "row"),
    Mutant("the last flit is not marked", "noc/router.py",
           "out.flit.last.eq(pick(granted, [flit.last for flit in flits]))",
           "out.flit.last.eq(0)", "square"),
    Mutant("a router is somewhere else", "noc/router.py",
           '"x": x, "y": y, "shares"', '"x": y, "y": x, "shares"', "square"),
]  # fmt: skip

SAMPLE = 1
"""Mutants of every run."""


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_network_tests_notice(mutant, tmp_path):
    notice("noc", mutant, SHAPES[mutant.config], tmp_path)
