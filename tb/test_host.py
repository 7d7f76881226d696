"""cocotb tests of the host port, for any configuration."""

from __future__ import annotations

import itertools
import json
import os
import random
from pathlib import Path

import cocotb
from cocotb.triggers import RisingEdge, Timer, ValueChange, gather
from cocotb.utils import get_sim_time
from cocotb_coverage.coverage import CoverPoint, coverage_db
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiMaster, AxiResp

from rtl.config import TileConfig
from rtl.host.axi import REGISTER_WORDS
from rtl.host.burst import AXI_ADDRESS_BITS, CHUNK, Kind, Response, bus_bytes
from rtl.host.client import ADDRESS_BITS
from tb.axi import CHANNELS, Burst
from tb.host import PAGE, PERIOD_NS, BurstMaker, HostTestbench
from tb.stream import any_pauses, in_bursts, never

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
STRIDE, BEAT, BUS = CONFIG.beat_stride, CONFIG.beat_bytes, bus_bytes(CONFIG)
LARGEST = BUS.bit_length() - 1
LIMIT = STRIDE << ADDRESS_BITS
PAGES = [0, 0x123 * PAGE, LIMIT - PAGE]
KINDS = [kind.name for kind in Kind]
MICROSECONDS = 600
"""When a test gives up."""

BINS = [
    (kind, size, direction)
    for kind in KINDS
    for size in range(LARGEST + 1)
    for direction in ("read", "write")
]
MORE = {
    "unaligned": lambda burst: burst.address % (1 << burst.size) != 0,
    "length": lambda burst: burst.length if burst.length in (1, 16, 256) else 0,
    "wrap_inside_a_beat": lambda burst: (
        burst.kind == Kind.WRAP and burst.length << burst.size < STRIDE
    ),
    "wrap_from_the_middle": lambda burst: (
        burst.kind == Kind.WRAP and burst.address % (burst.length << burst.size) != 0
    ),
}


@CoverPoint(
    "host.cross",
    xf=lambda burst: (Kind(burst.kind).name, burst.size, "write" if burst.write else "read"),
    bins=BINS,
)
@CoverPoint("host.unaligned", xf=MORE["unaligned"], bins=[False, True])
@CoverPoint("host.length", xf=MORE["length"], bins=[0, 1, 16, 256])
@CoverPoint("host.wrap_inside_a_beat", xf=MORE["wrap_inside_a_beat"], bins=[False, True])
@CoverPoint("host.wrap_from_the_middle", xf=MORE["wrap_from_the_middle"], bins=[False, True])
def sample(burst: Burst) -> None:
    """Count a burst in the functional coverage."""


async def started(dut, *, manager: bool = True) -> HostTestbench:
    """Return a testbench after reset."""
    bench = HostTestbench(dut, CONFIG, manager=manager)
    await bench.reset()
    return bench


