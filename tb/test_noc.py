"""cocotb tests of the network on chip, for any mesh: one network, or both of a chip."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cocotb
from cocotb_coverage.coverage import CoverPoint, coverage_db

from rtl.config import TileConfig
from rtl.noc.geometry import Side, hops, neighbour, path
from rtl.noc.link import COORDINATE_BITS
from tb.noc import Network, NocTestbench, always
from tb.stream import StreamSink, StreamSource, in_bursts, sometimes

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
MESH = CONFIG.mesh
TILES = range(CONFIG.tiles)
DEPTH = CONFIG.noc_buffer

LONGEST = 64
"""Flits of the longest packet."""

WAYS = sorted({(i, o) for s in TILES for t in TILES for _, i, o in path(MESH, s, t)})
"""Ways through routers that packets of this mesh take."""


def size(length: int) -> str:
    """Return a word for the length of a packet."""
    return {1: "one", LONGEST: "longest"}.get(length, "more" if length <= DEPTH else "many")


@CoverPoint("noc.way", xf=lambda way, _: way, bins=[(int(i), int(o)) for i, o in WAYS])
@CoverPoint("noc.size", xf=lambda _, kind: kind, bins=["one", "many", "longest"])
@CoverPoint(
    "noc.cross",
    xf=lambda way, kind: (*way, kind),
    bins=[(int(i), int(o), kind) for i, o in WAYS for kind in ("one", "many")],
)
def sample(way: tuple[int, int], kind: str) -> None:
    """Count a packet's way through a router in the functional coverage."""


def send(network: Network, source: int, to: int, length: int = 1) -> None:
    """Send a packet, and count it."""
    network.send(source, to, length)
    for _, came, leaves in path(MESH, source, to):
        sample((int(came), int(leaves)), size(length))


async def started(dut: Any) -> NocTestbench:
    """Return a testbench after reset."""
    bench = NocTestbench(dut, CONFIG)
    await bench.reset()
    return bench


def patterns(bench: NocTestbench) -> dict[str, Callable[[int], int]]:
    """Return where a tile sends the next packet, by pattern."""
    rng = bench.rng
    hot = rng.choice(TILES)

    def near(tile: int) -> int:
        around = [neighbour(MESH, tile, side) for side in Side if side is not Side.LOCAL]
        return rng.choice([other for other in around if other is not None] or [tile])

    def transposed(tile: int) -> int:
        y, x = divmod(tile, MESH.x)
        return y + MESH.x * x if y < MESH.x and x < MESH.y else tile

    return {
        "uniform": lambda _: rng.choice(TILES),
        "transpose": transposed,
        "complement": lambda tile: CONFIG.tiles - 1 - tile,
        "hotspot": lambda _: hot if rng.random() < 0.5 else rng.choice(TILES),
        "neighbour": near,
        "itself": lambda tile: tile,
    }


def length_of(bench: NocTestbench, longest: int) -> int:
    """Return a length: often one flit, sometimes as many as there may be."""
    choices = [1, 1, bench.rng.randint(1, longest), bench.rng.randint(1, 2 * DEPTH + 1)]
    return min(longest, bench.rng.choice(choices))


@cocotb.test()
async def random_packets(dut: Any) -> None:
    """Every pattern, packets of one flit and of more, all pauses, until everything was there."""
    bench = await started(dut)
    flits = 0
    for turn, longest in enumerate((1, 12)):
        for name, to in patterns(bench).items():
            bench.pause_at_random()
            if bench.rng.random() < 0.3:
                bench.hurry()
            for network in bench.networks.values():
                for tile in TILES:
                    for _ in range(12 if longest == 1 else 5):
                        send(network, tile, to(tile), length_of(bench, longest))
                if turn:
                    send(network, bench.rng.choice(TILES), bench.rng.choice(TILES), LONGEST)
            await bench.settle()
            dut._log.info(f"{name}, up to {longest} flits: {bench.cycles} cycles")
            flits = sum(network.flits for network in bench.networks.values())
    for source in TILES:  # what chance may have left out
        for other in TILES:
            for length in (1, 2 * DEPTH + 1):
                send(bench.first, source, other, min(length, LONGEST - 1))
    bench.hurry()
    await bench.settle()
    for point in ("way", "size", "cross"):
        found = coverage_db[f"noc.{point}"]
        assert found.coverage == found.size, f"{point}: {found.detailed_coverage}"
    dut._log.info(f"{flits} flits in {bench.cycles} cycles")
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))


