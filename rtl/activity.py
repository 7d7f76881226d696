"""Clocks that stop where there is nothing to do."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

LINGER = 32
"""Cycles for which a clock goes on after the last sign of work: more than any pipeline is deep."""


class Activity(wiring.Component):
    """Say when an engine needs its clock.

    It does from the cycle on in which something is offered to it, while instructions are under way,
    and `LINGER` cycles longer, so that whatever is behind the end of an instruction has come to
    rest.

    Members
    -------
    offered : In
        Something comes: an instruction, data, an access to registers.
    begins, ends : In
        An instruction is accepted; one has ended.
    clock : Out
        The engine is to be clocked.
    busy : Out
        There are instructions under way.
    """

    def __init__(self) -> None:
        super().__init__(
            {"offered": In(1), "begins": In(1), "ends": In(1), "clock": Out(1), "busy": Out(1)}
        )

    def elaborate(self, platform: Any) -> Module:
        """Return two counts."""
        m = Module()
        under_way = Signal(8)
        left = Signal(range(LINGER + 1))
        m.d.sync += under_way.eq(under_way + self.begins - self.ends)
        m.d.comb += [
            self.busy.eq(under_way != 0),
            self.clock.eq(self.offered | self.busy | (left != 0)),
        ]
        with m.If(self.offered | self.busy):
            m.d.sync += left.eq(LINGER)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return m
