"""The matrix unit: the matrix engine, and its ways to the registers of the tile."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.mac.engine import MatrixEngine
from rtl.mac.geometry import OPERATIONS
from rtl.mac.operation import FetchLayout
from rtl.matrix.activations import ActivationReader
from rtl.matrix.argmax import ArgMax
from rtl.matrix.operation import (
    MATRIX,
    ReadLayout,
    ResultsLayout,
    engine_operation,
    fields,
    taking_part,
)
from rtl.matrix.results import ResultWriter
from rtl.registers import RegisterBus
from rtl.vec.geometry import VectorGeometry
from rtl.vec.ports import (
    LineReadSignature,
    LineWriteLayout,
    WordReadSignature,
    WordWriteLayout,
)
from rtl.vec.queue import CommandQueue

UNDER_WAY = 2 * OPERATIONS
"""Instructions between being accepted and being done."""


class MatrixUnit(wiring.Component):
    """Executes `matrix`.

    Operands come by themselves, in the order of the instructions, and may come before them: whoever
    hands instructions over also hands `address` and `beats` to `rtl.mac.OperandStream`, and to
    `fetches` what the operand looks like.

    An instruction is done when its registers may be used by others: one that drains when everything
    is written, another one when its activations are read.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Instructions, in the order of the program; all of a chain are there before its end is.
    fetches : In
        What their operands look like, see `rtl.mac.FetchLayout`; as early as one likes.
    done : Out
        An instruction is done; they end in their order.
    beats : In
        Their operands, one after the other.
    read_activations, rows_read_maxima, rows_read_best : Out
        Ports that read vector and row registers.
    write_results, rows_write_best : Out
        Ports that write them.
    events : Out
        What its array does, see `rtl.mac.MatrixEngine`.
    bus : In
        Registers and counters of the engine, see `register_map`.

    Attributes
    ----------
    register_map
        That of the engine.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = VectorGeometry(config)
        self._engine = MatrixEngine(config, ahead=True)
        self.register_map = self._engine.register_map
        super().__init__(
            {
                "operations": In(stream.Signature(MATRIX)),
                "fetches": In(stream.Signature(FetchLayout(config))),
                "done": Out(1),
                "beats": In(stream.Signature(config.beat_bits)),
                "read_activations": Out(LineReadSignature(g)),
                "rows_read_maxima": Out(WordReadSignature(g)),
                "rows_read_best": Out(WordReadSignature(g)),
                "write_results": Out(stream.Signature(LineWriteLayout(g))),
                "rows_write_best": Out(stream.Signature(WordWriteLayout(g))),
                "events": Out(self._engine.events.signature),
                "bus": In(RegisterBus(self.register_map.words)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the parts, connected."""
        m = Module()
        config = self.config
        m.submodules.engine = engine = self._engine
        m.submodules.reader = reader = ActivationReader(config)
        m.submodules.writer = writer = ResultWriter(config)
        m.submodules.argmax = argmax = ArgMax(config)
        connect(m, flipped(self.bus), engine.bus)
        connect(m, engine.events, flipped(self.events))
        connect(m, flipped(self.beats), engine.beats)
        connect(m, flipped(self.fetches), engine.fetches)
        connect(m, engine.requests, reader.requests)
        connect(m, reader.activations, engine.activations)
        connect(m, reader.lines, flipped(self.read_activations))
        connect(m, reader.words, flipped(self.rows_read_maxima))
        connect(m, writer.lines, flipped(self.write_results))
        connect(m, argmax.read, flipped(self.rows_read_best))
        connect(m, argmax.write, flipped(self.rows_write_best))

        # An instruction goes to everyone at once. Results come of those that drain and have rows.
        o = self.operations.payload
        ending_layout = data.StructLayout({"rows": 1, "drain": 1})
        m.submodules.wanted = wanted = CommandQueue(ResultsLayout(config), OPERATIONS)
        m.submodules.endings = endings = CommandQueue(ending_layout, UNDER_WAY)
        rows = Signal()
        m.d.comb += rows.eq(taking_part(config, o).any())
        takers: list[tuple[Any, Value, dict[str, Value]]] = [
            (engine.operations, Const(1), engine_operation(config, o)),
            (reader.operations, Const(1), fields(ReadLayout(config), config, o)),
            (wanted.commands, rows & o.drain, fields(ResultsLayout(config), config, o)),
            (endings.commands, Const(1), {"rows": rows, "drain": o.drain}),
        ]
        m.d.comb += self.operations.ready.eq(Cat(taker.ready for taker, _, _ in takers).all())
        for taker, when, values in takers:
            others = Cat(other.ready for other, _, _ in takers if other is not taker).all()
            m.d.comb += taker.valid.eq(self.operations.valid & others & when)
            m.d.comb += [taker.payload[name].eq(value) for name, value in values.items()]

        # So do results: to the registers, and past what looks for the best.
        result, want = engine.results.payload, wanted.head.payload
        last = Signal()
        m.d.comb += [
            engine.results.ready.eq(writer.results.ready & argmax.results.ready),
            writer.results.valid.eq(engine.results.valid & argmax.results.ready),
            writer.results.payload.register.eq(want.to),
            writer.results.payload.word.eq(result.column),
            writer.results.payload.keep.eq(Mux(want.results, result.keep, 0)),
            writer.results.payload.values.eq(result.values),
            writer.results.payload.last.eq(last),
            argmax.operation.eq(want),
            argmax.results.valid.eq(engine.results.valid & writer.results.ready & want.argmax),
            argmax.results.payload.eq(result),
            argmax.may_end.eq(writer.empty),
            last.eq(result.last & ~want.argmax),
            wanted.head.ready.eq(
                (engine.results.valid & engine.results.ready & last) | argmax.done
            ),
        ]
        m.d.sync += Assert(~engine.results.valid | wanted.head.valid)

        # What has happened is counted, since reading runs ahead of writing. Those without rows have
        # nothing to wait for.
        ending = endings.head.payload
        happened = ~ending.rows
        for name, event, awaited in (
            ("written", writer.written | argmax.done, ending.drain),
            ("released", reader.released, ~ending.drain),
        ):
            count = Signal(range(UNDER_WAY + 1), name=name)
            there = Signal(name=f"{name}_there")
            m.d.comb += there.eq(ending.rows & awaited & (event | (count != 0)))
            m.d.sync += count.eq(count + event - (self.done & there))
            happened |= there
        m.d.comb += [
            self.done.eq(endings.head.valid & happened),
            endings.head.ready.eq(happened),
        ]
        return m
