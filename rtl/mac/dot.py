"""The exact dot product of two blocks of 32 nibbles."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Const, Module, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.formats import BLOCK
from rtl.leaf import Leaf
from rtl.mac.operand import CORRECTION, SIGNIFICAND, STATIONARY, STREAM

DOT = signed(14)
"""Shape of a nibble dot product: at most 32 * 15 * 15 in magnitude."""


class NibbleDot(Leaf):
    """Dot product of a weight block and an activation block, for every pair of nibble kinds.

    The sum is written as a plain expression on purpose: Yosys merges the products and the sum into
    one carry-save tree, and Verilator evaluates it as 32 multiplications.

    Members
    -------
    weights : In
        32 `STREAM` operands.
    activations : In
        32 `STATIONARY` operands.
    correction : In
        `rtl.mac.operand.correction` of `activations`.
    dot : Out
        The exact sum.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "weights": In(data.ArrayLayout(STREAM, BLOCK)),
                "activations": In(data.ArrayLayout(STATIONARY, BLOCK)),
                "correction": In(CORRECTION),
                "dot": Out(DOT),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "mac_nibble_dot"

    def build(self, platform: Any) -> Module:
        """Return the multiplier array."""
        m = Module()
        # Modulo 2**14 throughout: the tree has no bit that the result has not.
        total: Value = self.correction.as_unsigned()
        for i in range(BLOCK):
            activation = self.activations[i]
            product = Signal(9, name=f"product{i}")
            m.d.comb += product.eq(
                (self.weights[i] ^ activation.sign.replicate(STREAM.width)) * activation.magnitude
            )
            total = (total + product)[: DOT.width]
        m.d.comb += self.dot.eq(total)
        return m


class SignificandDot(Leaf):
    """Dot product of two MXFP4 blocks, for engines without MXINT8.

    Products of 2-bit significands are shifted by the sum of both shifts. A negative product enters
    the sum as ones' complement, 255 too large and one too small modulo 256; the signs are counted
    once.

    Members
    -------
    weights, activations : In
        32 `SIGNIFICAND` operands each.
    dot : Out
        The exact sum.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "weights": In(data.ArrayLayout(SIGNIFICAND, BLOCK)),
                "activations": In(data.ArrayLayout(SIGNIFICAND, BLOCK)),
                "dot": Out(DOT),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "mac_significand_dot"

    def build(self, platform: Any) -> Module:
        """Return the multiplier array."""
        m = Module()
        total: Value = Const(0, 13)
        negatives: Value = Const(0, 6)
        for i in range(BLOCK):
            weight, activation = self.weights[i], self.activations[i]
            sign = Signal(name=f"sign{i}")
            product = Signal(4, name=f"product{i}")
            term = Signal(8, name=f"term{i}")
            m.d.comb += [
                sign.eq(weight.sign ^ activation.sign),
                product.eq(weight.significand * activation.significand),
            ]
            shifted: Value = Const(0, 8)
            for distance in range(5):
                chosen = Signal(name=f"shift{i}_{distance}")
                m.d.comb += chosen.eq(
                    reduce(
                        or_,
                        (
                            weight.shift[j] & activation.shift[distance - j]
                            for j in range(3)
                            if 0 <= distance - j < 3
                        ),
                    )
                )
                shifted = shifted | ((product & chosen.replicate(4)) << distance)
            m.d.comb += term.eq(shifted[:8] ^ sign.replicate(8))
            total = (total + term)[:13]
            negatives = (negatives + sign)[:6]
        # Each negative term is 255 - p instead of -p.
        m.d.comb += self.dot.eq((total + negatives - (negatives << 8))[:14].as_signed())
        return m
