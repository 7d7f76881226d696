"""Proofs of a counter: what holds, what does not, and what is never reached."""

import os

import pytest
from amaranth.hdl import Assert, Cover, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from sim import formal
from sim.process import ToolError

needs_tools = pytest.mark.skipif(
    not formal.is_installed() and "CI" not in os.environ,
    reason="SymbiYosys is not installed; it is among the development dependencies",
)


class Counter(wiring.Component):
    """Counts to nine and stays there."""

    go: In(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = part = Module()
        count = Signal(4)
        with part.If(self.go & (count < 9)):
            part.d.sync += count.eq(count + 1)
        part.d.comb += [
            Assert(count <= 9, "below_ten"),
            Assert(count <= self.limit, "below_the_limit"),
            Cover(count == self.goal, "the_goal"),
        ]
        return m

    def __init__(self, limit=9, goal=9):
        self.limit, self.goal = limit, goal
        super().__init__()


@needs_tools
@pytest.mark.parametrize("engine", [formal.INDUCTION, formal.REACHABILITY])
def test_what_always_holds_is_proved(engine, tmp_path):
    text = formal.to_rtlil(Counter())
    depth = 2 if engine == formal.INDUCTION else None
    verdict = formal.prove(text, tmp_path, "prove", engine=engine, depth=depth)
    assert verdict == formal.Verdict(True, (), tmp_path / "prove.log")


@needs_tools
def test_a_bounded_proof_sees_only_so_far(tmp_path):
    text = formal.to_rtlil(Counter(limit=4))
    assert formal.prove(text, tmp_path / "4", "bmc", depth=5).holds
    verdict = formal.prove(text, tmp_path / "5", "bmc", depth=6)
    assert (verdict.holds, verdict.failed) == (False, ("part.below_the_limit",))


@needs_tools
@pytest.mark.parametrize("engine", [formal.INDUCTION, formal.REACHABILITY])
def test_what_does_not_hold_is_named(engine, tmp_path):
    text = formal.to_rtlil(Counter(limit=4))
    verdict = formal.prove(text, tmp_path, "prove", engine=engine)
    assert (verdict.holds, verdict.failed) == (False, ("part.below_the_limit",))
    assert list(tmp_path.rglob("*.vcd"))


@needs_tools
@pytest.mark.parametrize(("goal", "missed"), [(9, ()), (10, ("part.the_goal",))])
def test_what_is_never_reached_is_named(goal, missed, tmp_path):
    verdict = formal.prove(formal.to_rtlil(Counter(goal=goal)), tmp_path, "cover", depth=12)
    assert (verdict.holds, verdict.failed) == (not missed, missed)


def test_missing_tools_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(formal, "is_installed", lambda: False)
    with pytest.raises(ToolError, match="SymbiYosys is missing"):
        formal.prove("", tmp_path, "bmc")
