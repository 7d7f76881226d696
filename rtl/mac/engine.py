"""The matrix engine: from beats and quantised activations to FP32 results."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.counters import Counter
from rtl.mac.activations import ActivationLoader
from rtl.mac.array import MacArray
from rtl.mac.drain import Drain
from rtl.mac.fetch import Fetch
from rtl.mac.geometry import OPERATIONS, MacGeometry
from rtl.mac.operation import (
    ActivationLayout,
    ActivationRequestLayout,
    FetchLayout,
    OperationLayout,
    ResultLayout,
    continues,
    fetched,
    is_legal,
)
from rtl.mac.sequence import Sequencer
from rtl.registers import Access, Field, Register, RegisterBlock, RegisterBus, RegisterMap

COUNTERS = (
    Counter("cycles", "clock cycles since reset"),
    Counter("operations", "operations accepted"),
    Counter("beats", "beats accepted"),
    Counter("beats_waiting", "cycles in which a beat waited for room in the stream buffer"),
    Counter("steps", "cycles in which the array took a block row"),
    Counter("paired_steps", "cycles in which it took two"),
    Counter("stalls_weights", "cycles in which the array had an operation but no block row"),
    Counter("stalls_activations", "cycles in which it had a block row but no activations"),
    Counter("stalls_drain", "cycles in which it had both but no free group buffer"),
    Counter("results", "result transfers"),
    Counter("results_waiting", "cycles in which a result waited to be taken"),
)
"""What the engine counts."""


def registers(geometry: MacGeometry) -> tuple[Register, ...]:
    """Return the registers of the engine."""
    rows = geometry.buffer_rows
    return (
        Register(
            "control",
            "what the engine may do",
            (Field("pairing", 1, Access.READ_WRITE, "let spare lanes take a second row", reset=1),),
        ),
        Register(
            "stream",
            "how far the fetch side may run ahead",
            (
                Field(
                    "rows",
                    rows.bit_length(),
                    Access.READ_WRITE,
                    f"block rows that each half of the stream buffer may hold, 2 to {rows}",
                    reset=rows,
                ),
            ),
        ),
        Register(
            "status",
            "what went wrong",
            (Field("overflow", 1, Access.STICKY, "an operand overflowed its accumulator"),),
        ),
    )


class MatrixEngine(wiring.Component):
    """Weights stream past stationary activations; results leave as FP32.

    Four parts work on the same operations at their own pace: fetch, activation loader, sequencer
    with array, drain. Fetch depends on nothing but memory and runs ahead as far as its buffer
    goes.

    Parameters
    ----------
    config
        The configuration of the tile.
    ahead
        Fetch may begin before an operation is there.

    Members
    -------
    operations : In
        What to do, see `OperationLayout`.
    fetches : In
        With `ahead`: what the operands of the operations look like, in the same order.
    beats : In
        The weight operands of the operations, one after the other, as `gen.layout` packs them.
    requests : Out
        Which activation block comes next.
    activations : In
        The blocks, in the order of the requests.
    results : Out
        The results of an operation, in no promised order; operations in order.
    events : Out
        The array takes a block row, and a second one.
    bus : In
        Registers and counters, see `register_map`.

    Attributes
    ----------
    register_map
        Run-time limits, status and counters.
    """

    def __init__(self, config: TileConfig, *, ahead: bool = False) -> None:
        self.config, self.ahead = config, ahead
        self.geometry = MacGeometry(config)
        self.register_map = RegisterMap(config, registers(self.geometry), COUNTERS)
        super().__init__(
            {
                "operations": In(stream.Signature(OperationLayout(config))),
                **({"fetches": In(stream.Signature(FetchLayout(config)))} if ahead else {}),
                "beats": In(stream.Signature(config.beat_bits)),
                "requests": Out(stream.Signature(ActivationRequestLayout(config))),
                "activations": In(stream.Signature(ActivationLayout(config))),
                "results": Out(stream.Signature(ResultLayout(config))),
                "events": Out(wiring.Signature({"step": Out(1), "pair": Out(1)})),
                "bus": In(RegisterBus(self.register_map.words)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the engine."""
        m = Module()
        config = self.config
        m.submodules.fetch = fetch = Fetch(config)
        m.submodules.loader = loader = ActivationLoader(config)
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.array = array = MacArray(config)
        m.submodules.drain = drain = Drain(config)

        m.submodules.registers = block = RegisterBlock(self.register_map)
        connect(m, flipped(self.bus), block.bus)

        # What the drain must know of an operation's rows lies in a slot of its row table from the
        # first block loaded to the last result read; so many operations may be under way.
        draining = Signal(range(OPERATIONS + 1))
        room = draining < OPERATIONS
        operation = Signal(OperationLayout(config))
        previous = Signal(OperationLayout(config))
        unfinished = Signal()  # the previous operation did not drain
        m.d.comb += [
            operation.eq(self.operations.payload),
            # Whether rows are paired decides where their sums are: it stays until they are drained.
            operation.pair.eq(
                Mux(
                    unfinished,
                    previous.pair,
                    self.operations.payload.pair & block.control.pairing,
                )
            ),
        ]
        accept = self.operations.valid & self.operations.ready
        fetches = Signal(FetchLayout(config))
        m.d.comb += fetched(fetches, operation)
        queues: dict[str, tuple[Any, Signal, Value]] = {
            "loader": (loader, operation, accept),
            "sequencer": (sequencer, operation, accept),
            "fetch": (fetch, fetches, accept),
        }
        if self.ahead:
            queues["fetch"] = (fetch, self.fetches.payload, self.fetches.valid)
        for name, (part, coming, enters) in queues.items():
            queue = SyncFIFOBuffered(width=len(Value.cast(coming)), depth=OPERATIONS)
            m.submodules[f"{name}_operations"] = queue
            m.d.comb += [
                queue.w_data.eq(coming),
                queue.w_en.eq(enters),
                part.operations.payload.eq(queue.r_data),
                part.operations.valid.eq(queue.r_rdy),
                queue.r_en.eq(part.operations.ready),
            ]
            if name == "fetch" and self.ahead:
                m.d.comb += self.fetches.ready.eq(queue.w_rdy)
            else:
                room &= queue.w_rdy
        m.d.comb += self.operations.ready.eq(room)
        with m.If(accept):
            # Clocked, like all assertions here: between an edge and the inputs that follow it, new
            # state meets old inputs.
            m.d.sync += [
                Assert(is_legal(self.geometry, operation)),
                Assert(operation.clear == ~unfinished),
                Assert(~unfinished | continues(operation, previous)),
                previous.eq(operation),
                unfinished.eq(~operation.drain),
            ]
        m.d.sync += Assert(draining <= OPERATIONS)
        m.d.sync += draining.eq(draining + (accept & operation.drain) - drain.retired)

        connect(m, flipped(self.beats), fetch.beats)
        connect(m, loader.requests, flipped(self.requests))
        connect(m, flipped(self.activations), loader.activations)
        connect(m, drain.results, flipped(self.results))
        for parity in range(2):
            connect(m, fetch.rows[parity], sequencer.rows[parity])
        connect(m, sequencer.groups, drain.groups)
        m.d.comb += [
            fetch.limit.eq(block.stream.rows),
            self.events.step.eq(sequencer.step.valid),
            self.events.pair.eq(sequencer.step.second),
            block.status.overflow.eq(drain.overflow),
            block.step.cycles.eq(1),
            block.step.operations.eq(accept),
            block.step.beats.eq(self.beats.valid & self.beats.ready),
            block.step.beats_waiting.eq(self.beats.valid & ~self.beats.ready),
            block.step.steps.eq(sequencer.step.valid),
            block.step.paired_steps.eq(sequencer.step.second),
            block.step.stalls_weights.eq(sequencer.stalls.weights),
            block.step.stalls_activations.eq(sequencer.stalls.activations),
            block.step.stalls_drain.eq(sequencer.stalls.drain),
            block.step.results.eq(self.results.valid & self.results.ready),
            block.step.results_waiting.eq(self.results.valid & ~self.results.ready),
        ]
        for lane in range(2):
            m.d.comb += [
                array.write[lane].eq(loader.write[lane]),
                array.write_data[lane].eq(loader.write_data[lane]),
                array.read[lane].eq(sequencer.read[lane]),
                array.weights[lane].eq(sequencer.weights[lane]),
                drain.maxima[lane].eq(sequencer.maxima[lane]),
            ]
            for s in range(self.geometry.drain_rows):
                m.d.comb += array.select[lane][s].eq(drain.select[lane][s])
        m.d.comb += [
            loader.release.eq(sequencer.release),
            sequencer.loaded.eq(loader.loaded),
            sequencer.drained.eq(drain.drained),
            array.write_address.eq(loader.write_address),
            array.read_address.eq(sequencer.read_address),
            array.step.eq(sequencer.step),
            array.advance.eq(drain.advance),
            array.word.eq(drain.word),
            drain.values.eq(array.values),
            drain.done.eq(array.done),
            drain.step.eq(sequencer.step),
            drain.row_write.eq(loader.row_write),
            drain.row_address.eq(loader.row_address),
            drain.row_data.eq(loader.row_data),
        ]
        return m
