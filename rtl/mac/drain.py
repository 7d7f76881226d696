"""The drain: from complete accumulators to FP32 results, `vec_lanes` per cycle."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.formats import Format, product_bits
from rtl.mac.accumulate import AccumulatorLayout
from rtl.mac.activations import RowLayout, row_table_address
from rtl.mac.array import DoneLayout
from rtl.mac.drain_walk import DrainStepLayout, DrainWalk
from rtl.mac.geometry import MacGeometry, index
from rtl.mac.lanes import copy_lanes, primary_lanes
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

        m.submodules.walk = walk = DrainWalk(config)
        connect(m, flipped(self.groups), walk.groups)
        step = walk.step
        operation = step.group.operation
        m.d.comb += [
            walk.done.eq(self.done),
            walk.advance.eq(self.advance),
            self.drained.eq(walk.drained),
            self.retired.eq(walk.retired),
            self.word.eq(Mux(step.bank, geometry.drain_words, 0) + step.word),
        ]
        primary = primary_lanes(geometry, step.row, operation.activation)
        copy = copy_lanes(geometry, step.row, operation.activation)
        for lane in range(2):
            own = step.valid if lane == 0 else step.valid & ~operation.activation
            for s in range(geometry.drain_rows):
                odd = step.word[0] if geometry.drain_rows == 1 else s % 2
                m.d.comb += self.select[lane][s].eq(
                    Mux(own, Mux(step.group.paired & odd, copy[lane], primary[lane]), 0)
                )

        # First stage: accumulators, maxima and row entry are on their way out of their memories.
        number = Signal(range(config.lanes), name="row_number")
        for i in range(config.lanes):
            with m.If(step.row[i]):
                m.d.comb += number.eq(i)
        row = self._row_entry(m, step, number)
        maxima = self._maxima(m, step)
        read = Signal(DrainStepLayout(config))
        read_number = Signal.like(number)
        constant = Signal(EXPONENT)
        with m.If(self.advance):
            m.d.sync += [
                read.eq(step),
                read_number.eq(number),
                constant.eq(self._constant(operation)),
            ]

        # Second stage: they are there. Choose the slice and say what each result is.
        wanted = read.group.operation
        offset = Mux(wanted.range_step, row.token, 0)
        head = Signal(ResultLayout(config))  # all but the values of the results on their way
        head_valid = Signal()
        overflow = Signal(lanes)
        rounders = []
        for i in range(lanes):
            value = Signal(AccumulatorLayout(geometry), name=f"value{i}")
            maximum = Signal(8, name=f"maximum{i}")
            with m.Switch(read.slice):
                for s, n in enumerate(range(i, geometry.drain_width, lanes)):
                    with m.Case(s):
                        m.d.comb += [value.eq(self.values[n]), maximum.eq(maxima[n])]
            output = Signal(signed(len(read.first) + 1), name=f"output{i}")
            in_range = Signal(name=f"in_range{i}")
            m.d.comb += [
                output.eq(read.first + i),
                in_range.eq((output >= wanted.lo + offset) & (output < wanted.hi + offset)),
            ]
            chosen = Signal(AccumulatorLayout(geometry), name=f"chosen{i}")
            lsb = Signal(EXPONENT, name=f"lsb{i}")
            zero = Signal(name=f"zero{i}")
            valid = read.valid & read.keep[i] & in_range
            with m.If(self.advance):
                m.d.sync += [
                    chosen.eq(value),
                    lsb.eq(constant + row.maximum + maximum + row.depth_log),
                    zero.eq(~in_range),
                    overflow[i].eq(valid & value.overflow & ~value.nan),
                ]
            m.submodules[f"round{i}"] = rounder = WindowToFloat(config.acc_bits)
            m.d.comb += [
                rounder.advance.eq(self.advance),
                rounder.sum.eq(chosen.sum),
                rounder.lsb.eq(lsb),
                rounder.nan.eq(chosen.nan),
                rounder.zero.eq(zero),
            ]
            rounders.append(rounder)
        with m.If(self.advance):
            m.d.sync += [
                head_valid.eq(read.valid),
                head.row.eq(read_number),
                head.output.eq(read.first),
                head.column.eq(row.column + read.first),
                head.keep.eq(read.keep),
                head.last.eq(read.last),
            ]
        # The anchor makes overflow impossible, so one in a valid result is a fault of the hardware
        # or of the operand.
        m.d.comb += self.overflow.eq(overflow.any() & self.advance)
        m.d.sync += Assert(~overflow.any())

        # Third and fourth stage: the rounders'.
        normal = Signal(ResultLayout(config))
        normal_valid = Signal()
        rounded_head = Signal(ResultLayout(config))
        rounded = Signal(ResultLayout(config))
        rounded_valid = Signal()
        m.d.comb += rounded.eq(rounded_head)
        m.d.comb += [rounded.values[i].eq(rounder.value) for i, rounder in enumerate(rounders)]
        with m.If(self.advance):
            m.d.sync += [
                normal.eq(head),
                normal_valid.eq(head_valid),
                rounded_head.eq(normal),
                rounded_valid.eq(normal_valid),
            ]

        # A result that is not taken steps aside. So whether the pipeline moves on, which reaches
        # every lane, is known from a register and not from `results.ready`.
        aside = Signal(ResultLayout(config))
        aside_valid = Signal()
        m.d.comb += [
            self.advance.eq(~aside_valid),
            self.results.valid.eq(aside_valid | rounded_valid),
            self.results.payload.eq(Mux(aside_valid, aside, rounded)),
        ]
        with m.If(self.results.ready):
            m.d.sync += aside_valid.eq(0)
        with m.Elif(self.advance & rounded_valid):
            m.d.sync += [aside.eq(rounded), aside_valid.eq(1)]
        return m

    def _row_entry(self, m: Module, step: Any, number: Value) -> Any:
        """Keep the row table; return the entry of row `number`, a cycle later."""
        config = self.config
        table = Memory(shape=RowLayout(config), depth=1 << row_table_address(config), init=[])
        m.submodules.row_table = table
        write, read = table.write_port(), table.read_port()
        entry = Signal(RowLayout(config), name="row_entry")
        m.d.comb += [
            write.en.eq(self.row_write),
            write.addr.eq(self.row_address),
            write.data.eq(self.row_data),
            read.en.eq(step.valid),
            read.addr.eq(Cat(number, step.group.slot)),
            entry.eq(read.data),
        ]
        return entry

    def _maxima(self, m: Module, read_step: Any) -> list[Value]:
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
            read.en.eq(read_step.valid),
            read.addr.eq(Mux(read_step.bank, words, 0) + (read_step.word * read_rows >> low)),
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
                m.d.sync += odd.eq(read_step.word[0])
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
