"""cocotb tests of the ring, for any configuration with at least 16 tiles, or fewer."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotb_coverage.coverage import CoverCross, CoverPoint, coverage_db

from rtl.config import TileConfig
from rtl.core.fields import Instruction
from rtl.core.isa import BLOCK_WORDS, Collective, Place
from rtl.ring.engine import OPERATIONS
from rtl.ring.standalone import MEMORY_BEATS
from tb.random_ring import memory_collective, operation, stalls
from tb.ring import RingOracle, RingTestbench, awkward, collective, memory_words
from tb.stream import any_pauses

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
NODES = CONFIG.tiles
LENGTH = CONFIG.vector_length
SIZES = sorted({1, 2, 3, 4, 8, 16, NODES} & set(range(1, NODES + 1)))
FLIT_BYTES = min(CONFIG.ring_bytes, 4 * BLOCK_WORDS)

BARRIER_BEYOND = 8
"""Cycles of a barrier beyond the number of tiles."""

START = 20
"""Cycles of an all-gather beyond its bound."""

REDUCTIONS = [kind for kind in Collective if "SUM" in kind.name or "MAXIMUM" in kind.name]
BARRIER = collective(kind=Collective.BARRIER)


def amount(tiles: int, count: int) -> str:
    """Return how many units there are, seen from the tiles."""
    if count < tiles:
        return "some tiles have none" if count else "nothing"
    return "uneven" if count % tiles else "even"


AMOUNTS = ("nothing", "even", *(("some tiles have none", "uneven") if NODES > 1 else ()))


@CoverPoint("ring.kind", xf=lambda kind, *_: kind, bins=list(Collective))
@CoverPoint("ring.place", xf=lambda *a: a[1], bins=list(Place))
@CoverPoint("ring.tiles", xf=lambda *a: a[2], bins=SIZES)
@CoverPoint("ring.amount", xf=lambda *a: a[3], bins=list(AMOUNTS))
@CoverPoint("ring.in_place", xf=lambda *a: a[4], bins=[False, True])
@CoverCross("ring.kind_tiles", items=["ring.kind", "ring.tiles"])
@CoverCross("ring.kind_amount", items=["ring.kind", "ring.amount"])
def sample(kind: Collective, place: Place, tiles: int, amounts: str, in_place: bool) -> None:
    """Count a collective in the functional coverage."""


def in_place(instruction: Instruction) -> bool:
    """Return whether a collective writes what it reads."""
    v = instruction.values
    names = ("address", "result") if v["place"] is Place.MEMORY else ("source", "to")
    return bool(v[names[0]] == v[names[1]])


COVERAGE = ("kind", "place", "tiles", "amount", "in_place", "kind_tiles", "kind_amount")


async def started(
    dut: Any, tiles: int | Sequence[int] = NODES, **what: Any
) -> tuple[RingTestbench, RingOracle]:
    """Return a testbench after reset and its oracle; `tiles` are those that are present."""
    bench = RingTestbench(dut, CONFIG)
    oracle = await again(bench, tiles, **what)
    return bench, oracle


async def again(
    bench: RingTestbench, tiles: int | Sequence[int] = NODES, registers: Sequence[int] = range(8)
) -> RingOracle:
    """Reset, with other tiles and registers; a number of tiles are any tiles."""
    if isinstance(tiles, int):
        tiles = bench.rng.sample(range(NODES), tiles)
    await bench.reset(tiles)
    rng = np.random.default_rng(bench.rng.getrandbits(32))
    oracle = RingOracle(CONFIG, len(tiles), rng, MEMORY_BEATS * CONFIG.beat_stride)
    for tile in oracle.machine.tiles:
        tile.memory.poke(0, awkward(rng, memory_words(CONFIG)))
    await bench.load(oracle, registers)
    return oracle


def all_say(instructions: Sequence[Instruction], tiles: int) -> list[list[Instruction]]:
    """Return programs in which every tile does the same."""
    return [list(instructions)] * tiles


def no_failures(bench: RingTestbench) -> None:
    """Fail if a tile has reported an error."""
    assert not any(bench.failed), f"failed: {bench.failed}"


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Everything at once: kinds, sizes, subsets of tiles, skew, stalls, others at the registers."""
    bench = RingTestbench(dut, CONFIG)
    rng = bench.rng
    points = [coverage_db[f"ring.{name}"] for name in COVERAGE]
    turn = 0
    while turn < len(SIZES) or any(point.coverage != point.size for point in points):
        assert turn < 40 * len(SIZES), "coverage does not close"
        tiles = SIZES[turn % len(SIZES)]
        oracle = await again(bench, tiles)
        memory = rng.random() < 0.5
        operations = [operation(rng, CONFIG, tiles, memory) for _ in range(14)]
        for o in operations:
            v = o[0].values
            sample(
                v["kind"],
                v["place"],
                tiles,
                amount(tiles, v["count"]),
                any(in_place(i) for i in o),
            )
        programs = [list(program) for program in zip(*operations, strict=True)]
        bench.stalls = stalls(rng, 3 * NODES)
        bench.noise = any_pauses(rng)
        skew = rng.choice([0, 0, 5, 200])
        delays = [[rng.randint(0, skew) for _ in operations] for _ in range(tiles)]
        if memory:
            await bench.load_beats(oracle)
        oracle.run(programs)
        await bench.run(programs, delays)
        await bench.check(oracle)
        if memory:
            await bench.check_beats(oracle)
        no_failures(bench)
        turn += 1
    dut._log.info(f"{turn} programs, {bench.checked} words compared, {bench.cycles} cycles")
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))


