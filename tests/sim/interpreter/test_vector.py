"""`vector` and `topk`: random instructions against an oracle, and every rule by itself."""

from __future__ import annotations

import functools
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from gen.models.model import Pairing
from gen.quantise import quantise
from rtl.core.fields import S
from rtl.core.isa import Function, Operand, Output, Reduction, Rule, Select, Step
from rtl.formats import ScaleRule
from sim.golden import fp32
from sim.golden.formulas import probabilities, rope
from tb.random_vec import FLOATS, SCALES, SPECIAL, Maker, random_words
from tests.exact import NAN, bits_of
from tests.sim.interpreter import oracle
from tests.sim.interpreter.programs import (
    FP4,
    INT8,
    NANO,
    check_fault,
    defined,
    execute,
    get_blocks,
    get_rows,
    get_words,
    make_tile,
    op,
    set_blocks,
    set_rows,
    set_words,
)

LONG = NANO.replace(vector_bytes=128 * 1024)
"""Registers of 1024 words: 32 slots."""

SLOTS = LONG.vector_length // 32
BLOCKS = LONG.vector_length // 8


def random_state(rng):
    """A tile with registers full of everything, and the same for the oracle."""
    tile, registers = make_tile(LONG), oracle.Registers()
    length, rows = LONG.vector_length, LONG.row_length
    special = rng.choice([0, 0.05, 0.5])
    for register in [*FLOATS, SCALES]:
        words, row = random_words(rng, length, special), random_words(rng, rows, special)
        if register == SCALES:
            words, row = rng.integers(0, 256, length), rng.integers(0, 256, rows)
        set_words(tile, register, words)
        set_rows(tile, register, row)
        for i, word in enumerate(words):
            registers.put_word(register, i, int(word))
        for i, word in enumerate(row):
            registers.rows[register, i] = int(word)
    return tile, registers


def contents(tile):
    """The registers of a tile as the oracle has them."""
    found = oracle.Registers()
    vectors = tile.vectors
    for register, word in zip(*np.nonzero(vectors.kinds == 1), strict=True):
        found.words[int(register), int(word)] = int(vectors.words[register, word])
    kinds = vectors.kinds.reshape(len(vectors.kinds), -1, 8)
    for kind, fmt in ((2, FP4), (3, INT8)):
        for register, block in zip(*np.nonzero((kinds == kind).all(-1)), strict=True):
            tensor = get_blocks(tile, register, fmt, 1, block)
            codes = tensor.codes[0].tolist()
            found.blocks[int(register), int(block)] = str(fmt), int(tensor.scales[0]), codes
    for register, row in zip(*np.nonzero(tile.rows.defined), strict=True):
        found.rows[int(register), int(row)] = int(tile.rows.words[register, row])
    return found


@pytest.mark.parametrize("seed", range(8))
def test_random_instructions_against_the_oracle(seed):
    """Forty of them: every register, defined or not, is as the oracle says."""
    rng = np.random.default_rng(seed)
    seen = set()
    for _ in range(40):
        tile, registers = random_state(rng)
        fields = Maker(LONG, rng).vector()
        oracle.vector(SimpleNamespace(**fields), registers.copy(), registers)
        execute(tile, op("vector", **fields))
        found = contents(tile)
        for what in ("rows", "blocks", "words"):
            assert getattr(found, what) == getattr(registers, what), (what, fields)
        seen |= {fields[name].name for name in ("output", "reduction", "select", "function")}
    assert seen >= {kind.name for kind in (*Output, *Reduction, *Select)}
    assert len(seen & {function.name for function in Function}) >= 5


# Every step, kind of operand and function on its own, with every pair of special numbers


@pytest.mark.parametrize("step", [*oracle.STEPS])
def test_every_step_on_every_pair_of_special_numbers(step):
    pairs = np.array([*itertools.product(SPECIAL, SPECIAL)], np.uint32)
    y = pairs[:, 1]
    if step in (Step.LDEXP_MXFP4, Step.LDEXP_MXINT8):
        y = (np.arange(len(y)) * 7 % 256).astype(np.uint32)
        y[:3] = 0, 254, 255
    tile = make_tile(LONG)
    set_words(tile, 0, pairs[:, 0])
    set_words(tile, 1, y)
    fields = {"columns": len(pairs), "b_step": step, "b_operand": Operand.VECTOR, "b": 1}
    execute(tile, op("vector", a=0, rows=1, **fields, output=Output.WORDS, to=2))
    expected = [oracle.STEPS[step](int(a), int(b)) for a, b in zip(pairs[:, 0], y, strict=True)]
    assert get_words(tile, 2, len(pairs)).tolist() == expected


