"""The order in which an operand's block rows are stored, fetched and multiplied."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.mac.geometry import MacGeometry, index
from rtl.mac.operation import FetchLayout


class OperandWalk(wiring.Component):
    """Step through an operand: group of neurons, block along K, row of the group, nibble plane.

    After the last step the walk stands at the beginning again, ready for the next operation.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operation : In
        What is walked; stable until the walk is through.
    tile : In
        Walk V as it is stored: every group sees all rows of each 32 x 32 tile.
    two : In
        A step covers two rows, one where the group has no more.
    advance : In
        Go on to the next step.
    base : Out
        First output of the group.
    block, row, plane : Out
        Where the walk stands; `row` counts within the group (within the tile, for `tile`).
    second : Out
        With `two`: there is a second row.
    last_row, last_plane, last_block, last_group : Out
        The step is the last one of its pass, its element, its group, the operation.
    last : Out
        All of these.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = MacGeometry(config)
        layout = FetchLayout(config)
        rows = index(max(self.geometry.group_rows, self.geometry.tile_rows))
        super().__init__(
            {
                "operation": In(layout),
                "tile": In(1),
                "two": In(1),
                "advance": In(1),
                "base": Out(layout["outputs"].shape),
                "block": Out(layout["blocks"].shape),
                "row": Out(rows),
                "plane": Out(1),
                "second": Out(1),
                "last_row": Out(1),
                "last_plane": Out(1),
                "last_block": Out(1),
                "last_group": Out(1),
                "last": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the counters."""
        m = Module()
        columns = self.geometry.columns
        last_row = self.geometry.group_rows - 1
        group = self.config.group_outputs
        operation = self.operation
        output = Signal.like(self.base)  # first one of this row
        # A group of one row ends with every row.
        full = Const(1) if last_row == 0 else self.row + self.two >= last_row

        m.d.comb += [
            self.second.eq(
                self.two & (output + columns < operation.outputs) & (self.row != last_row)
            ),
            self.last_row.eq(
                Mux(
                    self.tile,
                    self.row == self.geometry.tile_rows - 1,
                    (output + Mux(self.two, 2 * columns, columns) >= operation.outputs) | full,
                )
            ),
            self.last_plane.eq(self.plane == operation.weight),
            self.last_block.eq(self.block == operation.blocks - 1),
            self.last_group.eq(self.base + group >= operation.outputs),
            self.last.eq(self.last_plane & self.last_row & self.last_block & self.last_group),
        ]
        with m.If(self.advance):
            m.d.sync += self.plane.eq(~self.plane)
            with m.If(self.last_plane):
                m.d.sync += [
                    self.plane.eq(0),
                    self.row.eq(self.row + 1 + self.two),
                    output.eq(output + Mux(self.two, 2 * columns, columns)),
                ]
                with m.If(self.last_row):
                    m.d.sync += [
                        self.row.eq(0),
                        output.eq(self.base),
                        self.block.eq(self.block + 1),
                    ]
                    with m.If(self.last_block):
                        m.d.sync += [
                            self.block.eq(0),
                            self.base.eq(self.base + group),
                            output.eq(self.base + group),
                        ]
                        with m.If(self.last_group):
                            m.d.sync += [self.base.eq(0), output.eq(0)]
        return m
