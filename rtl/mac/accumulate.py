"""Window accumulation: one shift, one floor, one add per block pair."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.leaf import Leaf
from rtl.mac.geometry import SHIFT_BITS, MacGeometry


class AccumulatorLayout(data.StructLayout):
    """An accumulator as it is stored.

    Members
    -------
    sum : signed
        The window, in units of its lsb.
    nan : unsigned(1)
        A block pair had a NaN scale.
    overflow : unsigned(1)
        The window overflowed, which the anchor rules out for every valid operand.
    """

    def __init__(self, geometry: MacGeometry) -> None:
        super().__init__({"sum": signed(geometry.config.acc_bits), "nan": 1, "overflow": 1})


class WindowAdd(Leaf):
    """Shift a block dot product into the window and add it.

    The dot product enters at the top of the window, where the anchor puts it, and is shifted right,
    arithmetically, by how far its block pair lies below the anchor.

    Members
    -------
    dot : In
        Block dot product, its magnitude bound 2**B aligned to the top of the input.
    distance : In
        Binades below the anchor.
    nan : In
        The block pair has a NaN scale.
    clear : In
        Start from zero.
    previous, updated : In, Out
        The accumulator.
    """

    def __init__(self, geometry: MacGeometry) -> None:
        self.geometry = geometry
        layout = AccumulatorLayout(geometry)
        super().__init__(
            {
                "dot": In(signed(geometry.dot_bits + 1)),
                "distance": In(unsigned(SHIFT_BITS + 1)),
                "nan": In(1),
                "clear": In(1),
                "previous": In(layout),
                "updated": Out(layout),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return f"mac_window_add_{self.geometry.dot_bits}_{self.geometry.config.acc_bits}"

    def build(self, platform: Any) -> Module:
        """Return shifter and adder."""
        m = Module()
        bits = self.geometry.config.acc_bits
        far = self.distance[SHIFT_BITS]
        start = Signal(signed(bits))
        term = Signal(signed(bits))
        total = Signal(signed(bits))
        aligned = self.dot << (bits - self.geometry.dot_bits - 1)
        m.d.comb += [
            start.eq(Mux(self.clear, 0, self.previous.sum)),
            # Beyond the width of the dot product only its sign is left: 0 or -1, the floor.
            term.eq(Mux(far, self.dot[-1].replicate(bits), aligned >> self.distance[:SHIFT_BITS])),
            total.eq(start + term),
            self.updated.sum.eq(total),
            self.updated.nan.eq(self.nan | (self.previous.nan & ~self.clear)),
            self.updated.overflow.eq(
                ((start[-1] == term[-1]) & (total[-1] != term[-1]))
                | (self.previous.overflow & ~self.clear)
            ),
        ]
        return m
