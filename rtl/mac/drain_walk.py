"""The order in which complete accumulators are read."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.mac.array import DoneLayout
from rtl.mac.geometry import OUTPUT_BITS, MacGeometry, index
from rtl.mac.lanes import active_rows
from rtl.mac.sequence import GroupLayout


class DrainStepLayout(data.StructLayout):
    """What to read in a cycle: up to `vec_lanes` neighbouring results of one row.

    Members
    -------
    valid : unsigned(1)
        There is something to read.
    group : GroupLayout
        The group it belongs to.
    bank, word, slice : unsigned
        Group buffer, word of S·P accumulators in it, and part of the word.
    row : unsigned(lanes)
        The row, one-hot.
    first : unsigned
        Output neuron of the first result.
    keep : unsigned(vec_lanes)
        Which results exist.
    last : unsigned(1)
        The operation is through with this.
    """

    def __init__(self, config: TileConfig) -> None:
        geometry = MacGeometry(config)
        super().__init__(
            {
                "valid": 1,
                "group": GroupLayout(config),
                "bank": 1,
                "word": index(geometry.drain_words),
                "slice": index(geometry.drain_slices),
                "row": config.lanes,
                "first": unsigned(OUTPUT_BITS + 1),
                "keep": config.vec_lanes,
                "last": 1,
            }
        )


class DrainWalk(wiring.Component):
    """Follow the groups through the array and step through what is complete: word, row, slice.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    groups : In
        Groups to drain, in order; they alternate between the two group buffers.
    done : In
        Rows that have become complete.
    advance : In
        Go on to the next step, if there is one.
    step : Out
        What to read.
    drained : Out
        For each group buffer: its drain is through.
    retired : Out
        So is its operation.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = MacGeometry(config)
        super().__init__(
            {
                "groups": In(stream.Signature(GroupLayout(config))),
                "done": In(DoneLayout()),
                "advance": In(1),
                "step": Out(DrainStepLayout(config)),
                "drained": Out(2),
                "retired": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the walk."""
        m = Module()
        config, geometry = self.config, self.geometry
        lanes, width = config.vec_lanes, geometry.drain_width
        step = self.step
        group = step.group
        bank = Signal()
        word = Signal.like(step.word)
        part = Signal.like(step.slice)
        m.d.comb += [step.bank.eq(bank), step.word.eq(word), step.slice.eq(part)]

        m.submodules.queue = queue = SyncFIFOBuffered(width=GroupLayout(config).size, depth=3)
        m.d.comb += [
            queue.w_data.eq(self.groups.payload),
            queue.w_en.eq(self.groups.valid),
            self.groups.ready.eq(queue.w_rdy),
            group.eq(queue.r_data),
        ]

        # How far each group buffer has come.
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

        # The rows of this word that are left, the lowest of them, and the others.
        resumed = Signal()
        rest = Signal(config.lanes)
        rows = Signal(config.lanes)
        others = Signal(config.lanes)
        m.d.comb += [
            rows.eq(Mux(resumed, rest, active_rows(geometry, group.operation))),
            others.eq(rows & (rows - 1)),
            step.row.eq(rows & ~others),
        ]

        # The rows read together may go beyond the group, and the group beyond the operand.
        outputs = group.operation.outputs
        group_end = group.base + config.group_outputs
        last_group = group_end >= outputs
        end = Signal.like(step.first)
        next_word = word + 1
        m.d.comb += [
            end.eq(Mux(last_group, outputs, group_end)),
            step.first.eq(group.base + word * width + part * lanes),
            step.keep.eq(Cat(step.first + i < end for i in range(lanes))),
        ]

        nobody = ~rows.any()
        ready = ended.bit_select(bank, 1) | (
            ~nobody & (Mux(bank, complete[1], complete[0]) >= next_word * geometry.drain_rows)
        )
        last_slice = (part == geometry.drain_slices - 1) | (step.first + lanes >= end)
        last_row = others == 0
        last_word = (word == geometry.drain_words - 1) | (group.base + next_word * width >= end)
        go = Signal()
        last = Signal()
        m.d.comb += [
            go.eq(queue.r_rdy & ready & self.advance),
            step.valid.eq(go & ~nobody),
            last.eq(go & (nobody | (last_slice & last_row & last_word))),
            queue.r_en.eq(last),
            self.drained.eq(Mux(last, 1 << bank, 0)),
            step.last.eq(last & last_group),
            self.retired.eq(step.last),
        ]
        with m.If(go):
            m.d.sync += part.eq(part + 1)
            with m.If(last_slice):
                m.d.sync += [part.eq(0), resumed.eq(~last_row), rest.eq(others)]
                with m.If(last_row):
                    m.d.sync += word.eq(next_word)
        with m.If(last):
            m.d.sync += [
                part.eq(0),
                word.eq(0),
                resumed.eq(0),
                bank.eq(~bank),
            ]
        return m
