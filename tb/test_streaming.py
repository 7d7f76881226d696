"""cocotb tests of the streaming engine: host port, HBM slice and matrix engine together."""

from __future__ import annotations

import itertools
import json
import os
import random

import cocotb
from cocotb.triggers import RisingEdge, gather
from cocotbext.axi import AxiResp

from rtl.config import TileConfig
from rtl.formats import Format
from rtl.hbm.ports import ADDRESS_BITS, DescriptorLayout, WriteBeatLayout
from rtl.hbm.timing import TIMINGS
from rtl.host.burst import bus_bytes
from rtl.registers import IDENTITY
from tb.axi_host import REGION, AxiHost
from tb.mac import Job, pack
from tb.random_mac import JobMaker
from tb.registers import LiteManager
from tb.stream import StreamSink, StreamSource, any_pauses
from tb.streaming import StreamingTestbench

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
ROWS = int(os.environ["JALAPENO_HBM_ROWS"])
BEAT, STRIDE, BUS = CONFIG.beat_bytes, CONFIG.beat_stride, bus_bytes(CONFIG)
LARGEST = BUS.bit_length() - 1
SETS = ("hbm3-6400", "hbm4-8000")
LONG = 100_000
"""Cycles after which a test gives up to wait for results."""

QUIET = 600
"""Cycles without a beat after which none comes: more than a refresh takes."""

MICROSECONDS = 1000
"""When it gives up in any case."""

SETTLED = 2000
"""Cycles in which all that was accepted, or corrected, is written, a refresh included."""


def rng() -> random.Random:
    """Return a source of choices, seeded from the run's seed."""
    return random.Random(random.getrandbits(32))


def maker() -> JobMaker:
    """Return a maker of jobs, seeded from the run's seed."""
    return JobMaker(CONFIG, random.getrandbits(32), outputs=2, blocks=4)


async def started(dut, timing: str = CONFIG.timing, piece: int = 0) -> StreamingTestbench:
    """Return a testbench after reset, its memory unwritten."""
    bench = StreamingTestbench(dut, CONFIG, TIMINGS[timing], ROWS, piece)
    await bench.reset()
    await bench.hbm.clear()  # not before: writes of the test before may be under way
    return bench


def plain_job(make: JobMaker, outputs: int, length: int) -> Job:
    """Return a product of one row."""
    activations = make.tensor((1, length), Format.MXFP4, False)
    return Job(activations, make.tensor((outputs, length), Format.MXFP4, False))


