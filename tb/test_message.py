"""cocotb tests of the message engines, for any mesh."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotb_coverage.coverage import CoverCross, CoverPoint, coverage_db

from rtl.config import TileConfig
from rtl.core.fields import Instruction
from rtl.core.isa import BLOCK_WORDS, MESSAGES, SLOT, Place
from rtl.message.frames import flits_of
from rtl.message.geometry import MessageGeometry
from rtl.message.layouts import HeadLayout, RequestLayout
from rtl.message.standalone import BEATS
from tb.message import STALLS, MessageOracle, MessageTestbench, op
from tb.random_message import MODES, Programs
from tb.random_ring import stalls
from tb.stream import any_pauses

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
TILES = CONFIG.tiles
LENGTH = CONFIG.vector_length
GEOMETRY = MessageGeometry(CONFIG)
HEADS = flits_of(HeadLayout(GEOMETRY), GEOMETRY.flit_bits)
REQUESTS = 2 * flits_of(RequestLayout(GEOMETRY), GEOMETRY.flit_bits)
"""Flits of the head of a packet of data, and of all that is said before a message comes."""

HOWS = ("tile and tag", "tile", "any tile and tag", "any tile")
# A tile that is alone never waits for room: it would wait for itself.
STALLED = ("message", "data", "network", *(["room"] if TILES > 1 else []))
AMOUNTS = ("nothing", "part of a block", "blocks", "everything")

ALONE = 16
"""Cycles of a message, from its send to the end of its receive, on a network that is empty, beyond
its flits and three for every hop: it is announced, asked for, and comes."""

BESIDE = 20 + GEOMETRY.packet_blocks
"""Cycles of each of a stream of messages, beyond flits and hops: its first packet is gathered."""


def amount(place: Place, units: int) -> str:
    """Return how much that is."""
    words = units * BLOCK_WORDS if place is Place.BLOCKS else units
    if words == LENGTH:
        return AMOUNTS[3]
    return AMOUNTS[0] if not words else AMOUNTS[1 + (words % BLOCK_WORDS == 0)]


@CoverPoint("message.how", xf=lambda how, *_: how, bins=list(HOWS))
@CoverPoint("message.place", xf=lambda *a: a[1], bins=[Place.WORDS, Place.BLOCKS])
@CoverPoint("message.amount", xf=lambda *a: a[2], bins=list(AMOUNTS))
@CoverPoint("message.self", xf=lambda *a: a[3], bins=[True, False][: 1 + (TILES > 1)])
@CoverPoint("message.overtakes", xf=lambda *a: a[4], bins=[False, True])
@CoverCross("message.how_self", items=["message.how", "message.self"])
def sample_message(how: str, place: Place, units: str, to_self: bool, overtakes: bool) -> None:
    """Count a message in the functional coverage."""


@CoverPoint("message.read_self", xf=lambda own, *_: own, bins=[True, False][: 1 + (TILES > 1)])
@CoverPoint("message.read_amount", xf=lambda *a: a[1], bins=list(AMOUNTS))
def sample_read(own: bool, units: str) -> None:
    """Count a remote read in the functional coverage."""


@CoverPoint("message.stalled", xf=lambda why: why, bins=list(STALLED))
def sample_stall(why: str) -> None:
    """Count in the functional coverage that something waited."""


COVERAGE = ("how", "place", "amount", "self", "overtakes", "how_self", "read_self", "read_amount",
            "stalled")  # fmt: skip


def send(tile: int, tag: int, units: int, source: int = 0, **fields: Any) -> Instruction:
    """Return a `send`."""
    return op("send", tile=tile, tag=tag, count=units, source=source, **fields)


def receive(tile: int, tag: int, units: int, to: int = 5, **fields: Any) -> Instruction:
    """Return a `receive` that names whose message it takes."""
    return op("receive", tile=tile, tag=tag, count=units, to=to, **{"into": True, **fields})


def nothing() -> list[list[Instruction]]:
    """Return programs without instructions."""
    return [[] for _ in range(TILES)]


async def again(bench: MessageTestbench) -> MessageOracle:
    """Reset, with other registers."""
    await bench.reset()
    oracle = MessageOracle(CONFIG, np.random.default_rng(bench.rng.getrandbits(32)))
    await bench.load(oracle)
    return oracle


async def started(dut: Any) -> tuple[MessageTestbench, MessageOracle]:
    """Return a testbench after reset, and its oracle."""
    bench = MessageTestbench(dut, CONFIG)
    oracle = await again(bench)
    await bench.load_memory(oracle)
    return bench, oracle


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Everything at once, with skew, stalls of networks and memory, others at the registers."""
    bench, oracle = await started(dut)
    rng = bench.rng
    points = [coverage_db[f"message.{name}"] for name in COVERAGE]
    turn = 0
    while turn < 6 or any(point.coverage != point.size for point in points):
        assert turn < 60, "coverage does not close"
        before = [await bench.counters(tile) for tile in range(TILES)]
        made = Programs(rng, CONFIG, MODES[turn % len(MODES)], 40 + 25 * TILES)
        for own, how, place, units, late in made.taken:
            sample_message(how, place, amount(place, units), own, late)
        for own, units in made.reads:
            sample_read(own, amount(Place.WORDS, units))
        bench.stalls = stalls(rng, STALLS * TILES)
        bench.noise = any_pauses(rng)
        skew = rng.choice([0, 0, 5, 200])
        delays = [[rng.randint(0, skew) for _ in program] for program in made.programs]
        await bench.run_and_check(oracle, made.programs, delays)
        flits = 0
        for tile, program in enumerate(made.programs):
            after = await bench.counters(tile)
            got = {name: after[name] - before[tile][name] for name in after}
            for name, opcode in (("sent", "send"), ("received", "receive"), ("read", "remote")):
                assert got[name] == sum(i.name == opcode for i in program), f"{name} of {tile}"
            assert got["instructions"] == len(program)
            flits += got["flits_sent"] - got["flits_received"]
            for why in STALLED:
                if got[f"stalled_{why}"]:
                    sample_stall(why)
        assert not flits, f"{flits} flits more were sent than came"
        turn += 1
    dut._log.info(f"{turn} programs, {bench.checked} words compared, {bench.cycles} cycles")
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))


