"""The drain: from complete accumulators to FP32 results, `vec_lanes` per cycle."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.formats import Format, product_bits
from rtl.mac.accumulate import AccumulatorLayout
from rtl.mac.activations import RowLayout, row_table_address
from rtl.mac.array import DoneLayout
from rtl.mac.geometry import MacGeometry, index
from rtl.mac.lanes import active_rows, copy_lanes, primary_lanes
from rtl.mac.operation import ResultLayout
from rtl.mac.sequence import ArrayStepLayout, GroupLayout
from rtl.mac.to_float import EXPONENT, WindowToFloat


class Drain(wiring.Component):
    """Read accumulators row by row, as soon as they are complete, and deliver them as FP32.

    Accumulators of S neighbouring neurons per column are read together. For every such word all
    active rows take their turn, each in as many transfers as it needs.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    groups : In
        Groups to drain, in order; they alternate between the two group buffers.
    drained : Out
        For each group buffer: its drain is through.
    done : In
        Rows that have become complete.
    step, maxima : In
        From the sequencer: the maximum bytes of the neurons, kept until they are drained.
    row_write, row_address, row_data : In
        From the activation loader: the row table.
    advance, word, select, values : Out, Out, Out, In
        Access to the accumulators, see `MacArray`.
    results : Out
        The results.
    retired : Out
        An operation's last group is through; its slot of the row table is free.
    overflow : Out
        A valid result overflowed its window: its operand was malformed.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = geometry = MacGeometry(config)
        accumulator = AccumulatorLayout(geometry)
        super().__init__(
            {
                "groups": In(stream.Signature(GroupLayout(config))),
                "drained": Out(2),
                "done": In(DoneLayout()),
                "step": In(ArrayStepLayout(geometry)),
                "maxima": In(data.ArrayLayout(8, geometry.columns)).array(2),
                "row_write": In(1),
                "row_address": In(row_table_address(config)),
                "row_data": In(RowLayout(config)),
                "advance": Out(1),
                "word": Out(index(2 * geometry.drain_words)),
                "select": Out(geometry.pairs).array(2, geometry.drain_rows),
                "values": In(data.ArrayLayout(accumulator, geometry.drain_width)),
                "results": Out(stream.Signature(ResultLayout(config))),
                "retired": Out(1),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the drain."""
        m = Module()
        config, geometry = self.config, self.geometry
        lanes = config.vec_lanes
        width, rows_read = geometry.drain_width, geometry.drain_rows

        layout = GroupLayout(config)
        m.submodules.queue = queue = SyncFIFOBuffered(width=layout.size, depth=3)
        group = Signal(layout)
        operation = group.operation
        m.d.comb += [
            queue.w_data.eq(self.groups.payload),
            queue.w_en.eq(self.groups.valid),
            self.groups.ready.eq(queue.w_rdy),
            group.eq(queue.r_data),
        ]

        # --- how far the group has come ----------------------------------------------------------

        bank = Signal()
        complete = [Signal(range(geometry.group_rows + 2), name=f"complete{b}") for b in range(2)]
        ended = Signal(2)
        for b in range(2):
            with m.If(self.drained[b]):
                m.d.sync += [complete[b].eq(0), ended[b].eq(0)]
            with m.Elif(self.done.valid & (self.done.bank == b)):
                m.d.sync += [
                    complete[b].eq(complete[b] + 1 + self.done.second),
                    ended[b].eq(self.done.end),
                ]

        # --- the walk: word, row, slice ----------------------------------------------------------

        word = Signal(index(geometry.drain_words))
        slice_ = Signal(index(geometry.drain_slices))
        resumed = Signal()  # some rows of this word are through
        rest = Signal(config.lanes)
        rows = Signal(config.lanes)
        row = Signal(config.lanes)  # one-hot: the lowest of them
        after = Signal(config.lanes)  # the others
        m.d.comb += [
            rows.eq(Mux(resumed, rest, active_rows(geometry, operation))),
            after.eq(rows & (rows - 1)),
            row.eq(rows & ~after),
        ]
        first = group.base + word * width + slice_ * lanes
        # The rows read together may go beyond the group, and the group beyond the operand.
        group_end = group.base + config.group_outputs
        last_group = group_end >= operation.outputs
        end = Signal.like(first)
        m.d.comb += end.eq(Mux(last_group, operation.outputs, group_end))
        nobody = ~rows.any()
        has_ended = ended.bit_select(bank, 1)
        is_complete = has_ended | (
            ~nobody & (Mux(bank, complete[1], complete[0]) >= (word + 1) * rows_read)
        )
        last_slice = (slice_ == geometry.drain_slices - 1) | (first + lanes >= end)
        last_row = after == 0
        last_word = (word == geometry.drain_words - 1) | (group.base + (word + 1) * width >= end)
        active = Signal()
        issue = Signal()
        last = Signal()
        m.d.comb += [
            active.eq(queue.r_rdy & is_complete & self.advance),
            issue.eq(active & ~nobody),
            last.eq(active & (nobody | (last_slice & last_row & last_word))),
            queue.r_en.eq(last),
            self.drained.eq(Mux(last, 1 << bank, 0)),
            self.retired.eq(last & last_group),
        ]
        with m.If(active):
            m.d.sync += slice_.eq(slice_ + 1)
            with m.If(last_slice):
                m.d.sync += [slice_.eq(0), resumed.eq(~last_row), rest.eq(after)]
                with m.If(last_row):
                    m.d.sync += word.eq(word + 1)
        with m.If(last):
            m.d.sync += [slice_.eq(0), word.eq(0), resumed.eq(0), bank.eq(~bank)]

        m.d.comb += self.word.eq(Mux(bank, geometry.drain_words, 0) + word)
        primary = primary_lanes(geometry, row, operation.activation)
        copy = copy_lanes(geometry, row, operation.activation)
        for lane in range(2):
            own = issue if lane == 0 else issue & ~operation.activation
            for s in range(rows_read):
                odd = word[0] if rows_read == 1 else s % 2
                m.d.comb += self.select[lane][s].eq(
                    Mux(own, Mux(group.paired & odd, copy[lane], primary[lane]), 0)
                )

        # --- beside the accumulators: row table, maxima, and what the operation says -------------

        row_table = Memory(shape=RowLayout(config), depth=1 << row_table_address(config), init=[])
        m.submodules.row_table = row_table
        write, read = row_table.write_port(), row_table.read_port()
        row_number = Signal(range(config.lanes))
        for i in range(config.lanes):
            with m.If(row[i]):
                m.d.comb += row_number.eq(i)
        m.d.comb += [
            write.en.eq(self.row_write),
            write.addr.eq(self.row_address),
            write.data.eq(self.row_data),
            read.en.eq(issue),
            read.addr.eq(Cat(row_number, group.slot)),
        ]
        maxima = self._maxima(m, issue, bank, word)

        valid = Signal()
        keep = Signal(lanes)
        first_ = Signal.like(first)
        lo = Signal.like(operation.lo)
        hi = Signal.like(operation.hi)
        steps = Signal()
        slice_out = Signal.like(slice_)
        constant = Signal(EXPONENT)
        with m.If(self.advance):
            m.d.sync += [
                valid.eq(issue),
                keep.eq(Cat(first + i < end for i in range(lanes))),
                first_.eq(first),
                lo.eq(operation.lo),
                hi.eq(operation.hi),
                steps.eq(operation.range_step),
                slice_out.eq(slice_),
                constant.eq(self._constant(operation)),
            ]

        # --- the values are here: choose a slice, then round -------------------------------------

        entry = Signal(RowLayout(config))
        m.d.comb += entry.eq(read.data)
        offset = Mux(steps, entry.token, 0)
        chosen_valid = Signal()
        chosen_keep = Signal(lanes)
        chosen_column = Signal.like(entry.column)
        chosen_token = Signal.like(entry.token)
        overflow = Signal(lanes)
        rounders = []
        for i in range(lanes):
            at = [s * lanes + i for s in range(geometry.drain_slices)]
            value = Signal(AccumulatorLayout(geometry), name=f"value{i}")
            maximum = Signal(8, name=f"maximum{i}")
            with m.Switch(slice_out):
                for s, n in enumerate(at):
                    if n < width:
                        with m.Case(s):
                            m.d.comb += [value.eq(self.values[n]), maximum.eq(maxima[n])]
            number = Signal(signed(len(first_) + 1), name=f"number{i}")
            in_range = Signal(name=f"in_range{i}")
            m.d.comb += [
                number.eq(first_ + i),
                in_range.eq((number >= lo + offset) & (number < hi + offset)),
            ]
            rounder = WindowToFloat(config.acc_bits)
            m.submodules[f"round{i}"] = rounder
            rounders.append(rounder)
            chosen = Signal(AccumulatorLayout(geometry), name=f"chosen{i}")
            lsb = Signal(EXPONENT, name=f"lsb{i}")
            zero = Signal(name=f"zero{i}")
            with m.If(self.advance):
                m.d.sync += [
                    chosen.eq(value),
                    lsb.eq(constant + entry.maximum + maximum + entry.depth_log),
                    zero.eq(~in_range),
                    overflow[i].eq(valid & keep[i] & in_range & value.overflow & ~value.nan),
                ]
            m.d.comb += [
                rounder.advance.eq(self.advance),
                rounder.sum.eq(chosen.sum),
                rounder.lsb.eq(lsb),
                rounder.nan.eq(chosen.nan),
                rounder.zero.eq(zero),
            ]
        with m.If(self.advance):
            m.d.sync += [
                chosen_valid.eq(valid),
                chosen_keep.eq(keep),
                chosen_column.eq(entry.column + first_),
                chosen_token.eq(entry.token),
            ]
        # The anchor makes overflow impossible, so one in a valid result is a fault of the hardware
        # or of the operand.
        m.d.comb += self.overflow.eq(overflow.any() & self.advance)
        m.d.sync += Assert(~overflow.any())

        normal = Signal(ResultLayout(config))
        normal_valid = Signal()
        result = self.results.payload
        m.d.comb += self.advance.eq(~self.results.valid | self.results.ready)
        with m.If(self.advance):
            m.d.sync += [
                normal.token.eq(chosen_token),
                normal.column.eq(chosen_column),
                normal.keep.eq(chosen_keep),
                normal_valid.eq(chosen_valid),
                result.token.eq(normal.token),
                result.column.eq(normal.column),
                result.keep.eq(normal.keep),
                self.results.valid.eq(normal_valid),
            ]
        m.d.comb += [result.values[i].eq(rounder.value) for i, rounder in enumerate(rounders)]
        return m

    def _maxima(self, m: Module, issue: Value, bank: Value, word: Value) -> list[Value]:
        """Keep the neurons' maximum bytes; return those of the word read, in output order.

        A word holds at least two rows, so that both rows of a paired step go into one.
        """
        geometry = self.geometry
        step = self.step
        held, read_rows = max(2, geometry.drain_rows), geometry.drain_rows
        low = held.bit_length() - 1
        words = -(-geometry.group_rows // held)
        memory = Memory(
            shape=data.ArrayLayout(8 * geometry.columns, held), depth=2 * words, init=[]
        )
        m.submodules.maxima = memory
        write, read = memory.write_port(granularity=1), memory.read_port()
        element = step.row[:low]
        first_block = step.valid & step.clear
        m.d.comb += [
            write.addr.eq(Mux(step.bank, words, 0) + (step.row >> low)),
            write.en.eq(Mux(first_block, (1 | step.second << 1) << element, 0)),
            read.en.eq(issue),
            read.addr.eq(Mux(bank, words, 0) + (word * read_rows >> low)),
        ]
        for i in range(held):
            # A paired step begins with an even row.
            second = step.second if i % 2 else 0
            m.d.comb += write.data[i].eq(
                Mux(second, self.maxima[1].as_value(), self.maxima[0].as_value())
            )
        rows = [read.data[i] for i in range(read_rows)]
        if read_rows == 1:
            odd = Signal(name="maxima_odd")
            with m.If(self.advance):
                m.d.sync += odd.eq(word[0])
            rows = [Mux(odd, read.data[1], read.data[0])]
        return [row.word_select(c, 8) for row in rows for c in range(geometry.columns)]

    def _constant(self, operation: Any) -> Value:
        """Return the part of an lsb's exponent that only the formats decide.

        ``lsb = max ea + max ew + B + clog2(n) + 1 - acc_bits`` with ``e = X - unit_offset``.
        """

        def constant(activation: Format, weight: Format) -> int:
            offsets = activation.unit_offset + weight.unit_offset
            return product_bits(activation, weight) + 1 - self.config.acc_bits - offsets

        four, eight = Format.MXFP4, Format.MXINT8
        return Mux(
            operation.activation,
            Mux(operation.weight, constant(eight, eight), constant(eight, four)),
            Mux(operation.weight, constant(four, eight), constant(four, four)),
        )
