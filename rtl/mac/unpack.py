"""From the beats of a packed weight operand to block rows."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.formats import BLOCK, SCALE_NAN
from rtl.mac.drop import saturating_drop
from rtl.mac.geometry import SUPERBLOCK_ROWS, MacGeometry
from rtl.mac.operation import FetchLayout
from rtl.mac.rows import BlockRowLayout
from rtl.mac.walk import OperandWalk


class Beat(enum.Enum, shape=2):  # type: ignore[call-arg]
    """What a beat holds."""

    MAXIMUM = 0
    SCALE = 1
    ELEMENT = 2


class Unpacker(wiring.Component):
    """Split maximum and scale beats off; every element beat leaves as a block row.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Descriptors, none with `transpose`; an operation is taken with its last beat.
    beats : In
        The operands.
    rows : Out
        Their block rows.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = MacGeometry(config)
        super().__init__(
            {
                "operations": In(stream.Signature(FetchLayout(config))),
                "beats": In(stream.Signature(config.beat_bits)),
                "rows": Out(stream.Signature(BlockRowLayout(self.geometry))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the unpacker."""
        m = Module()
        columns = self.geometry.columns
        beat_bits = self.config.beat_bits
        operation = self.operations.payload
        m.submodules.walk = walk = OperandWalk(self.config)

        # A neuron has maximum beats only where its operand has more than one block, over all
        # operations that share it.
        many_blocks = operation.last >= BLOCK
        new_group = Signal(init=1)
        after = Signal(Beat)  # what comes next inside a group
        beat = Signal(Beat)
        m.d.comb += beat.eq(
            Mux(new_group, Mux(many_blocks, Beat.MAXIMUM, Beat.SCALE), after),
        )

        max_beat = Signal(range(self.geometry.max_beats + 1))
        maxima = Signal(self.geometry.max_beats * beat_bits)
        scale_row = Signal(range(SUPERBLOCK_ROWS))
        scales = Signal(beat_bits)

        accept = Signal()
        m.d.comb += [
            accept.eq(self.operations.valid & self.beats.valid & self.beats.ready),
            self.beats.ready.eq(self.operations.valid & ((beat != Beat.ELEMENT) | self.rows.ready)),
            self.rows.valid.eq(self.operations.valid & self.beats.valid & (beat == Beat.ELEMENT)),
            walk.operation.eq(operation),
            walk.advance.eq(accept & (beat == Beat.ELEMENT)),
            self.operations.ready.eq(walk.advance & walk.last),
        ]

        with m.If(accept):
            m.d.sync += new_group.eq(0)
            with m.Switch(beat):
                with m.Case(Beat.MAXIMUM):
                    beats_left = self.geometry.max_beats - 1 - max_beat
                    rows_seen = (max_beat + 1) * (SUPERBLOCK_ROWS * columns)
                    last = (beats_left == 0) | (walk.base + rows_seen >= operation.outputs)
                    m.d.sync += [
                        maxima.word_select(max_beat, beat_bits).eq(self.beats.payload),
                        max_beat.eq(Mux(last, 0, max_beat + 1)),
                        after.eq(Mux(last, Beat.SCALE, Beat.MAXIMUM)),
                    ]
                with m.Case(Beat.SCALE):
                    m.d.sync += [
                        scales.eq(self.beats.payload),
                        scale_row.eq(0),
                        after.eq(Beat.ELEMENT),
                    ]
                with m.Case(Beat.ELEMENT), m.If(walk.last_plane):
                    m.d.sync += scale_row.eq(scale_row + 1)
                    with m.If(scale_row == SUPERBLOCK_ROWS - 1):
                        m.d.sync += after.eq(Beat.SCALE)
                    with m.If(walk.last_row & walk.last_block):
                        # Without a drain the group goes on in the next operation.
                        m.d.sync += new_group.eq(operation.drain)

        m.d.comb += self.rows.payload.odd.eq(walk.row[0])
        for c in range(columns):
            block = self.rows.payload.blocks[c]
            scale = Signal(8, name=f"scale{c}")
            maximum = Signal(8, name=f"maximum{c}")
            m.d.comb += [
                scale.eq(scales.word_select(scale_row, 8 * columns).word_select(c, 8)),
                maximum.eq(
                    Mux(
                        many_blocks,
                        maxima.word_select(walk.row, 8 * columns).word_select(c, 8),
                        scale,
                    )
                ),
                block.nibbles.eq(self.beats.payload.word_select(c, 4 * BLOCK)),
                block.drop.eq(saturating_drop(maximum, scale)),
                block.nan.eq(scale == SCALE_NAN),
                block.maximum.eq(maximum),
            ]
        return m
