"""Register declarations, address map and hardware, in Amaranth's simulator."""

import random

import pytest
from amaranth.sim import Simulator

from rtl.config import PRESETS
from rtl.counters import Counter
from rtl.registers import IDENTITY, Access, Field, Register, RegisterBlock, RegisterMap
from tests.refusals import REFUSALS

pytestmark = REFUSALS

CONFIG = PRESETS["nano"]
REGISTERS = (
    Register(
        "control",
        "control of the block",
        (
            Field("enable", 1, Access.READ_WRITE, "let it run", reset=1),
            Field("limit", 12, Access.READ_WRITE, "most beats in flight", reset=0x5A5),
            Field("start", 2, Access.PULSE, "begin"),
        ),
    ),
    Register(
        "status",
        "state of the block",
        (
            Field("level", 6, Access.READ, "beats in flight"),
            Field("errors", 4, Access.STICKY, "what went wrong"),
        ),
    ),
    Register("scratch", "nothing", (Field("value", 32, Access.READ_WRITE, "anything"),)),
)
COUNTERS = (Counter("cycles", "cycles", bits=40), Counter("beats", "beats", bits=20, step_bits=4))


def register_map() -> RegisterMap:
    return RegisterMap(CONFIG, REGISTERS, COUNTERS)


class Software:
    """The other side of the bus."""

    def __init__(self, ctx, block: RegisterBlock) -> None:
        self.ctx, self.bus, self.map = ctx, block.bus, block.register_map

    async def write(self, name: str, data: int, mask: int = 0b1111) -> None:
        self.begin_write(name, data, mask)
        await self.ctx.tick()
        self.ctx.set(self.bus.write, 0)

    def begin_write(self, name: str, data: int, mask: int = 0b1111) -> None:
        self.ctx.set(self.bus.address, self.map.register_offsets[name] // 4)
        self.ctx.set(self.bus.write_data, data)
        self.ctx.set(self.bus.write_mask, mask)
        self.ctx.set(self.bus.write, 1)

    async def read_word(self, word: int) -> int:
        self.ctx.set(self.bus.address, word)
        self.ctx.set(self.bus.read, 1)
        await self.ctx.tick()
        self.ctx.set(self.bus.read, 0)
        return self.ctx.get(self.bus.read_data)

    async def read(self, name: str) -> int:
        return await self.read_word(self.map.register_offsets[name] // 4)

    async def read_counter(self, name: str) -> int:
        word = self.map.counter_offsets[name] // 4
        bits = next(c.bits for c in self.map.counters if c.name == name)
        values = [await self.read_word(word + n) for n in range(-(-bits // 32))]
        return sum(value << 32 * n for n, value in enumerate(values))


def simulate(body, block: RegisterBlock | None = None) -> None:
    block = block or RegisterBlock(register_map())

    async def testbench(ctx) -> None:
        await body(ctx, block, Software(ctx, block))

    simulator = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def test_identity_and_hash_come_first() -> None:
    async def body(ctx, block, software) -> None:
        head = [await software.read_word(word) for word in range(3)]
        assert head[0] == IDENTITY == int.from_bytes(b"JAL1", "big")
        assert f"{head[2]:04x}{head[1]:08x}" == CONFIG.hash
        await software.write("identity", 0)
        assert await software.read("identity") == IDENTITY

    simulate(body)
    simulate(body, RegisterBlock(RegisterMap(CONFIG)))


def test_read_write_fields_reset_mask_and_reach_hardware() -> None:
    async def body(ctx, block, software) -> None:
        assert await software.read("control") == 1 | 0x5A5 << 1
        assert (ctx.get(block.control.enable), ctx.get(block.control.limit)) == (1, 0x5A5)
        await software.write("control", 0xFFFF_FFFF, mask=0b0010)
        assert ctx.get(block.control.limit) == 0x5A5 & 0x7F | 0xF80
        await software.write("control", 0)
        assert await software.read("control") == 0
        assert ctx.get(block.control.enable) == 0

    simulate(body)


def test_random_masked_writes_match_a_model() -> None:
    rng = random.Random(7)

    async def body(ctx, block, software) -> None:
        model = 0
        for _ in range(100):
            data, mask = rng.getrandbits(32), rng.getrandbits(4)
            lanes = sum(0xFF << 8 * n for n in range(4) if mask >> n & 1)
            model = model & ~lanes | data & lanes
            await software.write("scratch", data, mask)
            assert await software.read("scratch") == model == ctx.get(block.scratch.value)

    simulate(body)


def test_a_pulse_lasts_for_the_cycle_of_the_write_and_reads_as_zero() -> None:
    async def body(ctx, block, software) -> None:
        assert ctx.get(block.control.start) == 0
        software.begin_write("control", 0b10 << 13)
        assert ctx.get(block.control.start) == 0b10
        await ctx.tick()
        ctx.set(block.bus.write, 0)
        assert ctx.get(block.control.start) == 0
        assert await software.read("control") == 0
        software.begin_write("control", 0b11 << 13, mask=0b0001)  # the byte is not written
        assert ctx.get(block.control.start) == 0
        software.begin_write("scratch", 0b11 << 13)
        assert ctx.get(block.control.start) == 0

    simulate(body)


def test_hardware_drives_read_fields_and_sets_sticky_ones() -> None:
    async def body(ctx, block, software) -> None:
        ctx.set(block.status.level, 33)
        ctx.set(block.status.errors, 0b0101)
        await ctx.tick()
        ctx.set(block.status.errors, 0)
        assert await software.read("status") == 33 | 0b0101 << 6
        await software.write("status", 0b0001 << 6)
        assert await software.read("status") == 33 | 0b0100 << 6
        # Set and cleared in one cycle: setting wins, or an error would be lost.
        ctx.set(block.status.errors, 0b0100)
        await software.write("status", 0b1111 << 6)
        ctx.set(block.status.errors, 0)
        assert await software.read("status") == 33 | 0b0100 << 6

    simulate(body)


def test_a_snapshot_is_readable_in_the_next_cycle_and_holds() -> None:
    async def body(ctx, block, software) -> None:
        ctx.set(block.step.cycles, 1)
        ctx.set(block.step.beats, 9)
        await ctx.tick().repeat(10)
        assert await software.read_counter("cycles") == 0
        cycles = 12  # ten, and two for the read
        await software.write("counter_control", 1)
        assert await software.read_counter("beats") == 9 * cycles
        await ctx.tick().repeat(10)
        assert await software.read_counter("cycles") == cycles
        assert await software.read_counter("beats") == 9 * cycles
        assert await software.read("counter_control") == 0

    simulate(body)


def test_unmapped_words_read_as_zero_and_say_so() -> None:
    async def body(ctx, block, software) -> None:
        words = block.register_map.words
        assert words == 3 + 3 + 1 + 2 + 1
        for word in range(1 << len(block.bus.address)):
            await software.write("scratch", 0xFFFF_FFFF)
            value = await software.read_word(word)
            assert ctx.get(block.bus.mapped) == (word < words)
            assert word < words or value == 0

    simulate(body)


def test_the_map_is_deterministic_and_complete() -> None:
    described = register_map().to_dict()
    assert described == register_map().to_dict()
    assert [(register["name"], register["offset"]) for register in described["registers"]] == [
        ("identity", 0),
        ("config_hash_low", 4),
        ("config_hash_high", 8),
        ("control", 12),
        ("status", 16),
        ("scratch", 20),
        ("counter_control", 24),
    ]
    assert [(counter["name"], counter["offset"]) for counter in described["counters"]] == [
        ("cycles", 28),
        ("beats", 36),
    ]
    assert described["registers"][3]["fields"][1] == {
        "name": "limit",
        "lsb": 1,
        "bits": 12,
        "access": "read-write",
        "reset": 0x5A5,
        "description": "most beats in flight",
    }
    assert described["registers"][0]["fields"][0]["reset"] == IDENTITY


def bit(name: str) -> Field:
    return Field(name, 1, Access.READ, "a bit")


def word(name: str) -> Field:
    return Field(name, 32, Access.READ, "a word")


def register_block(name: str) -> RegisterBlock:
    return RegisterBlock(RegisterMap(CONFIG, [Register(name, "", (word("value"),))]))


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: Field("a", 0, Access.READ, ""), "field a has 0 bits"),
        (lambda: Field("a", 33, Access.READ, ""), "field a has 33 bits"),
        (lambda: Field("a-b", 1, Access.READ, ""), 'field "a-b" must be named by lower-case'),
        (lambda: Field("a", 2, Access.READ_WRITE, "", reset=4), "cannot hold its reset value 4"),
        (lambda: Field("a", 2, Access.PULSE, "", reset=1), "its reset value must be 0"),
        (lambda: Register("a", "", ()), "register a has 0 bits"),
        (lambda: Register("a", "", (bit("b"), word("c"))), "register a has 33 bits"),
        (lambda: Register("a", "", (bit("b"), bit("b"))), "two fields of register a are called b"),
        (lambda: RegisterMap(CONFIG, [REGISTERS[0], REGISTERS[0]]), "are called control"),
        (lambda: RegisterMap(CONFIG, REGISTERS, [Counter("status", "")]), "are called status"),
        (lambda: register_block("identity"), "are called identity"),
        (lambda: register_block("bus"), "no register can be called bus"),
        (lambda: register_block("signature"), "no register can be called signature"),
        (lambda: register_block("register_map"), "no register can be called register_map"),
    ],
)
def test_bad_declarations_are_refused(declare, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        declare()