@pytest.mark.parametrize("function", [*oracle.FUNCTIONS])
def test_every_function_on_special_numbers(function):
    words = np.concatenate([SPECIAL, random_words(np.random.default_rng(3), 60, 0)])
    tile = make_tile(LONG)
    set_words(tile, 0, words)
    factor = bits_of(np.float32(1.702))
    execute(
        tile,
        op(
            "vector", a=0, rows=1, columns=len(words), function=function,
            function_value=int(factor), output=Output.WORDS, to=2,
        ),
    )  # fmt: skip
    expected = [oracle.FUNCTIONS[function](int(a), int(factor)) for a in words]
    assert get_words(tile, 2, len(words)).tolist() == expected


def test_words_that_meet_no_operation_are_copied():
    """Integers too: subnormals are not flushed, NaNs keep their bits."""
    tile = make_tile(LONG)
    set_words(tile, 0, SPECIAL)
    set_rows(tile, 0, SPECIAL)
    count = len(SPECIAL)
    execute(
        tile,
        op("vector", a=0, rows=1, columns=count, output=Output.WORDS, to=1),
        op("vector", a_row=True, a=0, a_stride=1, rows=count, output=Output.ROW, to=1, stride=1),
    )
    assert get_words(tile, 1, count).tolist() == SPECIAL.tolist()
    assert get_rows(tile, 1, count).tolist() == SPECIAL.tolist()


def test_steps_come_in_their_order():
    """((a + b) * c), then the function, then d."""
    tile = make_tile()
    set_words(tile, 0, np.float32([3]))
    execute(
        tile,
        op(
            "vector", a=0, rows=1, columns=1,
            b_step=Step.ADD, b_value=int(bits_of(np.float32(1))),
            c_step=Step.MUL, c_value=int(bits_of(np.float32(2))),
            function=Function.RECIPROCAL,
            d_step=Step.SUB, d_value=int(bits_of(np.float32(1))),
            output=Output.WORDS, to=1,
        ),
    )  # fmt: skip
    assert get_words(tile, 1, 1).view(np.float32) == 1 / 8 - 1


def test_take_reads_no_a():
    tile = make_tile()  # v0 is undefined
    take = {"b_step": Step.TAKE, "b_value": 0x3F800000}
    execute(tile, op("vector", a=0, rows=2, columns=3, **take, output=Output.WORDS, to=1, stride=1))
    assert get_words(tile, 1, 3, offset=1).view(np.float32).tolist() == [1, 1, 1]


def test_take_later_reads_a_and_flushes():
    check_fault(
        make_tile,
        [op("vector", a=0, rows=1, columns=1, c_step=Step.TAKE, output=Output.WORDS, to=1)],
        "v0 is undefined at slot 0, word 0, where words are read.",
    )
    tile = make_tile()
    take = {"b_step": Step.TAKE, "b_value": 0x80000001}
    execute(tile, op("vector", a=0, rows=1, columns=1, **take, output=Output.WORDS, to=1))
    assert get_words(tile, 1, 1) == 0x80000000


# Rows, heads, tokens


