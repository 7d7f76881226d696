"""Top-k: the greatest elements of rows, in descending order.

Each sweep over a row finds the greatest element below the one that was found before, so k elements
take k sweeps and no memory, whatever k is. A sweep compares a line per cycle.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.config import TileConfig
from rtl.core.isa import SLOT
from rtl.vec.compare import order_key
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import TOPK
from rtl.vec.ports import LineReadSignature, LineWriteLayout


class _CandidateLayout(data.StructLayout):
    """An element, or none: key and index."""

    def __init__(self, bits: int) -> None:
        super().__init__({"index": bits, "key": 32, "valid": 1})


def _rank(candidate: Any) -> Value:
    """Return what orders candidates; none is below all."""
    return Cat(candidate.key, candidate.valid)


class TopK(wiring.Component):
    """Find the greatest elements of rows.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Instructions.
    compared, fetched : Out
        Ports that read what is compared, and the values of what is found.
    indices, values : Out
        Writes to vector registers.
    idle : Out
        There is no instruction.
    done : Out
        An instruction has written everything.
    """

    def __init__(self, config: TileConfig) -> None:
        self.geometry = g = VectorGeometry(config)
        self.column_bits = ceil_log2(config.vector_length)
        super().__init__(
            {
                "operations": In(stream.Signature(TOPK)),
                "compared": Out(LineReadSignature(g)),
                "fetched": Out(LineReadSignature(g)),
                "indices": Out(stream.Signature(LineWriteLayout(g))),
                "values": Out(stream.Signature(LineWriteLayout(g))),
                "idle": Out(1, init=1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the sweep, and what writes down its result."""
        m = Module()
        g, bits = self.geometry, self.column_bits
        word_bits = exact_log2(g.line_words)
        line_bits = bits - word_bits  # of a line within a row
        slot_lines = SLOT // g.line_words
        layout = _CandidateLayout(bits)

        o = Signal(TOPK)
        row, rank = Signal.like(o.rows), Signal.like(o.k)
        source, target = Signal(g.line_bits), Signal(g.line_bits)  # first lines of the row
        best, found = Signal(layout), Signal(layout)
        sweeping, written = Signal(), Signal(init=1)

        # --- ask for the lines of the row ---
        line, lines = Signal(line_bits), Signal(line_bits)  # and the last one's number
        asking = Signal()
        m.d.comb += [
            lines.eq((o.columns - 1) >> word_bits),
            self.compared.requests.valid.eq(asking),
            self.compared.requests.payload.register.eq(o.a),
            self.compared.requests.payload.line.eq(source + line),
        ]
        asked = Signal()
        m.d.comb += asked.eq(asking & self.compared.requests.ready)
        with m.If(asked):
            m.d.sync += [line.eq(line + 1), asking.eq(line != lines)]

        # --- the greatest of a line, among what is left ---
        there, last, there_line = Signal(), Signal(), Signal(line_bits)
        m.d.sync += [there.eq(asked), last.eq(asked & (line == lines)), there_line.eq(line)]
        within = (there_line << word_bits)[: exact_log2(SLOT)]
        slot = (there_line << word_bits) >> exact_log2(SLOT)
        slot_counts = Signal()
        m.d.comb += slot_counts.eq(~o.slots_masked | o.slot_mask.bit_select(slot[:5], 1))
        candidates = []
        for i in range(g.line_words):
            c = Signal(layout, name=f"candidate{i}")
            after = Signal(name=f"after{i}")
            m.d.comb += [
                c.key.eq(order_key(self.compared.words[i])),
                c.index.eq((there_line << word_bits) | i),
                after.eq(
                    (rank == 0)
                    | (c.key < found.key)
                    | ((c.key == found.key) & (c.index > found.index))
                ),
                c.valid.eq((c.index < o.columns) & (within + i < o.segment) & slot_counts & after),
            ]
            candidates.append(c)
        level = 0
        while len(candidates) > 1:
            pairs = zip(candidates[::2], candidates[1::2], strict=True)
            candidates = []
            for i, (low, high) in enumerate(pairs):
                better = Signal(layout, name=f"better{level}_{i}")
                m.d.comb += better.eq(Mux(_rank(high) > _rank(low), high, low))
                candidates.append(better)
            level += 1
        of_line = Signal(layout)
        compares, ends = Signal(), Signal()
        m.d.sync += [of_line.eq(candidates[0]), compares.eq(there), ends.eq(last)]

        # --- the greatest of the row ---
        greatest = Signal(layout)
        m.d.comb += greatest.eq(Mux(_rank(of_line) > _rank(best), of_line, best))
        swept = Signal()  # `best` is the result of the sweep
        with m.If(compares):
            m.d.sync += best.eq(greatest)
        with m.If(ends):
            m.d.sync += swept.eq(1)

        # --- write it down, while the next sweep begins ---
        writing = Signal(_ResultLayout(g, bits, len(o.k)))
        accept = swept & written
        last_rank, last_row = rank + 1 == o.k, row + 1 == o.rows
        with m.If(accept):
            m.d.sync += [
                swept.eq(0),
                found.eq(best),
                best.eq(0),
                written.eq(0),
                writing.index.eq(best.index),
                writing.rank.eq(rank),
                writing.source.eq(source),
                writing.target.eq(target),
                rank.eq(Mux(last_rank, 0, rank + 1)),
                line.eq(0),
            ]
            with m.If(last_rank):
                m.d.sync += [
                    row.eq(row + 1),
                    source.eq(source + o.a_stride * slot_lines),
                    target.eq(target + o.stride * slot_lines),
                ]
            m.d.sync += [asking.eq(~(last_rank & last_row)), sweeping.eq(~(last_rank & last_row))]
        self._write(m, o, writing, written)

        m.d.comb += self.operations.ready.eq(self.idle)
        with m.If(~self.idle & ~sweeping & written):
            m.d.comb += self.done.eq(1)
            m.d.sync += self.idle.eq(1)
        coming = self.operations.payload
        with m.If(self.operations.valid & self.operations.ready):
            m.d.sync += [
                o.eq(coming),
                self.idle.eq(0),
                row.eq(0),
                rank.eq(0),
                line.eq(0),
                best.eq(0),
                source.eq(coming.a_offset * slot_lines),
                target.eq(coming.offset * slot_lines),
                asking.eq(coming.rows != 0),
                sweeping.eq(coming.rows != 0),
            ]
        return m

    def _write(self, m: Module, o: Any, result: Any, written: Signal) -> None:
        """Write index and value of a result; the value is read first."""
        g = self.geometry
        word_bits = exact_log2(g.line_words)
        has_index, has_value, fetching, fetched = Signal(), Signal(), Signal(), Signal()
        value = Signal(32)
        word = result.index[:word_bits]
        m.d.comb += [
            self.fetched.requests.valid.eq(~written & ~fetching & ~fetched),
            self.fetched.requests.payload.register.eq(Mux(o.carry, o.carried, o.a)),
            self.fetched.requests.payload.line.eq(result.source + (result.index >> word_bits)),
        ]
        m.d.sync += fetching.eq(self.fetched.requests.valid & self.fetched.requests.ready)
        with m.If(fetching):
            m.d.sync += [
                value.eq(self.fetched.words.as_value().word_select(word, 32)),
                fetched.eq(1),
            ]
        for port, register, payload, go, has in (
            (self.indices, o.indices, result.index, ~written, has_index),
            (self.values, o.values, value, fetched, has_value),
        ):
            m.d.comb += [
                port.valid.eq(go & ~has),
                port.payload.address.register.eq(register),
                port.payload.address.line.eq(result.target + (result.rank >> word_bits)),
                port.payload.enable.eq(1 << result.rank[:word_bits]),
                *(w.eq(payload) for w in port.payload.words),
            ]
            with m.If(port.valid & port.ready):
                m.d.sync += has.eq(1)
        with m.If(has_index & has_value):
            m.d.sync += [
                written.eq(1),
                has_index.eq(0),
                has_value.eq(0),
                fetched.eq(0),
            ]


class _ResultLayout(data.StructLayout):
    """An element that was found, and where its row and its results are."""

    def __init__(self, g: VectorGeometry, column_bits: int, rank_bits: int) -> None:
        super().__init__(
            {
                "index": column_bits,
                "rank": rank_bits,
                "source": g.line_bits,
                "target": g.line_bits,
            }
        )