@cocotb.test()
async def a_cycle_for_each_hop(dut: Any) -> None:
    """A packet that is alone needs a cycle for each router, and one for each flit more."""
    bench = await started(dut)
    network = bench.first
    for source in {0, CONFIG.tiles // 2, CONFIG.tiles - 1}:
        for to in TILES:
            for length in (1, 7) if DEPTH > 1 else (1,):
                port, sink = network.sources[source], network.sinks[to]
                sent, taken = port.sent + 1, sink.taken + length
                send(network, source, to, length)
                while port.sent < sent:
                    await bench.wait(1)
                first = bench.cycles
                while sink.taken < taken:
                    await bench.wait(1)
                expected = hops(MESH, source, to) + length
                assert bench.cycles - first == expected, f"{source} to {to}, {length} flits"


@cocotb.test()
async def sinks_that_stall_for_long(dut: Any) -> None:
    """Some tiles take nothing for long; what is for others passes, then everything arrives."""
    bench = await started(dut)
    network = bench.first
    for turn in range(2):
        stuck = bench.rng.choice(TILES)
        bench.hurry()
        network.sinks[stuck].pauses = always()
        for tile in TILES:
            for _ in range(3):
                send(network, tile, stuck, length_of(bench, 9 if turn else 1))
        for tile in TILES:
            send(network, tile, bench.rng.choice(TILES), length_of(bench, 5))
        await bench.wait(400)
        bench.pause_at_random()
        bench.hurry([stuck])
        await bench.settle()


@cocotb.test()
async def every_slot_is_used_also_after_a_reset(dut: Any) -> None:
    """A blocked network takes as many flits as it has slots for; a reset frees them all."""
    bench = await started(dut)
    network = bench.first
    for _ in range(3):
        for tile in TILES:
            network.sinks[tile].pauses = always()
            for _ in range(DEPTH + 3):
                network.send(tile, tile)
        await bench.wait(2 * DEPTH + 12)
        for tile in TILES:
            sent = network.sources[tile].sent
            assert sent == DEPTH + 1, f"tile {tile} has room for {sent}, it should for {DEPTH + 1}"
            network.sources[tile].sent = 0
        await bench.reset()
    bench.hurry()
    for tile in TILES:
        send(network, tile, tile, 3)
    await bench.settle()


@cocotb.test()
async def packets_to_nowhere(dut: Any) -> None:
    """They are dropped whole, and said to be; what comes before and behind them is not harmed."""
    bench = await started(dut)
    network = bench.first
    top = (1 << COORDINATE_BITS) - 1
    outside = [
        (x, y)
        for x in {0, MESH.x - 1, MESH.x, min(top, MESH.x + 1), top}
        for y in {0, MESH.y - 1, MESH.y, min(top, 2 * MESH.y), top}
        if x >= MESH.x or y >= MESH.y
    ]
    assert outside or CONFIG.tiles == 256
    for turn in range(2):
        bench.pause_at_random()
        for tile in TILES:
            for x, y in bench.rng.sample(outside, min(len(outside), 6)):
                network.send_outside(tile, x, y, length_of(bench, 6))
                send(network, tile, bench.rng.choice(TILES), length_of(bench, 3 + turn))
        await bench.settle()
    assert sum(network.refused)


@cocotb.test()
async def nothing_is_refused_that_is_not_offered(dut: Any) -> None:
    """A header means nothing while there is no flit."""
    bench = await started(dut)
    name = next(iter(bench.networks))
    payload = getattr(dut, f"{name}__inject__0__payload" if name else "inject__0__payload")
    for value in (0, (1 << len(payload)) - 1, 0xFF):
        payload.value = value
        await bench.wait(5)
    assert not any(network.flits for network in bench.networks.values())


@cocotb.test()
async def reset_in_flight(dut: Any) -> None:
    """A reset drops everything, packets of which a part arrived too; nothing of it comes later."""
    bench = await started(dut)
    for turn in range(4):
        bench.pause_at_random()
        for network in bench.networks.values():
            for tile in TILES:
                for _ in range(6):
                    network.send(tile, bench.rng.choice(TILES), bench.rng.choice([1, 2, 40]))
        await bench.wait(bench.rng.randint(3, 80))
        await bench.reset()
        for network in bench.networks.values():
            for tile in TILES:
                send(network, tile, bench.rng.choice(TILES), 1 + turn)
        bench.hurry()
        await bench.settle()


@cocotb.test()
async def all_get_their_share(dut: Any) -> None:
    """All send to one tile, which takes a flit per cycle: no tile gets less than its share."""
    bench = await started(dut)
    network = bench.first
    each = 40
    for to in {0, CONFIG.tiles // 2}:
        await bench.reset()
        bench.hurry()
        for tile in TILES:
            for _ in range(2 * each):
                network.send(tile, to)
        while sum(network.received.values()) < each * CONFIG.tiles:
            await bench.wait(1)
        counts = [network.received[tile, to] for tile in TILES]
        dut._log.info(f"packets to {to} by sender: {counts}")
        assert min(counts) >= 0.7 * each, f"of {each}, tile {counts.index(min(counts))} got few"
        await bench.settle()


@cocotb.test()
async def merging_pauses(dut: Any) -> None:
    """Long packets cross with short ones, while sources and sinks stop in the middle of them."""
    bench = await started(dut)
    for network in bench.networks.values():
        ports: list[StreamSource | StreamSink] = [*network.sources, *network.sinks]
        for port in ports:
            port.pauses = bench.rng.choice(
                [in_bursts(bench.rng, 9), sometimes(bench.rng, 0.5), sometimes(bench.rng, 0.1)]
            )
        for tile in TILES:
            for _ in range(4):
                send(network, tile, bench.rng.choice(TILES), bench.rng.choice([1, 1, 5, 17]))
    await bench.settle()


@cocotb.test()
async def replies_pass_requests_that_are_stuck(dut: Any) -> None:
    """No tile takes a request; replies arrive all the same."""
    bench = await started(dut)
    if len(bench.networks) < 2:
        return
    requests, replies = bench.networks.values()
    for tile in TILES:
        requests.sinks[tile].pauses = always()
        for _ in range(4 * DEPTH):
            send(requests, tile, bench.rng.choice(TILES))
    await bench.wait(8 * DEPTH)
    for tile in TILES:
        for _ in range(8):
            send(replies, tile, bench.rng.choice(TILES), length_of(bench, 4))
    start = bench.cycles
    while not replies.idle:
        await bench.wait(1)
        assert bench.cycles - start < 5000, "replies wait for requests"
    assert not requests.flits
    bench.hurry()
    await bench.settle()
