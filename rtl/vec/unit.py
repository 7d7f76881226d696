"""The vector unit: one pass over rows of registers per instruction."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.core.isa import OPCODES
from rtl.counters import Counter, step_signature
from rtl.vec.fork import Fork
from rtl.vec.geometry import VectorGeometry
from rtl.vec.middle import Middle
from rtl.vec.operation import SidedLayout, TransferLayout, VectorOperationLayout
from rtl.vec.output import Output
from rtl.vec.pace import Pace
from rtl.vec.partner import Partner
from rtl.vec.ports import (
    LineReadSignature,
    LineWriteLayout,
    WordReadSignature,
    WordWriteLayout,
)
from rtl.vec.reader import OperandReader
from rtl.vec.reduce import Reduce
from rtl.vec.sequence import READERS, STEPS, Sequencer
from rtl.vec.stage import StepStage
from rtl.vec.topk import TopK

QUEUE = 4
"""Instructions that may be under way between two steps."""

ROWS = 16
"""Rows that may be under way."""

COUNTERS = (
    Counter("instructions", "instructions accepted"),
    Counter("transfers", "transfers that entered the lanes"),
    Counter("stalls_operands", "cycles in which a transfer waited for its first operand"),
    Counter("stalls_steps", "cycles in which a transfer and its operand waited for the lanes"),
    Counter("idle", "cycles without an instruction"),
)
"""What the unit counts."""

LINE_READS = ("a", "b", "c", "d", "state")
"""Ports that read vector registers."""

LINE_WRITES = ("lines", "partials")
"""Ports that write vector registers."""

WORD_READS = READERS
"""Ports that read row registers."""

WORD_WRITES = ("row", "total", "maxima")
"""Ports that write row registers."""


class VectorUnit(wiring.Component):
    """Rows of elements flow from registers through the lanes to registers.

    Every part follows its own commands, so that readers are ahead of the lanes and instructions
    follow each other without a gap. The core sees to it that what an instruction reads is there.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Instructions.
    done : Out
        An instruction has written everything; they end in their order.
    read_*name* : Out
        Ports of the vector registers, for each of `LINE_READS`.
    write_*name* : Out
        The same for `LINE_WRITES`.
    rows_read_*name*, rows_write_*name* : Out
        Ports of the row registers, for each of `WORD_READS` and `WORD_WRITES`.
    counters : Out
        Steps of `COUNTERS`.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = VectorGeometry(config)
        super().__init__(
            {
                "operations": In(stream.Signature(VectorOperationLayout())),
                "done": Out(1),
                **{f"read_{name}": Out(LineReadSignature(g)) for name in LINE_READS},
                **{
                    f"write_{name}": Out(stream.Signature(LineWriteLayout(g)))
                    for name in LINE_WRITES
                },
                **{f"rows_read_{name}": Out(WordReadSignature(g)) for name in WORD_READS},
                **{
                    f"rows_write_{name}": Out(stream.Signature(WordWriteLayout(g)))
                    for name in WORD_WRITES
                },
                "counters": Out(step_signature(COUNTERS)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the parts and the streams between them."""
        m = Module()
        config, g = self.config, self.geometry
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.pace = pace = Pace(config)
        m.submodules.step_b = step_b = StepStage(g, TransferLayout(g), QUEUE)
        m.submodules.partner_reader = partner = Partner(config)
        m.submodules.step_c = step_c = StepStage(g, SidedLayout(g), QUEUE)
        m.submodules.middle = middle = Middle(g, QUEUE)
        m.submodules.fork = fork = Fork(SidedLayout(g))
        m.submodules.step_d = step_d = StepStage(g, SidedLayout(g), QUEUE)
        m.submodules.reduce = reduce = Reduce(g, ROWS)
        m.submodules.output = output = Output(g, ROWS)
        readers = {}
        for name in READERS:
            m.submodules[f"read_{name}"] = reader = OperandReader(config)
            readers[name] = reader
            connect(m, getattr(sequencer, name), reader.commands)
            connect(m, reader.rows, flipped(getattr(self, f"rows_read_{name}")))
            if name in LINE_READS and name not in ("a", "b"):
                connect(m, reader.lines, flipped(getattr(self, f"read_{name}")))

        # Commands.
        steps = {"step_b": step_b, "step_c": step_c, "step_d": step_d}
        for name in STEPS:
            connect(m, getattr(sequencer, name), steps[name].commands)
        connect(m, sequencer.partner, partner.commands)
        connect(m, sequencer.function, middle.commands)
        connect(m, sequencer.pace, pace.commands)
        connect(m, sequencer.reduce, reduce.commands)
        connect(m, sequencer.output, output.commands)

        # Elements: marks meet the words of a, which an instruction may do without.
        a = readers["a"]
        without = Signal()
        marks = pace.marks
        m.d.comb += [
            without.eq(~marks.payload.reads),
            step_b.x.payload.words.eq(a.words.payload),
            step_b.x.payload.mark.eq(marks.payload.mark),
            step_b.x.valid.eq(marks.valid & (without | a.words.valid)),
            marks.ready.eq(step_b.x.ready & (without | a.words.valid)),
            a.words.ready.eq(step_b.x.ready & marks.valid & ~without),
        ]
        connect(m, step_b.out, partner.x)
        connect(m, partner.out, step_c.x)
        connect(m, step_c.out, middle.x)
        connect(m, middle.out, fork.source)
        connect(m, fork.left, step_d.x)
        connect(m, fork.right, reduce.x)
        connect(m, step_d.out, output.x)

        # Operands. That of d is for the multiplier of the middle in a rotation.
        connect(m, readers["b"].words, step_b.y)
        connect(m, readers["c"].words, step_c.y)
        d = readers["d"]
        m.d.comb += [
            middle.y.payload.eq(d.words.payload),
            step_d.y.payload.eq(d.words.payload),
            middle.y.valid.eq(d.words.valid & d.side),
            step_d.y.valid.eq(d.words.valid & ~d.side),
            d.words.ready.eq(Mux(d.side, middle.y.ready, step_d.y.ready)),
            reduce.state_sums.eq(readers["state"].side),
        ]
        connect(m, readers["state"].words, reduce.state)
        connect(m, readers["maxima"].words, output.old)

        # Top-k has the ports of a, b and the output while nothing else is in the unit.
        m.submodules.topk = topk = TopK(config)
        under_way = Signal(range(64))
        vector_done = Signal()
        reduced, written = Signal(range(64)), Signal(range(64))
        incoming = self.operations.payload
        is_topk = incoming.opcode == OPCODES["topk"].number
        to_vector = self.operations.valid & ~is_topk & topk.idle
        to_topk = self.operations.valid & is_topk & (under_way == 0)
        m.d.comb += [
            sequencer.operations.payload.eq(incoming.vector),
            topk.operations.payload.eq(incoming.topk),
            sequencer.operations.valid.eq(to_vector & (under_way != 63)),
            topk.operations.valid.eq(to_topk),
            self.operations.ready.eq(
                Mux(
                    is_topk,
                    topk.operations.ready & (under_way == 0),
                    sequencer.operations.ready & topk.idle & (under_way != 63),
                )
            ),
            vector_done.eq((reduced != 0) & (written != 0)),
            self.done.eq(vector_done | topk.done),
        ]
        begins = sequencer.operations.valid & sequencer.operations.ready
        m.d.sync += [
            under_way.eq(under_way + begins - vector_done),
            reduced.eq(reduced + reduce.done - vector_done),
            written.eq(written + output.done - vector_done),
            Assert(~(vector_done & topk.done)),
        ]
        connect(m, reduce.total, flipped(self.rows_write_total))
        connect(m, output.row, flipped(self.rows_write_row))
        connect(m, output.maxima, flipped(self.rows_write_maxima))
        for mine, its, port in (
            (readers["a"].lines, topk.compared, self.read_a),
            (readers["b"].lines, topk.fetched, self.read_b),
        ):
            m.d.comb += [
                port.requests.valid.eq(mine.requests.valid | its.requests.valid),
                port.requests.payload.eq(
                    Mux(
                        topk.idle,
                        mine.requests.payload.as_value(),
                        its.requests.payload.as_value(),
                    )
                ),
            ]
            for reader in (mine, its):
                m.d.comb += [
                    reader.requests.ready.eq(port.requests.ready),
                    reader.words.eq(port.words),
                    reader.scales.eq(port.scales),
                ]
        for mine, its, port in (
            (output.lines, topk.indices, self.write_lines),
            (reduce.partials, topk.values, self.write_partials),
        ):
            m.d.comb += [
                port.valid.eq(mine.valid | its.valid),
                port.payload.eq(Mux(topk.idle, mine.payload.as_value(), its.payload.as_value())),
                mine.ready.eq(port.ready),
                its.ready.eq(port.ready),
            ]

        stepping = step_b.x.valid & step_b.x.ready
        m.d.comb += [
            self.counters.instructions.eq(self.operations.valid & self.operations.ready),
            self.counters.transfers.eq(stepping),
            self.counters.stalls_operands.eq(marks.valid & ~step_b.x.valid),
            self.counters.stalls_steps.eq(step_b.x.valid & ~step_b.x.ready),
            self.counters.idle.eq((under_way == 0) & topk.idle),
        ]
        return m