async def keep_streaming(bench: StreamingTestbench, make: JobMaker, jobs: int) -> None:
    """Run random jobs, a few at a time."""
    for _ in range(jobs // 3):
        for job in (batch := [make.any_job() for _ in range(3)]):
            await bench.prepare(job)
        for job in batch:
            bench.submit(job)
        await bench.finish(LONG)


class Stores:
    """The client for streaming stores.

    Parameters
    ----------
    dut
        The design.
    """

    def __init__(self, dut) -> None:
        self._clock = dut.clk
        self.descriptors = StreamSource(dut, "stores__descriptors")
        self.beats = StreamSource(dut, "stores__writes")
        self.answers = StreamSink(dut, "stores__answers", self._answer)

    def _answer(self, error: int) -> None:
        assert not error

    async def fill(self, choices: random.Random, first: int) -> bytes:
        """Write a region, a beat here and nine there; return what must be in it."""
        self.descriptors.pauses, self.answers.pauses = any_pauses(choices), any_pauses(choices)
        image, layout = bytearray(), WriteBeatLayout(CONFIG.pseudo_channels)
        while (beat := len(image) // BEAT) < REGION:
            count = min(choices.randint(1, 9), REGION - beat)
            descriptor = pack(DescriptorLayout(), address=first + beat, beats=count, write=1)
            self.descriptors.send(descriptor)
            for _ in range(count):
                data = choices.randbytes(BEAT)
                value = int.from_bytes(data, "little")
                self.beats.send(pack(layout, data=value, enable=(1 << BEAT) - 1))
                image += data
        while not (self.descriptors.idle and self.answers.taken == self.descriptors.sent):
            await RisingEdge(self._clock)
        return bytes(image)


async def stored(bench: StreamingTestbench, first: int, beats: int) -> bytes:
    """Return what is in the devices, once nothing waits in the controllers."""
    for _ in range(SETTLED):
        await RisingEdge(bench.dut.clk)
    return (await bench.hbm.dump(beats, first)).tobytes()


# --- everything at once --------------------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
@cocotb.parametrize(timing=SETS, piece=[0, 6])
async def random_jobs_stream_from_memory(dut, timing, piece):
    """Jobs of all kinds; their operands whole, and in pieces all over the memory."""
    bench, make = await started(dut, timing, piece), maker()
    for _ in range(4):
        bench.pause(make.rng)
        await keep_streaming(bench, make, 9)
    bench.pause(None)
    await keep_streaming(bench, make, 12)
    await bench.settle()
    await all_taken(bench)
    counted = await bench.windows["operands"].counters()
    waits = counted["waits_for_memory"] + counted["waits_for_engine"]
    assert counted["active"] == counted["beats"] + waits
    assert counted["beats"] == await bench.taken()
    assert counted["operands"] == bench.operands.sent
    assert not await bench.windows["operands"].read("status")
    bench.hbm.check()


async def all_taken(bench):
    """Wait until no beat comes any more: those of a job without rows may come behind its end."""
    before = -1
    while (now := await bench.taken()) != before:
        before = now
        for _ in range(QUIET):
            await RisingEdge(bench.dut.clk)


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
@cocotb.parametrize(timing=SETS)
async def bursts_while_matrices_stream(dut, timing):
    """Four AXI users, streaming stores and matrices at the same time; every byte is right."""
    bench, make = await started(dut, timing), maker()
    host, stores, choices = AxiHost(dut, CONFIG), Stores(dut), rng()
    for _ in range(2):
        bench.pause(choices)
        host.pause(choices)
        firsts = [bench.allot(REGION) for _ in range(5)]
        streaming = cocotb.start_soon(keep_streaming(bench, make, 30))
        storing = cocotb.start_soon(stores.fill(choices, firsts[4]))
        images = await gather(*(host.work(choices, first, 12) for first in firsts[:4]))
        everything = [*images, await storing]
        await streaming
        for first, image in zip(firsts, everything, strict=True):
            assert await stored(bench, first, REGION) == image
    assert host.checker.idle
    bench.hbm.check()


# --- order ---------------------------------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
@cocotb.parametrize(timing=SETS)
async def an_operand_written_before_is_seen(dut, timing):
    """Weights over AXI, and at the last response the request for them; at two places in turn."""
    bench, make = await started(dut, timing), maker()
    host, choices = AxiHost(dut, CONFIG), rng()
    places = [bench.allot(REGION) for _ in range(2)]
    busy = cocotb.start_soon(host.work(choices, bench.allot(REGION), 40))
    for round_ in range(16):
        host.pause(choices if round_ % 2 else None)
        job = plain_job(make, CONFIG.pseudo_channels * choices.randint(1, 8), 70)
        operand, place = job.beats(CONFIG), places[round_ % 2]
        await host.write_beats(place, operand.tobytes())
        bench.place(job, place)
        bench.submit(job)
        # It need not be over before the other place is written.
        if round_ % 2:
            await bench.finish(LONG)
    await bench.finish(LONG)
    await busy
    bench.hbm.check()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def a_layer_written_by_the_host_runs(dut):
    """Everything as a host does it: two matrices over AXI, then products with both."""
    bench, make = await started(dut), maker()
    host = AxiHost(dut, CONFIG)
    jobs = [plain_job(make, 41 * CONFIG.pseudo_channels - 1, 96) for _ in range(2)]
    for job in jobs:
        operand = job.beats(CONFIG)
        first = bench.allot(len(operand))
        await host.write_beats(first, operand.tobytes())
        assert await stored(bench, first, len(operand)) == operand.tobytes()
        bench.place(job, first)
    for job in [*jobs, *jobs]:
        bench.submit(job)
    await bench.finish(LONG)
    await bench.settle()
    bench.hbm.check()


# --- errors --------------------------------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def beyond_the_memory_there_are_errors(dut):
    """SLVERR behind the last row of the devices, DECERR behind the last address."""
    bench, make = await started(dut), maker()
    host, choices = AxiHost(dut, CONFIG), rng()
    end = 64 * bench.timing.banks * ROWS  # beats of the devices
    data = choices.randbytes(BEAT)
    before = await stored(bench, 0, 64)
    for beat, wanted in (
        (end - 1, AxiResp.OKAY),
        (end, AxiResp.SLVERR),
        (2 * end, AxiResp.SLVERR),
        ((1 << ADDRESS_BITS) - 1, AxiResp.SLVERR),
        (1 << ADDRESS_BITS, AxiResp.DECERR),
    ):
        assert (await host.axi.write(beat * STRIDE, data)).resp == wanted
        answer = await host.axi.read(beat * STRIDE, BEAT)
        assert answer.resp == wanted
        if wanted == AxiResp.OKAY:
            assert answer.data == data
    assert await stored(bench, 0, 64) == before
    assert await stored(bench, end - 1, 1) == data

    counted = await bench.windows["hbm"].counters()
    assert counted["out_of_range"] > 0
    # An operand that is not all there: everything else goes on, and it is told.
    assert not await bench.windows["operands"].read("status")
    job = plain_job(make, CONFIG.pseudo_channels, 32)
    count = len(job.beats(CONFIG))
    bench.place(job, end - count + 1)
    bench.results.pauses = itertools.repeat(True)  # nobody believes the result
    bench.submit(job)
    for _ in range(300):
        await RisingEdge(dut.clk)
    assert await bench.windows["operands"].read("status") == 1
    assert (await bench.windows["operands"].counters())["errors"] == 1
    await bench.windows["operands"].write("status", 1)
    assert not await bench.windows["operands"].read("status")


@cocotb.test(skip=not CONFIG.ecc, timeout_time=MICROSECONDS, timeout_unit="us")
async def wrong_bits_in_an_operand(dut):
    """One in a word is corrected and no result is wrong; two are told."""
    bench, make = await started(dut), maker()
    choices = rng()
    job = plain_job(make, 16 * CONFIG.pseudo_channels, 64)
    await bench.prepare(job)
    count = len(job.beats(CONFIG))
    for beat in choices.sample(range(count), 10):
        channel = choices.randrange(CONFIG.pseudo_channels)
        await bench.hbm.flip(channel, beat, choices.randrange(144))
        bench.submit(job)
        await bench.finish(LONG)
        for _ in range(SETTLED):
            await RisingEdge(dut.clk)
    assert (await bench.windows["hbm"].counters())["corrected"] >= 10
    assert not await bench.windows["operands"].read("status")
    await bench.hbm.flip(0, choices.randrange(count), 3, 70, 4)
    bench.results.pauses = itertools.repeat(True)
    bench.submit(job)
    for _ in range(500):
        await RisingEdge(dut.clk)
    assert await bench.windows["operands"].read("status") == 1
    assert await bench.windows["hbm"].read("status") & 2


# --- reset ---------------------------------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def reset_in_flight(dut):
    """Bursts and jobs under way are gone; what was in memory is still there, and all works."""
    bench, make = await started(dut), maker()
    host, choices = AxiHost(dut, CONFIG), rng()
    kept = plain_job(make, 5 * CONFIG.pseudo_channels, 96)
    await bench.prepare(kept)
    for round_ in range(8):
        scratch = bench.allot(REGION)
        for _ in range(3):
            await bench.prepare(job := make.any_job())
            bench.submit(job)
        bench.pause(choices)
        host.pause(choices)
        for _ in range(6):
            address = host.address_of((scratch + choices.randrange(REGION)) * BEAT)
            if choices.random() < 0.5:
                host.axi.init_write(address, choices.randbytes(BEAT))
            else:
                host.axi.init_read(address, BEAT)
        for _ in range(choices.randint(1, 300)):
            await RisingEdge(dut.clk)
        bench.pause(None)
        host.pause(None)
        await bench.reset()
        assert host.checker.idle
        if round_ % 2:  # nothing comes that nobody asked for any more
            await bench.settle()
        await host.work(choices, bench.allot(REGION), 2)
        bench.submit(kept)
        await bench.finish(LONG)
    bench.hbm.check()


# --- registers -----------------------------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def every_window_shows_its_map(dut):
    """Identity and hash are in each; nothing else is where no map is."""
    bench = await started(dut)
    manager = LiteManager(dut)
    for registers in bench.windows.values():
        assert await registers.read("identity") == IDENTITY
        assert f"{await registers.read('config_hash_low'):08x}" == CONFIG.hash[-8:]
    mac = bench.windows["mac"]
    before = await mac.read("control"), await mac.read("stream")
    await mac.write("stream", 2)
    assert (await mac.read("control"), await mac.read("stream")) == (before[0], 2) != before
    assert await bench.windows["hbm"].read("timing_rp") == bench.timing.rp
    # Behind the maps, the first words of which must not come again, and behind the windows.
    for address in (0x1FC, 0x280, 0x3FC, 0x480, 0x5FC, 0x600):
        for access in (manager.read(address), manager.write(address, 1)):
            try:
                await access
            except AssertionError:
                continue
            raise AssertionError(f"there is something at {address:#x}")


# --- tests that must fail, to show that the checkers fire ----------------------------------------


@cocotb.test(skip="JALAPENO_FIRE" not in os.environ)
async def a_wrong_beat_in_memory_is_noticed(dut):
    """A bit of an operand is another one, with check bits that fit."""
    bench, make = await started(dut), maker()
    job = plain_job(make, 16 * CONFIG.pseudo_channels, 64)
    await bench.prepare(job)
    beats = job.beats(CONFIG).copy()
    beats[-1, 0] ^= 7
    await bench.hbm.load(beats.reshape(-1), 0)
    bench.submit(job)
    await bench.finish(LONG)


@cocotb.test(skip="JALAPENO_FIRE" not in os.environ)
async def a_broken_timing_rule_is_noticed(dut):
    """The controller believes in a tRCD that is a cycle shorter than the device's."""
    bench, make = await started(dut), maker()
    memory = bench.windows["hbm"]
    await memory.write("control", 0)
    await memory.write("timing_rcd_rd", bench.timing.rcd_rd - 1)
    await memory.write("control", 1)
    job = plain_job(make, 16 * CONFIG.pseudo_channels, 64)
    await bench.prepare(job)
    bench.submit(job)
    await bench.finish(LONG)
