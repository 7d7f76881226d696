"""Scalar arithmetic and branches, alone and in programs, against plain integers of Python."""

from __future__ import annotations

import itertools
import operator

import pytest

from rtl.core.fields import S
from sim.interpreter.scalar import ARITHMETIC, BRANCHES, signed
from tests.sim.interpreter.programs import check_fault, execute, make_tile, op, words_of

EDGES = [
    0,
    1,
    2,
    31,
    32,
    33,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFE,
    0xFFFFFFFF,
    0xDEADBEEF,
]
PAIRS = [*itertools.product(EDGES, EDGES)]


def to_signed(value):
    return int.from_bytes(value.to_bytes(4, "little"), "little", signed=True)


EXPECTED = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": lambda a, b: a * 2 ** (b % 32),
    "shr": lambda a, b: a // 2 ** (b % 32),
    "min": lambda a, b: min(to_signed(a), to_signed(b)),
    "max": lambda a, b: max(to_signed(a), to_signed(b)),
}
CONDITIONS = {
    "beq": operator.eq,
    "bne": operator.ne,
    "blt": lambda a, b: to_signed(a) < to_signed(b),
    "bge": lambda a, b: to_signed(a) >= to_signed(b),
}


def constants(*values):
    """Put constants into s1, s2 and so on."""
    return [op("const", to=S(i + 1), value=value) for i, value in enumerate(values)]


def test_signed():
    assert [signed(value) for value in EDGES] == [to_signed(value) for value in EDGES]


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_on_registers(name):
    """Ten results per program: every pair of edges, modulo 2^32."""
    for start in range(0, len(PAIRS), 10):
        batch = PAIRS[start : start + 10]
        program = []
        for i, (a, b) in enumerate(batch):
            program += constants(a, b)
            program.append(op(name, to=S(10 + i), a=S(1), b=S(2)))
        tile = execute(make_tile(), *program)
        for i, (a, b) in enumerate(batch):
            assert tile.scalars[10 + i] == EXPECTED[name](a, b) % 2**32, (a, b)


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("b", [-4096, -1, 0, 5, 4095])
def test_arithmetic_with_an_immediate(name, b):
    for a in EDGES:
        tile = execute(make_tile(), *constants(a), op(name, to=S(2), a=S(1), b=b))
        assert tile.scalars[2] == EXPECTED[name](a, b % 2**32) % 2**32


@pytest.mark.parametrize("name", BRANCHES)
def test_branches(name):
    for a, b in PAIRS:
        tile = make_tile()
        skip = op(name, a=S(1), b=S(2), target=0)
        start = len(words_of([*constants(a, b), skip]))
        skip = op(name, a=S(1), b=S(2), target=start + 1)
        execute(tile, *constants(a, b), skip, op("add", to=S(3), a=S(0), b=1))
        assert (tile.scalars[3] == 0) == CONDITIONS[name](a, b), (a, b)


@pytest.mark.parametrize("name", BRANCHES)
@pytest.mark.parametrize("b", [-4096, -1, 0, 4095])
def test_branches_with_an_immediate(name, b):
    for a in EDGES:
        start = len(words_of([*constants(a), op(name, a=S(1), b=b, target=0)]))
        skip = op(name, a=S(1), b=b, target=start + 1)
        tile = execute(make_tile(), *constants(a), skip, op("add", to=S(3), a=S(0), b=1))
        assert (tile.scalars[3] == 0) == CONDITIONS[name](a, b % 2**32)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_loop_runs_as_often_as_it_counts(count):
    body = op("add", to=S(2), a=S(2), b=3)
    start = len(words_of(constants(count)))
    tile = execute(make_tile(), *constants(count), body, op("loop", counter=S(1), target=start))
    assert tile.scalars[2] == 3 * count
    assert tile.scalars[1] == 0


def test_a_loop_from_zero_wraps_around():
    """Counting comes before looking: it would run 2^32 times."""
    loop = op("loop", counter=S(1), target=4)
    tile = execute(make_tile(), *constants(0), loop, op("stop"), op("add", to=S(2), a=S(0), b=9))
    assert tile.scalars[1] == 0xFFFFFFFF
    assert tile.scalars[2] == 0  # target 4 is the stop


def test_a_loop_on_s0_never_repeats():
    execute(make_tile(), op("loop", counter=S(0), target=0), limit=2)


def test_s0_stays_zero():
    tile = execute(
        make_tile(),
        op("const", to=S(0), value=5),
        op("add", to=S(0), a=S(0), b=5),
        op("add", to=S(1), a=S(0), b=S(0)),
    )
    assert tile.scalars[0] == tile.scalars[1] == 0


def test_a_result_may_replace_its_operands():
    tile = execute(make_tile(), *constants(6, 7), op("mul", to=S(1), a=S(1), b=S(1)))
    assert tile.scalars[1] == 36


def test_a_branch_beyond_the_program():
    tile = make_tile()
    program = [op("beq", a=S(0), b=0, target=1000)]
    with pytest.raises(ValueError, match=r"^pc is 1000; the program has words 0 to 2 \(tile 0, "):
        execute(tile, *program)
    assert tile.pc == 1000


def test_a_value_from_a_register_must_fit_its_field():
    """Only arithmetic and branches take all bits."""
    check_fault(
        make_tile,
        [*constants(256), op("readv", to=S(2), source=0, slot=S(1))],
        "slot is 256 in s1, it must be 0 to 255.",
    )
    check_fault(
        make_tile,
        [*constants(0x80000000), op("vector", a=0, rows=1, hi=S(1))],
        "hi is -2147483648 in s1, it must be -1048576 to 1048575.",
    )
    check_fault(
        make_tile,
        [*constants(0xFFFFFFFF), op("load", to=0, rows=S(1), columns=1, address=0)],
        "rows is 4294967295 in s1, it must be 0 to 1023.",
    )
