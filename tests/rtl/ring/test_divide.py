"""The divider of shares, by itself."""

import random

import pytest
from amaranth.sim import Simulator

from rtl.config import TILES_MAX
from rtl.ring.divide import BITS_PER_CYCLE, Divider


@pytest.mark.parametrize("width", [3, 8, 15, 20])
def test_shares_are_right_and_in_time(width):
    rng = random.Random(width)
    divider = Divider(width)
    most = (1 << width) - 1
    cases = [(0, 1), (most, 1), (most, TILES_MAX), (1, TILES_MAX)]
    cases += [(rng.randint(0, most), rng.randint(1, TILES_MAX)) for _ in range(200)]
    cases += [(rng.randint(0, most), rng.randint(1, 64)) for _ in range(200)]

    async def bench(ctx):
        for count, tiles in cases:
            ctx.set(divider.count, count)
            ctx.set(divider.tiles, tiles)
            ctx.set(divider.start, 1)
            await ctx.tick()
            ctx.set(divider.start, 0)
            for _ in range(-(-width // BITS_PER_CYCLE)):
                assert not ctx.get(divider.done)
                await ctx.tick()
            assert ctx.get(divider.done)
            assert (ctx.get(divider.each), ctx.get(divider.rest)) == divmod(count, tiles)

    simulator = Simulator(divider)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
