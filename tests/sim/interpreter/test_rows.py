"""Rows: tokens and heads, masks, places, ranges."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sim.interpreter.errors import Fault
from sim.interpreter.rows import Rows


def test_a_row_is_a_pair_of_token_and_head():
    rows = Rows(6, 3, False, 0)
    assert rows.index.tolist() == [0, 1, 2, 3, 4, 5]
    assert rows.token.tolist() == [0, 0, 0, 1, 1, 1]
    assert rows.head.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("mask", "left"),
    [(0, []), (0b1, [0]), (0b100000, [5]), (0b101010, [1, 3, 5]), (0xFFFFFFFF, [*range(6)])],
)
def test_only_rows_in_the_mask_take_part(mask, left):
    rows = Rows(6, 2, True, mask)
    assert rows.index.tolist() == left
    assert rows.token.tolist() == [row // 2 for row in left]
    assert rows.head.tolist() == [row % 2 for row in left]
    assert len(rows) == len(left)


def test_without_masked_the_mask_does_not_matter():
    assert len(Rows(40, 1, False, 1)) == 40


def test_a_mask_has_32_bits():
    assert Rows(32, 1, True, 1 << 31).index.tolist() == [31]
    with pytest.raises(Fault, match=r"^rows is 33, with a mask it must be at most 32$"):
        Rows(33, 1, True, 1)


@pytest.mark.parametrize(("rows", "heads"), [(5, 2), (1, 3), (4, 0)])
def test_rows_are_a_multiple_of_heads(rows, heads):
    sentence = f"^rows is {rows}, it must be a multiple of heads, which is {heads}$"
    with pytest.raises(Fault, match=sentence):
        Rows(rows, heads, False, 0)


def test_no_rows():
    assert len(Rows(0, 4, False, 0)) == 0


def test_places_in_a_row_register():
    """Heads are neighbours, tokens a pitch apart."""
    assert Rows(6, 3, False, 0).places(10, 5).tolist() == [10, 11, 12, 15, 16, 17]
    assert Rows(3, 1, False, 0).places(2, 0).tolist() == [2, 2, 2]
    assert Rows(6, 3, True, 0b10010).places(0, 3).tolist() == [1, 4]


@pytest.mark.parametrize("step", [0, 1])
def test_ranges_move_with_the_token_and_not_with_the_head(step):
    o = SimpleNamespace(lo=-2, hi=5, range_step=step)
    lo, hi = Rows(4, 2, False, 0).range(o)
    assert lo.tolist() == [[-2], [-2], [-2 + step], [-2 + step]]
    assert np.array_equal(hi - lo, np.full((4, 1), 7))


def test_an_instruction_without_heads_has_one():
    o = SimpleNamespace(rows=3, masked=True, mask=0b110)
    assert Rows.of(o).token.tolist() == [1, 2]
    o = SimpleNamespace(rows=4, heads=2, masked=False, mask=0)
    assert Rows.of(o).token.tolist() == [0, 0, 1, 1]
