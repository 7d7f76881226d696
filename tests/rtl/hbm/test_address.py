"""Accesses and where they lie."""

import numpy as np
import pytest

from rtl.hbm.address import AddressMap
from rtl.hbm.interface import COLUMNS
from rtl.hbm.timing import TIMINGS


@pytest.mark.parametrize("low_columns", [0, 1, 5])
@pytest.mark.parametrize("name", TIMINGS)
def test_every_access_has_a_place_of_its_own(name, low_columns):
    address = AddressMap.of(TIMINGS[name], low_columns)
    accesses = np.arange(4 * address.banks * COLUMNS)
    bank, row, column = address.locate(accesses)
    assert (address.access(bank, row, column) == accesses).all()
    assert bank.max() == address.banks - 1
    assert row.max() == 3
    assert column.max() == COLUMNS - 1


def test_groups_first_then_columns_then_banks():
    address = AddressMap.of(TIMINGS["hbm3-6400"])
    bank, row, column = address.locate(np.arange(16 * 32 + 1))
    assert bank[:5].tolist() == [0, 1, 2, 3, 0]
    assert column[:5].tolist() == [0, 0, 0, 0, 1]
    assert (bank[128], column[128]) == (4, 0)
    assert row.tolist() == [0] * 512 + [1]


def test_low_columns_keep_neighbours_together():
    bank, _, column = AddressMap.of(TIMINGS["hbm3-6400"], 1).locate(np.arange(4))
    assert bank.tolist() == [0, 0, 1, 1]
    assert column.tolist() == [0, 1, 0, 1]