@cocotb.test()
async def all_send_to_one_that_does_not_take(dut: Any) -> None:
    """Its inbox is full, and so are the outboxes; then it takes them in the reverse order of tags.

    Those who do not send to it go on as if nothing were.
    """
    bench, oracle = await started(dut)
    sink = bench.rng.randrange(TILES)
    others = [tile for tile in range(TILES) if tile != sink]
    programs = nothing()
    for tile in range(TILES):
        programs[tile] += [send(sink, tag, LENGTH, tag % 5) for tag in range(MESSAGES)]
    programs[sink] += [
        receive(source, tag, LENGTH, to=5) for tag in reversed(range(MESSAGES)) for source in others
    ]
    programs[sink] += [receive(sink, tag, LENGTH) for tag in reversed(range(MESSAGES))]
    for tile in others:  # there is no room until the sink takes one
        programs[tile].append(send(sink, 100, 3))
        programs[sink].append(receive(tile, 100, 3))
    delays = [[0] * len(program) for program in programs]
    delays[sink][MESSAGES] = 4000
    bench.stalls = stalls(bench.rng, STALLS * TILES)
    await bench.run_and_check(oracle, programs, delays)
    for tile in others:
        counters = await bench.counters(tile)
        assert counters["stalled_room"] > 2000, f"tile {tile} had room"


@cocotb.test()
async def messages_pass_one_that_does_not_take(dut: Any) -> None:
    """All but one have messages for it that wait, and exchange others meanwhile."""
    bench, oracle = await started(dut)
    sink = bench.rng.randrange(TILES)
    others = [tile for tile in range(TILES) if tile != sink]
    programs = nothing()
    for position, tile in enumerate(others):
        after, before = others[(position + 1) % len(others)], others[position - 1]
        programs[tile] += [send(sink, tag, LENGTH) for tag in range(MESSAGES - 1)]
        for turn in range(12):
            programs[tile].append(send(after, 50 + turn, LENGTH, turn % 4))
            programs[tile].append(receive(before, 50 + turn, LENGTH, to=4))
        programs[tile].append(op("remote", tile=sink, address=0, count=20, to=5, into=True))
        programs[sink] += [receive(tile, tag, LENGTH) for tag in range(MESSAGES - 1)]
    wait = 12_000
    delays = [[0] * len(program) for program in programs]
    if delays[sink]:
        delays[sink][0] = wait
    start = bench.cycles
    await bench.run_and_check(oracle, programs, delays)
    for tile in others:
        assert bench.ended[tile] - start < wait, f"tile {tile} has waited for tile {sink}"


@cocotb.test()
async def to_oneself(dut: Any) -> None:
    """What was sent is as it was then, though the register has got something else since."""
    bench, oracle = await started(dut)
    program = [
        send(0, 1, LENGTH, 4),
        send(0, 2, LENGTH, 3),
        receive(0, 2, LENGTH, to=4),
        receive(0, 1, LENGTH, to=5),
        send(0, 3, LENGTH, 5),
        receive(0, 3, LENGTH, to=4),
    ]
    programs = [
        [op(i.name, **{**i.values, "tile": tile}) for i in program] for tile in range(TILES)
    ]
    await bench.run_and_check(oracle, programs)


