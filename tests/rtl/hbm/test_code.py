"""The code as a table, and its check bits in numpy."""

import numpy as np

from rtl.hbm.code import CHECK_BITS, COLUMNS, DATA_BITS, check_byte
from sim.hbm.secded import check_bytes

ALL_COLUMNS = (*COLUMNS, *(1 << j for j in range(CHECK_BITS)))


def test_columns_are_odd_and_different():
    assert len(COLUMNS) == DATA_BITS
    assert len(set(ALL_COLUMNS)) == DATA_BITS + CHECK_BITS
    assert all(column.bit_count() % 2 for column in ALL_COLUMNS)


def test_every_check_bit_covers_as_many_data_bits():
    assert {sum(column >> j & 1 for column in COLUMNS) for j in range(CHECK_BITS)} == {26}


def test_no_column_is_a_sum_of_two():
    sums = {a ^ b for a in ALL_COLUMNS for b in ALL_COLUMNS}
    assert not sums & set(ALL_COLUMNS)


def test_documented_check_bytes():
    assert check_byte(0) == 0x00
    assert check_byte((1 << 64) - 1) == 0x00
    assert check_byte(0xDBDB_DBDB_DBDB_DBDB) == 0x39


def test_numpy_agrees_with_the_definition():
    words = np.random.default_rng(1).integers(0, 256, (500, 8), np.uint8)
    expected = [check_byte(int.from_bytes(word.tobytes(), "little")) for word in words]
    assert check_bytes(words).tolist() == expected
