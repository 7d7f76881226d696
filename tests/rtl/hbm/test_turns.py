"""Whose turn it is at the controller: turns that are kept, and how long."""

from amaranth.sim import Simulator

from rtl.hbm.turns import BLOCKED, MOST, PAUSE, Turns

KEEPER, OTHER = 0, 1


def run(testbench):
    """Simulate two who ask, of whom the first keeps its turn."""
    dut = Turns(2, keeps=[KEEPER])

    async def process(ctx):
        async def turn(asks, taken=True):
            """Let one cycle pass; return whose turn it was."""
            ctx.set(dut.asks, asks)
            pick = ctx.get(dut.pick)
            ctx.set(dut.taken, pick if taken else 0)
            await ctx.tick()
            return {0: None, 1: KEEPER, 2: OTHER}[pick]

        assert await turn(0b01) is KEEPER
        await testbench(turn)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()


def test_a_turn_is_kept_for_so_many_accesses():
    async def testbench(turn):
        got = [await turn(0b11) for _ in range(MOST + 1)]
        assert got == [KEEPER] * MOST + [OTHER]

    run(testbench)


def test_who_asks_for_nothing_is_waited_for_only_shortly():
    async def testbench(turn):
        got = [await turn(0b10) for _ in range(PAUSE + 2)]
        assert got == [None] * (PAUSE + 1) + [OTHER]

    run(testbench)


def test_who_is_blocked_holds_up_others_only_so_long():
    async def testbench(turn):
        got = [await turn(0b11, taken=False) for _ in range(BLOCKED + 2)]
        assert got[: BLOCKED + 1] == [KEEPER] * (BLOCKED + 1)
        assert OTHER in [got[-1], await turn(0b11)]

    run(testbench)


def test_others_do_not_keep_theirs():
    async def testbench(turn):
        await turn(0b10, taken=False)
        for _ in range(PAUSE + 1):
            await turn(0)
        assert await turn(0b10) is OTHER
        assert await turn(0b11) is KEEPER

    run(testbench)
