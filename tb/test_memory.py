"""cocotb tests of the memory engine, for any configuration."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb_coverage.coverage import CoverPoint, coverage_db

from rtl.config import TileConfig
from rtl.core.isa import SLOT, LoadKind, MatrixFormat
from rtl.formats import Format
from tb.memory_engine import BLOCKS, LINES, Instruction, MemoryTestbench, Oracle

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
LENGTH, ROWS = CONFIG.vector_length, CONFIG.row_length
BEAT, STRIDE = CONFIG.beat_bytes, CONFIG.beat_stride
SLOTS = LENGTH // SLOT
COLUMNS = (0, 1, 3, 4, 5, 8, 12, 31, 32, 33, 64, LENGTH)
WORDS = [register for register in range(20) if register not in BLOCKS]
NAMES = ["load", "loadr", "store", "append", "appendmax", "fence", "lw", "sw"]
RANDOM_TURNS = 100


@CoverPoint("memory.name", xf=lambda i: i.name, bins=NAMES)
def sample(i: Instruction) -> None:
    """Count an instruction in the functional coverage."""
    if i.name == "load":
        sample_load(i.o)
    elif i.name == "store":
        sample_store(i.o)
    elif i.name == "append":
        sample_append(i.o)


def position(o: Any) -> str:
    """Return where in a beat the first row begins."""
    byte = (o.address + o.address_offset) % STRIDE
    return "beat" if byte == 0 else "word" if byte % 4 == 0 else "byte"


@CoverPoint(
    "memory.load",
    xf=lambda o: (o.kind, bool(o.streaming)),
    bins=[(kind, streaming) for kind in LoadKind for streaming in (False, True)],
)
@CoverPoint(
    "memory.position",
    xf=lambda o: (o.kind if o.kind < LoadKind.MXFP4 else LoadKind.MXFP4, position(o)),
    bins=[
        (LoadKind.WORDS, "beat"),
        (LoadKind.WORDS, "word"),
        (LoadKind.BYTES, "beat"),
        (LoadKind.BYTES, "word"),
        (LoadKind.BYTES, "byte"),
        (LoadKind.MXFP4, "beat"),
    ],
)
@CoverPoint("memory.columns", xf=lambda o: (o.kind, o.columns), bins=[
    (kind, columns) for kind in LoadKind for columns in COLUMNS
    if columns or kind < LoadKind.MXFP4
])  # fmt: skip
@CoverPoint("memory.rows", xf=lambda o: min(o.rows, 3), bins=[0, 1, 2, 3])
@CoverPoint("memory.into", xf=lambda o: bool(o.into), bins=[False, True])
def sample_load(o: Any) -> None:
    """Count a `load`."""


@CoverPoint(
    "memory.store",
    xf=lambda o: (bool(o.masked), position(o)),
    bins=[(masked, where) for masked in (False, True) for where in ("beat", "word")],
)
@CoverPoint("memory.store_columns", xf=lambda o: o.columns, bins=list(COLUMNS))
def sample_store(o: Any) -> None:
    """Count a `store`."""


@CoverPoint("memory.append", xf=lambda o: o.format, bins=list(MatrixFormat))
def sample_append(o: Any) -> None:
    """Count an `append`."""


COVERAGE = (
    "name", "load", "position", "columns", "rows", "into", "store", "store_columns", "append",
)  # fmt: skip


class Maker:
    """Makes random instructions.

    Parameters
    ----------
    rng
        Where they come from.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def address(self, third: int, align: int = 4) -> int:
        """Return an address in a third of the memory, mostly near its beginning."""
        rng, beats = self.rng, 2 * LINES // 3
        beat = third * beats + rng.choice([rng.randrange(4), rng.randrange(beats)])
        return beat * STRIDE + rng.choice([0, rng.randrange(0, BEAT, align)])

    def parts(self, name: str, address: int) -> dict[str, int]:
        """Return an address as a sum."""
        base = self.rng.choice([address, self.rng.getrandbits(32)])
        return {name: base, f"{name}_offset": (address - base) & 0xFFFFFFFF}

    def shape(self) -> dict[str, int]:
        """Return rows and columns of a register that fit mostly."""
        rng = self.rng
        columns = rng.choice(COLUMNS)
        stride = rng.choice([-(-columns // SLOT), rng.randrange(SLOTS)])
        return {"rows": rng.choice([0, 1, 1, 2, 2, 3, SLOTS]), "columns": columns,
                "stride": stride, "offset": rng.choice([0, rng.randrange(SLOTS)])}  # fmt: skip

    def pitch(self, align: int) -> int:
        """Return a pitch, some of them backwards."""
        rng = self.rng
        return rng.choice(
            [STRIDE, 2 * STRIDE, rng.randrange(0, 6 * STRIDE, align), -STRIDE & 0xFFFFFFFF]
        )

    def load(self) -> Instruction:
        """Return a `load`."""
        rng = self.rng
        kind = rng.choice([*LoadKind])
        align = {LoadKind.WORDS: 4, LoadKind.BYTES: 1}.get(kind, 16)
        streaming = rng.random() < 0.5
        third = rng.choice([1, 2]) if streaming else rng.choice([0, 2])
        return Instruction.of(
            "load", to=rng.choice(WORDS), into=rng.random() < 0.5, **self.shape(), kind=kind,
            streaming=streaming, **self.parts("address", self.address(third, align)),
            **self.parts("scales", self.address(2 if streaming else third, 1)),
            pitch=self.pitch(align),
        )  # fmt: skip

    def loadr(self) -> Instruction:
        """Return a `loadr`."""
        rng = self.rng
        row = rng.choice([0, rng.randrange(ROWS)])
        return Instruction.of(
            "loadr", to=rng.randrange(32), row=row, rows=rng.choice([0, 1, 5, ROWS - row]),
            **self.parts("address", self.address(rng.choice([0, 2]))),
        )  # fmt: skip

    def store(self) -> Instruction:
        """Return a `store`."""
        rng = self.rng
        return Instruction.of(
            "store", source=rng.choice(WORDS), **self.shape(),
            **self.parts("address", self.address(0)), pitch=self.pitch(4),
            masked=rng.random() < 0.5, mask=rng.getrandbits(32),
        )  # fmt: skip

    def append(self) -> Instruction:
        """Return an `append`."""
        rng = self.rng
        source = rng.choice([*BLOCKS])
        fmt = MatrixFormat.MXFP4 if BLOCKS[source] is Format.MXFP4 else MatrixFormat.MXINT8
        return Instruction.of(
            "append", source=source, block=rng.randrange(LENGTH // 8), format=fmt,
            **self.parts("elements", self.address(1, 16)),
            **self.parts("scale", self.address(1, 1)),
        )  # fmt: skip

    def appendmax(self) -> Instruction:
        """Return an `appendmax`; others write to the last row of the upper registers."""
        rng = self.rng
        return Instruction.of(
            "appendmax", source=rng.randrange(8), row=rng.randrange(ROWS),
            **self.parts("address", self.address(1, 1)),
        )  # fmt: skip

    def fence(self) -> Instruction:
        """Return a `fence`."""
        return Instruction.of("fence")

    def lw(self) -> Instruction:
        """Return a `lw`."""
        return Instruction.of("lw", **self.parts("address", self.address(self.rng.choice([0, 2]))))

    def sw(self) -> Instruction:
        """Return a `sw`."""
        value = self.rng.getrandbits(32)
        return Instruction.of("sw", value, **self.parts("address", self.address(0)))


async def started(dut: Any) -> MemoryTestbench:
    """Return a testbench after reset."""
    bench = MemoryTestbench(dut, CONFIG)
    await bench.reset()
    return bench


def generator() -> np.random.Generator:
    """Return a generator that the run's seed decides."""
    return np.random.default_rng(random.getrandbits(32))


def golden(oracle: Oracle, program: list[Instruction]) -> list[tuple[Instruction, int]]:
    """Execute a program that is not faulty, and return it with what `lw` finds."""
    result = []
    for instruction in program:
        assert oracle.execute(instruction), instruction
        result.append((instruction, oracle.loaded))
    return result


async def compare(
    bench: MemoryTestbench, program: list[Instruction], oracle: Oracle | None = None
) -> int:
    """Run a program on both, compare, and return the cycles."""
    oracle = oracle or Oracle(CONFIG, generator())
    await bench.begin(oracle)
    cycles = await bench.execute(golden(oracle, [*program, Instruction.of("fence")]))
    await bench.compare(oracle)
    return cycles


# --- everything at once ---------------------------------------------------------------------------


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Random instructions, disturbed in all kinds of ways, until everything was there."""
    bench = await started(dut)
    maker = Maker(bench.rng)
    points = [coverage_db[f"memory.{name}"] for name in COVERAGE]
    for turn in range(RANDOM_TURNS):
        oracle = Oracle(CONFIG, generator())
        await bench.begin(oracle)
        program: list[tuple[Instruction, int]] = []
        weights = bench.rng.choice(
            [[8, 2, 5, 3, 2, 2, 2, 2], [1, 1, 1, 6, 6, 2, 1, 1], [8, 2, 8, 1, 1, 1, 1, 1]]
        )
        while len(program) < 40:
            name = bench.rng.choices(NAMES, weights)[0]
            instruction = getattr(maker, name)()
            if oracle.execute(instruction):
                program.append((instruction, oracle.loaded))
                sample(instruction)
        fence = Instruction.of("fence")
        assert oracle.execute(fence)
        program.append((fence, 0))
        if turn % 3:
            bench.pause_at_random()
        else:
            bench.hurry()
        await bench.execute(program)
        await bench.compare(oracle)
        if turn >= 9 and all(point.coverage == point.size for point in points):
            break
    for name, point in zip(COVERAGE, points, strict=True):
        dut._log.info(f"memory.{name}: {point.coverage} of {point.size} bins")
        assert point.coverage == point.size, f"{name} is not covered: {point.detailed_coverage}"
    counted = await bench.registers.counters()
    dut._log.info(f"{bench.checked} words compared in {bench.cycles} cycles: {counted}")
    for name, value in counted.items():
        assert value, f"{name} counted nothing"
    coverage_db.export_to_yaml(str(Path("coverage.yaml")))


# --- one thing at a time --------------------------------------------------------------------------


def beat_address(third: int, beat: int = 0) -> int:
    """Return the address of a beat in a third of the memory."""
    return (third * 2 * LINES // 3 + beat) * STRIDE


@cocotb.test()
async def rows_begin_and_end_anywhere(dut: Any) -> None:
    """Loads and stores of every length near a line's, from every word or byte of a beat."""
    bench = await started(dut)
    lane = bench.geometry.line_words
    lengths = [n for n in range(2 * lane + BEAT // 4 + 1) if n <= LENGTH]
    program = []
    for kind, align, most in ((LoadKind.WORDS, 4, BEAT), (LoadKind.BYTES, 1, BEAT)):
        for byte in range(0, most, align):
            for columns in bench.rng.sample(lengths, min(len(lengths), 200 * align // BEAT)):
                rows = min(2, LENGTH // -(-columns // SLOT * SLOT) if columns else 2)
                shape = {"rows": rows, "columns": columns, "stride": SLOTS // 2}
                address = beat_address(2, bench.rng.randrange(3)) + byte
                to = bench.rng.choice(WORDS)
                streaming = bench.rng.random() < 0.5
                program.append(
                    Instruction.of("load", to=to, into=True, **shape, kind=kind, address=address,
                                   pitch=STRIDE, streaming=streaming)
                )  # fmt: skip
                if kind is LoadKind.WORDS:
                    address = beat_address(0, bench.rng.randrange(8)) + byte
                    program.append(
                        Instruction.of("store", source=to, **shape, address=address, pitch=STRIDE)
                    )
    bench.rng.shuffle(program)
    for first in range(0, len(program), 40):
        await compare(bench, program[first : first + 40])


@cocotb.test()
async def every_scale(dut: Any) -> None:
    """Blocks of random codes under every scale byte, the last ones infinite, and NaN."""
    bench = await started(dut)
    rng = generator()
    blocks = LENGTH // SLOT
    for kind, size in ((LoadKind.MXFP4, 16), (LoadKind.MXINT8, 32)):
        room = 2 * LINES // 3 * BEAT
        scale = 0
        while scale < 256:
            oracle = Oracle(CONFIG, rng)
            count = min(256, room)
            scales = np.arange(scale, scale + count).astype(np.uint8)
            oracle.memory.bytes[:count] = scales
            program = []
            for i, to in enumerate(WORDS):
                if i * blocks + blocks > count:
                    break
                beat, byte = divmod(i * blocks, BEAT)
                elements = bench.rng.randrange(room // 16 - blocks * size // 16 - 1)
                place = divmod(16 * elements, BEAT)
                program.append(
                    Instruction.of(
                        "load",
                        to=to,
                        rows=1,
                        columns=LENGTH,
                        kind=kind,
                        address=beat_address(2, place[0]) + place[1],
                        scales=beat * STRIDE + byte,
                    )
                )
            await compare(bench, program, oracle)
            scale += len(program) * blocks


@cocotb.test()
async def a_stream_behind_a_fence_sees_what_was_appended(dut: Any) -> None:
    """However long the memory takes to accept it."""
    bench = await started(dut)
    for latency in ((1, 1), (30, 60)):
        for port in bench.ports.values():
            port.latency = latency
        program = []
        for i in range(8):
            elements = beat_address(1, 4 * i)
            program += [
                Instruction.of("append", source=21, block=i, format=MatrixFormat.MXINT8,
                               elements=elements, scale=beat_address(1, 4 * i + 2) + i % BEAT),
                Instruction.of("appendmax", source=i, row=3, address=beat_address(1, 4 * i + 3)),
                Instruction.of("fence"),
                Instruction.of("load", to=i, rows=1, columns=min(LENGTH, BEAT),
                               address=elements, streaming=True),
            ]  # fmt: skip
        await compare(bench, program)


@cocotb.test()
async def loads_and_stores_through_l1_keep_their_order(dut: Any) -> None:
    """What is stored is loaded, by the next instruction, of engine and scalar unit alike."""
    bench = await started(dut)
    for turn in range(4):
        if turn:
            bench.pause_at_random()
        program = []
        for i in range(6):
            address = beat_address(0, i % 2) + 4 * (i % 4)
            columns = bench.rng.choice([1, 7, 32])
            program += [
                Instruction.of("store", source=i, rows=1, columns=columns, address=address),
                Instruction.of("lw", address=address),
                Instruction.of("sw", bench.rng.getrandbits(32), address=address),
                Instruction.of(
                    "load", to=i + 6, into=True, rows=1, columns=columns, address=address
                ),
                Instruction.of("loadr", to=i, rows=4, address=address),
                Instruction.of("store", source=i + 1, rows=1, columns=columns, address=address),
            ]
        await compare(bench, program)


@cocotb.test()
async def errors_are_told(dut: Any) -> None:
    """A beat that cannot be read, by a load or for the scalar unit, and one that does not exist."""
    bench = await started(dut)
    beats = 2 * LINES // 3
    oracle = Oracle(CONFIG, generator())
    await bench.begin(oracle)
    load = Instruction.of("load", to=0, rows=1, columns=BEAT // 4, address=beat_address(2, 1))
    stream = Instruction.of(
        "load", to=0, rows=1, columns=BEAT // 4, address=beat_address(2, 1), streaming=True
    )
    far = Instruction.of("appendmax", source=0, row=0, address=1 << 31)
    fence = Instruction.of("fence")
    assert await bench.registers.read("status") == 0
    for program, status in (([load], 0), ([stream], 0)):
        await bench.execute([(i, 0) for i in program])
        assert await bench.registers.read("status") == status
    await bench.flush()
    bench.memory.bad = {2 * beats + 1}
    bench.memory.size = LINES * 2
    lw = Instruction.of("lw", address=beat_address(2, 1))
    expected = bench.memory.poison & 0xFFFFFFFF
    for program, status in (([load], 1), ([stream], 1), ([lw], 1), ([far, fence], 2)):
        before = bench.failures
        await bench.execute([(i, expected) for i in program])
        assert bench.failures == before + 1
        assert await bench.registers.read("status") == status
        await bench.registers.write("status", 3)
        assert await bench.registers.read("status") == 0


@cocotb.test()
async def reset_in_flight(dut: Any) -> None:
    """A reset may come at any time; what comes then is not disturbed."""
    bench = await started(dut)
    maker = Maker(bench.rng)
    oracle = Oracle(CONFIG, generator())
    await bench.begin(oracle)
    for _ in range(10):
        bench.pause_at_random()
        bench.operations.send(
            *(getattr(maker, bench.rng.choice(NAMES[:6]))().payload for _ in range(10))
        )
        await bench.wait(bench.rng.randint(1, 200))
        await bench.reset()
    bench.hurry()
    await compare(bench, [maker.fence()])
    load = Instruction.of("load", to=3, rows=1, columns=LENGTH, address=beat_address(2))
    store = Instruction.of("store", source=3, rows=1, columns=LENGTH, address=beat_address(0))
    await compare(bench, [load, store])


@cocotb.test()
async def throughput(dut: Any) -> None:
    """A beat per cycle, or a line of it, where rows are as long as registers."""
    bench = await started(dut)
    await bench.wait(CONFIG.l1_sets + 20)
    g = bench.geometry
    words = BEAT // 4
    most = words / -(-words // g.line_words)  # a line at most of a beat at a time
    long = {"rows": 1, "columns": LENGTH}
    here = {"address": beat_address(2), **long}
    aside = {"address": beat_address(2) + 4, **long}
    cases = {
        "hits": [Instruction.of("load", to=to, **here) for to in range(8)],
        "hits aside": [Instruction.of("load", to=to, **aside) for to in range(8)],
        "stream": [Instruction.of("load", to=to, **here, streaming=True) for to in range(8)],
        "store": [
            Instruction.of("store", source=to, address=beat_address(0), **long)
            for to in range(8)
        ],
        "mxfp4": [
            Instruction.of("load", to=to, **here, scales=beat_address(2, 40), kind=LoadKind.MXFP4)
            for to in range(8)
        ],
        "mxint8": [
            Instruction.of("load", to=to, **here, scales=beat_address(2, 40), kind=LoadKind.MXINT8)
            for to in range(8)
        ],
    }  # fmt: skip
    if LENGTH > 2 * LINES // 3 * BEAT // 4 // 2 or CONFIG.l1_bytes < 16 * LENGTH:
        return  # not all in memory, or in the cache
    found = {}
    for name, program in cases.items():
        oracle = Oracle(CONFIG, generator())
        await compare(bench, program, oracle)  # with a flush at its end
        await bench.begin(oracle)
        warm = golden(oracle, program)
        await bench.execute(warm[:1])
        cycles = await bench.execute(warm)
        found[name] = len(program) * LENGTH / cycles
        await bench.execute(golden(oracle, [Instruction.of("fence")]))
        await bench.compare(oracle)
    dut._log.info(
        f"words per cycle, {most:g} at most: "
        + ", ".join(f"{name} {value:.2f}" for name, value in found.items())
    )
    for name in ("hits", "hits aside", "stream"):
        assert found[name] > 0.8 * most, name
    for name in ("store", "mxint8"):
        assert found[name] > 0.5 * most, name
