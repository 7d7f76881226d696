"""The activation side: stationary blocks, loaded once and held while the weights stream past."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.config import TileConfig
from rtl.formats import BLOCK, SCALE_NAN
from rtl.leaf import Leaf
from rtl.mac.drop import saturating_drop
from rtl.mac.geometry import DEPTH_BITS, OPERATIONS, SHIFT_BITS, MacGeometry, index
from rtl.mac.lanes import active_rows, can_pair, copy_lanes, primary_lanes
from rtl.mac.operand import correction, significand_operand, stationary_operand
from rtl.mac.operation import ActivationLayout, ActivationRequestLayout, OperationLayout
from rtl.mac.pair import StationaryLayout

DEPTH_LOG_BITS = 5
"""Bits of clog2(n), n at most 2**19 blocks."""


class ActivationStore(Leaf):
    """The activation blocks of one lane pair.

    Members
    -------
    write, write_address, write_data : In
        Store a block, for each lane.
    read, read_address : In
        Fetch a block, for each lane: it is stationary two cycles later.
    stationary : array of Out
        The block each lane works on.
    """

    def __init__(self, geometry: MacGeometry) -> None:
        self.geometry = geometry
        layout = StationaryLayout(geometry)
        address = index(geometry.config.act_blocks)
        super().__init__(
            {
                "write": In(1).array(2),
                "write_address": In(address),
                "write_data": In(layout).array(2),
                "read": In(1).array(2),
                "read_address": In(address),
                "stationary": Out(layout).array(2),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        kind = "int8" if self.geometry.int8 else "fp4"
        return f"mac_activations_{kind}_{self.geometry.config.act_blocks}"

    def build(self, platform: Any) -> Module:
        """Return memories and stationary registers."""
        m = Module()
        for lane in range(2):
            memory = Memory(
                shape=StationaryLayout(self.geometry),
                depth=self.geometry.config.act_blocks,
                init=[],
            )
            m.submodules[f"blocks{lane}"] = memory
            write, read = memory.write_port(), memory.read_port()
            fetched = Signal(name=f"fetched{lane}")
            m.d.comb += [
                write.en.eq(self.write[lane]),
                write.addr.eq(self.write_address),
                write.data.eq(self.write_data[lane]),
                read.en.eq(self.read[lane]),
                read.addr.eq(self.read_address),
            ]
            m.d.sync += fetched.eq(self.read[lane])
            with m.If(fetched):
                m.d.sync += self.stationary[lane].eq(read.data)
        return m


def row_table_address(config: TileConfig) -> int:
    """Return the bits of ``Cat(row, slot)``."""
    return ceil_log2(config.lanes) + ceil_log2(OPERATIONS)


class RowLayout(data.StructLayout):
    """What the drain must know of a row.

    Members
    -------
    token : unsigned
        Its token, with which ranges move.
    column : unsigned
        Column of its first result.
    maximum : unsigned(8)
        Maximum E8M0 byte of its activations.
    depth_log : unsigned
        clog2(n), n being the row's blocks along K.
    """

    def __init__(self, config: TileConfig) -> None:
        operation = OperationLayout(config)
        super().__init__(
            {
                "token": range(config.lanes),
                "column": operation["result_column"].shape,
                "maximum": 8,
                "depth_log": DEPTH_LOG_BITS,
            }
        )


class RowWalk(wiring.Component):
    """Step through an operation's activation blocks: block along K, then row.

    Members
    -------
    operation : In
        What is walked; stable until the walk is through.
    advance : In
        Go on to the next step.
    row, block : Out
        Where the walk stands.
    token : Out
        Token of the row.
    activation, result : Out
        Column of its next activation block and of its first result.
    last_row, last : Out
        The step is the last of its block, of the operation.
    """

    def __init__(self, config: TileConfig) -> None:
        layout = OperationLayout(config)
        super().__init__(
            {
                "operation": In(layout),
                "advance": In(1),
                "row": Out(range(config.lanes)),
                "block": Out(layout["blocks"].shape),
                "token": Out(range(config.lanes)),
                "activation": Out(layout["activation_column"].shape),
                "result": Out(layout["result_column"].shape),
                "last_row": Out(1),
                "last": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the counters."""
        m = Module()
        operation = self.operation
        head = Signal.like(operation.heads)
        offset = Signal.like(operation.activation_column)  # of the head
        result = Signal.like(operation.result_column)
        results = Signal.like(operation.result_column)  # of the token
        next_results = Signal.like(results)
        m.d.comb += [
            next_results.eq(results + operation.result_pitch),
            self.activation.eq(operation.activation_column + offset + self.block),
            self.result.eq(operation.result_column + result),
            self.last_row.eq(self.row == operation.rows - 1),
            self.last.eq(self.last_row & (self.block == operation.blocks - 1)),
        ]
        with m.If(self.advance):
            m.d.sync += [
                self.row.eq(self.row + 1),
                head.eq(head + 1),
                offset.eq(offset + operation.activation_stride),
                result.eq(result + operation.result_stride),
            ]
            with m.If(self.last_row | (head == operation.heads - 1)):
                m.d.sync += [
                    head.eq(0),
                    offset.eq(0),
                    result.eq(next_results),
                    results.eq(next_results),
                    self.token.eq(self.token + 1),
                ]
            with m.If(self.last_row):
                m.d.sync += [
                    self.row.eq(0),
                    self.token.eq(0),
                    result.eq(0),
                    results.eq(0),
                    self.block.eq(self.block + 1),
                ]
            with m.If(self.last):
                m.d.sync += self.block.eq(0)
        return m


