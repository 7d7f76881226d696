"""Pseudo-LRU: who was just used stays, and all ways get their turn."""

import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from rtl.l1.recency import touched, victim


def simulate(ways, process):
    """Run a process that is given what touches a way, and what returns the victim."""
    m = Module()
    bits, way = Signal(ways), Signal(range(max(2, ways)))
    m.d.sync += bits.eq(touched(bits, way, ways))

    async def testbench(ctx):
        async def touch(number):
            ctx.set(way, number)
            await ctx.tick()

        await process(touch, lambda: ctx.get(victim(bits, ways)))

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("ways", [1, 2, 4, 8, 16])
def test_the_way_that_was_just_used_stays(ways):
    rng = random.Random(ways)

    async def process(touch, found):
        for _ in range(200):
            way = rng.randrange(ways)
            await touch(way)
            assert 0 <= found() < ways
            assert found() != way or ways == 1

    simulate(ways, process)


@pytest.mark.parametrize("ways", [2, 4, 8, 16])
def test_victims_that_are_used_take_turns(ways):
    async def process(touch, found):
        for way in range(ways):
            await touch(way)
        assert found() == 0
        seen = []
        for _ in range(ways):
            seen.append(found())
            await touch(seen[-1])
        assert sorted(seen) == list(range(ways))

    simulate(ways, process)


def test_of_two_ways_the_other_goes():
    async def process(touch, found):
        for way in (0, 1, 1, 0, 1):
            await touch(way)
            assert found() == 1 - way

    simulate(2, process)
