"""Where an access of a pseudo-channel lies in its banks.

Accesses of 32 bytes are numbered from 0. From the lowest bit up, the number of an access is made of

    [column, low bits] [bank group] [column, the rest] [bank within the group] [row]

so that consecutive accesses alternate between bank groups, as the data bus needs them to at full
rate, then walk through the open rows, and only then leave for the next bank. With `low_columns` 0
every access changes the group; with 1, 64 bytes stay in one bank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtl.hbm.interface import COLUMN_BITS
from rtl.hbm.timing import Timing

Indices = NDArray[np.int64]


class Location(NamedTuple):
    """Bank, row and column of accesses: whole numbers, or arrays of them."""

    bank: Indices
    row: Indices
    column: Indices


@dataclass(frozen=True)
class AddressMap:
    """The order of accesses in a pseudo-channel.

    Attributes
    ----------
    banks, bank_groups
        As in the timing set, powers of two.
    low_columns
        Bits of the column below those of the bank group.
    """

    banks: int
    bank_groups: int
    low_columns: int = 0

    @classmethod
    def of(cls, timing: Timing, low_columns: int = 0) -> AddressMap:
        """Return the map for the banks of `timing`."""
        return cls(timing.banks, timing.bank_groups, low_columns)

    @property
    def _widths(self) -> tuple[int, int, int, int]:
        groups = self.bank_groups.bit_length() - 1
        within = self.banks.bit_length() - 1 - groups
        return self.low_columns, groups, COLUMN_BITS - self.low_columns, within

    def locate(self, access: Indices | int) -> Location:
        """Return where accesses lie."""
        rest = np.asarray(access, np.int64)
        parts = []
        for width in self._widths:
            parts.append(rest & ((1 << width) - 1))
            rest = rest >> width
        low, group, high, within = parts
        _, groups, _, _ = self._widths
        return Location(within << groups | group, rest, high << self.low_columns | low)

    def access(self, bank: Indices | int, row: Indices | int, column: Indices | int) -> Indices:
        """Return the numbers of the accesses at given places: the inverse of `locate`."""
        bank, row, column = (np.asarray(part, np.int64) for part in (bank, row, column))
        _, groups, _, _ = self._widths
        low_mask = (1 << self.low_columns) - 1
        parts = (
            column & low_mask,
            bank & (self.bank_groups - 1),
            column >> self.low_columns,
            bank >> groups,
        )
        number, shift = np.zeros_like(row), 0
        for part, width in zip(parts, self._widths, strict=True):
            number = number | part << shift
            shift += width
        return number | row << shift
