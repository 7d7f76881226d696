"""cocotb tests of the HBM device model: what is stored, when data comes, the backdoor."""

from __future__ import annotations

import os
import random
import time

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge

from rtl.hbm.interface import BEAT_BYTES
from rtl.hbm.timing import TIMINGS
from sim.hbm.beats import POISON, UNWRITTEN, UNWRITTEN_BEAT
from sim.hbm.secded import check_bytes
from tb.hbm import HbmSlice
from tb.hbm_script import Command, Script

ROWS = int(os.environ["JALAPENO_HBM_ROWS"])
TIMING = TIMINGS["hbm3-6400"]
MASK = (1 << 8 * BEAT_BYTES) - 1


class Bench:
    """Device, script, and what came back."""

    def __init__(self, dut, timing=TIMING):
        self.dut, self.timing = dut, timing
        self.script, self.hbm = Script(dut), HbmSlice(dut, timing)

    async def read(self, *commands: Command) -> list[int]:
        """Play `commands`, and return the beats {check, data} read after the last, a RD."""
        await self.script.play(commands)
        due = commands[-1].cycle + self.timing.cl
        await self.script.reach(due - 1)
        assert not self.dut.drive__0__read__valid.value
        beats = []
        for cycle in (due, due + 1):
            await self.script.reach(cycle)
            assert self.dut.drive__0__read__valid.value
            check = int(self.dut.drive__0__read__check.value.to_unsigned())
            beats.append(check << 8 * BEAT_BYTES | int(self.dut.drive__0__read__data.value))
        await self.script.reach(due + 2)
        assert not self.dut.drive__0__read__valid.value
        return beats

    async def write(self, command: Command, beats: list[int], enables: list[int]) -> None:
        """Play a WR, with garbage on the data bus before and after its time."""
        dut, due = self.dut, command.cycle + self.timing.wl
        await self.script.play([command])
        for cycle, beat, enable in zip(
            range(due - 1, due + 3), [0x55, *beats, 0x66], [0xFFFF, *enables, 0xFFFF], strict=True
        ):
            await self.script.reach(cycle)
            dut.drive__0__write__data.value = beat & MASK
            dut.drive__0__write__check.value = beat >> 8 * BEAT_BYTES
            dut.drive__0__write__enable.value = enable


@cocotb.test()
@cocotb.parametrize(name=list(TIMINGS))
async def data_at_its_time(dut, name):
    """Data is written WL and read CL after the command, in each timing set."""
    bench = Bench(dut, TIMINGS[name])
    timing, script = bench.timing, bench.script
    await script.reset()
    await bench.hbm.clear()
    await script.play([Command(5, "ACT", 2, 3)])
    values = [random.getrandbits(144), random.getrandbits(144)]
    at = 5 + timing.rcd_wr
    await bench.write(Command(at, "WR", 2, 3, 17), values, [0xFFFF, 0xFFFF])
    at = max(script.cycle, at + timing.wr_to_rd_l, 5 + timing.rcd_rd)
    assert await bench.read(Command(at, "RD", 2, column=17)) == values
    at = script.cycle
    assert await bench.read(Command(at, "RD", 2, column=16)) == [UNWRITTEN_BEAT] * 2
    bench.hbm.check()


@cocotb.test()
async def only_enabled_bytes_are_written(dut):
    """A byte is stored where its bit is set; a check byte with any byte of its word."""
    bench = Bench(dut)
    script = bench.script
    await script.reset()
    await bench.hbm.clear()
    await script.play([Command(5, "ACT")])
    await script.reach(5 + TIMING.rcd_rd)
    old = [UNWRITTEN_BEAT, UNWRITTEN_BEAT]
    for _ in range(40):
        values = [random.getrandbits(144) for _ in range(2)]
        enables = [random.choice((0, 0xFF, 0xFF00, random.getrandbits(16))) for _ in range(2)]
        at = script.cycle + TIMING.rtw
        await bench.write(Command(at, "WR"), values, enables)
        for half, (value, enable) in enumerate(zip(values, enables, strict=True)):
            mask = sum(0xFF << 8 * i for i in range(16) if enable >> i & 1)
            mask |= sum(0xFF << 128 + 8 * i for i in range(2) if enable >> 8 * i & 0xFF)
            old[half] = old[half] & ~mask | value & mask
        at = max(script.cycle, at + TIMING.wr_to_rd_l)
        assert await bench.read(Command(at, "RD")) == old
    bench.hbm.check()


