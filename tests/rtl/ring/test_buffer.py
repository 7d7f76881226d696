"""The buffer of a link, by itself."""

import random
from functools import partial

import pytest
from amaranth.sim import Simulator

from rtl.ring.buffer import LinkBuffer


def run(depth, bench):
    buffer = LinkBuffer(8, depth)
    simulator = Simulator(buffer)
    simulator.add_clock(1e-6)
    simulator.add_testbench(partial(bench, buffer=buffer))
    simulator.run()


@pytest.mark.parametrize("depth", [2, 4, 16])
def test_everything_comes_once_and_in_order(depth):
    rng = random.Random(depth)

    async def bench(ctx, buffer):
        sent, got = [], []
        offered = rng.random() < 0.5
        for _ in range(2000):
            value = len(sent) % 251
            ctx.set(buffer.link.valid, offered)
            ctx.set(buffer.link.payload, value)
            ctx.set(buffer.flits.ready, rng.random() < 0.5)
            taken = offered and ctx.get(buffer.link.ready)
            if taken:
                sent.append(value)
            if ctx.get(buffer.flits.valid) and ctx.get(buffer.flits.ready):
                got.append(ctx.get(buffer.flits.payload))
            await ctx.tick()
            offered = rng.random() < 0.6 or (offered and not taken)
        assert len(got) > 500
        assert got == sent[: len(got)]
        assert len(sent) - len(got) <= depth

    run(depth, bench)


def test_a_flit_passes_at_once_and_ready_does_not_depend_on_who_takes():
    async def bench(ctx, buffer):
        ctx.set(buffer.link.valid, 1)
        ctx.set(buffer.link.payload, 7)
        ctx.set(buffer.flits.ready, 1)
        assert (ctx.get(buffer.flits.valid), ctx.get(buffer.flits.payload)) == (1, 7)
        await ctx.tick()
        ctx.set(buffer.flits.ready, 0)
        for _ in range(buffer.depth):
            assert ctx.get(buffer.link.ready)
            await ctx.tick()
        for ready in (0, 1):
            ctx.set(buffer.flits.ready, ready)
            assert not ctx.get(buffer.link.ready)

    run(4, bench)
