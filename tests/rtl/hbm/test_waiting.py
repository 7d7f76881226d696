"""Who has waited for long, and the assertion that nobody waits longer than can be."""

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from rtl.hbm.policy import PATIENCE
from rtl.hbm.timing import TIMINGS
from rtl.hbm.waiting import Waiting, longest_wait
from tb.hbm_proofs import constants

SHORT = 16
"""A patience for tests."""

LESS_ONE = constants(TIMINGS["tiny"])


def simulate(process):
    """Run a process on the component, with the timing set `tiny`."""
    top = Module()
    top.submodules.waiting = waiting = Waiting()

    async def testbench(ctx):
        ctx.set(waiting.distances, LESS_ONE)
        ctx.set(waiting.patience, SHORT)
        await ctx.tick()
        await process(ctx, waiting)

    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def limit(timing, patience):
    """Return the bound for a timing set."""
    distances = {name: value + 1 for name, value in constants(TIMINGS[timing]).items()}
    return longest_wait(distances, patience)


LIMIT = limit("tiny", SHORT)


def test_the_bounds_are_as_documented():
    assert limit("hbm3-6400", PATIENCE) == 5681
    assert limit("hbm4-8000", PATIENCE) == 7304


@pytest.mark.parametrize("start", range(1, SHORT + 1))
def test_a_bank_is_late_after_one_to_two_times_patience(start):
    async def process(ctx, waiting):
        await ctx.tick().repeat(start)
        ctx.set(waiting.reads, 8)
        await ctx.tick().repeat(SHORT)
        assert ctx.get(waiting.overdue) == 0
        await ctx.tick().repeat(SHORT)
        assert ctx.get(waiting.overdue) == 8
        ctx.set(waiting.served, 8)
        await ctx.tick()
        assert ctx.get(waiting.overdue) == 0

    simulate(process)


def test_a_turn_serves_those_that_were_late_when_it_began():
    async def process(ctx, waiting):
        ctx.set(waiting.reads, 2)
        ctx.set(waiting.writes, 12)
        await ctx.tick().repeat(2 * SHORT)
        assert (ctx.get(waiting.overdue), ctx.get(waiting.here)) == (2, 0)
        assert ctx.get(waiting.there)
        ctx.set(waiting.turned, 1)
        await ctx.tick()
        ctx.set(waiting.turned, 0)
        ctx.set(waiting.writing, 1)
        ctx.set(waiting.writes, 28)  # one more, but not late when the turn began
        await ctx.tick().repeat(2 * SHORT)
        for served in (4, 8):
            assert ctx.get(waiting.here)
            ctx.set(waiting.served, served)
            await ctx.tick()
        ctx.set(waiting.served, 0)
        assert not ctx.get(waiting.here)
        assert ctx.get(waiting.overdue) == 16

    simulate(process)


@pytest.mark.parametrize("direction", ["reads", "writes"])
def test_who_is_never_served_is_noticed(direction):
    cycles = 0

    async def process(ctx, waiting):
        nonlocal cycles
        ctx.set(getattr(waiting, direction), 1 << 5)
        while cycles < 2 * LIMIT:
            await ctx.tick()
            cycles += 1

    with pytest.raises(AssertionError, match=f"bank 5 has waited too long to {direction[:-1]}"):
        simulate(process)
    assert cycles == LIMIT + 1  # so in the cycle after the last one allowed


def test_who_is_served_in_the_last_cycle_is_not():
    async def process(ctx, waiting):
        ctx.set(waiting.reads, 1)
        for _ in range(2):
            await ctx.tick().repeat(LIMIT)
            ctx.set(waiting.served, 1)
            await ctx.tick()
            ctx.set(waiting.served, 0)

    simulate(process)
