"""cocotb tests of tiles in a ring, for any configuration; three of them are enough."""

from __future__ import annotations

import itertools
import json
import os
import random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge, Timer

from gen.layout import pack_weights
from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.core.core import Cause
from rtl.core.fields import Instruction, S
from rtl.core.isa import OPCODES, Collective, MatrixFormat, Output, Place
from rtl.formats import BLOCK, Format
from rtl.ring.geometry import RingGeometry
from rtl.tile import ProbeLayout
from sim.interpreter.machine import Machine
from sim.interpreter.memory import Memory
from tb.random_core import END
from tb.random_ring import stalls
from tb.random_ring_tiles import random_programs
from tb.ring_tiles import RingOfTilesTestbench
from tb.tile import PERIOD_NS

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
ROWS = int(os.environ["JALAPENO_HBM_ROWS"])
TILES = int(os.environ["JALAPENO_TILES"])
LENGTH = CONFIG.vector_length

BARRIER = OPCODES["collective"](kind=Collective.BARRIER)
STOP = OPCODES["stop"]()
MS: Any = {"timeout_time": 20, "timeout_unit": "ms"}
"""Time for a test, which takes far less."""


async def started(dut: Any, **how: Any) -> RingOfTilesTestbench:
    """Return a testbench after reset, all memory unwritten."""
    bench = RingOfTilesTestbench(dut, CONFIG, ROWS, TILES)
    await bench.reset(**how)
    for tile in bench.every:
        await tile.clear()
    return bench


def words(*instructions: Instruction) -> list[int]:
    """Return a program."""
    return [word for instruction in instructions for word in instruction.words]


def generator() -> np.random.Generator:
    """Return a source of randomness, seeded from the run's seed."""
    return np.random.default_rng(random.getrandbits(32))


@cocotb.test(**MS)
async def random_programs_leave_what_the_interpreter_does(dut: Any) -> None:
    """Programs with collectives between everything else, on all tiles and on fewer."""
    bench = await started(dut)
    rng, count = generator(), 0
    for turn in range(8):
        present = [0, 1] if turn % 2 == 0 else sorted(bench.rng.sample(range(TILES), 2))
        await bench.reset(None if turn % 4 == 3 else present, anyhow=True)
        bench.stalls = stalls(bench.rng, 2 * TILES)
        programs = random_programs(CONFIG, rng, len(bench.present), 80)
        await bench.compare(programs.makers)
        count += sum(programs.collectives.values())
    dut._log.info(f"{count} collectives")


