"""Several register maps behind one bus."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped
from amaranth.sim import Simulator

from gen.header import c_header
from rtl.config import PRESETS
from rtl.counters import Counter
from rtl.register_windows import WINDOW_WORDS, RegisterDecoder, RegisterWindows
from rtl.registers import IDENTITY, Access, Field, Register, RegisterBlock, RegisterBus, RegisterMap
from tests.refusals import REFUSALS

pytestmark = REFUSALS

CONFIG = PRESETS["nano"]
WORDS = 512


def scratch(*names: str) -> RegisterMap:
    fields = (Field("value", 32, Access.READ_WRITE, "anything"),)
    return RegisterMap(
        CONFIG, [Register(name, "scratch", fields) for name in names], [Counter("ticks", "ticks")]
    )


WINDOWS = RegisterWindows(
    {"first": scratch("a"), "second": scratch("a", "b", "c", "d", "e", "f"), "third": scratch("z")}
)


class Device(wiring.Component):
    def __init__(self):
        super().__init__({"bus": In(RegisterBus(WORDS))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.decoder = decoder = RegisterDecoder(WINDOWS, WORDS)
        connect(m, flipped(self.bus), decoder.bus)
        for name, register_map in WINDOWS.maps.items():
            m.submodules[name] = block = RegisterBlock(register_map)
            connect(m, getattr(decoder, name), block.bus)
        return m


def test_every_word_is_where_it_is_said_to_be():
    """Every register keeps what is written to it, and all other words read as zero."""
    device, values = Device(), {}

    async def testbench(ctx) -> None:
        bus = device.bus

        async def read(word: int) -> int:
            ctx.set(bus.address, word)
            ctx.set(bus.read, 1)
            await ctx.tick()
            ctx.set(bus.read, 0)
            return ctx.get(bus.read_data)

        described = WINDOWS.to_dict()
        for number, register in enumerate(described["registers"]):
            if register["description"] == "scratch":
                values[register["offset"] // 4] = 0x1000 + number
            elif register["name"].endswith("identity"):
                assert await read(register["offset"] // 4) == IDENTITY
        ctx.set(bus.write_mask, 15)
        for word, value in values.items():
            ctx.set(bus.address, word)
            ctx.set(bus.write_data, value)
            ctx.set(bus.write, 1)
            await ctx.tick()
        ctx.set(bus.write, 0)
        head = {r["offset"] // 4 for r in described["registers"]} - set(values)
        counters = {c["offset"] // 4 + i for c in described["counters"] for i in range(2)}
        for word in range(WORDS):
            got = await read(word)
            if word not in head | counters:
                assert got == values.get(word, 0), word
            assert ctx.get(bus.mapped) == (word in head | counters | set(values)), word
        # What was read stays until the next read, wherever the bus looks.
        got = await read(min(values))
        ctx.set(bus.address, 3 * WINDOW_WORDS)
        await ctx.tick()
        assert ctx.get(bus.read_data) == got

    simulator = Simulator(device)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    assert len(values) == 8


def test_names_start_with_that_of_the_window():
    described = WINDOWS.to_dict()
    names = [r["name"] for r in described["registers"]]
    assert "first_a" in names
    assert "second_a" in names
    assert len(set(names)) == len(names)
    assert described["counters"][0]["name"] == "first_ticks"
    assert list(WINDOWS.offsets.values()) == [0, 512, 1024]
    header = c_header("device", CONFIG, WINDOWS)
    assert "#define JALAPENO_DEVICE_SECOND_A_OFFSET 0x20c" in header
    assert "#define JALAPENO_DEVICE_COUNTER_THIRD_TICKS_BITS 64" in header


def test_what_does_not_fit_is_refused():
    large = scratch(*(f"r{i}" for i in range(WINDOW_WORDS)))
    with pytest.raises(ValueError, match="large has 134 words; it must have at most 128"):
        RegisterWindows({"large": large})
    with pytest.raises(ValueError, match="words is 128, the windows have 384"):
        RegisterDecoder(WINDOWS, 128)