@cocotb.test()
async def every_small_count(dut: Any) -> None:
    """From nothing to a few words for each tile: shares of none, of one, of parts of a flit."""
    bench = RingTestbench(dut, CONFIG)
    for tiles in SIZES:
        oracle = await again(bench, tiles)
        program = [
            collective(kind=kind, count=count, source=count % 4, to=5, into=True, root=tiles - 1)
            for count in [*range(2 * tiles + 2), 8 * tiles - 1, 8 * tiles, 8 * tiles + 1]
            if count <= LENGTH
            for kind in Collective
            if kind is not Collective.BARRIER
        ]
        programs = all_say(program, tiles)
        oracle.run(programs)
        await bench.run(programs)
        await bench.check(oracle, range(5, 6))
        no_failures(bench)


@cocotb.test()
async def sums_are_the_same_bits_everywhere_and_in_order(dut: Any) -> None:
    """An all-reduce gives every tile the same bits, in the order of the ring, however it stalls."""
    bench = RingTestbench(dut, CONFIG)
    for tiles in SIZES:
        oracle = await again(bench, tiles)
        count = LENGTH - 3
        program = [  # many shares have a word in the middle
            collective(kind=Collective.ALL_REDUCE_SUM, count=c, source=c % 4, to=5, into=True)
            for c in (count, 5 * tiles, 3 * tiles, tiles)
            if c <= LENGTH
        ]
        programs = all_say(program, tiles)
        oracle.run(programs)
        results = {tile.vectors.words[5, :count].tobytes() for tile in oracle.machine.tiles}
        assert len(results) == 1
        for _ in range(3):
            bench.stalls = stalls(bench.rng, 2 * NODES)
            await bench.run(programs)
            await bench.check(oracle, [5])
        no_failures(bench)


@cocotb.test()
async def a_tile_comes_thousands_of_cycles_late(dut: Any) -> None:
    """The others wait for it, with their queues full, and for nothing else."""
    bench, oracle = await started(dut)
    kinds = [Collective.ALL_GATHER, Collective.BARRIER, Collective.ALL_REDUCE_SUM] * 3
    program = [collective(kind=kind, count=LENGTH, to=5, into=True) for kind in kinds]
    programs = all_say(program, NODES)
    late = bench.rng.randrange(NODES)
    delays = [[0] * len(program) for _ in range(NODES)]
    delays[late][0], delays[late][4] = 6000, 3000
    oracle.run(programs)
    started_at = bench.cycles
    await bench.run(programs, delays)
    assert bench.cycles - started_at >= 9000
    await bench.check(oracle)
    no_failures(bench)


@cocotb.test()
async def nobody_leaves_a_barrier_early(dut: Any) -> None:
    """A barrier ends on no tile before the last one has come, and soon after."""
    bench = RingTestbench(dut, CONFIG)
    for tiles in SIZES:
        await bench.reset(bench.rng.sample(range(NODES), tiles))
        for _ in range(4):
            delays = [[bench.rng.randint(0, 300)] for _ in range(tiles)]
            await bench.run(all_say([BARRIER], tiles), delays)
            arrived = max(bench.begun[tile] for tile in bench.tiles)
            left = [bench.ended[tile] for tile in bench.tiles]
            assert min(left) > arrived
            # Flits pass absent tiles by, which takes them a cycle each.
            beyond = max(left) - arrived - tiles
            assert beyond <= BARRIER_BEYOND + NODES - tiles, f"{beyond} beyond {tiles} tiles"


