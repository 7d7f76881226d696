"""From position-major V to blocks along positions."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.formats import BLOCK, Format
from rtl.mac.geometry import MacGeometry
from rtl.mac.operation import FetchLayout
from rtl.mac.rows import BlockRowLayout
from rtl.mac.walk import OperandWalk


class Transposer(wiring.Component):
    """Turn 32 x 32 tiles of nibbles, one beat per cycle, with a single array of registers.

    A tile is shifted in row by row and shifted out column by column. While its columns leave at one
    edge, the rows of the next tile enter at the opposite one, as columns; that tile then leaves
    row by row while the one after it enters as rows, and so on. So one array, shifted along
    alternating axes, does what otherwise takes two. Where P does not divide 32 the tile is padded
    to whole beats.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Descriptors, all with `transpose`; an operation is taken with its last beat.
    beats : In
        V: P positions per beat, for MXINT8 high plane then low plane.
    rows : Out
        Block rows: P head dimensions, each a block of 32 positions.
    full : Out
        A tile is leaving.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = MacGeometry(config)
        super().__init__(
            {
                "operations": In(stream.Signature(FetchLayout(config))),
                "beats": In(stream.Signature(config.beat_bits)),
                "rows": Out(stream.Signature(BlockRowLayout(self.geometry))),
                "full": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the array and its two walks."""
        m = Module()
        columns = self.geometry.columns
        operation = self.operations.payload

        # The tile that enters and the one that leaves move in lockstep, beat for beat. They may
        # belong to different operations, so the one that leaves has its own copy of the descriptor.
        m.submodules.entering = entering = OperandWalk(self.config)
        m.submodules.leaving = leaving = OperandWalk(self.config)
        left = Signal(FetchLayout(self.config))
        full = self.full
        m.d.comb += [
            entering.operation.eq(operation),
            leaving.operation.eq(left),
            entering.tile.eq(1),
            leaving.tile.eq(1),
        ]

        # Whether a tile enters is decided with its first beat. A tile of the operation that leaves
        # is waited for. One of the next operation is not: it may depend on results of this one.
        loading = Signal()
        begun = Signal()  # it has been decided
        was_loading = Signal()
        last_tile = Signal()  # of its operation is leaving
        joins = ~last_tile | (self.beats.valid & (operation.weight == left.weight))
        m.d.comb += loading.eq(Mux(begun, was_loading, self.operations.valid & (~full | joins)))

        wanted = Signal()  # the row that leaves is an output of the group
        shift = Signal()
        end_of_tile = Signal()
        takes = ~full | ~wanted | self.rows.ready
        m.d.comb += [
            self.beats.ready.eq(loading & takes),
            self.rows.valid.eq(full & wanted & (~loading | self.beats.valid)),
            shift.eq(Mux(loading, self.beats.valid, full) & takes),
            entering.advance.eq(shift & loading),
            leaving.advance.eq(shift & full),
            self.operations.ready.eq(entering.advance & entering.last),
            end_of_tile.eq(
                Mux(
                    full,
                    leaving.last_row & leaving.last_plane,
                    entering.last_row & entering.last_plane,
                )
            ),
        ]
        across = Signal()  # shift along rows: columns leave and enter
        with m.If(shift):
            m.d.sync += [begun.eq(~end_of_tile), was_loading.eq(loading)]
            with m.If(end_of_tile):
                m.d.sync += [full.eq(loading), across.eq(~across)]
                with m.If(loading):
                    m.d.sync += [left.eq(operation), last_tile.eq(entering.last)]

        group_row = Signal.like(leaving.row)  # first one of the group among the outputs
        with m.If(leaving.advance & leaving.last_plane & leaving.last_row & leaving.last_block):
            m.d.sync += group_row.eq(
                Mux(leaving.last_group, 0, group_row + self.geometry.group_rows)
            )
        first = Signal(range(2 * self.geometry.tile_rows + self.geometry.group_rows))
        outputs_end = left.tile_row * columns + left.outputs
        m.d.comb += [
            first.eq(left.tile_row + group_row),
            wanted.eq(
                (leaving.row >= first)
                & (leaving.row < first + self.geometry.group_rows)
                & (leaving.row * columns < outputs_end)
            ),
            self.rows.payload.odd.eq(leaving.row[0] ^ first[0]),
        ]

        plane = Mux(full, leaving.plane, entering.plane)
        positions = [self.beats.payload.word_select(c, 4 * BLOCK) for c in range(columns)]
        leaving_lines = []
        for p in range(2 if self.geometry.int8 else 1):
            tile = self._tile(m, f"plane{p}", shift & (plane == p), across, positions)
            leaving_lines.append(tile)

        unit = Mux(left.weight, Format.MXINT8.unit_offset, Format.MXFP4.unit_offset)
        for c in range(columns):
            block = self.rows.payload.blocks[c]
            nibbles = leaving_lines[0][c]
            if self.geometry.int8:
                nibbles = Mux(plane, leaving_lines[1][c], nibbles)
            m.d.comb += [block.nibbles.eq(nibbles), block.maximum.eq(unit)]
        return m

    def _tile(
        self, m: Module, name: str, shift: Value, across: Value, positions: list[Value]
    ) -> list[Value]:
        """Return the P lines that leave a square of nibbles next, each 32 nibbles long."""
        columns = self.geometry.columns
        side = self.geometry.tile_rows * columns
        rows = [Signal(4 * side, name=f"{name}_row{i}") for i in range(side)]
        for i in range(side):
            # Positions enter as rows at the bottom ...
            entering = i - (side - columns)
            down = positions[entering] if entering >= 0 else rows[i + columns]
            # ... or as columns at the end of every row.
            element = [p.word_select(i, 4) if i < BLOCK else Const(0, 4) for p in positions]
            along = Cat(rows[i][4 * columns :], *element)
            with m.If(shift):
                m.d.sync += rows[i].eq(Mux(across, along, down))
        return [
            Mux(
                across,
                Cat(rows[i].word_select(c, 4) for i in range(BLOCK)),
                rows[c][: 4 * BLOCK],
            )
            for c in range(columns)
        ]
