"""Counters that say when the next command may come."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value


def countdown(m: Module, name: str, bits: int, *loads: tuple[Value, Value]) -> Signal:
    """Return whether the time is over.

    Parameters
    ----------
    m
        Where to put the counter.
    name
        Name of the counter.
    bits
        Its width.
    loads
        Events, and how many cycles after the next one each asks for. The longest time holds.
    """
    left = Signal(bits, name=f"{name}_left")
    over = Signal(name=name)
    m.d.comb += over.eq(left == 0)
    with m.If(~over):
        m.d.sync += left.eq(left - 1)
    # Of several events in one cycle, the one named last holds; callers do not have that.
    for event, cycles in loads:
        with m.If(event & (cycles >= left)):
            m.d.sync += left.eq(cycles)
    return over
