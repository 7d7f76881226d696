"""The sequencer: from an instruction to commands for each of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.config import TileConfig
from rtl.core.isa import MASK_ROWS, Function, Operand, Output, Reduction, Select, Step
from rtl.vec.commands import (
    FunctionLayout,
    OperandLayout,
    OutputLayout,
    PaceLayout,
    PartnerLayout,
    ReduceLayout,
    Source,
    StepLayout,
)
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import VECTOR
from rtl.vec.place import Place

ROTATIONS = (Step.ROTATE_ADJACENT, Step.ROTATE_HALVES)
SUMS = (Reduction.SUM, Reduction.SQUARES)
BLOCKS = (Output.MXFP4, Output.MXINT8)
STEPS = ("step_b", "step_c", "step_d")
READERS = ("a", "b", "c", "d", "state", "maxima")
"""Operands, the state that a reduction begins with, and maxima that go on."""

BY_HEAD = (Operand.VECTOR, Operand.VECTOR_HEAD)
"""Operands that are their stride further with every head of a token."""

BY_ONE = (Operand.ROW, Operand.ROW_HEAD)
"""Operands that are one further."""

BY_TOKEN = (Operand.VECTOR_TOKEN, Operand.ROW, Operand.ROW_TOKEN)
"""Operands that are their stride further with every token."""

IN_ROWS = (Operand.ROW, Operand.ROW_HEAD, Operand.ROW_TOKEN)
"""Operands that row registers hold."""


def among(value: Any, choices: Any) -> Value:
    """Return whether a value is one of some choices."""
    result = Value.cast(value) == next(iter(choices))
    for one in list(choices)[1:]:
        result = result | (Value.cast(value) == one)
    return result


@dataclass
class _Where:
    """Where rows of an operand are: what `Place` wants to know."""

    start: Any
    head: Any = 0
    token: Any = 0
    linear: Any = 0


class Sequencer(wiring.Component):
    """Walk through the rows of instructions, one in a cycle.

    All parts get the command of a row in the same cycle. Instructions without a row become one that
    does nothing, so that instructions end in their order.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Instructions.
    step_b, step_c, step_d, partner, function : Out
        What each instruction does.
    pace : Out
        Shape of each row.
    *reader* : Out
        For each of `READERS`: what it reads for the row.
    reduce, output : Out
        What becomes of the row.
    """

    def __init__(self, config: TileConfig) -> None:
        self.geometry = g = VectorGeometry(config)
        super().__init__(
            {
                "operations": In(stream.Signature(VECTOR)),
                **{name: Out(stream.Signature(StepLayout())) for name in STEPS},
                "partner": Out(stream.Signature(PartnerLayout(g))),
                "function": Out(stream.Signature(FunctionLayout())),
                "pace": Out(stream.Signature(PaceLayout(g))),
                **{name: Out(stream.Signature(OperandLayout(g))) for name in READERS},
                "reduce": Out(stream.Signature(ReduceLayout(g))),
                "output": Out(stream.Signature(OutputLayout(g))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the walk, and a `Place` for everything that has one."""
        m = Module()
        o = Signal(VECTOR)  # the instruction that is walked through
        busy = Signal()
        coming = self.operations.payload

        row = Signal.like(o.rows)
        head = Signal.like(o.heads)
        left = Signal(MASK_ROWS)  # masked rows from this one on
        first = Signal()  # no row of the instruction has gone out
        token_begun = Signal()  # a row of the token has
        part, last, wrap, go = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            part.eq(~o.masked | left[0]),
            last.eq(Mux(o.masked, ~left[1:].any(), row + 1 == o.rows)),
            wrap.eq(head + 1 == o.heads),
        ]
        sinks = self._sinks(o, first, token_begun)
        everybody: Value = part
        for name, (port, used) in sinks.items():
            sent = Signal(name=f"sent_{name}")
            m.d.comb += port.valid.eq(busy & part & used & ~sent)
            m.d.sync += sent.eq(~go & (sent | (port.valid & port.ready)))
            everybody = everybody & (~used | sent | port.ready)
        m.d.comb += [
            go.eq(busy & (~part | everybody)),
            self.operations.ready.eq(~busy | (go & last)),
        ]
        with m.If(go):
            m.d.sync += [
                row.eq(row + 1),
                left.eq(left >> 1),
                head.eq(Mux(wrap, 0, head + 1)),
                token_begun.eq(~wrap & (token_begun | part)),
                first.eq(first & ~part),
                busy.eq(~last),
            ]
        begin = Signal()
        m.d.comb += begin.eq(self.operations.valid & self.operations.ready)
        with m.If(begin):
            mask, nothing = Signal(MASK_ROWS), Signal()
            m.d.comb += [
                mask.eq(coming.mask & ~(Const(-1, MASK_ROWS) << coming.rows)),
                nothing.eq((coming.rows == 0) | (coming.masked & ~mask.any())),
            ]
            m.d.sync += [
                o.eq(coming),
                busy.eq(1),
                row.eq(0),
                left.eq(mask),
                head.eq(0),
                token_begun.eq(0),
                first.eq(1),
            ]
            with m.If(nothing):
                m.d.sync += _do_nothing(o)
        self._elements(m, o, coming, begin, go, wrap)
        self._operands(m, o, coming, begin, go, wrap)
        self._results(m, o, coming, begin, go, wrap, last, token_begun)
        m.d.comb += self.pace.payload.last.eq(last)
        return m

    def _sinks(self, o: Any, first: Value, token_begun: Value) -> dict[str, tuple[Any, Value]]:
        """Return who is told about a row, and whether it is concerned."""
        always = Const(1)
        quantises = among(o.output, BLOCKS)
        return {
            **{name: (getattr(self, name), first) for name in (*STEPS, "partner", "function")},
            "pace": (self.pace, always),
            "a": (self.a, o.b_step != Step.TAKE),
            "b": (self.b, o.b_step != Step.NONE),
            "c": (self.c, o.c_step != Step.NONE),
            "d": (self.d, (o.d_step != Step.NONE) | among(o.c_step, ROTATIONS)),
            "state": (self.state, o.resume & (o.reduction != Reduction.NONE)),
            "maxima": (
                self.maxima,
                quantises & o.maximal & o.maxima_resume & ~(o.maxima_token & token_begun),
            ),
            "reduce": (self.reduce, always),
            "output": (self.output, always),
        }

    def _elements(self, m: Module, o: Any, coming: Any, begin: Any, go: Any, wrap: Any) -> None:
        """Say what a row looks like, and what is done with its elements."""
        g = self.geometry
        lane_bits = exact_log2(g.lanes)
        most = g.config.vector_length
        shape = signed(len(o.lo) + 2)
        lo, hi = Signal(shape), Signal(shape)  # counted from column 0
        with m.If(begin):
            m.d.sync += [lo.eq(coming.lo - coming.first), hi.eq(coming.hi - coming.first)]
        with m.Elif(go & wrap & o.range_step):
            m.d.sync += [lo.eq(lo + 1), hi.eq(hi + 1)]
        pace = self.pace.payload
        transfers = (o.columns + (g.lanes - 1)) >> lane_bits
        m.d.comb += [
            pace.transfers.eq(Mux(o.columns == 0, 1, transfers)),
            pace.tail.eq(o.columns[:lane_bits] - 1 if lane_bits else 0),
            pace.empty.eq(o.columns == 0),
            pace.reads.eq(o.b_step != Step.TAKE),
            pace.lo.eq(0),
            pace.hi.eq(most),
        ]
        with m.If(o.select == Select.ELEMENTS):
            m.d.comb += [pace.lo.eq(_clamp(lo, most)), pace.hi.eq(_clamp(hi, most))]
        with m.If((o.select == Select.ROWS) & (lo >= hi)):
            m.d.comb += pace.hi.eq(0)
        rotates = among(o.c_step, ROTATIONS)
        m.d.comb += [
            self.step_b.payload.kind.eq(o.b_step),
            self.step_c.payload.kind.eq(o.c_step),
            self.step_d.payload.kind.eq(Mux(rotates, Step.ADD, o.d_step)),
            self.step_d.payload.side.eq(rotates),
            self.partner.payload.rotates.eq(rotates),
            self.partner.payload.distance.eq(
                Mux(o.c_step == Step.ROTATE_HALVES, o.columns >> 1, 1)
            ),
            self.function.payload.function.eq(o.function),
            self.function.payload.factor.eq(o.function_value),
            self.function.payload.squares.eq(o.reduction == Reduction.SQUARES),
            self.function.payload.rotates.eq(rotates),
            self.d.payload.side.eq(rotates),
        ]

    def _operands(self, m: Module, o: Any, coming: Any, begin: Any, go: Any, wrap: Any) -> None:
        """Say where the operands of a row are."""

        def place(name: str, where: _Where) -> Value:
            return self._place(m, name, where, begin, go, wrap)

        per_row = {"start": coming.a_offset, "token": coming.a_stride}
        where = {
            "a": _Where(**per_row, head=Mux(coming.a_row, 1, coming.a_stride), linear=~coming.a_row)
        }
        source: dict[str, Any] = {"a": Mux(o.a_row, Source.ROW, Source.VECTOR)}
        register: dict[str, Any] = {"a": o.a}
        for name in "bcd":
            kind = coming[f"{name}_operand"]
            stride = coming[f"{name}_stride"]
            where[name] = _Where(
                coming[f"{name}_value"],
                head=Mux(among(kind, BY_HEAD), stride, among(kind, BY_ONE)),
                token=Mux(among(kind, BY_TOKEN), stride, 0),
                linear=kind == Operand.VECTOR,
            )
            kind = o[f"{name}_operand"]
            source[name] = Mux(
                kind == Operand.CONSTANT,
                Source.CONSTANT,
                Mux(among(kind, IN_ROWS), Source.ROW, Source.VECTOR),
            )
            register[name] = o[name]
        sums = among(coming.reduction, SUMS)
        where["state"] = _Where(
            Mux(sums, coming.partials_offset, coming.initial_offset),
            head=1,
            token=coming.initial_pitch,
            linear=sums,
        )
        resumes_sum = among(o.reduction, SUMS)
        source["state"] = Mux(resumes_sum, Source.VECTOR, Source.ROW)
        register["state"] = Mux(resumes_sum, o.partials, o.initial)
        # Maxima are read where they are written.
        source["maxima"], register["maxima"] = Source.ROW, o.maxima
        for name in READERS:
            command = getattr(self, name).payload
            m.d.comb += [
                command.source.eq(source[name]),
                command.register.eq(register[name]),
                command.transfers.eq(self.pace.payload.transfers),
            ]
            if name in where:
                m.d.comb += command.place.eq(place(name, where[name]))
        for name in "bcd":
            m.d.comb += getattr(self, name).payload.constant.eq(o[f"{name}_value"])
        m.d.comb += [
            self.state.payload.side.eq(resumes_sum),
            self.state.payload.transfers.eq(Mux(resumes_sum, self.geometry.slot_transfers, 1)),
            self.maxima.payload.transfers.eq(1),
        ]

    def _results(
        self,
        m: Module,
        o: Any,
        coming: Any,
        begin: Any,
        go: Any,
        wrap: Any,
        last: Any,
        token_begun: Any,
    ) -> None:
        """Say where the results of a row go."""

        def place(name: str, where: _Where) -> Value:
            return self._place(m, name, where, begin, go, wrap)

        total = place("total", _Where(coming.total_offset, head=1, token=coming.total_pitch))
        partials = place("partials", _Where(coming.partials_offset, head=1, linear=1))
        to_row = coming.output == Output.ROW
        to = place(
            "to",
            _Where(
                coming.offset,
                head=Mux(to_row, 1, coming.stride),
                token=coming.stride,
                linear=~to_row,
            ),
        )
        maxima = place(
            "maxima",
            _Where(coming.maxima_offset, head=~coming.maxima_token, token=coming.maxima_pitch),
        )
        reduce, output = self.reduce.payload, self.output.payload
        m.d.comb += [
            reduce.reduction.eq(o.reduction),
            reduce.resume.eq(o.resume),
            reduce.suspend.eq(o.suspend & among(o.reduction, SUMS)),
            reduce.total.eq(o.total),
            reduce.row.eq(total),
            reduce.partials.eq(o.partials),
            reduce.slot.eq(partials),
            reduce.last.eq(last),
            output.output.eq(o.output),
            output.rule.eq(o.rule),
            output.register.eq(o.to),
            output.place.eq(to),
            output.maximal.eq(o.maximal),
            output.maxima.eq(o.maxima),
            output.row.eq(maxima),
            output.shared.eq(o.maxima_token & token_begun),
            output.resume.eq(o.maxima_resume),
            output.last.eq(last),
            self.maxima.payload.place.eq(maxima),
        ]

    def _place(self, m: Module, name: str, where: _Where, begin: Any, go: Any, wrap: Any) -> Value:
        """Return the place of the row."""
        m.submodules[f"{name}_place"] = place = Place(self.geometry.place_bits)
        linear = Signal(name=f"{name}_linear")
        head = Signal.like(place.head, name=f"{name}_head")
        token = Signal.like(place.token, name=f"{name}_token")
        with m.If(begin):
            m.d.sync += [linear.eq(where.linear), head.eq(where.head), token.eq(where.token)]
        m.d.comb += [
            place.load.eq(begin),
            place.start.eq(where.start),
            place.head.eq(head),
            place.token.eq(token),
            place.linear.eq(linear),
            place.advance.eq(go),
            place.wrap.eq(wrap),
        ]
        return place.place


def _do_nothing(o: Any) -> list[Any]:
    """Return what turns an instruction into one that does nothing, for one row without columns."""
    return [
        o.rows.eq(1),
        o.heads.eq(1),
        o.masked.eq(0),
        o.columns.eq(0),
        o.b_step.eq(Step.TAKE),
        o.b_operand.eq(Operand.CONSTANT),
        o.c_step.eq(Step.NONE),
        o.d_step.eq(Step.NONE),
        o.function.eq(Function.NONE),
        o.reduction.eq(Reduction.NONE),
        o.output.eq(Output.NONE),
    ]


def _clamp(value: Value, most: int) -> Value:
    """Return a signed value as one from 0 to `most`."""
    return Mux(value < 0, 0, Mux(value > most, most, value))
