"""The maximum of a row."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.vec.compare import flush, maximum
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import TransferLayout

MINUS_INFINITY = 0xFF800000


class Maximum(wiring.Component):
    """Find the greatest of the selected elements of a row.

    The lanes' greatest is found in one cycle, and meets the row's in the next.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    x : In
        Transfers.
    out : Out
        The greatest of each row; -Inf if nothing is selected.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        self.geometry = geometry
        super().__init__(
            {
                "x": In(stream.Signature(TransferLayout(geometry))),
                "out": Out(stream.Signature(32)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a tree and a register."""
        m = Module()
        x = self.x.payload
        values: list[Value] = []
        for lane in range(self.geometry.lanes):
            value = Signal(32, name=f"value{lane}")
            seen = x.mark.keep[lane] & x.mark.inside[lane]
            m.d.comb += value.eq(Mux(seen, flush(x.words[lane]), MINUS_INFINITY))
            values.append(value)
        level = 0
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = []
            for i, pair in enumerate(pairs):
                value = Signal(32, name=f"greater{level}_{i}")
                m.d.comb += value.eq(maximum(*pair))
                values.append(value)
            level += 1

        valid, last = Signal(), Signal()
        lanes, row = Signal(32), Signal(32, init=MINUS_INFINITY)
        advance = ~self.out.valid | self.out.ready
        m.d.comb += [
            self.out.valid.eq(valid & last),
            self.out.payload.eq(maximum(row, lanes)),
            self.x.ready.eq(advance),
        ]
        with m.If(advance):
            m.d.sync += [valid.eq(self.x.valid), lanes.eq(values[0]), last.eq(x.mark.row_last)]
            with m.If(valid):
                m.d.sync += row.eq(Mux(last, MINUS_INFINITY, maximum(row, lanes)))
        return m
