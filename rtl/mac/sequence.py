"""The sequencer: which block rows meet which stationary blocks, cycle by cycle."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.formats import BLOCK
from rtl.mac.geometry import OPERATIONS, MacGeometry, index
from rtl.mac.lanes import active_rows, can_pair, copy_lanes, primary_lanes
from rtl.mac.operand import significand_operand, stream_operand
from rtl.mac.operation import OperationLayout, fetched
from rtl.mac.pair import WeightLayout
from rtl.mac.rows import BlockRowLayout
from rtl.mac.walk import OperandWalk


class GroupLayout(data.StructLayout):
    """A group of neurons on its way through the array, for the drain.

    Members
    -------
    operation : OperationLayout
        The operation it belongs to.
    base : unsigned
        First output of the group.
    slot : unsigned
        Slot of the operation in the row table.
    paired : unsigned(1)
        Odd rows are in the copies.
    """

    def __init__(self, config: TileConfig) -> None:
        operation = OperationLayout(config)
        super().__init__(
            {
                "operation": operation,
                "base": operation["outputs"].shape,
                "slot": range(OPERATIONS),
                "paired": 1,
            }
        )


class ArrayStepLayout(data.StructLayout):
    """What the array does in a cycle, beside the weights.

    Members
    -------
    valid : unsigned(1)
        There is a block row, for the primary lanes.
    second : unsigned(1)
        There is a second one, the next row of the group, for the copies.
    hold, add : unsigned(1)
        See `rtl.mac.pair.LaneStepLayout`.
    row, bank : unsigned
        Accumulator of the first row.
    clear : unsigned(1)
        First block: start at zero.
    last : unsigned(1)
        Last block: the row, or both rows, are complete.
    end : unsigned(1)
        So is the group.
    wide, planes, paired : unsigned(1)
        8-bit activations; 8-bit weights; copies in use.
    primary, copy : arrays of unsigned
        For the even and the odd lanes, the pairs in use.
    """

    def __init__(self, geometry: MacGeometry) -> None:
        lanes = data.ArrayLayout(geometry.pairs, 2)
        super().__init__(
            {
                "valid": 1,
                "second": 1,
                "hold": 1,
                "add": 1,
                "row": index(geometry.group_rows),
                "bank": 1,
                "clear": 1,
                "last": 1,
                "end": 1,
                "wide": 1,
                "planes": 1,
                "paired": 1,
                "primary": lanes,
                "copy": lanes,
            }
        )


class Sequencer(wiring.Component):
    """Issue one step per cycle while weights, activations and a free group buffer are there.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Descriptors; an operation is taken with its last step.
    rows : array of In
        Even and odd block rows.
    loaded : In
        Activation blocks present that were not given back.
    release : Out
        An activation block is no longer needed: its last step, in the last group, is done.
    read, read_address : Out
        Stationary block to fetch: a bit per pair for the even and the odd lanes.
    groups : Out
        Groups to drain, each announced with its first step.
    drained : In
        For each group buffer: its drain is through.
    step : Out
        Registered; what the array does.
    weights : array of Out
        Registered; the first and the second row's blocks, and beside them the neurons' maxima.
    stalls : Out
        Why there is an operation but no step: no weights, no activations, no free group buffer.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = MacGeometry(config)
        operation = OperationLayout(config)
        row = BlockRowLayout(self.geometry)
        columns = self.geometry.columns
        super().__init__(
            {
                "operations": In(stream.Signature(operation)),
                "rows": In(stream.Signature(row)).array(2),
                "loaded": In(operation["blocks"].shape),
                "release": Out(1),
                "read": Out(self.geometry.pairs).array(2),
                "read_address": Out(index(config.act_blocks)),
                "groups": Out(stream.Signature(GroupLayout(config))),
                "drained": In(2),
                "step": Out(ArrayStepLayout(self.geometry)),
                "weights": Out(data.ArrayLayout(WeightLayout(self.geometry), columns)).array(2),
                "maxima": Out(data.ArrayLayout(8, columns)).array(2),
                "stalls": Out(data.StructLayout({"weights": 1, "activations": 1, "drain": 1})),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the sequencer."""
        m = Module()
        geometry = self.geometry
        operation = self.operations.payload
        rows = active_rows(geometry, operation)
        paired = Signal()
        m.submodules.walk = walk = OperandWalk(self.config)
        m.d.comb += [
            paired.eq(operation.pair & can_pair(geometry, operation)),
            *fetched(walk.operation, operation),
            walk.two.eq(paired),
        ]

        # --- may we go? --------------------------------------------------------------------------

        bank = Signal()
        bank_busy = Signal(2)
        group_open = Signal()
        odd = walk.row[0]
        have_rows = Mux(
            odd, self.rows[1].valid, self.rows[0].valid & (~walk.second | self.rows[1].valid)
        )
        # In the last group, the blocks before this one have been given back.
        have_block = self.loaded > Mux(walk.last_group, 0, walk.block)
        may_open = ~operation.clear | ~bank_busy.bit_select(bank, 1)
        ready = self.operations.valid & have_rows & have_block
        go = Signal()
        m.d.comb += [
            self.groups.payload.operation.eq(operation),
            self.groups.payload.base.eq(walk.base),
            self.groups.payload.paired.eq(paired),
            self.groups.valid.eq(ready & ~group_open & may_open & operation.drain),
            go.eq(ready & (group_open | (may_open & (self.groups.ready | ~operation.drain)))),
            self.stalls.weights.eq(self.operations.valid & ~have_rows),
            self.stalls.activations.eq(self.operations.valid & have_rows & ~have_block),
            self.stalls.drain.eq(ready & ~go),
            walk.advance.eq(go),
            self.operations.ready.eq(go & walk.last),
            self.rows[0].ready.eq(go & ~odd),
            self.rows[1].ready.eq(go & (odd | walk.second)),
        ]
        end = walk.last_plane & walk.last_row & walk.last_block
        with m.If(go):
            m.d.sync += group_open.eq(~end)
        with m.If(go & end & operation.drain):
            m.d.sync += bank.eq(~bank)
        opened = Mux(go & ~group_open & operation.clear, 1 << bank, 0)
        m.d.sync += bank_busy.eq((bank_busy & ~self.drained) | opened)
        m.d.sync += [Assert((opened & bank_busy) == 0), Assert((self.drained & ~bank_busy) == 0)]

        slot = Signal.like(self.groups.payload.slot)
        m.d.comb += self.groups.payload.slot.eq(slot)
        with m.If(self.operations.ready & operation.drain):
            m.d.sync += slot.eq(slot + 1)

        # --- stationary blocks -------------------------------------------------------------------

        first = Signal.like(self.read_address)  # of the operation's blocks in the ring
        address = Signal.like(self.read_address)
        next_address = Mux(address == self.config.act_blocks - 1, 0, address + 1)
        primary = primary_lanes(geometry, rows, operation.activation)
        copy = [Mux(paired, lanes, 0) for lanes in copy_lanes(geometry, rows, operation.activation)]
        new_block = go & (walk.row == 0) & (walk.plane == 0)
        m.d.comb += [
            self.read_address.eq(address),
            Cat(self.read).eq(Mux(new_block, Cat(primary) | Cat(copy), 0)),
            self.release.eq(go & walk.last_plane & walk.last_row & walk.last_group),
        ]
        with m.If(go & walk.last_plane & walk.last_row):
            m.d.sync += address.eq(next_address)
            with m.If(walk.last_block):
                m.d.sync += address.eq(Mux(walk.last_group, next_address, first))
                with m.If(walk.last_group):
                    m.d.sync += first.eq(next_address)

        # --- the step ----------------------------------------------------------------------------

        step = self.step
        m.d.sync += [
            step.valid.eq(go),
            step.second.eq(go & walk.second),
            step.hold.eq(~walk.last_plane),
            step.add.eq(walk.last_plane),
            step.row.eq(walk.row),
            step.bank.eq(bank),
            step.clear.eq(operation.clear & (walk.block == 0)),
            step.last.eq(operation.drain & walk.last_block & walk.last_plane),
            step.end.eq(end),
            step.wide.eq(operation.activation),
            step.planes.eq(operation.weight),
            step.paired.eq(paired),
            Cat(step.primary[0], step.primary[1]).eq(Cat(primary)),
            Cat(step.copy[0], step.copy[1]).eq(Cat(copy)),
        ]
        for i in range(2):
            row = Signal(BlockRowLayout(geometry), name=f"row{i}")
            in_odd_queue = odd if i == 0 else 1
            m.d.comb += row.eq(Mux(in_odd_queue, self.rows[1].payload, self.rows[0].payload))
            with m.If(go & (walk.second if i else 1)):
                for c in range(geometry.columns):
                    block = row.blocks[c]
                    weight = self.weights[i][c]
                    m.d.sync += [
                        self.maxima[i][c].eq(block.maximum),
                        weight.drop.eq(block.drop),
                        weight.nan.eq(block.nan),
                    ]
                    for k in range(BLOCK):
                        nibble = block.nibbles.word_select(k, 4)
                        if geometry.int8:
                            operand = stream_operand(
                                nibble, integer=operation.weight, low=walk.plane
                            )
                        else:
                            operand = significand_operand(nibble)
                        m.d.sync += Value.cast(weight.operands[k]).eq(operand)
        return m
