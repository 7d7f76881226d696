"""A step of the unit: all lanes, and the streams around them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from rtl.core import isa
from rtl.vec.commands import StepLayout
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import words
from rtl.vec.queue import CommandQueue
from rtl.vec.step import Step


class StepStage(wiring.Component):
    """Meet x with its operand, lane by lane.

    Where there is nothing to do, x passes through at once; results stay in order.

    Parameters
    ----------
    geometry
        Sizes.
    shape
        What flows through: a layout with `words` and a `mark`. What else it has comes along; a
        member `side` may be the operand.
    depth
        Instructions that may wait.

    Members
    -------
    commands : In
        What is done, for each instruction.
    x : In
        Transfers.
    y : In
        Operands, where there are such.
    out : Out
        Results.
    """

    def __init__(self, geometry: VectorGeometry, shape: data.StructLayout, depth: int) -> None:
        self.geometry, self.shape, self.depth = geometry, shape, depth
        super().__init__(
            {
                "commands": In(stream.Signature(StepLayout())),
                "x": In(stream.Signature(shape)),
                "y": In(stream.Signature(words(geometry.lanes))),
                "out": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return lanes, and a pipeline for what comes along."""
        m = Module()
        m.submodules.queue = queue = CommandQueue(StepLayout(), self.depth)
        connect(m, wiring.flipped(self.commands), queue.commands)
        command = queue.head.payload
        sided = "side" in self.shape.members

        advance, enter = Signal(), Signal()
        valid = [Signal(name=f"valid{i}") for i in range(Step.LATENCY)]
        along = [Signal(self.shape, name=f"along{i}") for i in range(Step.LATENCY)]
        idle = Signal()
        m.d.comb += [idle.eq(1), advance.eq(~valid[-1] | self.out.ready)]
        for bit in valid:
            with m.If(bit):
                m.d.comb += idle.eq(0)

        y: Any = self.y.payload
        beside = command.side if sided else 0
        if sided:
            y = Mux(command.side, self.x.payload.side.as_value(), y.as_value())
        y_words = Signal(words(self.geometry.lanes))
        m.d.comb += y_words.eq(y)
        copies = Signal()
        there = Signal()
        m.d.comb += [
            copies.eq(command.kind == isa.Step.NONE),
            there.eq(self.x.valid & queue.head.valid),
        ]
        with m.If(copies):
            m.d.comb += [
                self.out.valid.eq(Mux(idle, there, valid[-1])),
                self.x.ready.eq(queue.head.valid & idle & self.out.ready),
            ]
        with m.Else():
            with_y = self.y.valid | beside
            m.d.comb += [
                self.out.valid.eq(valid[-1]),
                enter.eq(there & with_y & advance),
                self.x.ready.eq(queue.head.valid & with_y & advance),
                self.y.ready.eq(there & ~beside & advance),
            ]
        m.d.comb += queue.head.ready.eq(self.x.valid & self.x.ready & self.x.payload.mark.last)
        with m.If(advance):
            m.d.sync += [valid[0].eq(enter), along[0].eq(self.x.payload)]
            m.d.sync += [
                register.eq(before)
                for registers in (valid, along)
                for before, register in pairwise(registers)
            ]
        results = Signal(words(self.geometry.lanes))
        for lane in range(self.geometry.lanes):
            m.submodules[f"lane{lane}"] = step = Step()
            m.d.comb += [
                step.advance.eq(advance),
                step.kind.eq(Mux(enter, command.kind, isa.Step.NONE)),
                step.x.eq(self.x.payload.words[lane]),
                step.y.eq(y_words[lane]),
                results[lane].eq(step.value),
            ]
        with m.If(idle):
            m.d.comb += self.out.payload.eq(self.x.payload)
        with m.Else():
            m.d.comb += [self.out.payload.eq(along[-1]), self.out.payload.words.eq(results)]
        return m
