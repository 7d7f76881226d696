"""Counters and snapshots, in Amaranth's simulator."""

import random

import pytest
from amaranth.sim import Simulator

from rtl.counters import Counter, CounterBank
from tests.refusals import REFUSALS

pytestmark = REFUSALS

COUNTERS = (
    Counter("cycles", "cycles since reset"),
    Counter("bytes_read", "bytes from memory", bits=40, step_bits=9),
    Counter("stalls", "cycles without progress", bits=3),
)


def simulate(bank: CounterBank, testbench) -> None:
    simulator = Simulator(bank)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def test_copies_are_one_consistent_set_and_counters_wrap() -> None:
    bank = CounterBank(COUNTERS)
    rng = random.Random(1)

    async def testbench(ctx) -> None:
        counts = dict.fromkeys(("cycles", "bytes_read", "stalls"), 0)
        copies = dict(counts)
        for _ in range(500):
            steps = {"cycles": 1, "bytes_read": rng.randrange(512), "stalls": rng.randrange(2)}
            snapshot = rng.random() < 0.2
            for name, step in steps.items():
                ctx.set(getattr(bank.step, name), step)
            ctx.set(bank.snapshot, snapshot)
            await ctx.tick()
            if snapshot:
                copies = dict(counts)  # without the steps of this very cycle
            for counter in COUNTERS:
                counts[counter.name] += steps[counter.name]
                counts[counter.name] %= 1 << counter.bits
                assert ctx.get(getattr(bank.copies, counter.name)) == copies[counter.name]
        assert counts["cycles"] == 500
        assert copies["stalls"] != copies["cycles"]

    simulate(bank, testbench)


def test_a_wide_counter_carries_beyond_32_bits() -> None:
    bank = CounterBank([Counter("amount", "anything", bits=64, step_bits=64)])

    async def testbench(ctx) -> None:
        for step in (0xFFFF_FFFF, 1, (1 << 64) - 1):
            ctx.set(bank.step.amount, step)
            await ctx.tick()
        ctx.set(bank.step.amount, 0)
        ctx.set(bank.snapshot, 1)
        await ctx.tick()
        assert ctx.get(bank.copies.amount) == 0xFFFF_FFFF  # 2**32 - 1, modulo 2**64

    simulate(bank, testbench)


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ({"name": "Cycles"}, 'counter "Cycles" must be named by lower-case words'),
        ({"name": "a__b"}, 'counter "a__b" must be named by lower-case words'),
        ({"name": "a", "bits": 0}, "counter a has 0 bits; it must have 1 to 64"),
        ({"name": "a", "bits": 65}, "counter a has 65 bits; it must have 1 to 64"),
        ({"name": "a", "bits": 4, "step_bits": 5}, "counter a has a step of 5 bits; it must have"),
        ({"name": "a", "step_bits": 0}, "counter a has a step of 0 bits; it must have 1 to 64"),
    ],
)
def test_bad_declarations_are_refused(declaration: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Counter(description="anything", **declaration)


def test_bad_banks_are_refused() -> None:
    with pytest.raises(ValueError, match="needs at least one counter"):
        CounterBank([])
    with pytest.raises(ValueError, match="two counters are called cycles"):
        CounterBank([Counter("cycles", "one"), Counter("cycles", "two")])
