"""The fetch side: from beats of memory to a buffer of block rows."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.mac.geometry import MacGeometry
from rtl.mac.operation import OperationLayout
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
        Rows each queue may hold, from 2 to `MacGeometry.buffer_rows`.
    rows : array of Out
        Even and odd block rows.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = MacGeometry(config)
        super().__init__(
            {
                "operations": In(stream.Signature(OperationLayout(config))),
                "beats": In(stream.Signature(config.beat_bits)),
                "limit": In(range(self.geometry.buffer_rows + 1)),
                "rows": Out(stream.Signature(BlockRowLayout(self.geometry))).array(2),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the unpackers and the queues."""
        m = Module()
        rows = stream.Signature(BlockRowLayout(self.geometry)).create()
        m.submodules.unpacker = unpacker = Unpacker(self.config)
        if self.config.transposer:
            m.submodules.transposer = transposer = Transposer(self.config)
            with m.If(self.operations.payload.transpose):
                self._use(m, transposer, rows)
            with m.Else():
                self._use(m, unpacker, rows)
        else:
            self._use(m, unpacker, rows)

        room = []
        for parity in range(2):
            queue = SyncFIFOBuffered(
                width=BlockRowLayout(self.geometry).size, depth=self.geometry.buffer_rows
            )
            m.submodules[f"queue{parity}"] = queue
            room.append(queue.w_rdy & (queue.level < self.limit))
            m.d.comb += [
                queue.w_data.eq(rows.payload),
                queue.w_en.eq(rows.valid & room[parity] & (rows.payload.odd == parity)),
                self.rows[parity].payload.eq(queue.r_data),
                self.rows[parity].valid.eq(queue.r_rdy),
                queue.r_en.eq(self.rows[parity].ready),
            ]
        m.d.comb += rows.ready.eq(Mux(rows.payload.odd, room[1], room[0]))
        return m

    def _use(self, m: Module, source: Unpacker | Transposer, rows: Any) -> None:
        """Connect descriptors, beats and rows to `source`."""
        m.d.comb += [
            source.operations.payload.eq(self.operations.payload),
            source.operations.valid.eq(self.operations.valid),
            self.operations.ready.eq(source.operations.ready),
            source.beats.payload.eq(self.beats.payload),
            source.beats.valid.eq(self.beats.valid),
            self.beats.ready.eq(source.beats.ready),
            rows.payload.eq(source.rows.payload),
            rows.valid.eq(source.rows.valid),
            source.rows.ready.eq(rows.ready),
        ]