@cocotb.test()
async def nothing_at_all(dut: Any) -> None:
    """Messages and reads of nothing arrive, in order, use a slot and give it back."""
    bench, oracle = await started(dut)
    programs = nothing()
    for tile in range(TILES):
        after, before = (tile + 1) % TILES, (tile - 1) % TILES
        for _ in range(3):
            programs[tile] += [send(after, tag, 0, place=Place(tag % 2)) for tag in range(MESSAGES)]
            programs[tile] += [
                receive(before, tag, 0, place=Place(tag % 2), to=4, offset=2)
                for tag in reversed(range(MESSAGES))
            ]
            programs[tile].append(op("remote", tile=after, address=8, count=0, to=4, into=True))
    await bench.run_and_check(oracle, programs)


@cocotb.test()
async def order_of_a_sender(dut: Any) -> None:
    """Messages of a tile with the same tag are taken in the order in which they were sent."""
    bench, oracle = await started(dut)
    programs = nothing()
    for tile in range(TILES):
        sizes = [*range(1, MESSAGES + 1)]
        bench.rng.shuffle(sizes)
        for units in sizes:
            programs[tile].append(send(0, 9, units, units % 4, offset=units % 2))
        for i, units in enumerate(sizes):
            how = {"any_tag": True, "envelope": tile} if i % 2 else {"tag": 9}
            programs[0].append(
                op("receive", tile=tile, count=units, to=5, into=True, offset=i % 3, **how)
            )
    for _ in range(4):
        bench.stalls = stalls(bench.rng, STALLS * TILES)
        delays = [[bench.rng.randint(0, 40) for _ in program] for program in programs]
        await bench.run_and_check(oracle, programs, delays)


@cocotb.test()
async def reads_cross_each_other(dut: Any) -> None:
    """All read all others' memory at once, from any word on; one tile's program does nothing."""
    bench, oracle = await started(dut)
    idle = bench.rng.randrange(TILES) if TILES > 1 else None
    programs, words = nothing(), CONFIG.beat_bytes // 4
    for tile in range(TILES):
        if tile == idle:
            continue
        for of in [*range(TILES)] * 3:
            for within in range(min(words, 9)):
                units = bench.rng.choice([1, 7, 8, 9, 31, min(LENGTH, words * BEATS - within)])
                programs[tile].append(
                    op("remote", tile=of, address=4 * within, count=units, to=4, into=True)
                )
    for _ in range(2):
        bench.stalls = stalls(bench.rng, STALLS * TILES)
        await bench.run_and_check(oracle, programs)
    if idle is not None:
        served = (await bench.counters(idle))["served"]
        assert served == 2 * sum(i.values["tile"] == idle for p in programs for i in p)


