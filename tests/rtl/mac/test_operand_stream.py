"""Operands become descriptors, beats go through, and everything is counted."""

import random

import pytest
from amaranth.sim import Simulator

from rtl.config import PRESETS
from rtl.hbm.ports import ADDRESS_BITS
from rtl.mac import operand_stream
from rtl.mac.operand_stream import COUNTERS, MOST_BEATS, OperandStream

CONFIG = PRESETS["nano"]


class Memory:
    """The other sides of a stream: a memory that keeps its descriptors, and an engine.

    Attributes
    ----------
    descriptors
        What was asked for: address and beats.
    taken
        Beats that the engine got.
    """

    def __init__(self, dut: OperandStream, seed: int, busy: float, bad=()) -> None:
        self.dut, self.rng, self.busy, self.bad = dut, random.Random(seed), busy, set(bad)
        self.descriptors: list[tuple[int, int]] = []
        self.taken: list[int] = []
        self.waiting: list[int] = []
        self.active = 0

    def ready(self) -> bool:
        return self.rng.random() >= self.busy

    async def run(self, ctx) -> None:
        dut, port = self.dut, self.dut.client
        offered = False
        while True:
            ctx.set(port.descriptors.ready, self.ready())
            ctx.set(dut.beats.ready, self.ready())
            if self.waiting and (offered or self.ready()):
                offered = True
                ctx.set(port.reads.payload.data, self.waiting[0])
                ctx.set(port.reads.payload.error, self.waiting[0] in self.bad)
            ctx.set(port.reads.valid, offered)
            self.active += bool(self.waiting)
            asks = ctx.get(port.descriptors.valid) and ctx.get(port.descriptors.ready)
            descriptor = ctx.get(port.descriptors.payload)
            takes = offered and ctx.get(dut.beats.valid) and ctx.get(dut.beats.ready)
            assert ctx.get(port.reads.ready) == ctx.get(dut.beats.ready)
            if takes:
                self.taken.append(ctx.get(dut.beats.payload))
            await ctx.tick()
            if takes:
                self.waiting.pop(0)
                offered = False
            if asks:
                assert not descriptor.write
                self.descriptors.append((descriptor.address, descriptor.beats))
                self.waiting += range(
                    descriptor.address, descriptor.address + min(descriptor.beats, 40)
                )


def simulate(operands, *, busy=0.0, seed=0, bad=(), drain=True) -> tuple[Memory, dict[str, int]]:
    """Ask for operands, wait until all is delivered, and return the counters and the status."""
    dut = OperandStream(CONFIG)
    memory = Memory(dut, seed, busy, bad)
    counted: dict[str, int] = {}

    async def read(ctx, word: int) -> int:
        ctx.set(dut.bus.address, word)
        ctx.set(dut.bus.read, 1)
        await ctx.tick()
        ctx.set(dut.bus.read, 0)
        return ctx.get(dut.bus.read_data)

    async def testbench(ctx) -> None:
        for address, beats in operands:
            ctx.set(dut.operands.payload, {"address": address, "beats": beats})
            ctx.set(dut.operands.valid, 1)
            await ctx.tick().until(dut.operands.ready)
        ctx.set(dut.operands.valid, 0)
        await ctx.tick()
        while memory.waiting and drain:
            await ctx.tick()
        register_map = dut.register_map
        ctx.set(dut.bus.address, register_map.register_offsets["counter_control"] // 4)
        ctx.set(dut.bus.write, 1)
        ctx.set(dut.bus.write_data, 1)
        ctx.set(dut.bus.write_mask, 15)
        await ctx.tick()
        ctx.set(dut.bus.write, 0)
        for counter in COUNTERS:
            counted[counter.name] = await read(ctx, register_map.counter_offsets[counter.name] // 4)
        counted["error"] = await read(ctx, register_map.register_offsets["status"] // 4)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.add_testbench(memory.run, background=True)
    simulator.run()
    return memory, counted


@pytest.mark.parametrize("busy", [0, 0.3, 0.8])
def test_every_beat_once_and_in_order(busy):
    rng = random.Random(1)
    operands = [(2 * rng.randrange(1 << 27), rng.choice([0, 1, 2, 7, 30])) for _ in range(40)]
    memory, counted = simulate(operands, busy=busy, seed=2)
    assert memory.descriptors == [operand for operand in operands if operand[1]]
    assert memory.taken == [a + i for a, beats in operands for i in range(beats)]
    assert counted["operands"] == 40
    assert counted["beats"] == len(memory.taken)
    assert counted["active"] == memory.active
    waits = counted["waits_for_memory"] + counted["waits_for_engine"]
    assert counted["active"] == counted["beats"] + waits
    assert (waits == 0) == (busy == 0)
    assert (counted["errors"], counted["error"]) == (0, 0)


@pytest.mark.parametrize("beats", [1, 0])
def test_a_long_operand_is_several_descriptors(beats):
    """As many as there are bits for; the last one may be whole."""
    size = 3 * MOST_BEATS + beats
    memory, counted = simulate([(6, size), (2, 2)], busy=0.3, drain=False)
    pieces = [(6 + i * MOST_BEATS, MOST_BEATS) for i in range(3)]
    assert memory.descriptors == [*pieces, *[(6 + 3 * MOST_BEATS, 1)] * beats, (2, 2)]
    assert counted["operands"] == 2


def test_descriptors_of_any_operand_begin_at_even_beats():
    assert MOST_BEATS % 2 == 0
    assert MOST_BEATS < 1 << operand_stream.LENGTH_BITS


def test_beats_that_cannot_be_read_are_told():
    memory, counted = simulate([(10, 8), (1 << ADDRESS_BITS - 1, 3)], bad=[11, 13])
    assert len(memory.taken) == 11
    assert (counted["errors"], counted["error"]) == (2, 1)
