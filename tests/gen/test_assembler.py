"""Writing programs: labels, registers, constants of any size, listings."""

from __future__ import annotations

import numpy as np
import pytest

from gen.assembler import Assembler, Pool, RegistersExhausted
from rtl.config import PRESETS
from rtl.core.fields import IllegalInstruction, S
from rtl.core.isa import OPCODES, ROWS, SCALARS, VECTORS, Step, decode, disassemble
from sim.interpreter import Memory, Tile, run

SMALL = PRESETS["small"]


def result(program, to):
    """What a program leaves in a scalar register."""
    tile = Tile(SMALL, Memory(SMALL, 64))
    run(tile, [*program.words, *OPCODES["stop"]().words], limit=1000)
    return tile.scalars[to.number]


# Constants

CONSTANTS = [0, 1, 4095, 4096, -1, -4096, -4097, -5000, 2**31 - 1, 2**31, 2**32 - 1, -(2**31)]


@pytest.mark.parametrize("value", CONSTANTS)
def test_constants(value):
    a = Assembler()
    to = a.scalar()
    a.constant(to, value)
    assert result(a.finish(), to) == value % 2**32
    assert len(a.finish().words) == (1 if -4096 <= value < 4096 else 2)


@pytest.mark.parametrize("value", [2**32, -(2**31) - 1])
def test_constants_that_do_not_fit(value):
    with pytest.raises(IllegalInstruction, match=rf"In const, value is {value}; it must be 0 to"):
        Assembler().constant(S(1), value)


@pytest.mark.parametrize("b", [*CONSTANTS, 8, 2**20, 12345678])
@pytest.mark.parametrize("start", [0, 7, 2**31, 2**32 - 1])
def test_sums_and_products_with_constants(b, start):
    a = Assembler()
    x, total, product = (a.scalar() for _ in range(3))
    free = len(a._scalars._free)
    a.constant(x, start)
    a.add(total, x, b)
    a.multiply(product, x, b)
    assert len(a._scalars._free) == free  # what it took it gave back
    program = a.finish()
    assert result(program, total) == (start + b) % 2**32
    assert result(program, product) == start * b % 2**32


def test_sums_with_registers():
    a = Assembler()
    x, y = a.scalar(), a.scalar()
    a.constant(x, 5)
    a.add(y, x, x)
    assert result(a.finish(), y) == 10


def test_float_constants_are_their_bits():
    a = Assembler()
    a.emit("vector", a=0, rows=1, b_step=Step.MUL, b_value=np.float32(-1.5))
    assert a.finish().lines[0].instruction.values["b_value"] == 0xBFC00000


# Labels


def test_labels_before_and_after_their_use():
    """A loop with a way out: the sum of 10 to 1, left when it is above 40."""
    a = Assembler()
    count, total, most = (a.scalar() for _ in range(3))
    a.constant(count, 10)
    a.constant(total, 0)
    a.constant(most, 40)
    out = a.label("out")
    again = a.here("again")
    a.emit("bge", a=total, b=most, target=out)
    a.add(total, total, count)
    a.emit("loop", counter=count, target=again)
    a.place(out)
    program = a.finish()
    assert again.address == 3
    assert out.address == len(program.words)
    assert result(program, total) == 10 + 9 + 8 + 7 + 6


def test_a_jump():
    a = Assembler()
    to = a.scalar()
    a.constant(to, 1)
    end = a.label("end")
    a.jump(end)
    a.constant(to, 2)
    a.place(end)
    assert result(a.finish(), to) == 1


def test_addresses_count_words():
    a = Assembler()
    a.emit("load", to=0, rows=1, columns=1, address=0)
    label = a.here("behind")
    a.emit("stop")
    program = a.finish()
    assert label.address == OPCODES["load"].words
    assert [line.address for line in program.lines] == [0, label.address]
    assert disassemble(program.words) == [
        (line.address, line.instruction) for line in program.lines
    ]
    assert decode(program.words, label.address).name == "stop"


def test_a_label_that_is_not_placed():
    a = Assembler()
    a.jump(a.label("nowhere"))
    with pytest.raises(ValueError, match=r"^The label nowhere is not placed\.$"):
        a.finish()


def test_a_label_is_placed_once():
    a = Assembler()
    label = a.here("here")
    with pytest.raises(AssertionError, match="here is placed twice"):
        a.place(label)


# Mistakes


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"source": 24}, "In store, source is 24; it must be v0 to v23."),
        ({"row": 1}, "store has no field row."),
        ({}, "store needs a source."),
    ],
)
def test_mistakes_are_found_where_they_are_made(values, sentence):
    a = Assembler()
    with pytest.raises(IllegalInstruction) as caught:
        a.emit("store", **values)
    assert str(caught.value) == sentence
    assert not a.finish().lines


def test_numbers_of_numpy_are_numbers():
    a = Assembler()
    a.emit("const", to=S(1), value=np.int64(5))
    assert a.finish().words == OPCODES["const"](to=S(1), value=5).words


# Registers


def test_pools_give_out_every_register_once():
    a = Assembler()
    assert [a.vectors.take() for _ in range(VECTORS)] == [*range(VECTORS)]
    assert [a.rows.take() for _ in range(ROWS)] == [*range(ROWS)]
    assert [a.scalar() for _ in range(SCALARS - 1)] == [S(i) for i in range(1, SCALARS)]
    for take, kind, count in (
        (a.vectors.take, "vector", VECTORS), (a.rows.take, "row", ROWS),
        (a.scalar, "scalar", SCALARS - 1),
    ):  # fmt: skip
        with pytest.raises(RegistersExhausted) as caught:
            take()
        assert str(caught.value) == (
            f"The program needs more than the {count} {kind} registers there are."
        )


def test_what_was_free_longest_is_taken_next():
    pool = Pool("x", range(3))
    first, second = pool.take(), pool.take()
    pool.give(second, first)
    assert [pool.take() for _ in range(3)] == [2, 1, 0]
    assert pool.least == 0


def test_what_is_given_back_was_taken():
    pool = Pool("x", range(3))
    with pytest.raises(AssertionError, match="x 1 is given back twice"):
        pool.give(1)


def test_scalars_for_a_while():
    a = Assembler()
    with a.scalars(2) as (x, y):
        assert x != y
        with a.scalars(SCALARS - 3) as rest:
            assert len({*rest, x, y}) == SCALARS - 1
    assert len([a.scalar() for _ in range(SCALARS - 1)]) == SCALARS - 1


# Listings


def test_a_listing():
    a = Assembler()
    a.phase = "begin"
    x = a.scalar()
    a.constant(x, 3)
    loop = a.here("loop")
    a.phase = "work"
    a.emit("load", to=4, rows=x, columns=8, address=0x8000, into=True)
    a.emit("loop", counter=x, target=loop)
    a.emit("stop")
    assert a.finish().listing() == (
        "        ; begin\n"
        "     0  add to=s1 a=s0 b=3\n"
        "loop:\n"
        "        ; work\n"
        "     1  load to=v4 into=1 rows=s1 columns=8 address=0x8000\n"
        "     9  loop counter=s1 target=1  ; to loop\n"
        "    11  stop\n"
    )
