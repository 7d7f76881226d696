"""The code that corrects single errors and detects double ones: plain tables.

Eight check bits protect 64 data bits (Hsiao). Bit i of the data takes part in the check bits that
are set in ``COLUMNS[i]``; check bit j alone is a column ``1 << j``. All columns are different and
have an odd number of ones, so one error gives an odd syndrome that names it, and two give an even
one that is not zero. The columns are all 56 bytes with three ones, in ascending order, and the
eight rotations of ``0b11111``: every check bit is the parity of 26 data bits.

The code is linear: the check byte of zero is zero.
"""

from __future__ import annotations

DATA_BITS = 64
CHECK_BITS = 8

COLUMNS = (
    *(byte for byte in range(256) if byte.bit_count() == 3),
    *((0b11111 << i | 0b11111 >> (8 - i)) & 0xFF for i in range(8)),
)
"""For each data bit, the check bits that it takes part in."""


def check_byte(word: int) -> int:
    """Return the check byte of a 64-bit word."""
    check = 0
    for i, column in enumerate(COLUMNS):
        if word >> i & 1:
            check ^= column
    return check
