"""SECDED hardware against the table: no error, every single error, every pair of errors."""

import itertools
import random

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from rtl.hbm.code import CHECK_BITS, COLUMNS, DATA_BITS, check_byte
from rtl.hbm.ecc import SecdedDecoder, SecdedEncoder

BITS = DATA_BITS + CHECK_BITS
ONES = (1 << DATA_BITS) - 1
EDGES = [0, ONES, 0xDBDB_DBDB_DBDB_DBDB, 0x0123_4567_89AB_CDEF]


def simulate(component, process):
    top = Module()
    top.submodules.component = component
    simulator = Simulator(top)
    simulator.add_testbench(process)
    simulator.run()


def test_encoder():
    encoder, rng = SecdedEncoder(), random.Random(1)

    async def process(ctx):
        words = [1 << i for i in range(DATA_BITS)] + [rng.getrandbits(64) for _ in range(200)]
        for word in EDGES + words:
            ctx.set(encoder.data, word)
            assert ctx.get(encoder.check) == check_byte(word)

    simulate(encoder, process)


async def decode(ctx, decoder, codeword):
    ctx.set(decoder.data, codeword & ONES)
    ctx.set(decoder.check, codeword >> DATA_BITS)
    return ctx.get(decoder.corrected), ctx.get(decoder.single), ctx.get(decoder.uncorrectable)


def encoded(word):
    return check_byte(word) << DATA_BITS | word


def test_one_error_is_corrected():
    decoder, rng = SecdedDecoder(), random.Random(2)

    async def process(ctx):
        for word in [*EDGES, *(rng.getrandbits(64) for _ in range(20))]:
            assert await decode(ctx, decoder, encoded(word)) == (word, 0, 0)
            for i in range(BITS):
                assert await decode(ctx, decoder, encoded(word) ^ 1 << i) == (word, 1, 0)

    simulate(decoder, process)


@pytest.mark.parametrize("word", EDGES, ids=hex)
def test_two_errors_are_detected(word):
    decoder = SecdedDecoder()

    async def process(ctx):
        for i, j in itertools.combinations(range(BITS), 2):
            received = encoded(word) ^ 1 << i ^ 1 << j
            # Nothing is corrected: that would add a third error.
            assert await decode(ctx, decoder, received) == (received & ONES, 0, 1)

    simulate(decoder, process)


def test_three_errors_are_never_taken_for_none():
    """And where their syndrome names no bit, they are detected."""
    decoder, rng = SecdedDecoder(), random.Random(3)
    columns = (*COLUMNS, *(1 << j for j in range(CHECK_BITS)))

    async def process(ctx):
        for _ in range(2000):
            flips = rng.sample(range(BITS), 3)
            received = encoded(rng.getrandbits(64))
            syndrome = 0
            for i in flips:
                received ^= 1 << i
                syndrome ^= columns[i]
            _, single, uncorrectable = await decode(ctx, decoder, received)
            assert (single, uncorrectable) == ((1, 0) if syndrome in columns else (0, 1))

    simulate(decoder, process)
