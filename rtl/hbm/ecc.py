"""Encoder and decoder of the code that protects HBM data; `rtl.hbm.code` says which it is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import xor
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.hbm.code import CHECK_BITS, COLUMNS, DATA_BITS
from rtl.leaf import Leaf


def _parity(bits: Iterable[Value]) -> Value:
    return reduce(xor, bits)


def _check(data: Value) -> Value:
    """Return the check byte of 64 data bits."""
    return Cat(
        _parity(data[i] for i, column in enumerate(COLUMNS) if column >> j & 1)
        for j in range(CHECK_BITS)
    )


class SecdedEncoder(Leaf):
    """Make the check byte of a word. Combinational.

    Members
    -------
    data : In
        The word.
    check : Out
        Its check byte.
    """

    def __init__(self) -> None:
        super().__init__({"data": In(DATA_BITS), "check": Out(CHECK_BITS)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "hbm_secded_encoder"

    def build(self, platform: Any) -> Module:
        """Return eight parity trees."""
        m = Module()
        m.d.comb += self.check.eq(_check(self.data))
        return m


class SecdedDecoder(Leaf):
    """Correct a word as it was read. Combinational.

    One wrong bit of data or check byte is corrected, two are detected. More may be taken for
    either, as with every code of this size.

    Members
    -------
    data, check : In
        The word and its check byte.
    corrected : Out
        The word, with a single error corrected; as read where that is not possible.
    single : Out
        One bit, of data or check byte, was wrong: `corrected` is right.
    uncorrectable : Out
        More than one was: `corrected` is not to be trusted.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "data": In(DATA_BITS),
                "check": In(CHECK_BITS),
                "corrected": Out(DATA_BITS),
                "single": Out(1),
                "uncorrectable": Out(1),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "hbm_secded_decoder"

    def build(self, platform: Any) -> Module:
        """Return the parity trees, and a comparator for each bit."""
        m = Module()
        syndrome = Signal(CHECK_BITS)
        wrong = Signal(DATA_BITS)
        wrong_check = Signal(CHECK_BITS)
        m.d.comb += [
            syndrome.eq(_check(self.data) ^ self.check),
            wrong.eq(Cat(syndrome == column for column in COLUMNS)),
            wrong_check.eq(Cat(syndrome == 1 << j for j in range(CHECK_BITS))),
            self.corrected.eq(self.data ^ wrong),
            self.single.eq(wrong.any() | wrong_check.any()),
            self.uncorrectable.eq(syndrome.any() & ~self.single),
        ]
        return m