def whole(address: int, beats: int, *, write: bool, id: int = 0) -> Burst:
    """Return a burst of transfers as wide as the bus."""
    return Burst(write, address, beats * STRIDE // BUS, LARGEST, Kind.INCR, id)


def filled(bench: HostTestbench, burst: Burst) -> Burst:
    """Return a burst with random data that writes all bytes that there are."""
    bench.bytes.fill(burst, bench.rng, bench.bytes.exists)
    return burst


# --- everything, at random -----------------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def bursts_of_all_kinds_share_every_beat(dut):
    """Six managers own random bytes of the same pages and use them at the same time."""
    bench = await started(dut)
    rng = bench.rng
    owners: dict[int, int] = {}
    for page in PAGES:
        address = page
        while address < page + PAGE:
            owner, run = rng.randrange(6), rng.choice([1, 2, 7, 40, 300])
            owners |= dict.fromkeys(range(address, address + run), owner)
            address += run
    make = BurstMaker(CONFIG, rng, PAGES)
    todo = [bin_ for bin_ in BINS for _ in range(6)]
    rng.shuffle(todo)

    async def work(me: int) -> None:
        def mine(address: int) -> bool:
            return owners[address] == me and bench.bytes.exists(address)

        while todo:
            kind, size, direction = todo.pop()
            burst = make.burst(write=direction == "write", kind=Kind[kind], size=size)
            if me == 0:
                bench.pause_at_random()
            if burst.write:
                bench.bytes.fill(burst, rng, mine)
                await bench.write(burst)
            else:
                await bench.read(burst, mine)
            sample(burst)

    for _ in range(10):
        await gather(*(work(me) for me in range(6)))
        points = [coverage_db["host.cross"], *(coverage_db[f"host.{name}"] for name in MORE)]
        if all(point.coverage == point.size for point in points):
            break
        todo = [rng.choice(BINS) for _ in range(60)]
    for point in points:
        assert point.coverage == point.size, point.detailed_coverage
    bench.check_memory()
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def cocotbext_axi_agrees(dut):
    """Transfers of any length and alignment by another manager, eight at a time."""
    bench = await started(dut, manager=False)
    axi = AxiMaster(AxiBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
    rng = bench.rng
    bench.memory.pause_at_random()
    for channel in (
        axi.write_if.aw_channel,
        axi.write_if.w_channel,
        axi.write_if.b_channel,
        axi.read_if.ar_channel,
        axi.read_if.r_channel,
    ):
        channel.set_pause_generator(any_pauses(rng))

    async def work(me: int) -> None:
        base = me * 0x10_0000
        for _ in range(6):
            start = base + rng.randrange(2 * PAGE)
            length = rng.choice([1, 3, rng.randint(1, 64), rng.randint(1, 6000)])
            size = LARGEST if length > 64 else rng.randint(0, LARGEST)
            if BEAT != STRIDE:  # stay out of the holes
                start = start // STRIDE * STRIDE + rng.randrange(BEAT)
                length = min(length, BEAT - start % STRIDE)
            data = rng.randbytes(length)
            answer = await axi.write(start, data, size=size)
            assert answer.resp == AxiResp.OKAY
            bench.bytes.values |= dict(enumerate(data, start))
            before, behind = rng.randrange(20), rng.randrange(20)
            first = max(base, start - before)
            if BEAT != STRIDE:
                first, behind = start, 0
            size = rng.randint(0 if length < 64 else LARGEST, LARGEST)
            count = start + length + behind - first
            answer = await axi.read(first, count, size=size)
            assert answer.resp == AxiResp.OKAY
            assert answer.data == bytes(bench.bytes.get(first + i) for i in range(count))

    await gather(*(work(me) for me in range(8)))
    bench.check_memory()


# --- bursts --------------------------------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def every_wrap_burst(dut):
    """WRAP of every length from every start, for small and large transfers.

    OpenHBMC#20: WRAP reads delivered wrong data.
    """
    bench = await started(dut)
    rng = bench.rng
    await bench.write(filled(bench, whole(0, PAGE // STRIDE, write=True)))
    for size in {0, 2, LARGEST - 1, LARGEST}:
        for length in (2, 4, 8, 16):
            starts = range(length)
            for start in starts if length < 8 else rng.sample(starts, 4):
                container = length << size
                address = rng.randrange(PAGE // container) * container + (start << size)
                burst = Burst(True, address, length, size, Kind.WRAP)
                if rng.random() < 0.5:
                    await bench.write(filled(bench, burst))
                await bench.read(Burst(False, address, length, size, Kind.WRAP))
    bench.check_memory()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def bursts_of_every_length(dut):
    """litex#370: bursts of more than one transfer failed."""
    bench = await started(dut)
    for size in (LARGEST, 2):
        longest = min(256, PAGE >> size)
        for length in sorted({*range(1, min(20, longest)), longest - 1, longest}):
            address = bench.rng.randint(0, longest - length) << size
            await bench.write(filled(bench, Burst(True, address, length, size)))
            await bench.read(Burst(False, address, length, size))
    bench.check_memory()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def a_fixed_burst_stays_where_it_is(dut):
    """The last byte that is written to a place stays; reads see the same place again and again."""
    bench = await started(dut)
    for size in range(LARGEST + 1):
        address = bench.rng.randrange(PAGE // STRIDE) * STRIDE + bench.rng.randrange(BEAT)
        for length in (1, 5, 16):
            await bench.write(filled(bench, Burst(True, address, length, size, Kind.FIXED)))
            await bench.read(Burst(False, address, length, size, Kind.FIXED))
    bench.check_memory()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def descriptors_are_as_long_as_they_can_be(dut):
    """A burst of narrow transfers asks for every beat once; descriptors end at multiples of 8."""
    bench = await started(dut)
    assert CHUNK == 8
    for write in (True, False):
        before = bench.memory.descriptors
        burst = whole(7 * STRIDE, 2, write=write)
        await (bench.write(filled(bench, burst)) if write else bench.read(burst))
        assert bench.memory.descriptors - before == 2
    for size in (2, LARGEST):
        count = min(256, PAGE >> size)
        beats = (count << size) // STRIDE
        for write in (True, False):
            before = bench.memory.descriptors
            burst = Burst(write, 0, count, size)
            await (bench.write(filled(bench, burst)) if write else bench.read(burst))
            assert bench.memory.descriptors - before == -(-beats // CHUNK)


# --- errors --------------------------------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def what_axi_forbids_is_refused(dut):
    """SLVERR to every transfer, nothing is read or written, and the next burst is fine."""
    bench = await started(dut)
    bursts = [
        (16, 4, 0, 3),  # a reserved kind
        (16, 3, 1, Kind.WRAP),
        (16, 1, 0, Kind.WRAP),
        (16, 32, 0, Kind.WRAP),
        (17, 4, 1, Kind.WRAP),  # unaligned
        (16, 17, 0, Kind.FIXED),
        (PAGE - 2 * BUS, 3, LARGEST, Kind.INCR),  # leaves its page
        (PAGE - 1, 2, 0, Kind.INCR),
    ]
    bursts += [(0, 2, size, Kind.INCR) for size in range(LARGEST + 1, 8)]
    for address, length, size, kind in bursts:
        for write in (True, False):
            burst = Burst(write, address, length, size, kind)
            if write:
                burst.data = [(bench.rng.getrandbits(8 * BUS), (1 << BUS) - 1)] * length
                await bench.write(burst, Response.SLVERR)
            else:
                await bench.read(burst)
                assert set(burst.resp) == {Response.SLVERR}
    assert bench.memory.descriptors == 0
    await bench.write(filled(bench, whole(0, 1, write=True)))
    await bench.read(whole(0, 1, write=False))
    bench.check_memory()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def refused_bursts_among_others(dut):
    """A burst that is refused takes nothing that belongs to the ones around it."""
    bench = await started(dut)
    make = BurstMaker(CONFIG, bench.rng, [0])
    await bench.write(filled(bench, whole(0, min(256, PAGE // BUS) * BUS // STRIDE, write=True)))
    for _ in range(10):
        bench.pause_at_random()
        reads, writes = [], []
        for _ in range(16):
            reads.append(make.burst(write=False))
            writes.append(make.burst(write=True))
            writes[-1].address += PAGE
            for burst in (reads[-1], writes[-1]):
                if bench.rng.random() < 0.4:
                    burst.kind = 3
                if burst.write:
                    bench.bytes.fill(burst, bench.rng, bench.bytes.exists)
                bench.manager.send(burst)
        for burst in reads:
            await burst.done.wait()
            bench.bytes.check(burst)
        for burst in writes:
            await burst.done.wait()
            assert burst.resp == [bench.bytes.write(burst)]
    bench.check_memory()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def where_nothing_is_answers_with_decerr(dut):
    """Addresses behind the last beat, and the holes between beats."""
    bench = await started(dut)
    for address in (LIMIT, LIMIT + PAGE, (1 << AXI_ADDRESS_BITS) - PAGE):
        burst = whole(address, 2, write=True)
        await bench.write(filled(bench, burst), Response.DECERR)
        await bench.read(burst := whole(address, 2, write=False))
        assert set(burst.resp) == {Response.DECERR}
    assert bench.memory.descriptors == 0

    await bench.write(filled(bench, whole(LIMIT - PAGE, PAGE // STRIDE, write=True)))
    if BEAT != STRIDE:
        hole = LIMIT - STRIDE + BEAT
        for size in (0, 3):
            burst = Burst(True, hole, 1, size, data=[(0, 1 << hole % BUS)])
            await bench.write(burst, Response.DECERR)
            await bench.read(burst := Burst(False, hole - (1 << size), 2, size))
            assert burst.resp == [Response.OKAY, Response.DECERR]
        # One transfer in memory and one in the hole: the first is written.
        burst = Burst(True, hole - 16, 2, 4)
        for place in burst.places():
            burst.data.append((bench.rng.getrandbits(8 * BUS), 0xFFFF << place.start % BUS))
        await bench.write(burst, Response.DECERR)
        # Zeros in the hole do not harm where there is memory beside them.
        await bench.read(burst := whole(LIMIT - STRIDE, 1, write=False))
        assert burst.resp[0] == Response.OKAY
    bench.check_memory()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def errors_of_the_slice_are_passed_on(dut):
    """SLVERR to just the transfers that a bad beat is in, and to writes out of its range."""
    bench = await started(dut)
    bench.pause_at_random()
    bench.memory.bad = {3, 10}
    bench.memory.size = 13
    count = 16 * STRIDE // BUS
    read = await bench.manager.run(whole(0, 16, write=False))
    for n in range(count):
        beat = n * BUS // STRIDE
        hole = n * BUS % STRIDE >= BEAT
        bad = beat in bench.memory.bad or beat >= bench.memory.size
        expected = Response.DECERR if hole else Response.SLVERR if bad else Response.OKAY
        assert read.resp[n] == expected, n
    # Of what follows, the last descriptor fails, or only the first: WRAP goes back.
    half = 8 * BUS // STRIDE
    bench.memory.size = 32 + half
    for address, kind in ((32 - 2 * half, Kind.INCR), (32, Kind.INCR), (32 + half, Kind.WRAP)):
        burst = filled(bench, Burst(True, address * STRIDE, 16, LARGEST, kind))
        inside = address < 32
        await bench.write(burst, Response.OKAY if inside else Response.SLVERR)
        for address in list(bench.bytes.values):
            if address >= bench.memory.size * STRIDE:
                del bench.bytes.values[address]
    await bench.write(filled(bench, whole(0, 2, write=True)))
    bench.check_memory()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def a_wrong_wlast_is_answered_with_slverr(dut):
    """Transfers are counted; WLAST elsewhere, or missing, is an error of this burst only."""
    bench = await started(dut)
    for last in ([], [0], [1, 3]):
        burst = filled(bench, Burst(True, 0, 4, LARGEST))
        burst.last = set(last)
        await bench.write(burst, Response.SLVERR)
        await bench.write(filled(bench, Burst(True, 0, 4, LARGEST)))
        await bench.read(Burst(False, 0, 4, LARGEST))


# --- order, and who waits for whom ---------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def a_read_after_the_response_sees_the_write(dut):
    """B comes when the slice has accepted all of the burst, however long that takes."""
    bench = await started(dut)
    bench.memory.latency = (30, 60)
    for _ in range(10):
        bench.memory.pauses["descriptors"] = any_pauses(bench.rng)
        burst = filled(bench, whole(0, 12, write=True))
        await bench.write(burst)
        bench.check_memory()
        await bench.read(whole(0, 12, write=False))


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def a_copy_through_a_small_buffer_gets_through(dut):
    """A manager that takes what it reads only as fast as what it writes is taken."""
    bench = await started(dut)
    for beat in range(256):
        bench.memory.beats[beat] = bench.rng.getrandbits(8 * BEAT)
    count = min(256, PAGE // BUS)
    write, read = Burst(True, PAGE, count, LARGEST), Burst(False, 0, count, LARGEST)
    taken = 0

    def full():
        while True:
            yield bench.manager.data_waiting >= 2

    def watch(channel, values):
        nonlocal taken
        if channel == "r":
            taken += 1
            # The holes of what was read are not written.
            strobe = (1 << BUS) - 1 if BEAT >= BUS else (1 << BEAT) - 1
            bench.manager.send_data(values["data"], strobe, taken == count)

    bench.checker.watch = watch
    bench.manager.pause(r=full())
    bench.manager.send(write)
    bench.manager.send(read)
    await write.done.wait()
    await read.done.wait()
    copied = count * BUS // STRIDE
    for beat in range(copied):
        assert bench.memory.bytes_at(beat) == bench.memory.bytes_at(beat + PAGE // STRIDE)


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def neither_direction_waits_for_the_other(dut):
    """Data that does not come, and responses that nobody takes, hold up one direction only."""
    bench = await started(dut)
    stop = itertools.repeat(True)
    late = filled(bench, whole(0, PAGE // STRIDE, write=True, id=3))
    bench.manager.pause(w=in_bursts(bench.rng, 20))
    bench.manager.send(late)
    for _ in range(20):
        await RisingEdge(dut.clk)
    bench.manager.pause(w=stop)
    for _ in range(3):
        await bench.read(whole(PAGE, PAGE // STRIDE, write=False))
    bench.manager.pause(w=never())
    await late.done.wait()
    bench.bytes.write(late)

    stuck = [bench.manager.send(whole(0, PAGE // STRIDE, write=False, id=4)) for _ in range(4)]
    bench.manager.pause(r=stop)
    for page in range(2, 5):
        await bench.write(filled(bench, whole(page * PAGE, PAGE // STRIDE, write=True)))
    bench.manager.pause(r=never())
    for burst in stuck:
        await burst.done.wait()
        bench.bytes.check(burst)

    bench.manager.pause(b=stop)
    stuck = [
        bench.manager.send(filled(bench, whole(PAGE * n, 4, write=True, id=n))) for n in range(12)
    ]
    for _ in range(200):
        await RisingEdge(dut.clk)
    await bench.read(whole(PAGE * 20, PAGE // STRIDE, write=False))
    bench.manager.pause(b=never())
    for burst in stuck:
        await burst.done.wait()
        bench.bytes.write(burst)
    bench.check_memory()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def no_direction_starves(dut):
    """Single beats, a descriptor each, many in one direction and a few in the other."""
    bench = await started(dut)
    for many_write in (False, True):
        many = [whole(n * STRIDE, 1, write=many_write) for n in range(400)]
        few = [whole((500 + n) * STRIDE, 1, write=not many_write) for n in range(40)]
        for burst in (*many, *few):
            bench.manager.send(filled(bench, burst) if burst.write else burst)
        for burst in few:
            await burst.done.wait()
        assert not many[-1].done.is_set()
        for burst in many:
            await burst.done.wait()


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def a_transfer_per_cycle(dut):
    """Long bursts, one after the other, in both directions at once."""
    bench = await started(dut)
    count = min(256, PAGE // BUS)
    bench.memory.latency = (10, 10)
    for directions in ([False], [True], [False, True]):
        bursts = []
        for n in range(2048 // count):
            for write in directions:
                burst = Burst(write, n * PAGE, count, LARGEST, id=n % 4)
                bursts.append(filled(bench, burst) if write else burst)
        start = get_sim_time("ns")
        for burst in bursts:
            bench.manager.send(burst)
        for burst in bursts:
            await burst.done.wait()
        cycles = (get_sim_time("ns") - start) / PERIOD_NS
        # The memory moves one beat per cycle, in one direction.
        rate = len(bursts) * count / cycles
        dut._log.info(f"{rate:.3f} transfers per cycle")
        assert rate > 0.98


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def no_output_depends_on_an_input_of_the_cycle(dut):
    """AXI allows no combinational path from inputs to outputs of a port."""
    bench = await started(dut)
    make = BurstMaker(CONFIG, bench.rng, PAGES)
    prefixes = [f"{port}_{name}" for port in ("s_axi", "s_axil") for name in CHANNELS]
    driven = [f"{p}{'valid' if p[-1] in 'br' else 'ready'}" for p in prefixes]
    given = [f"{p}{'ready' if p[-1] in 'br' else 'valid'}" for p in prefixes]
    driven += ["s_axi_rdata", "s_axi_rid", "s_axi_rresp", "s_axi_rlast", "s_axi_bid", "s_axi_bresp"]

    def outputs() -> list[int]:
        return [int(getattr(dut, name).value) for name in driven]

    for _ in range(10):
        bench.pause_at_random()
        for write in (True, False, True, False):
            burst = make.burst(write=write)
            bench.manager.send(filled(bench, burst) if write else burst)
        for _ in range(20):
            await RisingEdge(dut.clk)
            await Timer(PERIOD_NS // 2 + 1, "ns")
            before = outputs()
            for name in given:
                handle = getattr(dut, name)
                value = int(handle.value)
                handle.value = 1 - value
                await Timer(1, "step")
                assert outputs() == before, name
                handle.value = value
                await Timer(1, "step")


# --- reset ---------------------------------------------------------------------------------------


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def nothing_is_accepted_in_reset(dut):
    """basejump_stl#436: a memory accepted requests in reset."""
    bench = await started(dut)
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    requests = [f"{port}_{name}valid" for port in ("s_axi", "s_axil") for name in ("ar", "aw", "w")]
    for name in requests:
        getattr(dut, name).value = 1
    for _ in range(5):
        await RisingEdge(dut.clk)  # the checkers see that nothing is ready
    for name in requests:
        getattr(dut, name).value = 0
    dut.rst.value = 0
    for _ in range(100):
        await RisingEdge(dut.clk)
        for name in ("s_axi_r", "s_axi_b", "s_axil_r", "s_axil_b"):
            assert not getattr(dut, f"{name}valid").value
        assert not dut.bus__read.value
        assert not dut.bus__write.value
    assert bench.memory.descriptors == 0


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def queues_do_not_survive_reset(dut):
    """OSVVM AXI4#25: a reset in flight left transactions in queues."""
    bench = await started(dut)
    make = BurstMaker(CONFIG, bench.rng, PAGES)
    for round_ in range(12):
        bench.pause_at_random()
        for _ in range(12):
            burst = make.burst(write=bench.rng.random() < 0.5)
            if burst.write:
                bench.bytes.fill(burst, bench.rng, bench.bytes.exists)
            bench.manager.send(burst)
        for _ in range(bench.rng.randrange(150)):
            await RisingEdge(dut.clk)
        await bench.reset(bench.rng.randint(1, 4))
        bench.memory.beats.clear()  # nobody knows what was written
        bench.bytes.values.clear()
        assert bench.checker.idle
        if round_ % 2:  # a response now would be one to nothing
            bench.manager.pause(b=never(), r=never())
            for _ in range(100):
                await RisingEdge(dut.clk)
        for _ in range(3):
            burst = make.burst(write=True)
            bench.bytes.fill(burst, bench.rng, bench.bytes.exists)
            await bench.write(burst)
            burst = make.burst(write=False)
            await bench.read(burst)
        bench.check_memory()


# --- registers -----------------------------------------------------------------------------------


class Registers:
    """Words behind the register bus; those that are mapped can be written.

    Parameters
    ----------
    dut
        The design.
    mapped
        Numbers of the words that are there.
    """

    def __init__(self, dut, mapped: set[int]) -> None:
        self.dut, self.mapped = dut, mapped
        self.words = dict.fromkeys(mapped, 0)
        self.accesses = 0
        cocotb.start_soon(self._run())
        cocotb.start_soon(self._map())

    async def _map(self) -> None:
        while True:
            self.dut.bus__mapped.value = int(self.dut.bus__address.value) in self.mapped
            await ValueChange(self.dut.bus__address)

    async def _run(self) -> None:
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            word = int(dut.bus__address.value)
            write, read = bool(dut.bus__write.value), bool(dut.bus__read.value)
            assert not (write and read)
            self.accesses += write or read
            # What was read is there for a cycle.
            dut.bus__read_data.value = self.words.get(word, 0) if read else random.getrandbits(32)
            if write and word in self.mapped:
                mask = sum(
                    0xFF << 8 * i for i in range(4) if int(dut.bus__write_mask.value) >> i & 1
                )
                data = int(dut.bus__write_data.value)
                self.words[word] = (self.words[word] & ~mask) | (data & mask)


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def registers_over_axi_lite(dut):
    """Words and parts of words, in both directions at once, and words that are not there."""
    rng = (await started(dut, manager=False)).rng
    mapped = set(rng.sample(range(REGISTER_WORDS), 200))
    registers = Registers(dut, mapped)
    axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    for channel in (
        axil.write_if.aw_channel,
        axil.write_if.w_channel,
        axil.write_if.b_channel,
        axil.read_if.ar_channel,
        axil.read_if.r_channel,
    ):
        channel.set_pause_generator(any_pauses(rng))
    wanted = {word: bytearray(4) for word in mapped}
    holes = sorted(set(range(REGISTER_WORDS)) - mapped)

    async def work(me: int) -> None:
        mine = sorted(mapped)[me::4]
        for _ in range(40):
            word = rng.choice(mine)
            start = rng.randrange(4)
            data = rng.randbytes(rng.randint(1, 4 - start))
            answer = await axil.write(4 * word + start, data)
            assert answer.resp == AxiResp.OKAY
            wanted[word][start : start + len(data)] = data
            word = rng.choice(mine)
            answer = await axil.read(4 * word, 4)
            assert (answer.resp, answer.data) == (AxiResp.OKAY, bytes(wanted[word]))
            if rng.random() < 0.2:
                hole = rng.choice(holes)
                answer = await axil.write(4 * hole, b"abcd")
                assert answer.resp == AxiResp.DECERR
                answer = await axil.read(4 * hole, 4)
                assert (answer.resp, answer.data) == (AxiResp.DECERR, bytes(4))

    await gather(*(work(me) for me in range(4)))
    for word in mapped:
        assert registers.words[word] == int.from_bytes(wanted[word], "little")


@cocotb.test(timeout_time=MICROSECONDS, timeout_unit="us")
async def register_accesses_do_not_survive_reset(dut):
    """Half a write before reset is none behind it."""
    bench = await started(dut, manager=False)
    registers = Registers(dut, {0, 1})
    for halves in (("aw",), ("w",), ("aw", "w", "ar")):
        dut.s_axil_wstrb.value, dut.s_axil_wdata.value = 15, 1
        for name in halves:
            getattr(dut, f"s_axil_{name}valid").value = 1
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        for name in halves:
            getattr(dut, f"s_axil_{name}valid").value = 0
        await bench.reset()
        registers.accesses = 0
        for _ in range(10):
            await RisingEdge(dut.clk)
            assert not dut.s_axil_bvalid.value
            assert not dut.s_axil_rvalid.value
        assert registers.accesses == 0
    axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    await axil.write(4, b"here")
    assert (await axil.read(4, 4)).data == b"here"