@pytest.mark.parametrize(
    ("operand", "which"),
    [
        (Operand.VECTOR, lambda row, token, head: 2 + 3 * row),
        (Operand.VECTOR_HEAD, lambda row, token, head: 2 + 3 * head),
        (Operand.VECTOR_TOKEN, lambda row, token, head: 2 + 3 * token),
        (Operand.VECTOR_ONE, lambda row, token, head: 2),
        (Operand.ROW, lambda row, token, head: 2 + 3 * token + head),
        (Operand.ROW_HEAD, lambda row, token, head: 2 + head),
        (Operand.ROW_TOKEN, lambda row, token, head: 2 + 3 * token),
    ],
)
@pytest.mark.parametrize("which_step", "bcd")
def test_which_row_of_an_operand_a_row_sees(operand, which, which_step):
    """Six rows of two heads; every slot and every row word holds its number."""
    tile = make_tile(LONG)
    set_words(tile, 0, np.arange(SLOTS, dtype=np.float32).repeat(32))
    set_rows(tile, 0, np.arange(32, dtype=np.float32))
    fields = {
        f"{which_step}_step": Step.TAKE,
        f"{which_step}_operand": operand,
        which_step: 0,
        f"{which_step}_value": 2,
        f"{which_step}_stride": 3,
    }
    execute(
        tile,
        op("vector", a=0, rows=6, heads=2, columns=4, **fields,
           output=Output.WORDS, to=1, stride=1),
    )  # fmt: skip
    for row in range(6):
        expected = which(row, row // 2, row % 2)
        assert get_words(tile, 1, 4, offset=row).view(np.float32).tolist() == [expected] * 4


def test_a_row_of_a_is_that_of_token_and_head():
    tile = make_tile()
    set_rows(tile, 0, np.arange(32))
    execute(
        tile,
        op("vector", a_row=True, a=0, a_offset=4, a_stride=7, rows=6, heads=3,
           output=Output.ROW, to=1, offset=1, stride=10),
    )  # fmt: skip
    assert get_rows(tile, 1, 3, first=1).tolist() == [4, 5, 6]
    assert get_rows(tile, 1, 3, first=11).tolist() == [11, 12, 13]
    assert tile.rows.defined[1].sum() == 6


def test_rows_that_do_not_take_part_are_as_if_absent():
    """Nothing of them is read, and nothing of them is written, in any destination."""
    tile = make_tile(LONG)
    set_words(tile, 0, np.ones((1, 32), np.float32), offset=2)  # only row 2 is there
    set_words(tile, 1, np.full((4, 32), 5, np.float32), stride=1)
    set_rows(tile, 1, np.full(4, 7, np.float32))
    set_rows(tile, 2, np.full(4, 9))
    execute(
        tile,
        op("vector", a=0, a_stride=1, rows=4, columns=32, masked=True, mask=0b10100,
           reduction=Reduction.SUM, total=1, total_pitch=1,
           output=Output.MXFP4, to=1, into=True, offset=0, stride=4,
           maximal=True, maxima=2, maxima_pitch=1),
    )  # fmt: skip
    assert get_rows(tile, 1, 4).view(np.float32).tolist() == [7, 7, 32, 7]
    assert get_rows(tile, 2, 4).tolist() == [9, 9, 125, 9]
    assert get_words(tile, 1, 32, offset=1).view(np.float32).tolist() == [5] * 32
    assert get_blocks(tile, 1, FP4, 1, 8).scales == 125
    assert get_words(tile, 1, 24 * 1, offset=3).view(np.float32).tolist() == [5] * 24


def test_an_empty_mask_still_renames():
    tile = make_tile()
    set_words(tile, 1, np.ones(32, np.float32))
    fields = {"a": 0, "rows": 4, "columns": 8, "masked": True, "output": Output.WORDS}
    execute(tile, op("vector", **fields, to=1, into=True))
    assert defined(tile, 1).sum() == 32
    execute(tile, op("vector", **fields, to=1))
    assert not defined(tile, 1).any()


def test_without_into_the_rest_is_undefined():
    tile = make_tile()
    set_words(tile, 0, np.ones(64, np.float32))
    for into, left in ((True, 64), (False, 5)):
        set_words(tile, 1, np.ones(64, np.float32))
        fields = {"a": 0, "rows": 1, "columns": 5, "output": Output.WORDS, "to": 1, "into": into}
        execute(tile, op("vector", **fields))
        assert defined(tile, 1).sum() == left


def test_in_place_and_shifted():
    """Everything is read before anything is written."""
    tile = make_tile()
    set_words(tile, 0, np.arange(128, dtype=np.float32).reshape(4, 32), stride=1)
    fields = {"a": 0, "a_stride": 1, "rows": 3, "columns": 32, "output": Output.WORDS, "to": 0}
    execute(tile, op("vector", **fields, into=True, offset=1, stride=1))
    assert get_words(tile, 0, 128).view(np.float32).tolist() == [*range(32), *range(96)]


# Ranges


@pytest.mark.parametrize("first", [0, 64])
@pytest.mark.parametrize(("lo", "hi"), [(-5, 7), (3, 70), (40, 41), (9, 9), (12, 4), (-9, 500)])
def test_elements_in_range(first, lo, hi):
    tile = make_tile(LONG)
    x = np.arange(1, 41, dtype=np.float32)
    set_words(tile, 0, x)
    fields = {"select": Select.ELEMENTS, "lo": lo, "hi": hi, "range_step": True, "first": first}
    execute(
        tile,
        op("vector", a=0, rows=4, heads=2, columns=40, **fields,
           output=Output.WORDS, to=1, stride=2),
    )  # fmt: skip
    for row in range(4):
        token = row // 2
        expected = [
            value if lo + token <= first + j < hi + token else 0 for j, value in enumerate(x)
        ]
        assert get_words(tile, 1, 40, offset=2 * row).view(np.float32).tolist() == expected


def test_what_is_not_in_range_is_zero_whatever_it_is():
    """Selected, not computed: NaN, infinities and minus zero too."""
    tile = make_tile()
    set_words(tile, 0, SPECIAL)
    execute(
        tile,
        op("vector", a=0, rows=1, columns=len(SPECIAL), select=Select.ELEMENTS, lo=0, hi=0,
           reduction=Reduction.MAXIMUM, total=1, output=Output.WORDS, to=1),
    )  # fmt: skip
    assert not get_words(tile, 1, len(SPECIAL)).any()
    assert get_rows(tile, 1, 1).view(np.float32) == -np.inf


def test_whole_rows_in_range():
    """A row without any position: its range is empty, whatever the columns are."""
    tile = make_tile()
    set_words(tile, 0, np.ones(4, np.float32))
    fields = {"select": Select.ROWS, "lo": 3, "hi": 3, "first": 0}
    execute(tile, op("vector", a=0, rows=1, columns=4, **fields, output=Output.WORDS, to=1))
    assert not get_words(tile, 1, 4).any()
    fields["hi"] = 4
    execute(tile, op("vector", a=0, rows=1, columns=4, **fields, output=Output.WORDS, to=1))
    assert get_words(tile, 1, 4).view(np.float32).tolist() == [1] * 4


def test_a_softmax_with_a_window_and_sinks():
    """Three instructions against the golden formula, rows of two tokens and two heads."""
    rng = np.random.default_rng(5)
    scores = rng.standard_normal((4, 50)).astype(np.float32) * 4
    sinks = np.float32([0.5, 9])
    lo, hi = np.array([20, 20, 21, 21]), np.array([45, 45, 46, 46])
    column = np.arange(50)
    visible = (lo[:, None] <= column) & (column < hi[:, None])
    p, total = probabilities(scores, visible, sinks[[0, 1, 0, 1]])
    tile = make_tile(LONG)
    set_words(tile, 0, scores, stride=2)
    set_rows(tile, 0, sinks)
    common = {"a": 0, "a_stride": 2, "rows": 4, "heads": 2, "columns": 50,
              "select": Select.ELEMENTS, "lo": 20, "hi": 45, "range_step": True}  # fmt: skip
    execute(
        tile,
        op("vector", **common, reduction=Reduction.MAXIMUM, total=1, total_pitch=2,
           resume=True, initial=0),
        op("vector", **common, b_step=Step.SUB, b_operand=Operand.ROW, b=1, b_stride=2,
           function=Function.EXP, reduction=Reduction.SUM, total=2, total_pitch=2,
           output=Output.WORDS, to=0, stride=2),
        op("vector", a_row=True, a=0, rows=4, heads=2, b_step=Step.SUB, b_operand=Operand.ROW, b=1,
           b_stride=2, function=Function.EXP, d_step=Step.ADD, d_operand=Operand.ROW, d=2,
           d_stride=2, output=Output.ROW, to=2, stride=2),
    )  # fmt: skip
    for row in range(4):
        assert get_words(tile, 0, 50, offset=2 * row).tolist() == bits_of(p[row]).tolist()
    assert get_rows(tile, 2, 4).tolist() == bits_of(total).tolist()


# Reductions


@pytest.mark.parametrize("reduction", [Reduction.MAXIMUM, Reduction.SUM, Reduction.SQUARES])
@pytest.mark.parametrize("chunks", [(96,), (32, 64), (64, 32), (32, 32, 32)])
def test_a_row_in_chunks_reduces_to_what_it_does_whole(reduction, chunks):
    rng = np.random.default_rng(6)
    whole = 90
    values = random_words(rng, (3 * whole), 0.02).reshape(3, whole)
    if reduction is Reduction.MAXIMUM:
        values[0, 80] = NAN
        initial = {"initial": 1, "initial_pitch": 1}
    else:
        initial = {"partials": 2, "partials_offset": 1}
    tile = make_tile(LONG)
    set_words(tile, 0, values, stride=3)
    common = {"rows": 3, "reduction": reduction, "total": 1, "total_pitch": 1, **initial}
    select = {"select": Select.ELEMENTS, "lo": 3, "hi": 85}
    execute(tile, op("vector", a=0, a_stride=3, columns=whole, **common, **select))
    expected = get_rows(tile, 1, 3)
    start, program = 0, []
    for chunk in chunks:
        program.append(
            op(
                "vector", a=0, a_offset=start // 32, a_stride=3, columns=min(chunk, whole - start),
                first=start, **common, **select, resume=start > 0,
                suspend=reduction is not Reduction.MAXIMUM and start + chunk < 96,
            )
        )  # fmt: skip
        start += chunk
    execute(tile, *program)
    assert get_rows(tile, 1, 3).tolist() == expected.tolist()


def test_a_suspended_maximum_is_just_a_maximum():
    tile = make_tile()
    set_words(tile, 0, np.float32([3, 5, 4]))
    fields = {"reduction": Reduction.MAXIMUM, "total": 1, "suspend": True}
    execute(tile, op("vector", a=0, rows=1, columns=3, **fields))
    assert get_rows(tile, 1, 1).view(np.float32) == 5
    assert not defined(tile, 0)[3:].any()


def test_partial_sums_are_where_they_are_said_to_be():
    """A slot per row, element i in partial i mod 32; the rest of the register goes or stays."""
    tile = make_tile(LONG)
    set_words(tile, 0, np.arange(40, dtype=np.float32))
    set_words(tile, 1, np.full(LONG.vector_length, 100, np.float32))
    fields = {"reduction": Reduction.SUM, "suspend": True, "partials": 1, "partials_offset": 3}
    execute(tile, op("vector", a=0, rows=2, columns=40, **fields, resume=True))
    expected = [100 + i + (32 + i if i < 8 else 0) for i in range(32)]
    for slot in (3, 4):
        assert get_words(tile, 1, 32, offset=slot).view(np.float32).tolist() == expected
    assert defined(tile, 1).all()
    execute(tile, op("vector", a=0, rows=2, columns=40, **fields))
    assert [int(defined(tile, 1)[32 * slot]) for slot in range(6)] == [0, 0, 0, 1, 1, 0]


def test_a_sum_starts_at_plus_zero_and_adds_what_is_masked():
    """-0 + +0 is +0, so that no row sums to minus zero."""
    tile = make_tile()
    set_words(tile, 0, np.full(3, -0.0, np.float32))
    execute(tile, op("vector", a=0, rows=1, columns=3, reduction=Reduction.SUM, total=0))
    assert get_rows(tile, 0, 1) == 0
    set_words(tile, 1, np.full(32, -0.0, np.float32))  # partials that came from a flushed sum
    fields = {"reduction": Reduction.SUM, "resume": True, "suspend": True, "partials": 1}
    masked = {"select": Select.ELEMENTS, "lo": 0, "hi": 1}
    execute(tile, op("vector", a=0, rows=1, columns=2, **fields, **masked))
    assert get_words(tile, 1, 4).tolist() == [0x80000000, 0, 0x80000000, 0x80000000]


@pytest.mark.parametrize("reduction", [Reduction.MAXIMUM, Reduction.SUM])
def test_nothing_is_reduced_to_where_it_starts(reduction):
    tile = make_tile()
    execute(tile, op("vector", a=0, rows=1, columns=0, reduction=reduction, total=1))
    start = 0 if reduction is Reduction.SUM else -np.inf
    assert get_rows(tile, 1, 1).view(np.float32) == start
    set_rows(tile, 2, np.uint32([0x80000001]))  # a start is flushed as any operand is
    fields = {"resume": True, "initial": 2}
    execute(
        tile, op("vector", a=0, rows=1, columns=0, reduction=Reduction.MAXIMUM, total=1, **fields)
    )
    assert get_rows(tile, 1, 1) == 0x80000000


# Rotation


@pytest.mark.parametrize("pairing", Pairing)
@pytest.mark.parametrize("head", [2, 30, 32, 40, 64])
def test_rotation_is_rope(pairing, head):
    """Two tokens, three heads."""
    rng = np.random.default_rng(head)
    x = random_words(rng, 6 * head, 0.02).view(np.float32).reshape(6, head)
    angle = rng.random((2, head // 2)) * 7
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    element = np.arange(head)
    if pairing is Pairing.ADJACENT:
        pair, second = element // 2, element % 2 == 1
    else:
        pair, second = element % (head // 2), element >= head // 2
    slots = -(-head // 32)
    tile = make_tile(LONG)
    set_words(tile, 0, x, stride=slots)
    set_words(tile, 1, cos[:, pair], stride=slots)
    set_words(tile, 3, np.where(second, sin[:, pair], -sin[:, pair]), offset=1, stride=2 * slots)
    step = Step.ROTATE_ADJACENT if pairing is Pairing.ADJACENT else Step.ROTATE_HALVES
    execute(
        tile,
        op("vector", a=0, a_stride=slots, rows=6, heads=3, columns=head, c_step=step,
           c_operand=Operand.VECTOR_TOKEN, c=1, c_stride=slots,
           d_operand=Operand.VECTOR_TOKEN, d=3, d_value=1, d_stride=2 * slots,
           output=Output.WORDS, to=2, stride=slots),
    )  # fmt: skip
    for row in range(6):
        expected = rope(x[row], cos[row // 3], sin[row // 3], pairing)
        got = get_words(tile, 2, head, offset=slots * row)
        assert got.tolist() == bits_of(expected).tolist()


# Quantising


@pytest.mark.parametrize("fmt", [FP4, INT8])
@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("columns", [1, 32, 33, 70])
def test_quantised_rows_and_their_maxima(fmt, rule, columns):
    rng = np.random.default_rng(columns)
    x = random_words(rng, 4 * columns, 0.01).view(np.float32).reshape(4, columns)
    x *= np.exp2(rng.integers(-60, 60, (4, 1))).astype(np.float32)
    expected = quantise(x, fmt, ScaleRule(rule.name.lower()))
    stride = expected.blocks + 1
    tile = make_tile(LONG)
    set_words(tile, 0, x, stride=3)
    execute(
        tile,
        op("vector", a=0, a_stride=3, rows=4, columns=columns, output=Output[fmt.name], rule=rule,
           to=1, offset=2, stride=stride, maximal=True, maxima=0, maxima_offset=5, maxima_pitch=1),
    )  # fmt: skip
    for row in range(4):
        got = get_blocks(tile, 1, fmt, expected.blocks, 2 + stride * row)
        assert got.codes.tolist() == expected.codes[row].tolist()
        assert got.scales.tolist() == expected.scales[row].tolist()
    assert get_rows(tile, 0, 4, first=5).tolist() == expected.maximum_scale.tolist()
    assert defined(tile, 1).sum() == 4 * expected.blocks * 8


def test_maxima_of_tokens_and_resumed():
    """Heads of a token share one; what was there takes part, what is NaN does not."""
    powers = np.float32([[1, 4, 2, 0.5], [8, 1, 1, 64], [np.nan, np.inf, np.nan, np.nan]])
    tile = make_tile(LONG)
    set_words(tile, 0, powers.reshape(12, 1), stride=1)
    set_rows(tile, 0, np.arange(20) + 125)
    common = {"a": 0, "a_stride": 1, "rows": 12, "heads": 4, "columns": 1, "output": Output.MXINT8,
              "to": 1, "stride": 1, "maximal": True}  # fmt: skip
    execute(
        tile,
        op("vector", **common, maxima=1, maxima_pitch=4),
        op("vector", **common, maxima=2, maxima_offset=3, maxima_pitch=2, maxima_token=True),
        op("vector", **common, maxima=0, maxima_pitch=1, maxima_token=True, maxima_resume=True),
    )
    assert get_rows(tile, 1, 12).tolist() == [127, 129, 128, 126, 130, 127, 127, 133, 0, 0, 0, 0]
    assert tile.rows.words[2, [3, 5, 7]].tolist() == [129, 133, 0]
    assert tile.rows.defined[2].nonzero()[0].tolist() == [3, 5, 7]
    assert get_rows(tile, 0, 4).tolist() == [129, 133, 127, 128]


def test_maxima_in_parts_are_those_of_the_whole():
    rng = np.random.default_rng(8)
    x = (rng.standard_normal((3, 96)) * np.exp2(rng.integers(-9, 9, (3, 96)))).astype(np.float32)
    tile = make_tile(LONG)
    set_words(tile, 0, x, stride=3)
    program = [
        op("vector", a=0, a_offset=part, a_stride=3, rows=3, columns=32, output=Output.MXFP4, to=1,
           into=part > 0, offset=part, stride=3, maximal=True, maxima=0, maxima_pitch=1,
           maxima_resume=part > 0)
        for part in range(3)
    ]  # fmt: skip
    execute(tile, *program)
    whole = quantise(x, FP4)
    assert get_rows(tile, 0, 3).tolist() == whole.maximum_scale.tolist()
    for row in range(3):
        assert get_blocks(tile, 1, FP4, 3, 3 * row).codes.tolist() == whole.codes[row].tolist()


def test_quantising_is_behind_the_range():
    """What is masked is +0 in the block, and does not count for its scale."""
    tile = make_tile()
    set_words(tile, 0, np.float32([1, np.nan, 1000, -1]))
    fields = {"select": Select.ELEMENTS, "lo": 0, "hi": 1}
    execute(tile, op("vector", a=0, rows=1, columns=4, **fields, output=Output.MXINT8, to=1))
    block = get_blocks(tile, 1, INT8, 1)
    assert block.scales.tolist() == [127]
    assert block.codes[0, :4].tolist() == [64, 0, 0, 0]


# Faults


ROTATION = {
    "c_step": Step.ROTATE_HALVES, "c_operand": Operand.VECTOR, "d_operand": Operand.VECTOR,
}  # fmt: skip


def prepared():
    tile = make_tile(LONG)
    set_words(tile, 0, np.ones(LONG.vector_length, np.float32))
    set_words(tile, 1, np.full(64, 300))
    set_rows(tile, 0, np.ones(32, np.float32))
    set_rows(tile, 1, np.full(32, 256))
    set_blocks(tile, 2, quantise(np.ones((1, 64), np.float32), FP4))
    return tile


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"first": 8}, "first is 8, it must be a multiple of 32."),
        ({"a_row": True, "columns": 2}, "columns is 2, of a row register it must be 1."),
        ({"output": Output.ROW, "columns": 2}, "columns is 2, of a row register it must be 1."),
        ({"output": Output.MXFP4, "columns": 0}, "columns is 0, of blocks it must be at least 1."),
        ({"rows": 3, "heads": 2}, "rows is 3, it must be a multiple of heads, which is 2."),
        ({"heads": 0}, "rows is 2, it must be a multiple of heads, which is 0."),
        ({"rows": 33, "masked": True}, "rows is 33, with a mask it must be at most 32."),
        ({"b_step": Step.ROTATE_HALVES, "b_operand": Operand.VECTOR},
         "b_step is rotate_halves, only c_step may be that."),
        ({"d_step": Step.ROTATE_ADJACENT, "d_operand": Operand.VECTOR},
         "d_step is rotate_adjacent, only c_step may be that."),
        ({"c_step": Step.ROTATE_HALVES}, "c_operand is constant, rotation takes a vector."),
        ({"c_step": Step.ROTATE_HALVES, "c_operand": Operand.ROW},
         "c_operand is row, rotation takes a vector."),
        ({"c_step": Step.ROTATE_HALVES, "c_operand": Operand.VECTOR},
         "d_operand is constant, rotation takes a vector."),
        ({**ROTATION, "columns": 3}, "columns is 3, rotation takes an even number."),
        ({**ROTATION, "d_step": Step.ADD}, "d_step is add, with rotation it must be none."),
        ({**ROTATION, "function": Function.EXP},
         "rotate_halves and function exp do not go together."),
        ({**ROTATION, "reduction": Reduction.SQUARES},
         "rotate_halves and reduction squares do not go together."),
        ({**ROTATION, "reduction": Reduction.SUM},
         "reduction is sum, with rotation it must be none."),
        ({"function": Function.GATE, "reduction": Reduction.SQUARES},
         "function gate and reduction squares do not go together."),
        ({"b_step": Step.LDEXP_MXFP4, "b_value": 256}, "b holds 256, scales are 0 to 255."),
        ({"d_step": Step.LDEXP_MXINT8, "d_operand": Operand.VECTOR_ONE, "d": 1},
         "d holds 300, scales are 0 to 255."),
        ({"c_step": Step.LDEXP_MXINT8, "c_operand": Operand.ROW, "c": 1},
         "c holds 256, scales are 0 to 255."),
        ({"output": Output.MXFP4, "maximal": True, "maxima": 1, "maxima_resume": True},
         "r1 holds 256, scales are 0 to 255."),
        ({"a": 24}, "Register 24 is no vector register, they are 0 to 23."),
        ({"to": 31}, "Register 31 is no vector register, they are 0 to 23."),
        ({"a": 2}, "v2 is MXFP4 blocks at slot 0, word 0, where words are read."),
        ({"a": 3}, "v3 is undefined at slot 0, word 0, where words are read."),
        ({"a_offset": SLOTS}, "v0 has 1024 words, 4 from word 1024 are wanted."),
        ({"b_step": Step.ADD, "b_operand": Operand.ROW, "b": 5},
         "r5 is read at row 0, which was never written."),
        ({"b_step": Step.ADD, "b_operand": Operand.ROW_HEAD, "b_value": 40},
         "r0 has rows 0 to 31, row 40 is wanted."),
        ({"output": Output.WORDS, "to": 4, "reduction": Reduction.SUM, "suspend": True,
          "partials": 4}, "to and partials are both v4."),
        ({"output": Output.ROW, "columns": 1, "to": 4, "reduction": Reduction.SUM, "total": 4},
         "to and total are both r4."),
        ({"output": Output.MXFP4, "to": 4, "maximal": True, "maxima": 4,
          "reduction": Reduction.MAXIMUM, "total": 4}, "maxima and total are both r4."),
        # What is written last does not fit, so what would be written first is not written either.
        ({"reduction": Reduction.MAXIMUM, "total": 0, "offset": 31},
         "v4 has 1024 words, 4 from word 1024 are wanted."),
        ({"reduction": Reduction.SUM, "partials": 3, "suspend": True, "offset": 31},
         "v4 has 1024 words, 4 from word 1024 are wanted."),
        ({"reduction": Reduction.SUM, "total": 0, "resume": True, "partials": 3},
         "v3 is undefined at slot 0, word 0, where words are read."),
        ({"reduction": Reduction.SUM, "total": 0, "total_offset": 31},
         "r0 has rows 0 to 31, row 32 is wanted."),
        ({"output": Output.MXFP4, "offset": 127, "maximal": True, "maxima": 0, "maxima_pitch": 1},
         "v4 has 1024 words, 8 from word 1024 are wanted."),
        ({"output": Output.MXFP4, "maximal": True, "maxima": 7, "maxima_resume": True,
          "reduction": Reduction.MAXIMUM, "total": 0},
         "r7 is read at row 0, which was never written."),
    ],
)  # fmt: skip
def test_faults(fields, cause):
    complete = {"a": 0, "rows": 2, "columns": 4, "output": Output.WORDS, "to": 4, "stride": 1,
                "total_pitch": 1, **fields}  # fmt: skip
    before = op("add", to=S(1), a=S(0), b=1)
    check_fault(prepared, [before, op("vector", **complete)], cause)


def test_one_destination_may_be_any_other_kind_of_register():
    """v4 and r4 have nothing to do with each other, nor has what is not written."""
    tile = prepared()
    fields = {"output": Output.WORDS, "to": 4, "total": 4, "partials": 4, "maxima": 4,
              "maximal": True, "suspend": True, "reduction": Reduction.MAXIMUM}  # fmt: skip
    execute(tile, op("vector", a=0, rows=1, columns=4, **fields))


# Top-k


def top_k(values, k):
    """Indices of the greatest, by the text: zeros equal, NaN below -Inf, then lowest first."""

    def compare(i, j):
        a, b = values[i], values[j]
        for x, y, sign in ((a, b, 1), (b, a, -1)):
            if np.isnan(x) and not np.isnan(y):
                return sign
        if not np.isnan(a) and a != b:
            return -1 if a > b else 1
        return i - j

    return sorted(range(len(values)), key=functools.cmp_to_key(compare))[:k]


def flushed(words):
    return fp32.flush(np.asarray(words, np.uint32).view(np.float32))


@pytest.mark.parametrize("columns", [1, 5, 32, 45, 96])
@pytest.mark.parametrize("special", [0, 0.6])
def test_topk_of_every_length(columns, special):
    rng = np.random.default_rng(columns)
    words = random_words(rng, 3 * columns, special).reshape(3, columns)
    words[rng.random(words.shape) < 0.3] = words[0, 0]  # ties
    tile = make_tile(LONG)
    set_words(tile, 0, words, offset=1, stride=4)
    for k in {1, min(2, columns), columns // 2 or 1, columns}:
        execute(
            tile,
            op("topk", a=0, a_offset=1, a_stride=4, rows=3, columns=columns, k=k, indices=1,
               values=2, offset=2, stride=5),
        )  # fmt: skip
        for row in range(3):
            expected = top_k(flushed(words[row]), k)
            assert get_words(tile, 1, k, offset=2 + 5 * row).tolist() == expected
            got = get_words(tile, 2, k, offset=2 + 5 * row)
            assert got.tolist() == words[row, expected].tolist()  # as they are, not flushed
        assert defined(tile, 1).sum() == defined(tile, 2).sum() == 3 * k


@pytest.mark.parametrize("segment", [1, 5, 31, 32])
@pytest.mark.parametrize("mask", [None, 0b1, 0b101, 0b1110, 0xFFFFFFF0 | 0b1000])
def test_gaps_and_masked_slots_do_not_count(segment, mask):
    """Nothing of them is read; indices count them."""
    rng = np.random.default_rng(segment)
    columns = 110  # the last slot is not whole
    slots = [s for s in range(4) if mask is None or mask >> s & 1]
    counting = [c for c in range(columns) if c % 32 < segment and c // 32 in slots]
    words = random_words(rng, columns, 0)
    tile, carried = make_tile(LONG), random_words(rng, columns, 0.5)
    for c in counting:
        tile.vectors.write_words(0, np.array([c]), words[None, c : c + 1])
        tile.vectors.write_words(3, np.array([c]), carried[None, c : c + 1])
    fields = {} if mask is None else {"slots_masked": True, "slot_mask": mask}
    k = min(len(counting), 7)
    execute(
        tile,
        op("topk", a=0, rows=1, columns=columns, segment=segment, **fields, k=k, indices=1,
           values=2, carry=True, carried=3),
    )  # fmt: skip
    best = [counting[i] for i in top_k(words[counting].view(np.float32), k)]
    assert get_words(tile, 1, k).tolist() == best
    assert get_words(tile, 2, k).tolist() == carried[best].tolist()


def test_topk_without_into_forgets_the_rest():
    tile = make_tile()
    for into, left in ((True, 64), (False, 3)):
        for register in range(3):
            set_words(tile, register, np.ones(64, np.float32))
        execute(tile, op("topk", a=0, rows=1, columns=9, k=3, indices=1, values=2, into=into))
        assert defined(tile, 1).sum() == defined(tile, 2).sum() == left


def test_topk_in_place():
    tile = make_tile()
    set_words(tile, 0, np.float32([1, 3, 2]))
    execute(tile, op("topk", a=0, rows=1, columns=3, k=3, indices=1, values=0))
    assert get_words(tile, 0, 3).view(np.float32).tolist() == [3, 2, 1]
    assert get_words(tile, 1, 3).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"k": 0}, "k is 0, with 40 elements it must be 1 to 40."),
        ({"k": 41}, "k is 41, with 40 elements it must be 1 to 40."),
        ({"k": 3, "segment": 1}, "k is 3, with 2 elements it must be 1 to 2."),
        ({"k": 33, "slots_masked": True, "slot_mask": 1},
         "k is 33, with 32 elements it must be 1 to 32."),
        ({"columns": 0}, "k is 1, with 0 elements it must be 1 to 0."),
        ({"columns": 1025, "slots_masked": True},
         "columns is 1025, with a mask there are 32 slots."),
        ({"indices": 5, "values": 5}, "indices and values are both v5."),
        ({"carry": True, "carried": 3}, "v3 is undefined at slot 0, word 0, where words are read."),
        ({"a": 2}, "v2 is MXFP4 blocks at slot 0, word 0, where words are read."),
        ({"k": 40, "offset": 31}, "v4 has 1024 words, 40 from word 992 are wanted."),
    ],
)  # fmt: skip
def test_faults_of_topk(fields, cause):
    complete = {"a": 0, "rows": 1, "columns": 40, "k": 1, "indices": 4, "values": 0, **fields}
    check_fault(prepared, [op("topk", **complete)], cause)