class ActivationLoader(wiring.Component):
    """Request an operation's activation blocks, prepare them and store them in their lanes.

    The stores of all lanes are one ring: every operation takes its `blocks` next entries in all of
    them, and gives them back when the array is through. So the next operation's blocks load while
    this one's are in use.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Descriptors; an operation is taken with its last block.
    requests : Out
        Which block comes next.
    activations : In
        The blocks, in the order of the requests.
    release : In
        The array gives a block back.
    loaded : Out
        Blocks that are stored in all their lanes and were not given back.
    write, write_address, write_data : Out
        To the stores: a bit per pair for each lane, and the block for each lane.
    row_write, row_address, row_data : Out
        To the row table: address is ``Cat(row, slot)``, slot counting draining operations.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = MacGeometry(config)
        operation = OperationLayout(config)
        super().__init__(
            {
                "operations": In(stream.Signature(operation)),
                "requests": Out(stream.Signature(ActivationRequestLayout(config))),
                "activations": In(stream.Signature(ActivationLayout(config))),
                "release": In(1),
                "loaded": Out(operation["blocks"].shape),
                "write": Out(self.geometry.pairs).array(2),
                "write_address": Out(index(config.act_blocks)),
                "write_data": Out(StationaryLayout(self.geometry)).array(2),
                "row_write": Out(1),
                "row_address": Out(row_table_address(config)),
                "row_data": Out(RowLayout(config)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return walks, operand preparation and bookkeeping."""
        m = Module()
        config, geometry = self.config, self.geometry
        operation = self.operations.payload
        rows = active_rows(geometry, operation)

        # --- requests ----------------------------------------------------------------------------

        m.submodules.asking = asking = RowWalk(config)
        m.submodules.getting = getting = RowWalk(config)
        all_asked = Signal()
        reserved = Signal.like(self.loaded)  # blocks asked for and not yet given back
        room = reserved < config.act_blocks
        ask = self.operations.valid & ~all_asked & room
        asked_row = rows.bit_select(asking.row, 1)
        m.d.comb += [
            asking.operation.eq(operation),
            getting.operation.eq(operation),
            self.requests.payload.token.eq(asking.token),
            self.requests.payload.column.eq(asking.activation),
            self.requests.valid.eq(ask & asked_row),
            asking.advance.eq(ask & (~asked_row | self.requests.ready)),
        ]
        asked_block = asking.advance & asking.last_row
        m.d.sync += reserved.eq(reserved + asked_block - self.release)
        with m.If(asking.advance & asking.last):
            m.d.sync += all_asked.eq(1)

        # --- blocks ------------------------------------------------------------------------------

        # A row that takes no part passes as soon as its request has been passed over.
        got_row = rows.bit_select(getting.row, 1)
        behind = all_asked | (getting.block != asking.block) | (getting.row != asking.row)
        got = self.operations.valid & got_row & self.activations.valid
        m.d.comb += [
            self.activations.ready.eq(self.operations.valid & got_row),
            getting.advance.eq(got | (self.operations.valid & ~got_row & behind)),
            self.operations.ready.eq(getting.advance & getting.last),
        ]
        with m.If(self.operations.ready):
            m.d.sync += all_asked.eq(0)

        last = Signal(DEPTH_BITS)
        depth_log = Signal(DEPTH_LOG_BITS)
        m.d.comb += last.eq(operation.last + Mux(operation.last_step, getting.token, 0))
        for i in range(DEPTH_BITS - 5):
            with m.If(last[5 + i]):
                m.d.comb += depth_log.eq(i + 1)

        block = self.activations.payload
        drop = saturating_drop(block.maximum, block.scale) + depth_log
        tail = Signal.like(self.write_address)
        stored = Signal()
        one_row = Signal(config.lanes)
        m.d.comb += one_row.eq(1 << getting.row)
        primary = primary_lanes(geometry, one_row, operation.activation)
        copy = copy_lanes(geometry, one_row, operation.activation)
        paired = operation.pair & can_pair(geometry, operation)
        for lane in range(2):
            stored_block = self.write_data[lane]
            m.d.sync += [
                self.write[lane].eq(Mux(got, primary[lane] | Mux(paired, copy[lane], 0), 0)),
                stored_block.drop.eq(Mux(drop >> SHIFT_BITS, (1 << SHIFT_BITS) - 1, drop)),
                stored_block.nan.eq(block.scale == SCALE_NAN),
            ]
            operands = Signal(StationaryLayout(geometry)["operands"].shape, name=f"operands{lane}")
            for i in range(BLOCK):
                code = block.codes.word_select(i, 4)
                if geometry.int8:
                    byte = block.codes.word_select(i, 8)
                    code = Mux(operation.activation, byte[4:] if lane == 0 else byte[:4], code)
                    value = stationary_operand(code, integer=operation.activation, low=lane == 1)
                else:
                    value = significand_operand(code)
                m.d.comb += Value.cast(operands[i]).eq(value)
            m.d.sync += stored_block.operands.eq(operands)
            if geometry.int8:
                m.d.sync += stored_block.correction.eq(correction(operands.as_value()))

        m.d.sync += [
            self.write_address.eq(tail),
            stored.eq(getting.advance & getting.last_row),
            self.loaded.eq(self.loaded + stored - self.release),
        ]
        m.d.sync += [
            Assert(self.loaded <= reserved),
            Assert(~self.release | (self.loaded != 0)),
        ]
        with m.If(getting.advance & getting.last_row):
            m.d.sync += tail.eq(Mux(tail == config.act_blocks - 1, 0, tail + 1))

        slot = Signal(range(OPERATIONS))
        with m.If(self.operations.ready & operation.drain):
            m.d.sync += slot.eq(slot + 1)
        m.d.comb += [
            self.row_write.eq(got & (getting.block == 0)),
            self.row_address.eq(Cat(getting.row, slot)),
            self.row_data.token.eq(getting.token),
            self.row_data.column.eq(getting.result),
            self.row_data.maximum.eq(block.maximum),
            self.row_data.depth_log.eq(depth_log),
        ]
        return m
