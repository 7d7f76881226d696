"""The Verilog of a tile, and the clocks of its engines."""

from amaranth.sim import Simulator

from gen import waivers
from gen.verilog import emit
from rtl.activity import LINGER, Activity
from rtl.config import PRESETS
from rtl.tile import Tile
from sim.lint import lint, slang


def test_the_verilog_is_clean():
    config = PRESETS["nano"]
    design = emit(Tile(config), "tile", config)
    sources = {f"{design.top}.sv": design.text}
    lint(sources, waivers.vlt(), top=design.top)
    slang(sources)


def test_a_clock_runs_while_there_is_work_and_a_little_longer():
    dut = Activity()

    async def work(ctx):
        async def cycles_with_clock(limit=1000):
            for cycle in range(limit):
                if not ctx.get(dut.clock):
                    return cycle
                await ctx.tick()
            return limit

        assert await cycles_with_clock() == 0, "nothing has ever been offered"
        ctx.set(dut.offered, 1)
        assert ctx.get(dut.clock), "it comes in the same cycle"
        await ctx.tick()
        ctx.set(dut.offered, 0)
        assert await cycles_with_clock() == LINGER
        # Two instructions, of which one ends; the other keeps the clock.
        ctx.set(dut.offered, 1)
        ctx.set(dut.begins, 1)
        await ctx.tick().repeat(2)
        ctx.set(dut.offered, 0)
        ctx.set(dut.begins, 0)
        ctx.set(dut.ends, 1)
        await ctx.tick()
        ctx.set(dut.ends, 0)
        assert await cycles_with_clock(5 * LINGER) == 5 * LINGER
        assert ctx.get(dut.busy)
        ctx.set(dut.ends, 1)
        await ctx.tick()
        ctx.set(dut.ends, 0)
        assert not ctx.get(dut.busy)
        assert await cycles_with_clock() == LINGER

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(work)
    simulator.run()