@cocotb.test()
async def what_cannot_be_done_is_an_error(dut: Any) -> None:
    """It is reported, does not touch registers, holds up nobody, and others go on."""
    bench, oracle = await started(dut)
    blocks = LENGTH // BLOCK_WORDS
    end = BEATS * CONFIG.beat_stride
    bad = [
        send(TILES, 0, 1),
        send(255, 0, 1),
        receive(TILES, 0, 1),
        op("remote", tile=TILES, address=0, count=1, to=5),
        send(0, 0, 1, place=Place.MEMORY),
        receive(0, 0, 1, place=Place.MEMORY),
        send(0, 0, LENGTH + 1),
        send(0, 0, LENGTH - SLOT + 1, offset=1),
        send(0, 0, blocks, 6, place=Place.BLOCKS, offset=1),
        receive(0, 0, 1 << 19),
        op("remote", tile=0, address=0, count=LENGTH, to=5, offset=1),
        op("remote", tile=0, address=2, count=1, to=5),
        op("remote", tile=0, address=0, address_offset=1, count=1, to=5),
    ]
    good = [send(0, 5, 40, 1), receive(0, 5, 40)]
    await bench.run([[*bad], *nothing()[1:]])
    assert bench.failed[0] == len(bad)
    await bench.check(oracle)
    # The message is another one: it is lost, and so is its slot no longer used.
    other = [
        (send(0, 1, 3), receive(0, 1, 4)),
        (send(0, 1, 8), receive(0, 1, 8, to=7, place=Place.BLOCKS)),
        (send(0, 1, 1, 6, place=Place.BLOCKS), receive(0, 1, 1)),
        (send(0, 1, 0), receive(0, 1, 1)),
        (send(0, 1, LENGTH), receive(0, 1, 0)),
    ]
    for turn in range(4 * MESSAGES):
        pair = other[turn % len(other)]
        await bench.run([[*pair], *nothing()[1:]])
        assert bench.failed[0] == len(bad) + turn + 1
        await bench.check(oracle)
    # Memory that is not there: what came instead is undefined, but nothing else.
    before = bench.failed[0]
    beyond = [(end, 8), (end - CONFIG.beat_stride, CONFIG.beat_bytes // 4 + 1)]
    if CONFIG.beat_stride != CONFIG.beat_bytes:
        beyond.append((CONFIG.beat_bytes, 1))
    # Only the first block of a packet, or the first packet, is beyond; the rest is memory again.
    packet = GEOMETRY.packet_blocks * BLOCK_WORDS
    for first, rest in ((BLOCK_WORDS, BLOCK_WORDS), (packet, packet)):
        beats = -(-first // (CONFIG.beat_bytes // 4))
        units = beats * CONFIG.beat_bytes // 4 + rest
        if units <= LENGTH:
            beyond.append(((1 << 32) - beats * CONFIG.beat_stride, units))
    program = [op("remote", tile=0, address=a, count=c, to=5) for a, c in beyond]
    await bench.run([program, *nothing()[1:]])
    assert bench.failed[0] - before == len(beyond)
    await bench.check(oracle, [0, 1, 2, 3, 4, 6, 7])
    bench.failed = [0] * TILES
    read = op("remote", tile=0, address=0, count=LENGTH, to=5)
    await bench.run_and_check(oracle, [[read, *good], *nothing()[1:]])


@cocotb.test()
async def one_message_alone(dut: Any) -> None:
    """How long a block takes from tile to tile when nothing else is on its way."""
    bench, oracle = await started(dut)
    mesh = CONFIG.mesh
    for to in range(TILES):
        programs = nothing()
        programs[to].append(receive(0, 1, 8))
        delays = [[0] * len(program) for program in programs]
        if to:
            programs[0].append(send(to, 1, 8))
            delays[0].append(50)
        else:
            programs[0].insert(0, send(0, 1, 8))
            delays[0].append(0)
        await bench.run_and_check(oracle, programs, delays)
        hops = to % mesh.x + to // mesh.x
        if to:
            took = bench.ended[to] - bench.begun[0]
            dut._log.info(f"tile 0 to tile {to}, {hops} hops: {took} cycles")
            assert took <= ALONE + REQUESTS + HEADS + GEOMETRY.block_flits + 3 * hops


@cocotb.test()
async def a_stream_of_messages(dut: Any) -> None:
    """Messages follow each other: whole registers take little longer than their flits."""
    bench, oracle = await started(dut)
    programs, messages = nothing(), 3 * MESSAGES
    for i in range(messages):
        programs[0].append(send(TILES - 1, i, LENGTH, i % 4))
    if TILES > 1:
        programs[TILES - 1] += [receive(0, i, LENGTH) for i in range(messages)]
        took = await bench.run_and_check(oracle, programs)
        flits = LENGTH // GEOMETRY.flit_words
        dut._log.info(f"{took} cycles for {messages * flits} flits of data")
        heads = HEADS * -(-LENGTH // (BLOCK_WORDS * GEOMETRY.packet_blocks))
        hops = CONFIG.mesh.x + CONFIG.mesh.y - 2
        assert took <= messages * (flits + heads + REQUESTS + 2 * hops + BESIDE)


@cocotb.test()
async def reset_in_flight(dut: Any) -> None:
    """A reset may come at any time; then nothing is left of what was under way."""
    bench, oracle = await started(dut)
    for turn in range(10):
        bench.stalls = stalls(bench.rng, STALLS * TILES)
        bench._quiet = False
        programs = Programs(bench.rng, CONFIG, MODES[turn % 3], 30 * TILES).programs
        task = cocotb.start_soon(bench.run(programs))
        for _ in range(bench.rng.randint(1, 600)):
            await RisingEdge(dut.clk)
        task.cancel()
        oracle = await again(bench)
        await bench.load_memory(oracle)
        bench.stalls = lambda: 0
        programs = nothing()
        for tile in range(TILES):
            to, source = (tile + 1) % TILES, (tile - 1) % TILES
            programs[tile] += [send(to, tag, LENGTH, tag % 5) for tag in range(MESSAGES)]
            programs[tile] += [receive(source, tag, LENGTH) for tag in range(MESSAGES)]
        await bench.run_and_check(oracle, programs)
