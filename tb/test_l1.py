"""cocotb tests of the L1 cache, for any configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge
from cocotb_coverage.coverage import CoverPoint, coverage_db

from rtl.config import TileConfig
from rtl.l1.cache import ENTRIES
from tb.l1 import L1Testbench
from tb.stream import sometimes

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
SETS, WAYS = CONFIG.l1_sets, CONFIG.l1_ways
BEAT = CONFIG.beat_bytes
TOP = 1 << 32 - (CONFIG.beat_stride - 1).bit_length()
"""Beats that an address can name."""

MEMORY_BEATS = 1 << 20
"""Beats of the memory, where it matters."""

HIT_LATENCY = 3
"""Cycles from a request to its answer, where its line is there."""


@CoverPoint("l1.request", xf=lambda kind, *_: kind, bins=["read", "write"])
@CoverPoint("l1.bytes", xf=lambda _, bytes_, *__: bytes_, bins=["none", "some", "all"])
@CoverPoint("l1.before", xf=lambda *a: a[2], bins=["nothing", "some written", "all written"])
@CoverPoint("l1.half", xf=lambda *a: a[3], bins=[0, 1])
@CoverPoint(
    "l1.cross",
    xf=lambda *a: (a[0], a[1], a[2]),
    bins=[
        (kind, bytes_, before)
        for kind in ("read", "write")
        for bytes_ in ("some", "all")
        for before in ("nothing", "some written", "all written")
    ],
)
def sample(kind: str, bytes_: str, before: str, half: int) -> None:
    """Count a request in the functional coverage."""


COVERAGE = ("request", "bytes", "before", "half", "cross")

EVENTS = (
    "hits",
    "misses",
    "write_backs",
    "stalled_queue",
    "stalled_fetches",
    "stalled_write_backs",
    "stalled_conflict",
    "stalled_range",
    "waits_for_memory",
    "waits_for_user",
)
"""Counters that must have counted something by the end of the random test."""


async def started(dut: Any) -> L1Testbench:
    """Return a testbench after reset."""
    bench = L1Testbench(dut, CONFIG)
    await bench.reset()
    return bench


def beats_of(bench: L1Testbench, sets: int, lines: int) -> list[int]:
    """Return beats of so many lines that lie in each of so many sets, some at the end of memory."""
    chosen = bench.rng.sample(range(SETS), min(sets, SETS))
    found = []
    for index in chosen:
        for i in range(lines):
            line = index + SETS * i
            found += [2 * line, 2 * line + 1]
    return found


def ask(bench: L1Testbench, beat: int) -> None:
    """Read or write some bytes of a beat."""
    rng = bench.rng
    word = rng.randrange(BEAT // 4)
    enable = rng.choice(
        [bench.all_bytes] * 4 + [0xF << 4 * word] * 4 + [rng.getrandbits(BEAT)] * 2 + [0, 1]
    )
    written = bench.written.get(beat, 0)
    before = (
        "all written" if written == bench.all_bytes else "some written" if written else "nothing"
    )
    size = "all" if enable == bench.all_bytes else "some" if enable else "none"
    write = rng.random() < 0.5
    sample("write" if write else "read", size, before, beat & 1)
    if write:
        bench.write(beat, rng.getrandbits(8 * BEAT), enable)
    else:
        bench.read(beat, enable)


@cocotb.test()
async def random_requests(dut: Any) -> None:
    """Requests of all kinds to a few sets, until everything was there."""
    bench = await started(dut)
    rng = bench.rng
    points = [coverage_db[f"l1.{name}"] for name in COVERAGE]
    counted: dict[str, int] = {}
    for turn in range(60):
        beats = beats_of(bench, rng.choice([1, 2, 8]), rng.choice([1, WAYS, WAYS + 1, 3 * WAYS]))
        bench.pause_at_random()
        if turn % 4 == 0:
            bench.hurry()
        if turn % 4 == 1:  # long latencies, and nothing else: as much under way as can be
            bench.hurry()
            bench.port.latency = (80, 80)
        run = rng.choice([0, 0, 4])
        for _ in range(400):
            beat = rng.choice(beats)
            for i in range(rng.randint(0, run) + 1):
                ask(bench, beat + i)
        await bench.settle(answers=rng.random() < 0.5)
        if rng.random() < 0.5:
            await bench.flush()
        if turn >= 11 and all(point.coverage == point.size for point in points):
            await bench.settle()
            counted = await bench.registers.counters()
            if all(counted[name] for name in EVENTS):
                break
    await bench.settle()
    await bench.flush()
    for name, point in zip(COVERAGE, points, strict=True):
        assert point.coverage == point.size, f"{name} is not covered: {point.detailed_coverage}"
    dut._log.info(f"{bench.checked} answers in {bench.cycles} cycles: {counted}")
    assert counted["hits"] + counted["misses"] <= counted["reads"] + counted["writes"]
    for name in EVENTS:
        assert counted[name], f"{name} counted nothing"
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))


@cocotb.test()
async def all_of_memory(dut: Any) -> None:
    """Tags are compared to their last bit: beats whose numbers differ in one."""
    bench = await started(dut)
    bits = TOP.bit_length() - 1
    bench.pause_at_random()
    for base in (0, TOP - 1, bench.rng.randrange(TOP)):
        for bit in range(bits):
            bench.write(base ^ 1 << bit, bench.rng.getrandbits(8 * BEAT))
        for bit in range(bits):
            bench.read(base ^ 1 << bit)
    await bench.settle()
    await bench.flush()


@cocotb.test()
async def ways_and_recency(dut: Any) -> None:
    """As many lines of a set as there are ways stay, and of more, the one that was just used."""
    bench = await started(dut)

    async def misses() -> int:
        await bench.settle()
        return (await bench.registers.counters())["misses"]

    lines = [2 * (3 % SETS + SETS * i) for i in range(2 * WAYS)]
    for beat in lines[:WAYS] * 3:
        bench.read(beat)
    assert await misses() == WAYS
    used = lines[0]
    for beat in lines[WAYS:]:
        bench.read(used)
        bench.read(beat)
        if WAYS > 1:  # the line that was just used is never the one that goes
            bench.read(used)
    assert await misses() == WAYS + len(lines) - WAYS if WAYS > 1 else True
    await bench.flush()


@cocotb.test()
async def eviction_races_with_a_miss_to_its_line(dut: Any) -> None:
    """A line that is on its way to memory is read again: it must not be read too soon."""
    bench = await started(dut)
    for turn in range(12):
        bench.hurry()
        bench.port.latency = bench.rng.choice([(1, 1), (1, 30), (60, 60)])
        beat = 2 * bench.rng.randrange(SETS)
        others = [beat + 2 * SETS * (i + 1) for i in range(WAYS)]
        for _ in range(8):
            enable = bench.rng.choice([bench.all_bytes, 0xF, 1 << BEAT - 1])
            bench.write(beat + turn % 2, bench.rng.getrandbits(8 * BEAT), enable)
            for other in others:
                bench.read(other)
            bench.read(beat)
            bench.read(beat + 1)
        await bench.settle()
    counted = await bench.registers.counters()
    assert counted["stalled_conflict"]
    await bench.flush()


@cocotb.test()
async def writes_do_not_fetch(dut: Any) -> None:
    """What is only written is never read, and goes back byte for byte."""
    if SETS * WAYS < 8:
        return  # they would have to give way
    bench = await started(dut)
    bench.pause_at_random()
    for line in range(4):
        for half in range(2):
            bench.write(2 * line + half, bench.rng.getrandbits(8 * BEAT))
    bench.write(9, 0x11223344 << 32, 0xF0)
    bench.read(9, 0xF0)
    bench.read(2)
    await bench.settle()
    counted = await bench.registers.counters()
    assert (counted["misses"], counted["hits"], bench.port.descriptors) == (0, 11, 0)
    # Somebody else writes the other bytes of the line meanwhile.
    bench.memory.write(9, 0xAB, 1)
    bench.seen[9] = bench.seen[9] & ~0xFF | 0xAB
    await bench.flush()
    counted = await bench.registers.counters()
    assert counted["write_backs"] == 5


@cocotb.test()
async def ranges_end_where_they_should(dut: Any) -> None:
    """Lines that a range touches leave, those beside it stay, whatever there is in the cache."""
    bench = await started(dut)
    size = SETS * WAYS
    base = 2 * SETS * 5
    for flush in (True, False):
        for first, last in (
            (base, base),
            (base + 1, base + 2),
            (base + 3, base + 2 * SETS),
            (base + 2 * SETS - 1, base + 2 * SETS),
            (base + 2, base + 4 * SETS + 1),
            (0, TOP - 1),
        ):
            await bench.flush()
            bench.pause_at_random()
            near = [
                beat
                for edge in (first, last)
                for beat in range(edge - 4, edge + 6)
                if 0 <= beat < TOP
            ]
            for beat in near:
                bench.write(beat, bench.rng.getrandbits(8 * BEAT))
            lines = {beat >> 1 for beat in near}
            inside = {line for line in lines if first >> 1 <= line <= last >> 1}
            await bench.settle()
            before = await bench.registers.counters()
            crowded = len(lines) > size or any(
                sum(line % SETS == index for line in lines) > WAYS for index in range(SETS)
            )
            if not flush and (crowded or before["write_backs"] > before["writes"]):
                continue
            await bench.leave(first, last, flush=flush)
            after = await bench.registers.counters()
            if not crowded:
                gone = after["write_backs"] - before["write_backs"]
                assert gone == len(inside) * flush, f"{gone} lines left, {len(inside)} should"
            for beat in near:
                bench.read(beat)
            await bench.settle()
            found = (await bench.registers.counters())["misses"] - after["misses"]
            assert crowded or found == len(inside), f"{found} had left, {len(inside)} should"
    await bench.flush()


@cocotb.test()
async def memory_that_others_changed(dut: Any) -> None:
    """After its line has left, a beat is read from memory again; until then it is not."""
    bench = await started(dut)
    for beat in range(8):
        bench.read(beat)
    await bench.settle()
    old = bench.now(4)
    bench.memory.beats[4] = old ^ 1
    bench.read(4)
    await bench.settle()
    bench.written.clear()
    bench.seen.pop(4)
    await bench.leave(4, 4, flush=False)
    assert bench.now(4) == old ^ 1
    bench.read(4)
    await bench.settle()


@cocotb.test()
async def errors_come_with_their_answers(dut: Any) -> None:
    """Poison is told to who reads it, as long as no one wrote over it; the rest is not harmed."""
    bench = await started(dut)
    bench.memory.size = MEMORY_BEATS
    bench.memory.bad = {5, 8}
    for turn in range(4):
        bench.pause_at_random()
        for beat in (4, 5, 8, 9, MEMORY_BEATS - 1, MEMORY_BEATS):
            bench.read(beat)
            bench.read(beat, 0xF)
        bench.write(5, bench.rng.getrandbits(32), 0xF)
        bench.read(5, 0xF)
        bench.read(5, 0x3)
        bench.read(5, 0xFF)
        bench.read(5)
        bench.write(8, bench.rng.getrandbits(8 * BEAT))
        bench.read(8)
        bench.write(14, 3, 1)
        await bench.settle()
        assert bench.errors == 8 * (turn + 1)
        assert (await bench.registers.read("status")) & 1
        await bench.registers.write("status", 3)
        assert (await bench.registers.read("status")) == 0
        await bench.flush()
    bench.write(MEMORY_BEATS + 2, 1)
    await bench.flush()
    assert (await bench.registers.read("status")) == 2


@cocotb.test()
async def memory_is_not_asked_for_more_than_it_can_hold(dut: Any) -> None:
    """A line goes to memory though dozens of misses behind it wait for theirs."""
    if SETS == 1:
        return
    bench = await started(dut)
    bench.port.latency = (80, 80)
    for turn in range(4):
        await bench.flush()
        bench.write(0, turn + 1)
        for i in range(1, WAYS):
            bench.read(2 * SETS * i)
        await bench.settle()
        bench.read(2)
        bench.read(2 * SETS * WAYS)  # the line of beat 0 has to go
        for i in range(48):
            line = SETS * (WAYS + 1) + i
            if line % SETS:
                bench.read(2 * line)
        await bench.settle()


@cocotb.test()
async def reset_in_flight(dut: Any) -> None:
    """A reset may come at any time; then nothing is left in the cache."""
    bench = await started(dut)
    for _ in range(25):
        bench.pause_at_random()
        for beat in beats_of(bench, 2, 2 * WAYS) * 4:
            ask(bench, beat)
        for _ in range(bench.rng.randint(1, 300)):
            await RisingEdge(dut.clk)
        await bench.reset()
        for beat in beats_of(bench, 2, WAYS):
            bench.read(beat)
        await bench.settle()


@cocotb.test()
async def throughput_and_latency(dut: Any) -> None:
    """A beat per cycle on hits and on misses in a row, and the latency of each."""
    bench = await started(dut)
    count = min(2 * SETS * WAYS, 64)

    async def cycles(beats: range) -> int:
        for beat in beats:
            bench.read(beat)
        start = bench.answers.taken
        while bench.answers.taken == start:
            await RisingEdge(dut.clk)
        start, begin = bench.answers.taken, bench.cycles
        await bench.settle()
        return bench.cycles - begin - (len(beats) - 1)

    for _ in range(SETS + 20):
        await RisingEdge(dut.clk)
    bench.port.latency = (40, 40)
    cold = await cycles(range(count))
    warm = await cycles(range(count))
    dut._log.info(f"beyond a beat per cycle: {cold} cycles of misses, {warm} of hits")
    assert warm <= 2
    # The source offers a new payload in every cycle.
    assert cold <= 2 + count // 8
    bench.read(0)
    await bench.settle()
    hit = bench.latency
    bench.port.latency = (1, 1)
    bench.read(2 * SETS * WAYS * 2)
    await bench.settle()
    dut._log.info(f"latency: {hit} cycles of a hit, {bench.latency} of a miss")
    assert hit == HIT_LATENCY


@cocotb.test()
async def hits_and_misses_go_on_under_misses(dut: Any) -> None:
    """While a miss waits, others are looked up and fetch."""
    bench = await started(dut)
    for _ in range(SETS + 20):
        await RisingEdge(dut.clk)
    bench.port.latency = (200, 200)
    before = bench.port.descriptors
    misses = min(ENTRIES // 4, SETS * WAYS // 2)
    for line in range(misses):
        bench.read(2 * line)
        bench.read(2 * line + 1)
    for _ in range(100):
        await RisingEdge(dut.clk)
    assert bench.checked == 0
    # The memory takes some before it begins with the first.
    assert bench.port.descriptors - before == misses
    await bench.settle()
    bench.answers.pauses = sometimes(bench.rng, 0.5)
    await bench.flush()
