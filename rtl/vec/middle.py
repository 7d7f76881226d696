"""The middle of the unit: the function of every lane, and the multiplier beside it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from rtl.core.isa import Function
from rtl.vec.commands import FunctionLayout
from rtl.vec.function import LATENCIES, FunctionLane
from rtl.vec.geometry import VectorGeometry
from rtl.vec.multiply import Multiplier
from rtl.vec.operation import SidedLayout, words
from rtl.vec.queue import CommandQueue

_DEEPEST = max(LATENCIES.values())


class Middle(wiring.Component):
    """Apply a function to x, or multiply something beside it.

    A transfer leaves the pipeline where its function is done. Therefore another function only
    begins when the pipeline is empty, which never takes longer than if all were equally long.

    Parameters
    ----------
    geometry
        Sizes.
    depth
        Instructions that may wait.

    Members
    -------
    commands : In
        What is done, for each instruction.
    x : In
        Transfers, and beside them what is multiplied with `y` if it rotates.
    y : In
        Operands of a rotation.
    out : Out
        Results, and beside them the product.
    """

    def __init__(self, geometry: VectorGeometry, depth: int) -> None:
        self.geometry, self.depth = geometry, depth
        super().__init__(
            {
                "commands": In(stream.Signature(FunctionLayout())),
                "x": In(stream.Signature(SidedLayout(geometry))),
                "y": In(stream.Signature(words(geometry.lanes))),
                "out": Out(stream.Signature(SidedLayout(geometry))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return lanes, and a pipeline for what comes along."""
        m = Module()
        g = self.geometry
        m.submodules.queue = queue = CommandQueue(FunctionLayout(), self.depth)
        connect(m, wiring.flipped(self.commands), queue.commands)
        command = queue.head.payload

        valid = Signal(_DEEPEST)
        marks = Array(Signal.like(self.x.payload.mark, name=f"mark{i}") for i in range(_DEEPEST))
        active, using = Signal(FunctionLayout()), Signal(FunctionLayout())
        idle, beside, used_side = Signal(), Signal(), Signal()
        m.d.comb += [
            idle.eq(~valid.any()),
            using.eq(Mux(idle, command.as_value(), active.as_value())),
            beside.eq(command.squares | command.rotates),
            used_side.eq(using.squares | using.rotates),
        ]
        stages = Signal(range(_DEEPEST + 1))  # until the result
        with m.Switch(using.function):
            for function, latency in LATENCIES.items():
                with m.Case(function):
                    m.d.comb += stages.eq(latency)
        with m.If(used_side):
            m.d.comb += stages.eq(Multiplier.LATENCY)
        final, advance = Signal(), Signal()
        at = Signal(range(_DEEPEST))
        m.d.comb += [
            at.eq(stages - 1),
            final.eq(valid.bit_select(at, 1)),
            advance.eq(~final | self.out.ready),
        ]

        there, passes, enter = Signal(), Signal(), Signal()
        same = command.as_value() == active.as_value()
        m.d.comb += [
            there.eq(self.x.valid & queue.head.valid),
            passes.eq((command.function == Function.NONE) & ~beside),
        ]
        may_enter = ~passes & (idle | same) & advance
        m.d.comb += [
            enter.eq(there & may_enter & (~command.rotates | self.y.valid)),
            self.y.ready.eq(there & may_enter & command.rotates),
            self.out.valid.eq(final | (idle & passes & there)),
            self.x.ready.eq(enter | (passes & idle & queue.head.valid & self.out.ready)),
            queue.head.ready.eq(self.x.valid & self.x.ready & self.x.payload.mark.last),
        ]
        with m.If(enter):
            m.d.sync += active.eq(command)
        with m.If(advance):
            # What was handed out does not go on.
            m.d.sync += [
                valid.eq(Cat(enter, valid & ~Cat(at == i for i in range(_DEEPEST)))),
                marks[0].eq(self.x.payload.mark),
                *(marks[i + 1].eq(marks[i]) for i in range(_DEEPEST - 1)),
            ]

        x, results, products = (
            Signal(words(g.lanes), name=name) for name in ("x_late", "results", "products")
        )
        waiting = [self.x.payload.words]
        for i in range(Multiplier.LATENCY):
            later = Signal(words(g.lanes), name=f"x_late{i}")
            with m.If(advance & used_side):
                m.d.sync += later.eq(waiting[-1])
            waiting.append(later)
        m.d.comb += x.eq(waiting[-1])
        for i in range(g.lanes):
            m.submodules[f"lane{i}"] = lane = FunctionLane()
            operand, side = self.x.payload.words[i], self.x.payload.side[i]
            m.d.comb += [
                lane.advance.eq(advance),
                lane.kind.eq(using.function),
                lane.factor.eq(using.factor),
                lane.x.eq(Mux(enter, operand, 0)),
                lane.side_a.eq(Mux(enter & beside, Mux(command.squares, operand, side), 0)),
                lane.side_b.eq(
                    Mux(enter & beside, Mux(command.squares, operand, self.y.payload[i]), 0)
                ),
                results[i].eq(lane.value),
                products[i].eq(lane.side_value),
            ]
        with m.If(idle):
            m.d.comb += self.out.payload.eq(self.x.payload)
        with m.Else():
            m.d.comb += [
                self.out.payload.words.eq(Mux(used_side, x.as_value(), results.as_value())),
                self.out.payload.side.eq(products),
                self.out.payload.mark.eq(marks[at]),
            ]
        return m
