"""Counters that are declared once, counted in hardware and read as one consistent set.

Live counters never stop. A *snapshot* copies all of them in the same cycle, and software reads the
copies at leisure: figures that belong together were taken together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.names import check_name, check_unique

COUNTER_BITS_MAX = 64


@dataclass(frozen=True)
class Counter:
    """Declaration of a counter.

    Attributes
    ----------
    name
        Lower-case identifier.
    description
        What is counted, as a phrase, with its unit: "beats that the array consumed".
    bits
        Width of the count, 1 to 64; it wraps around.
    step_bits
        Width of the increment: 1 counts cycles or events, more adds up amounts such as bytes.

    Raises
    ------
    ValueError
        A width is out of range, or the name is no lower-case identifier.
    """

    name: str
    description: str
    bits: int = COUNTER_BITS_MAX
    step_bits: int = 1

    def __post_init__(self) -> None:
        check_name(self.name, "counter")
        if not 1 <= self.bits <= COUNTER_BITS_MAX:
            raise ValueError(
                f"counter {self.name} has {self.bits} bits; it must have 1 to {COUNTER_BITS_MAX}."
            )
        if not 1 <= self.step_bits <= self.bits:
            raise ValueError(
                f"counter {self.name} has a step of {self.step_bits} bits; "
                f"it must have 1 to {self.bits}, the width of the counter."
            )


def step_signature(counters: Iterable[Counter]) -> wiring.Signature:
    """Return the interface of whoever makes `counters` count: the step of each, by its name."""
    return wiring.Signature({counter.name: Out(counter.step_bits) for counter in counters})


class CounterBank(wiring.Component):
    """Counters, and the copies that software reads.

    Reset clears counters and copies.

    Parameters
    ----------
    counters
        What to count; at least one.

    Members
    -------
    step : In
        What each counter, by its name, is increased by at the end of this cycle.
    snapshot : In
        Copy all counters at the end of this cycle. A copy holds the steps of all earlier cycles,
        not that of this one.
    copies : Out
        Each counter, by its name, as of the last snapshot; zero before the first.

    Raises
    ------
    ValueError
        There is no counter, or two have the same name.
    """

    def __init__(self, counters: Iterable[Counter]) -> None:
        self.counters = tuple(counters)
        if not self.counters:
            raise ValueError("a counter bank needs at least one counter.")
        check_unique((counter.name for counter in self.counters), "counters")
        copies = {counter.name: Out(counter.bits) for counter in self.counters}
        super().__init__(
            {
                "step": In(step_signature(self.counters)),
                "snapshot": In(1),
                "copies": Out(wiring.Signature(copies)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the hardware."""
        m = Module()
        for counter in self.counters:
            live = Signal(counter.bits, name=counter.name)
            m.d.sync += live.eq(live + getattr(self.step, counter.name))
            with m.If(self.snapshot):
                m.d.sync += getattr(self.copies, counter.name).eq(live)
        return m