@cocotb.test()
async def back_to_back_reads(dut):
    """Reads at the full rate, from banks of different groups, come without a gap."""
    bench = Bench(dut)
    script, hbm = bench.script, bench.hbm
    await script.reset()
    data = np.frombuffer(random.randbytes(64 * hbm.channels * BEAT_BYTES), np.uint8)
    await hbm.load(data)
    expected = data.reshape(64, hbm.channels, BEAT_BYTES)[:, 0].tobytes()
    groups = range(TIMING.bank_groups)
    await script.play([Command(5 + TIMING.rrd_l * b, "ACT", b) for b in groups])
    first = 5 + TIMING.rrd_l * TIMING.bank_groups + TIMING.rcd_rd
    reads = [
        Command(first + TIMING.ccd_s * i, "RD", i % TIMING.bank_groups, 0, i // TIMING.bank_groups)
        for i in range(32)
    ]
    seen: list[int] = []

    async def watch():
        while len(seen) < 64:
            await FallingEdge(dut.clk)
            if dut.drive__0__read__valid.value:
                seen.append(int(dut.drive__0__read__data.value))
            else:
                assert not seen, "a gap"

    watcher = cocotb.start_soon(watch())
    await script.play(reads)
    await watcher
    assert b"".join(beat.to_bytes(16, "little") for beat in seen) == expected
    assert hbm.tally() == {
        "act": 4, "pre": 0, "prea": 0, "refpb": 0, "refab": 0, "rd": 32, "wr": 0,
    }  # fmt: skip
    hbm.check()


@cocotb.test()
async def a_closed_bank_gives_poison(dut):
    """Without an open row, reads give a beat of wrong check bits, and writes do nothing."""
    bench = Bench(dut)
    bench.hbm = HbmSlice(dut, TIMING, fatal=False)
    await bench.script.reset()
    await bench.hbm.clear()
    beats = await bench.read(Command(5, "RD", 1))
    poison = np.full((2, 8), POISON, np.uint8)
    for beat in beats:
        assert beat & MASK == int.from_bytes(poison.tobytes(), "little")
        for word, check in enumerate(check_bytes(poison)):
            wrong = int(check) ^ beat >> 128 + 8 * word & 0xFF
            assert wrong.bit_count() == 2
    at = bench.script.cycle
    await bench.write(Command(at, "WR", 1), [0, 0], [0xFFFF] * 2)
    assert await bench.hbm.peek(0, int(bench.hbm.address.access(1, 0, 0)) * 2) == (
        UNWRITTEN_BEAT & MASK, UNWRITTEN_BEAT >> 128,
    )  # fmt: skip
    assert bench.hbm.report().broken == {"CLOSED"}


@cocotb.test()
async def a_reset_forgets_what_is_under_way(dut):
    """Reads under way give nothing, rows are closed; what is stored stays."""
    bench = Bench(dut)
    await bench.script.reset()
    await bench.hbm.load(np.zeros(2 * bench.hbm.channels * BEAT_BYTES, np.uint8))
    await bench.script.play([Command(5, "ACT"), Command(5 + TIMING.rcd_rd, "RD")])
    await bench.script.reset()
    for cycle in range(2, 2 + TIMING.cl):
        await bench.script.reach(cycle)
        assert not dut.drive__0__read__valid.value
    at = bench.script.cycle
    beats = await bench.read(Command(at, "ACT"), Command(at + TIMING.rcd_rd, "RD"))
    assert beats == [0, 0]
    bench.hbm.check()


@cocotb.test()
async def images_go_in_and_out(dut):
    """What is loaded is dumped, wherever it starts; errors are where they were put."""
    Script(dut)
    hbm = HbmSlice(dut, TIMING)
    await hbm.clear()
    rng = np.random.default_rng(random.getrandbits(32))
    shadow = np.full((4096, hbm.channels, BEAT_BYTES), UNWRITTEN, np.uint8)
    for _ in range(5):
        beat, count = int(rng.integers(3000)), int(rng.integers(1, 1000))
        data = rng.integers(0, 256, (count, hbm.channels, BEAT_BYTES), np.uint8)
        await hbm.load(data.reshape(-1), beat)
        shadow[beat : beat + count] = data
    assert (await hbm.dump(4096) == shadow.reshape(-1)).all()
    for channel in range(hbm.channels):
        before = await hbm.peek(channel, 77)
        assert before[0] == int.from_bytes(shadow[77, channel].tobytes(), "little")
        await hbm.flip(channel, 77, 5, 127, 128)
        assert await hbm.peek(channel, 77) == (before[0] ^ (1 << 127 | 1 << 5), before[1] ^ 1)
        shadow[77, channel, 0] ^= 1 << 5
        shadow[77, channel, 15] ^= 1 << 7
    assert (await hbm.dump(4096) == shadow.reshape(-1)).all()


@cocotb.test()
async def channels_are_apart(dut):
    """Each channel has commands, memory and checker of its own."""
    script, hbm = Script(dut), HbmSlice(dut, TIMING, fatal=False)
    await script.reset()
    await hbm.clear()
    opened = [Command(5, "ACT", 0, channel=1), Command(6, "ACT", 0, channel=0)]
    await script.play([*opened, Command(5 + TIMING.rcd_rd, "RD", 0, channel=1)])
    assert not hbm.report(1).violations
    await script.play([Command(5 + TIMING.rcd_rd + 1, "RD", 1, channel=1)])
    await script.reach(5 + TIMING.rcd_rd + TIMING.cl)
    assert dut.drive__1__read__valid.value
    assert not dut.drive__0__read__valid.value
    assert hbm.report(1).broken == {"CCD_S", "DATA_BUS", "CLOSED"}
    assert not hbm.report(0).violations
    assert (hbm.tally(0)["rd"], hbm.tally(1)["rd"]) == (0, 2)


@cocotb.test()
async def an_image_of_a_mebibyte(dut):
    """The backdoor is fast."""
    Script(dut)
    hbm = HbmSlice(dut, TIMING)
    data = np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8)
    start = time.perf_counter()
    await hbm.load(data)
    loaded = time.perf_counter()
    assert (await hbm.dump(len(data) // BEAT_BYTES // hbm.channels) == data).all()
    dumped = time.perf_counter()
    cocotb.log.info("load %.3f s, dump %.3f s", loaded - start, dumped - loaded)
    assert loaded - start < 2
