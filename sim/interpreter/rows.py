"""Which rows an instruction works on, and where their operands are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl.core.isa import MASK_ROWS
from sim.interpreter.errors import Fault

Integers = NDArray[np.integer[Any]]


class Rows:
    """The rows that take part, each a pair of a token and a head.

    Parameters
    ----------
    rows
        Rows of the instruction.
    heads
        Rows that share a token; divides `rows`.
    masked, mask
        Whether, and which, only some take part.

    Attributes
    ----------
    index, token, head : integer [rows that take part]
        Row, and what it is.
    """

    def __init__(self, rows: int, heads: int, masked: bool, mask: int) -> None:
        if heads < 1 or rows % heads:
            raise Fault(f"rows is {rows}, it must be a multiple of heads, which is {heads}")
        if masked and rows > MASK_ROWS:
            raise Fault(f"rows is {rows}, with a mask it must be at most {MASK_ROWS}")
        index = np.arange(rows)
        self.index = index[(mask >> index & 1).astype(bool)] if masked else index
        self.token, self.head = np.divmod(self.index, heads)

    @classmethod
    def of(cls, o: SimpleNamespace) -> Rows:
        """Return the rows of an instruction with operands `rows`, `heads`, `masked`, `mask`."""
        return cls(o.rows, getattr(o, "heads", 1), o.masked, o.mask)

    def __len__(self) -> int:
        return self.index.size

    def places(self, first: int, pitch: int) -> Integers:
        """Return rows of a row register: `first` is token 0, head 0, tokens are `pitch` apart."""
        return first + self.token * pitch + self.head

    def range(self, o: SimpleNamespace) -> tuple[Integers, Integers]:
        """Return the range [lo, hi) of every row, integer [rows, 1] each."""
        step = self.token[:, None] * o.range_step
        return o.lo + step, o.hi + step
