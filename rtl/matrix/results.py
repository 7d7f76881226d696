"""From the matrix engine to registers: results, put where the lines of a register have them."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.config import TileConfig
from rtl.vec.geometry import REGISTER_BITS, VectorGeometry
from rtl.vec.operation import words
from rtl.vec.ports import LineAddressLayout, LineWriteLayout


class PlacedLayout(data.StructLayout):
    """Results and where they go.

    Members
    -------
    register : unsigned
        Physical register.
    word : unsigned
        Word of the first one in there.
    keep : unsigned(vec_lanes)
        Which are written.
    values : array of unsigned(32)
        What.
    last : unsigned(1)
        With them everything is written.
    """

    def __init__(self, config: TileConfig) -> None:
        super().__init__(
            {
                "register": REGISTER_BITS,
                "word": ceil_log2(config.vector_length),
                "keep": config.vec_lanes,
                "values": words(config.vec_lanes),
                "last": 1,
            }
        )


class ResultWriter(wiring.Component):
    """Write neighbouring words, wherever they begin, to one line or to two.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    results : In
        What to write, see `PlacedLayout`.
    lines : Out
        To the vector registers.
    written : Out
        Results that said `last` are written.
    empty : Out
        Everything is written.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = geometry = VectorGeometry(config)
        super().__init__(
            {
                "results": In(stream.Signature(PlacedLayout(config))),
                "lines": Out(stream.Signature(LineWriteLayout(geometry))),
                "written": Out(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a rotation and a register behind it."""
        m = Module()
        g = self.geometry
        bits = exact_log2(g.line_words)
        coming = self.results.payload

        # Results are as many as there are lanes, which divide a line. So those that begin at word
        # `at` of a line are always in the same order, word after word and line after line: rotated
        # by `at`, and again and again. Which of these words are written is all that differs.
        at = coming.word[:bits]
        rotated: Value = coming.values.as_value()
        for i in range(exact_log2(g.lanes)):
            turned = Signal(32 * g.lanes, name=f"rotated{i}")
            m.d.comb += turned.eq(Mux(at[i], rotated.rotate_left(32 << i), rotated))
            rotated = turned

        address = Signal(LineAddressLayout(g))
        values = Signal(32 * g.lanes)
        enable = Signal(g.line_words)  # words of this line that are not written yet
        over = Signal(g.line_words)  # and of the next one
        last = Signal()
        line_done, done = Signal(), Signal()
        m.d.comb += [
            self.lines.payload.address.eq(address),
            self.lines.payload.words.eq(values.replicate(g.line_transfers)),
            self.lines.payload.enable.eq(enable),
            self.lines.valid.eq(enable.any()),
            line_done.eq(~self.lines.valid | self.lines.ready),
            done.eq(line_done & ~over.any()),
            self.results.ready.eq(done),
            self.written.eq(done & last),
            self.empty.eq(~enable.any() & ~over.any()),
        ]
        with m.If(done):
            taken = coming.keep & self.results.valid.replicate(g.lanes)
            m.d.sync += [
                address.register.eq(coming.register),
                address.line.eq(coming.word >> bits),
                values.eq(rotated),
                Cat(enable, over).eq(taken << at),
                last.eq(coming.last & self.results.valid),
            ]
        with m.Elif(line_done):
            m.d.sync += [address.line.eq(address.line + 1), enable.eq(over), over.eq(0)]
        return m
