"""cocotb tests of the HBM slice: controllers, devices and timing checkers together."""

from __future__ import annotations

import json
import os
import random

import cocotb
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.hbm.policy import READ_BATCH
from rtl.hbm.ports import ADDRESS_BITS
from rtl.hbm.timing import TIMINGS
from sim.hbm.beats import UNWRITTEN
from tb.hbm_clients import HbmTestbench

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
ROWS = int(os.environ["JALAPENO_HBM_ROWS"])
LONG = int(os.environ.get("JALAPENO_HBM_CYCLES", "0"))
"""Cycles of the long run; 0 leaves it out."""

READERS = ("matrix", "l1", "host")


async def started(dut, timing: str = CONFIG.timing, **settings) -> HbmTestbench:
    """Return a testbench after reset, its memory unwritten."""
    bench = HbmTestbench(dut, CONFIG, TIMINGS[timing], min(ROWS, TIMINGS[timing].rows))
    await bench.reset(**settings)
    await bench.hbm.clear()  # not before: writes of the test before may be under way
    return bench


def random_beat(bench: HbmTestbench, rng: random.Random) -> tuple[int, int]:
    """Return data and enables: all, some, whole words, none."""
    size = bench.beat_bytes
    words = sum(0xFF << 8 * i for i in range(size // 8) if rng.random() < 0.5)
    enable = rng.choice([(1 << size) - 1] * 3 + [rng.getrandbits(size), words, 0])
    return rng.getrandbits(8 * size), enable


def random_write(bench: HbmTestbench, rng: random.Random, name: str, hot: list[int]) -> None:
    """Write some of what the client owns, near a hot place."""
    unit = 8 * len(bench.writers)
    place = rng.choice(hot) // unit * unit + 8 * bench.writers.index(name)
    first = rng.randrange(8)
    beats = rng.randint(1, 8 - first)
    bench.ports[name].write(place + first, [random_beat(bench, rng) for _ in range(beats)])


def random_read(bench: HbmTestbench, rng: random.Random, name: str, hot: list[int]) -> None:
    """Read near a hot place, a little or much."""
    most = rng.choice([1, 2, 4, 16, 200])
    address = rng.choice(hot) + rng.randrange(48)
    bench.ports[name].read(address, min(rng.randint(1, most), bench.beats - address))


async def mix(bench: HbmTestbench, rng: random.Random, jobs: int, places: int = 6) -> None:
    """Let all clients do something, near few places."""
    unit = 64 * bench.timing.banks
    hot = [rng.randrange(bench.beats - 64) for _ in range(places)]
    hot += [rng.randrange(bench.rows - 1) * unit + rng.randrange(64)]
    for port in bench.ports.values():
        port.pause(rng)
    for _ in range(jobs):
        name = rng.choice(list(bench.ports))
        client = bench.ports[name].client
        if client.writes and (not client.reads or rng.random() < 0.5):
            random_write(bench, rng, name, hot)
        else:
            random_read(bench, rng, name, hot)
    await bench.finish()
    for port in bench.ports.values():
        port.pause(None)


@cocotb.test()
@cocotb.parametrize(name=list(TIMINGS), together=[False, True])
async def everybody_at_random(dut, name, together):
    """All clients near the same places, with pauses, for every timing set on one build."""
    bench = await started(dut, name, together=together)
    rng = random.Random(random.getrandbits(32))
    for _ in range(8):
        await mix(bench, rng, 60)
    counters = await bench.registers.counters()
    dut._log.info(f"{bench.checked} beats compared; {counters}")
    assert counters["out_of_range"] == 0


@cocotb.test()
@cocotb.parametrize(name=["hbm3-6400", "hbm4-8000"])
async def sequential(dut, name):
    """A long stream is never interrupted, whatever is refreshed on the way."""
    bench = await started(dut, name)
    beats = 30_000
    bench.ports["matrix"].read(0, beats)
    cycles = await bench.finish()
    dut._log.info(f"{name}: {beats / cycles:.4f}, {await bench.registers.counters()}")
    tally = bench.hbm.tally()
    assert tally["refpb"] >= 16 * (cycles // bench.timing.refi)
    assert beats / cycles > 0.97


@cocotb.test()
@cocotb.parametrize(name=["hbm3-6400", "hbm4-8000"], read_batch=[0, READ_BATCH])
async def nobody_waits_for_ever(dut, name, read_batch):
    """Three clients write as fast as they can; reads still get through (asserted in the hardware).

    Without turns of their own (`read_batch` 0), reads live on what has waited for long.
    """
    bench = await started(dut, name)
    await bench.registers.write("control", 0)
    await bench.registers.write("read_batch", read_batch)
    await bench.registers.write("patience", 256)
    await bench.registers.write("control", 1)
    rng = random.Random(random.getrandbits(32))
    share = bench.beats // 4
    regions = {writer: (i + 1) * share for i, writer in enumerate(bench.writers)}
    bench.owner = lambda beat: bench.writers[max(beat // share - 1, 0)]  # type: ignore[method-assign]
    whole = (1 << bench.beat_bytes) - 1
    for i, (writer, start) in enumerate(regions.items()):
        data = [(rng.getrandbits(8 * bench.beat_bytes), whole) for _ in range(4000)]
        # A quarter of the banks apart, so that nothing but the data bus holds them up.
        bench.ports[writer].write(start + 16 * i * bench.timing.banks, data)
    for _ in range(200):
        bench.ports["matrix"].read(rng.randrange(share // 4) * 4, 2)
    cycles = await bench.finish()
    counters = await bench.registers.counters()
    dut._log.info(f"{name}, read_batch {read_batch}: {cycles} cycles, {counters}")


@cocotb.test(skip=not LONG)
async def a_long_run(dut):
    """Streams, everybody at random, and rest, over many refresh intervals without a reset."""
    bench = await started(dut)
    rng = random.Random(random.getrandbits(32))
    start, checked = bench.now, bench.checked
    while bench.now - start < LONG:
        await mix(bench, rng, 200)
        bench.ports["matrix"].read(rng.randrange(bench.beats // 2), rng.randrange(10_000))
        await bench.finish()
        await bench.cycles(rng.randrange(4 * bench.timing.refi))
        await bench.hbm.clear()  # the reference would grow without bound
        bench.forget()
    tally, intervals = bench.hbm.tally(), (bench.now - start) // bench.timing.refi
    dut._log.info(
        f"{bench.now - start} cycles, {bench.checked - checked} beats compared, {tally}; "
        f"{await bench.registers.counters()}"
    )
    assert tally["refpb"] >= CONFIG.pseudo_channels * bench.timing.banks * (intervals - 1)


@cocotb.test()
async def a_read_sees_what_was_answered(dut):
    """Across clients: as soon as a write is answered, everybody reads it."""
    bench = await started(dut)
    rng = random.Random(random.getrandbits(32))
    for _ in range(200):
        writer = rng.choice(bench.writers)
        unit = 8 * len(bench.writers)
        address = rng.randrange(40) * unit + 8 * bench.writers.index(writer) + rng.randrange(7)
        before = bench.ports[writer].answered
        bench.ports[writer].write(address, [random_beat(bench, rng) for _ in range(2)])
        while bench.ports[writer].answered == before:
            await RisingEdge(dut.clk)
        for name in READERS:
            bench.ports[name].read(address, 2)
        if rng.random() < 0.3:
            await bench.finish()
    await bench.finish()


@cocotb.test()
async def bytes_of_an_access_are_written_together(dut):
    """Appended one by one while memory is busy reading, they are read once and written once."""
    bench = await started(dut)
    rng = random.Random(random.getrandbits(32))
    everything = (1 << bench.beat_bytes) - 1
    for writer in bench.writers:
        first = 8 * bench.writers.index(writer)
        stride = 8 * len(bench.writers)
        port = bench.ports[writer]
        port.write(first, [(rng.getrandbits(8 * bench.beat_bytes), everything)] * 2)
        await bench.finish()
        before = await bench.registers.counters()
        bench.ports["matrix"].read(bench.beats // 2, 600)
        await bench.cycles(100)
        for i in range(bench.beat_bytes):
            data, _ = random_beat(bench, rng)
            port.write(first + rng.randrange(2), [(data, 1 << i)])
            port.write(first + stride, [(data, everything & ~(0xF << i))])
        await bench.cycles(200)
        for name in READERS:
            bench.ports[name].read(first, 2)
            bench.ports[name].read(first + stride, 1)
        await bench.finish()
        after = await bench.registers.counters()
        grown = {name: after[name] - before[name] for name in after}
        dut._log.info(f"{writer}: {grown}")
        channels = CONFIG.pseudo_channels
        assert grown["combined"] >= 20 * channels
        assert 2 * grown["partial_writes"] <= bench.beat_bytes * channels


@cocotb.test()
async def what_does_not_exist(dut):
    """Beats out of range answer with errors, in their order; nothing is written anywhere."""
    bench = await started(dut)
    rng = random.Random(random.getrandbits(32))
    end = bench.beats
    last = (1 << ADDRESS_BITS) - 40
    for address in (end - 3, end - 1, end, end + 1, end + 12_345, 1 << 26, last):
        for name, port in bench.ports.items():
            for beats in (1, 2, 7, 33):
                mine = address >= end or name == bench.owner(address)
                if port.client.writes and mine:
                    data = [random_beat(bench, rng) for _ in range(min(beats, 8))]
                    port.write(address, data)
                if port.client.reads:
                    port.read(address, beats)
        for name in READERS:
            bench.ports[name].read(0, 16)
    await bench.finish()
    stored = (await bench.hbm.dump(end)).reshape(-1, bench.beat_bytes)
    for beat in range(end - 8, end):
        assert {stored[beat].tobytes()} == bench.reference.allowed(beat, 1 << 30, 1 << 30)
    assert (stored[: end - 8] == UNWRITTEN).all()
    assert (await bench.registers.counters())["out_of_range"] > 0


@cocotb.test()
async def the_last_beats_of_the_address_space(dut):
    """A descriptor that runs over the end of all addresses does not come back at 0."""
    bench = await started(dut)
    bench.ports["l1"].write((1 << ADDRESS_BITS) - 2, [(1, (1 << bench.beat_bytes) - 1)] * 6)
    bench.ports["matrix"].read((1 << ADDRESS_BITS) - 3, 9)
    await bench.finish()
    assert (await bench.hbm.dump(64) == UNWRITTEN).all()


@cocotb.test()
async def reset_in_flight(dut):
    """A reset forgets what is under way: nothing stale comes, and what follows is right."""
    bench = await started(dut)
    rng = random.Random(random.getrandbits(32))
    for _ in range(12):
        hot = [rng.randrange(bench.beats - 300) for _ in range(3)]
        for _ in range(20):
            name = rng.choice(list(bench.ports))
            if bench.ports[name].client.reads:
                random_read(bench, rng, name, hot)
            if bench.ports[name].client.writes:
                random_write(bench, rng, name, hot)
        await bench.cycles(rng.randrange(1, 400))
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        for name in bench.ports:  # what is offered during reset is not taken
            getattr(dut, f"{name}__descriptors__valid").value = 1
        await bench.cycles(2)
        for name in bench.ports:
            assert not getattr(dut, f"{name}__descriptors__ready").value
        await bench.reset()
        await bench.hbm.clear()
        await mix(bench, rng, 10)


@cocotb.test()
async def nothing_before_it_is_enabled(dut):
    """While the settings are made, no descriptor is taken and no command given."""
    bench = await started(dut)
    await bench.registers.write("control", 0)
    before = bench.hbm.tally()
    bench.ports["matrix"].read(0, 4)
    await bench.cycles(1000)
    assert bench.ports["matrix"].reads
    assert bench.hbm.tally() == before
    await bench.reset()
    bench.ports["matrix"].read(0, 4)
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(name=list(TIMINGS))
async def refreshed_when_idle(dut, name):
    """With nothing to do, every bank is refreshed once in each period."""
    bench = await started(dut, name)
    periods = 6 if name == "tiny" else 3
    await bench.cycles(periods * bench.timing.refi + 40)
    count = bench.hbm.tally()["refpb"]
    assert (periods - 1) * bench.timing.banks <= count <= (periods + 1) * bench.timing.banks
    bench.hbm.check()


@cocotb.test()
async def one_bank_only(dut):
    """Everybody wants another row of the same bank, for longer than a refresh period."""
    bench = await started(dut)
    rng = random.Random(random.getrandbits(32))
    unit = 64 * bench.timing.banks
    for _ in range(250):
        for name, port in bench.ports.items():
            address = rng.randrange(bench.rows) * unit + rng.choice((0, 1, 2))
            if port.client.reads:
                port.read(address, 1)
            if port.client.writes and bench.owner(address) == name:
                port.write(address, [random_beat(bench, rng)])
    await bench.finish()
    assert bench.now > 3 * bench.timing.refi


@cocotb.test()
async def both_directions_full(dut):
    """Reads and writes of the same places, more than all queues hold: no deadlock."""
    bench = await started(dut)
    rng = random.Random(random.getrandbits(32))
    unit = 8 * len(bench.writers)
    for _ in range(150):
        for name in bench.writers:
            place = 8 * bench.writers.index(name) + unit * rng.randrange(4)
            bench.ports[name].write(place, [random_beat(bench, rng) for _ in range(8)])
        for name in READERS:
            bench.ports[name].read(rng.randrange(8), 60)
    await bench.finish()


@cocotb.test()
async def nobody_takes_what_was_read(dut):
    """A client that takes nothing holds up no other one."""
    bench = await started(dut)
    bench.ports["matrix"].sink.pauses = iter(lambda: True, None)
    bench.ports["matrix"].read(0, 5000)
    await bench.cycles(3000)
    for i in range(40):
        bench.ports["l1"].read(997 * i, 4)
    while bench.ports["l1"].reads:
        await RisingEdge(dut.clk)
        assert bench.now < 40_000
    bench.ports["matrix"].pause(None)
    await bench.finish()


SCRUBBED = 1000
"""Cycles in which a corrected word is written back, a refresh of its bank included."""

# --- errors in memory ----------------------------------------------------------------------------


@cocotb.test(skip=not CONFIG.ecc)
async def single_errors_are_corrected(dut):
    """One wrong bit, of data or check bits, is corrected, counted, and corrected in memory too."""
    bench = await started(dut)
    rng = random.Random(random.getrandbits(32))
    for _ in range(60):
        beat, channel = rng.randrange(4096), rng.randrange(CONFIG.pseudo_channels)
        right = await bench.hbm.peek(channel, beat)
        before = (await bench.registers.counters())["corrected"]
        await bench.hbm.flip(channel, beat, rng.randrange(144))
        bench.ports[rng.choice(READERS)].read(beat, 1)
        await bench.finish()
        await bench.cycles(SCRUBBED)
        assert await bench.hbm.peek(channel, beat) == right
        assert (await bench.registers.counters())["corrected"] > before
    assert await bench.registers.read("status") & 1


@cocotb.test(skip=not CONFIG.ecc)
async def double_errors_are_poison(dut):
    """Two wrong bits of a word are reported with their place, and give poison with an error."""
    bench = await started(dut)
    rng = random.Random(random.getrandbits(32))
    # No read meets the error of another: the register holds the last place that was met.
    for beat in rng.sample(range(1, 4096, 4), 60):
        channel = rng.randrange(CONFIG.pseudo_channels)
        word = rng.randrange(2)
        bits = [64 * word + i for i in range(64)] + [128 + 8 * word + i for i in range(8)]
        await bench.hbm.flip(channel, beat, *rng.sample(bits, 2))
        bench.bad.add(beat)
        bench.ports[rng.choice(READERS)].read(beat - 1, 3)
        await bench.finish()
        place = bench.hbm.address.locate(beat // 2)
        wanted = beat % 2 | int(place.column) << 1 | int(place.bank) << 6 | int(place.row) << 10
        assert await bench.registers.read("uncorrected_place") == wanted | channel << 24
    assert await bench.registers.read("status") == 2


@cocotb.test(skip=not CONFIG.ecc)
async def a_lost_word_stays_lost(dut):
    """Part of a word that is lost cannot be written; all of it can."""
    bench = await started(dut)
    for whole in (False, True):
        beat = 8 * len(bench.writers) * 5 + 8 * bench.writers.index("l1")
        await bench.hbm.flip(0, beat, 3, 17)
        bench.bad.add(beat)
        enable = 0xFF if whole else 0x0F
        bench.ports["l1"].write(beat, [(0x1122334455667788, enable)])
        await bench.finish()
        if whole:
            bench.bad.clear()
        bench.ports["host"].read(beat, 1)
        await bench.finish()
        await bench.hbm.clear()
        bench.forget()