@cocotb.test()
async def a_gather_is_close_to_its_bound(dut: Any) -> None:
    """With all tiles there, an all-gather of a whole register takes little more than it must."""
    bench, oracle = await started(dut)
    program = [collective(kind=Collective.ALL_GATHER, count=LENGTH, source=0, to=5)]
    oracle.run(all_say(program, NODES))
    await bench.run(all_say(program, NODES))
    took = max(bench.ended) - min(bench.begun)
    links = -(-(NODES - 1) * LENGTH * 4 // NODES // (2 * FLIT_BYTES)) + NODES // 2
    registers = LENGTH // BLOCK_WORDS + NODES  # a block per cycle; some of two shares come twice
    dut._log.info(f"{took} cycles, at least {links} on the links, {registers} at the registers")
    assert took <= max(links, registers) + START
    await bench.check(oracle, [5])


@cocotb.test()
async def operations_follow_each_other(dut: Any) -> None:
    """As many as can wait, without gaps, each reading what the one before has written."""
    bench, oracle = await started(dut)
    program = [
        collective(kind=kind, count=LENGTH - i, source=0 if i == 0 else 4, to=4, into=True)
        for i, kind in enumerate([Collective.ALL_GATHER, *REDUCTIONS] * 2)
    ]
    assert len(program) > OPERATIONS
    programs = all_say(program, NODES)
    oracle.run(programs)
    await bench.run(programs)
    await bench.check(oracle, [4])
    no_failures(bench)


@cocotb.test()
async def wholes_in_memory_have_any_length(dut: Any) -> None:
    """From a word to more than a register holds, at any quad, in place or not."""
    bench = RingTestbench(dut, CONFIG)
    half = memory_words(CONFIG) // 2
    for tiles in SIZES[::-2]:
        oracle = await again(bench, tiles, registers=[])
        await bench.load_beats(oracle)
        program = [
            memory_collective(CONFIG, kind, count, read, written, root=tiles - 1)
            for count, read, written in (
                *((count, 4 * count, half + 8) for count in (1, 2, 4, 5, 7, 8, 9, 13)),
                (half - 20, half + 4, half + 4),
                (half - 5, 4, half + 4),
                (half, half, 0),
            )
            for kind in (Collective.ALL_GATHER, Collective.BROADCAST, *REDUCTIONS[:3])
        ]
        programs = all_say(program, tiles)
        bench.stalls = stalls(bench.rng, 3 * NODES)
        oracle.run(programs)
        await bench.run(programs)
        await bench.check_beats(oracle)
        no_failures(bench)


@cocotb.test()
async def blocks_keep_their_scales(dut: Any) -> None:
    """MX blocks arrive with their scale bytes, beside blocks and scales that must not change."""
    bench = RingTestbench(dut, CONFIG)
    blocks = LENGTH // BLOCK_WORDS
    for tiles in SIZES:
        oracle = await again(bench, tiles)
        program = [
            collective(kind=kind, place=Place.BLOCKS, count=count, root=count % tiles,
                       source=6, offset=offset, to=7, into=True, result_slot=blocks - count)
            for kind in (Collective.ALL_GATHER, Collective.BROADCAST)
            for count, offset in ((1, 3), (2, 1), (3, 0), (blocks - 1, 1), (blocks, 0))
        ]  # fmt: skip
        programs = all_say(program, tiles)
        oracle.run(programs)
        await bench.run(programs)
        await bench.check(oracle, [6, 7])
        no_failures(bench)


@cocotb.test()
async def disagreement_is_an_error_of_everyone(dut: Any) -> None:
    """If one tile differs in anything, all report it, nothing is moved, and all go on."""
    bench, _ = await started(dut)
    base = {"kind": Collective.ALL_GATHER, "count": LENGTH, "source": 0, "to": 5, "into": True}
    others: list[dict[str, Any]] = [
        {"kind": Collective.ALL_REDUCE_SUM},
        {"kind": Collective.BARRIER},
        {"count": LENGTH - 1},
        {"count": 1 << 19},
        {"place": Place.BLOCKS},
        {"root": NODES // 2},
        {"root": 128},
    ]
    for tiles in [size for size in SIZES if size > 1]:
        oracle = await again(bench, tiles)
        for turn, other in enumerate(others):
            odd = bench.rng.randrange(tiles)
            bench.stalls = stalls(bench.rng, 2 * NODES)
            before = list(bench.failed)
            programs = all_say([collective(**base)], tiles)
            programs[odd] = [collective(**base | other)]
            delays = [[bench.rng.randint(0, 50)] for _ in range(tiles)]
            await bench.run(programs, delays)
            failed = [bench.failed[tile] - before[tile] for tile in bench.tiles]
            assert failed == [1] * tiles, f"{other} on tile {odd}: {failed}"
            await bench.check(oracle, [5])
            good = all_say([collective(**base | {"source": turn % 4})], tiles)
            oracle.run(good)
            await bench.run(good)
            await bench.check(oracle, [5])


@cocotb.test()
async def what_no_engine_can_do_is_an_error(dut: Any) -> None:
    """Sums of blocks, and roots that there are not: all report it and go on."""
    bench = RingTestbench(dut, CONFIG)
    for tiles in SIZES:
        oracle = await again(bench, tiles)
        bad: list[dict[str, Any]] = [
            {"kind": Collective.BROADCAST, "root": tiles},
            {"kind": Collective.BROADCAST, "place": Place.MEMORY, "root": tiles},
            *({"kind": kind, "place": Place.BLOCKS} for kind in REDUCTIONS),
        ]
        program = [collective(count=8, to=5, into=True, **fields) for fields in bad]
        await bench.run(all_say(program, tiles))
        assert all(bench.failed[tile] == len(bad) for tile in bench.tiles)
        await bench.check(oracle)
        good = all_say([collective(kind=Collective.BROADCAST, count=8, to=5, into=True)], tiles)
        oracle.run(good)
        await bench.run(good)
        await bench.check(oracle, [5])


@cocotb.test()
async def reset_in_flight(dut: Any) -> None:
    """A reset may come at any time; then nothing is left of what was under way."""
    bench, _ = await started(dut)
    for _ in range(12):
        tiles = bench.rng.choice(SIZES)
        await bench.reset(bench.rng.sample(range(NODES), tiles))
        bench.stalls = stalls(bench.rng, 2 * NODES)
        bench._quiet = False
        for _ in range(2 * OPERATIONS):
            for tile, instruction in zip(
                bench.tiles, operation(bench.rng, CONFIG, tiles), strict=True
            ):
                bench.sources[tile].send(
                    sum(word << 32 * i for i, word in enumerate(instruction.words))
                )
        for _ in range(bench.rng.randint(1, 200)):
            await RisingEdge(dut.clk)
        oracle = await again(bench, bench.rng.choice(SIZES))
        size = len(bench.tiles)
        bench.stalls = lambda: 0
        programs = all_say([collective(kind=Collective.ALL_REDUCE_SUM, count=40, to=5)], size)
        oracle.run(programs)
        await bench.run(programs)
        await bench.check(oracle, [5])
        no_failures(bench)


@cocotb.test()
async def tiles_restart_at_different_times(dut: Any) -> None:
    """What a node sends to one that is still in reset is not lost; one that has missed is found."""
    bench, oracle = await started(dut)
    everyone = (1 << NODES) - 1
    program = [collective(kind=Collective.ALL_GATHER, count=LENGTH, to=5), BARRIER, BARRIER]
    programs = all_say(program, NODES)
    oracle.run(programs)
    for _ in range(4):
        dut.restart.value = left = everyone
        await RisingEdge(dut.clk)
        task = cocotb.start_soon(bench.run(programs))
        order = bench.rng.sample(range(NODES), NODES)
        for tile in order:
            for _ in range(bench.rng.choice([0, 1, 20])):
                await RisingEdge(dut.clk)
            left &= ~(1 << tile)
            dut.restart.value = left
        await task
        await bench.check(oracle, [5])
        no_failures(bench)
    if NODES > 1:
        dut.restart.value = 1 << bench.rng.randrange(NODES)
        await RisingEdge(dut.clk)
        dut.restart.value = 0
        await bench.run(all_say([BARRIER], NODES))
        assert bench.failed == [1] * NODES, "a tile has lost count, and not all know"


@cocotb.test()
async def a_link_that_stands_still_loses_nothing(dut: Any) -> None:
    """One link rests for long, in either direction; the ring waits and goes on where it was."""
    bench, oracle = await started(dut)
    kinds = [Collective.ALL_GATHER, Collective.ALL_REDUCE_SUM, Collective.BROADCAST]
    program = [collective(kind=kind, count=LENGTH, source=0, to=5, into=True) for kind in kinds]
    programs = all_say(program, NODES)
    oracle.run(programs)
    for _ in range(4):
        link, begin = bench.rng.randrange(2 * NODES), bench.cycles + bench.rng.randint(5, 120)
        others = stalls(bench.rng, 2 * NODES)

        def stalled(link: int = link, begin: int = begin, others: Any = others) -> int:
            return others() | (1 << link if begin <= bench.cycles < begin + 1500 else 0)

        bench.stalls = stalled
        await bench.run(programs)
        await bench.check(oracle, [5])
    no_failures(bench)


@cocotb.test()
async def one_direction_is_much_slower(dut: Any) -> None:
    """With links that take very different times, nobody waits for ever."""
    bench, oracle = await started(dut)
    ups = (1 << NODES) - 1
    program = [
        collective(kind=kind, count=LENGTH, source=0, to=5, into=True)
        for kind in (*REDUCTIONS, Collective.ALL_GATHER)
    ]
    programs = all_say(program, NODES)
    oracle.run(programs)
    for slow in (ups, ups << NODES, 1, 1 << NODES | ups >> 1):
        bench.stalls = lambda slow=slow: slow if bench.rng.random() < 0.9 else 0
        await bench.run(programs)
        await bench.check(oracle, [5])
    no_failures(bench)
