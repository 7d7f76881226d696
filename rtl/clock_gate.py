"""A clock that can be stopped."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.leaf import Leaf


class ClockGate(Leaf):
    """Let a clock through, or hold it low.

    `enable` is taken at the falling edge, so that no pulse is cut short. Where a library has a cell
    for this, whose latch leaves more time, it replaces the module of this name.

    Members
    -------
    clock : In
        The clock.
    enable : In
        The next edge goes through.
    gated : Out
        The clock, where it is enabled.
    """

    def __init__(self) -> None:
        super().__init__({"clock": In(1), "enable": In(1), "gated": Out(1)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "clock_gate"

    def build(self, platform: Any) -> Module:
        """Return a register at the falling edge."""
        m = Module()
        m.domains.falling = falling = ClockDomain(clk_edge="neg", reset_less=True, local=True)
        kept = Signal()
        m.d.comb += [falling.clk.eq(self.clock), self.gated.eq(self.clock & kept)]
        m.d.falling += kept.eq(self.enable)
        return m
