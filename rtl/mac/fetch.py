"""The fetch side: from beats of memory to a buffer of block rows."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.mac.geometry import MacGeometry
from rtl.mac.operation import FetchLayout
from rtl.mac.rows import BlockRowLayout
from rtl.mac.transpose import Transposer
from rtl.mac.unpack import Unpacker


class Fetch(wiring.Component):
    """Turn beats into block rows, ahead of the array, and buffer them.

    Even and odd rows of a group wait in queues of their own. The array can so take any row, or two
    neighbouring ones, in every cycle; for MXINT8 two neighbours bring their high planes together,
    then their low planes.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Descriptors, in the order of their beats.
    beats : In
        The operands.
    limit : In
        Rows each queue may hold, from 2 to `MacGeometry.buffer_rows`; less counts as 2.
    rows : array of Out
        Even and odd block rows.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = MacGeometry(config)
        super().__init__(
            {
                "operations": In(stream.Signature(FetchLayout(config))),
                "beats": In(stream.Signature(config.beat_bits)),
                "limit": In(range(self.geometry.buffer_rows + 1)),
                "rows": Out(stream.Signature(BlockRowLayout(self.geometry))).array(2),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the unpackers and the queues."""
        m = Module()
        transpose = self.operations.payload.transpose if self.config.transposer else Const(0)
        rows = Signal(BlockRowLayout(self.geometry))
        rows_valid = Signal()
        rows_ready = Signal()
        m.submodules.unpacker = unpacker = Unpacker(self.config)
        m.d.comb += [
            rows.eq(unpacker.rows.payload),
            rows_valid.eq(unpacker.rows.valid),
            unpacker.rows.ready.eq(rows_ready),
        ]
        sources: list[Unpacker | Transposer] = [unpacker]
        if self.config.transposer:
            m.submodules.transposer = transposer = Transposer(self.config)
            sources.append(transposer)
            # Its last tile leaves while the next operation's beats come already.
            with m.If(transposer.full):
                m.d.comb += [
                    rows.eq(transposer.rows.payload),
                    rows_valid.eq(transposer.rows.valid),
                    transposer.rows.ready.eq(rows_ready),
                    unpacker.rows.ready.eq(0),
                ]
        for i, source in enumerate(sources):
            m.d.comb += [
                source.operations.payload.eq(self.operations.payload),
                source.beats.payload.eq(self.beats.payload),
            ]
            with m.If(transpose == i):
                m.d.comb += [
                    source.operations.valid.eq(self.operations.valid),
                    source.beats.valid.eq(self.beats.valid),
                    self.operations.ready.eq(source.operations.ready),
                    self.beats.ready.eq(source.beats.ready),
                ]

        # Fewer than two rows could hold up an MXINT8 pair for ever.
        limit = Mux(self.limit < 2, 2, self.limit)
        room = []
        for parity in range(2):
            queue = SyncFIFOBuffered(
                width=BlockRowLayout(self.geometry).size, depth=self.geometry.buffer_rows
            )
            m.submodules[f"queue{parity}"] = queue
            room.append(queue.w_rdy & (queue.level < limit))
            m.d.comb += [
                queue.w_data.eq(rows),
                queue.w_en.eq(rows_valid & room[parity] & (rows.odd == parity)),
                self.rows[parity].payload.eq(queue.r_data),
                self.rows[parity].valid.eq(queue.r_rdy),
                queue.r_en.eq(self.rows[parity].ready),
            ]
        m.d.comb += rows_ready.eq(Mux(rows.odd, room[1], room[0]))
        return m
