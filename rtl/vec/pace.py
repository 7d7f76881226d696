"""The pace: the transfers of each row, and which of their elements count."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import exact_log2

from rtl.config import TileConfig
from rtl.vec.commands import PaceLayout
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import PacedLayout
from rtl.vec.queue import CommandQueue


class Pace(wiring.Component):
    """Say what each transfer of a row is.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    commands : In
        Rows.
    marks : Out
        Their transfers.
    """

    def __init__(self, config: TileConfig) -> None:
        self.geometry = g = VectorGeometry(config)
        super().__init__(
            {
                "commands": In(stream.Signature(PaceLayout(g))),
                "marks": Out(stream.Signature(PacedLayout(g))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a counter and comparators."""
        m = Module()
        g = self.geometry
        m.submodules.queue = queue = CommandQueue(PaceLayout(g))
        connect(m, wiring.flipped(self.commands), queue.commands)
        row = queue.head.payload
        transfer = Signal.like(row.transfers)
        paced = Signal(PacedLayout(g))
        mark = paced.mark
        last = Signal()
        m.d.comb += [last.eq(transfer + 1 == row.transfers), mark.row_last.eq(last)]
        m.d.comb += [mark.last.eq(last & row.last), paced.reads.eq(row.reads)]
        keep, inside = [], []
        for lane in range(g.lanes):
            column = Signal(len(row.lo), name=f"column{lane}")
            m.d.comb += column.eq((transfer << exact_log2(g.lanes)) | lane)
            beyond = last & (row.tail < lane) if lane else Const(0)
            keep.append(~row.empty & ~beyond)
            inside.append((column >= row.lo) & (column < row.hi))
        m.d.comb += [mark.keep.eq(Cat(keep)), mark.inside.eq(Cat(inside))]

        # A register, behind which comparators are out of the way.
        m.d.comb += queue.head.ready.eq(last & (~self.marks.valid | self.marks.ready))
        with m.If(~self.marks.valid | self.marks.ready):
            m.d.sync += [self.marks.valid.eq(queue.head.valid), self.marks.payload.eq(paced)]
            with m.If(queue.head.valid):
                m.d.sync += transfer.eq(Mux(last, 0, transfer + 1))
        return m