@cocotb.test(**MS)
async def tiles_that_are_absent_pass_flits_by(dut: Any) -> None:
    """Two tiles with others between them, whose nodes have a clock while flits pass."""
    bench = await started(dut, present=[0, TILES - 1])
    count = 8 * (LENGTH // 8)
    gather = OPCODES["collective"](kind=Collective.ALL_GATHER, count=count, to=1)
    load = OPCODES["load"](to=0, rows=1, columns=LENGTH, address=0)
    store = OPCODES["store"](source=1, rows=1, columns=count, address=0x2000)
    image = generator().integers(0, 256, (2, 4 * LENGTH)).astype(np.uint8)
    for tile, data in zip(bench.tiles, image, strict=True):
        await tile.load(0, data)
    before = await bench.every[1].counters()
    await bench.run([words(load, gather, store, STOP)] * 2)
    after = await bench.every[1].counters()
    half = 4 * count // 2
    gathered = np.concatenate([image[0, :half], image[1, half : 2 * half]])
    for tile in bench.tiles:
        np.testing.assert_array_equal(await tile.read(0x2000, 4 * count), gathered)
    # One header and half of the whole from each.
    flits = 1 + count // 2 // RingGeometry(CONFIG).flit_words
    for tile in bench.tiles:
        ring = (await tile.counters())["ring"]
        assert ring["sent_up"] + ring["sent_down"] >= flits
        assert (ring["instructions"], ring["failed"]) == (1, 0)
    moved = {name: after["ring"][name] - before["ring"][name] for name in after["ring"]}
    assert 0 < moved["sent_up"] + moved["sent_down"] <= 2 * flits, moved
    assert not moved["active"], moved
    dark = after["core"]["collective_dark"] - before["core"]["collective_dark"]
    assert dark > (after["core"]["cycles"] - before["core"]["cycles"]) / 2


@cocotb.test(**MS)
async def a_gather_overlaps_with_a_stream_of_weights(dut: Any) -> None:
    """While tiles gather, the operand of what comes next comes from memory."""
    bench = await started(dut, present=[0, 1])
    turn, everything = itertools.count(), (1 << 2 * TILES) - 1
    # It takes long, so that beats come meanwhile also if their bank is being refreshed.
    bench.stalls = lambda: everything if next(turn) % 12 else 0
    rng = generator()
    blocks, outputs = LENGTH // BLOCK, LENGTH
    weights = MXTensor(
        rng.integers(0, 16, (outputs, blocks, BLOCK)).astype(np.uint8),
        rng.integers(110, 140, (outputs, blocks)).astype(np.uint8),
        Format.MXFP4,
        LENGTH,
    )
    packed = pack_weights(
        weights, pseudo_channels=CONFIG.pseudo_channels, acc_depth=CONFIG.acc_depth
    )
    at, result, gathers = 0x8000, 0x2000, 4
    memories = [Memory(CONFIG, 0x10000) for _ in bench.tiles]
    for memory, tile in zip(memories, bench.tiles, strict=True):
        memory.poke(0, rng.standard_normal(LENGTH).astype(np.float32))
        memory.poke(at, packed)
        await tile.load(0, memory.bytes)
    load = OPCODES["load"](to=0, rows=1, columns=LENGTH, address=0)
    gather = [
        OPCODES["collective"](kind=Collective.ALL_GATHER, count=LENGTH, source=0, to=i + 1)
        for i in range(gathers)
    ]

    def product(source: int) -> list[Instruction]:
        """Return the product of a register with the weights."""
        quantise = OPCODES["vector"](
            a=source, rows=1, columns=LENGTH, output=Output.MXFP4, to=8, maximal=True, maxima=0
        )
        matrix = OPCODES["matrix"](
            address=at, beats=len(packed), outputs=outputs, blocks=blocks, last=LENGTH - 1,
            activation=MatrixFormat.MXFP4, weight=MatrixFormat.MXFP4, rows=1, source=8, maxima=0,
            to=9,
        )  # fmt: skip
        return [quantise, matrix]

    ends = [OPCODES["store"](source=9, rows=1, columns=outputs, address=result), STOP]
    # Loads come before, so that they take no part in what is measured.
    programs = {
        "gathers": [load, BARRIER, *gather, STOP],
        "product": [load, BARRIER, *product(0), *ends],
        "both": [load, BARRIER, *gather, *product(gathers), *ends],
        "apart": [load, BARRIER, *gather, *product(0), *ends],
    }
    seen = {}
    for name, program in programs.items():
        Machine(CONFIG, memories).run([words(*program)] * 2)
        probes = await record(bench, words(*program))
        seen[name] = {
            "cycles": len(probes),
            "gathering": sum(p.collective for p in probes),
            "beats": sum(p.beat for p in probes),
            "beats meanwhile": sum(p.collective & p.beat for p in probes),
        }
        if name != "gathers":
            for memory, tile in zip(memories, bench.tiles, strict=True):
                np.testing.assert_array_equal(
                    await tile.read(result, 4 * outputs), memory.peek(result, 4 * outputs)
                )
    dut._log.info(f"{seen}")
    alone = seen["gathers"]["cycles"] + seen["product"]["cycles"] - await barrier(bench)
    buffered = CONFIG.stream_bytes // CONFIG.beat_bytes
    for name in ("both", "apart"):
        assert seen[name]["beats"] == len(packed)
        # What waits for the gather still has its first weights there when it ends.
        assert seen[name]["beats meanwhile"] >= buffered - 2, seen
        assert alone - seen[name]["cycles"] >= buffered - 2, (alone, seen)
    dut._log.info(f"{alone} cycles one after the other")
    # What does not wait overlaps altogether.
    assert seen["apart"]["beats meanwhile"] > len(packed) // 2, seen
    assert alone - seen["apart"]["cycles"] > len(packed) // 2, (alone, seen)


@cocotb.test(**MS)
async def a_gather_in_memory_is_longer_than_registers(dut: Any) -> None:
    """Words come from memory, go around, and are loaded, stored and gathered again behind it."""
    bench = await started(dut, present=[0, 1])
    count, result = 8 * LENGTH, 0x4000
    assert 4 * count <= result
    memories = [Memory(CONFIG, END) for _ in bench.tiles]
    rng = generator()
    for memory, tile in zip(memories, bench.tiles, strict=True):
        memory.poke(0, rng.integers(0, 256, memory.bytes.size).astype(np.uint8))
        await tile.load(0, memory.bytes)
    gather, again = (
        OPCODES["collective"](kind=kind, place=Place.MEMORY, count=count, address=a, result=b)
        for kind, a, b in (
            (Collective.ALL_GATHER, 0, result),
            (Collective.ALL_REDUCE_MAXIMUM, result, result),
        )
    )
    # Whatever goes through L1 is in the order of the program.
    last = result + 4 * (count - LENGTH)
    program = words(
        OPCODES["load"](to=0, rows=1, columns=LENGTH, address=0x3000),
        OPCODES["store"](source=0, rows=1, columns=LENGTH, address=64),
        gather,
        OPCODES["load"](to=1, rows=1, columns=LENGTH, address=last),
        OPCODES["const"](to=S(1), value=0x3F800000),
        OPCODES["sw"](value=S(1), address=last),
        again,
        OPCODES["lw"](to=S(2), address=last),
        OPCODES["sw"](value=S(2), address=0x3000),
        OPCODES["store"](source=1, rows=1, columns=LENGTH, address=result),
        STOP,
    )
    Machine(CONFIG, memories).run([program] * 2)
    probes = await record(bench, program)
    await bench.same([memory.bytes for memory in memories])
    moved = 4 * count / 2 / (2 * CONFIG.ring_bytes)
    ring = (await bench.tiles[0].counters())["ring"]
    dut._log.info(
        f"{sum(p.collective for p in probes)} cycles for both, at least {3 * moved:.0f} on the "
        f"links; {ring}"
    )


@cocotb.test(**MS)
async def a_word_that_is_lost_stops_its_tile(dut: Any) -> None:
    """Memory that cannot be read is a fault of that tile; the others get to their end."""
    bench = await started(dut, present=[0, 1])
    gather = OPCODES["collective"](
        kind=Collective.ALL_GATHER, place=Place.MEMORY, count=64, result=0x1000
    )
    for tile in bench.tiles:
        await tile.load(0, np.zeros(256, np.uint8))
    await bench.tiles[0].flip(0, 3, 17)
    await bench.start([words(gather, STOP)] * 2)
    assert [cause for cause, _ in await bench.stopped()] == [Cause.MEMORY, Cause.NONE]


async def barrier(bench: RingOfTilesTestbench) -> int:
    """Return the cycles of what the parts that are measured have in common."""
    load = OPCODES["load"](to=0, rows=1, columns=LENGTH, address=0)
    return len(await record(bench, words(load, BARRIER, STOP)))


async def record(bench: RingOfTilesTestbench, program: list[int]) -> list[Any]:
    """Run a program on all tiles; return what the first one's probe shows in each cycle."""
    layout = ProbeLayout(CONFIG)
    await bench.start([program] * len(bench.tiles))
    probe, running = bench.tiles[0].dut.probe, bench.tiles[0].dut.running
    seen = []
    while running.value:
        seen.append(layout.from_bits(int(probe.value)))
        await RisingEdge(bench.dut.clk)
    assert {cause for cause, _ in await bench.stopped()} == {Cause.NONE}
    return seen


@cocotb.test(**MS)
async def disagreement_stops_all_tiles(dut: Any) -> None:
    """Kind or count differ: every tile says so, at its collective, whatever comes behind it."""
    base = {"kind": Collective.ALL_GATHER, "count": LENGTH, "to": 1}
    others: list[dict[str, Any]] = [
        {"kind": Collective.BARRIER},
        {"count": LENGTH - 1},
        {"root": 1},
    ]
    bench = await started(dut)
    # What comes before takes longer, and is not what stopped the tile.
    before = OPCODES["load"](to=5, rows=1, columns=LENGTH, address=0)
    for tile in bench.every:
        await tile.load(0, np.zeros(4 * LENGTH, np.uint8))
    for present in ([0, TILES - 1], None):
        for other in others:
            await bench.reset(present)
            programs = [words(before, BARRIER, OPCODES["collective"](**base), BARRIER, STOP)] * len(
                bench.present
            )
            odd = bench.rng.randrange(len(programs))
            programs[odd] = words(
                *[before] * 3, BARRIER, OPCODES["collective"](**base | other), BARRIER, STOP
            )
            await bench.start(programs)
            at = len(words(before, BARRIER))
            expected = [(Cause.COLLECTIVE, at)] * len(programs)
            expected[odd] = (Cause.COLLECTIVE, at + 2 * len(before.words))
            assert await bench.stopped() == expected, f"{other} on {odd} of {bench.present}"
            for tile in bench.tiles:
                ring = (await tile.counters())["ring"]
                assert ring["failed"] >= 1


@cocotb.test(**MS)
async def a_tile_that_was_reset_has_lost_count(dut: Any) -> None:
    """All find out at the next collective; a reset of all mends it."""
    bench = await started(dut, present=[0, 1])
    await bench.run([words(BARRIER, STOP)] * 2)
    await bench.tiles[1].reset()
    await bench.place(1)
    await bench.start([words(BARRIER, STOP)] * 2)
    assert await bench.stopped() == [(Cause.COLLECTIVE, 0)] * 2
    await bench.reset([0, 1])
    await bench.run([words(BARRIER, STOP)] * 2)


@cocotb.test(**MS)
async def a_tile_alone_needs_no_links(dut: Any) -> None:
    """Out of reset, before anybody has told it its place, a tile is a ring of one."""
    bench = await started(dut)
    everything = (1 << 2 * TILES) - 1
    bench.stalls = lambda: everything
    rng = generator()
    for tile in bench.every:
        await tile.reset()
    for number in range(2):
        bench.present = [number]
        await bench.compare(random_programs(CONFIG, rng, 1, 60).makers)


@cocotb.test(**MS)
async def an_absent_tile_refuses(dut: Any) -> None:
    """A collective on a tile that takes no part stops it; the others do not notice."""
    bench = await started(dut, present=[0])
    outsider = bench.every[1]
    await outsider.program(words(BARRIER, STOP))
    await outsider.windows["core"].write("control", 1)
    await bench.run([words(BARRIER, BARRIER, STOP)])
    assert await outsider.stopped() == (Cause.COLLECTIVE, 0)


@cocotb.test(**MS)
async def reset_in_flight(dut: Any) -> None:
    """Reset of all at any moment, with collectives under way, leaves tiles as new."""
    bench = await started(dut)
    rng = generator()
    for _ in range(4):
        await bench.reset([0, 1], anyhow=True)
        bench.stalls = stalls(bench.rng, 2 * TILES)
        programs = random_programs(CONFIG, rng, 2, 50)
        for tile, maker in zip(bench.tiles, programs.makers, strict=True):
            await tile.load(0, maker.image)
        await bench.start([maker.words for maker in programs.makers])
        await Timer(bench.rng.randint(1, 2000) * PERIOD_NS, "ns")
        await bench.reset([0, 1], anyhow=True)
        await bench.compare(programs.makers)


# --- the checker itself; this must fail -----------------------------------------------------------


@cocotb.test(skip="JALAPENO_FIRE" not in os.environ)
async def a_wrong_byte_is_noticed(dut: Any) -> None:
    """The comparison must object to one wrong byte on one tile."""
    bench = await started(dut, present=[0, 1])
    programs = random_programs(CONFIG, np.random.default_rng(1), 2, 10)
    programs.makers[1].tile.memory.bytes[77] ^= 1
    await bench.compare(programs.makers)
