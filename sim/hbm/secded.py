"""Check bits of beats in numpy, by the table of `rtl.hbm.code`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtl.hbm.code import check_byte

Bytes = NDArray[np.uint8]

_BYTE_CHECK = np.array(
    [[check_byte(value << 8 * place) for value in range(256)] for place in range(8)], np.uint8
)
"""What each value of each byte of a word adds to its check byte: the code is linear."""


def check_bytes(words: Bytes) -> Bytes:
    """Return the check byte of 64-bit words, given as bytes, the lowest first.

    Parameters
    ----------
    words : uint8 [..., 8]
        The words.
    """
    checks = np.zeros(words.shape[:-1], np.uint8)
    for place in range(8):
        checks ^= _BYTE_CHECK[place][words[..., place]]
    return checks
