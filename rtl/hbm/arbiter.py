"""Choosing one of many, in turn."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.utils import ceil_log2


def lowest(value: Value) -> Value:
    """Return the lowest bit that is set, by itself."""
    return (value & (~value + 1))[: len(value)]


def round_robin(m: Module, name: str, requests: Value, advance: Value) -> Signal:
    """Return one of the requests: the next after the one chosen last.

    Parameters
    ----------
    m
        Where to put the arbiter.
    name
        Name of the choice.
    requests
        A bit for each.
    advance
        Whether the choice of this cycle counts.
    """
    size = len(requests)
    later = Signal(size, name=f"{name}_later")  # those after the one chosen last
    grant = Signal(size, name=name)
    preferred = Signal(size, name=f"{name}_preferred")
    m.d.comb += [
        preferred.eq(requests & later),
        grant.eq(Mux(preferred.any(), lowest(preferred), lowest(requests))),
    ]
    with m.If(advance & grant.any()):
        m.d.sync += later.eq(~(grant | (grant - 1)))
    return grant


def oldest(m: Module, name: str, requests: Value, ages: list[Value]) -> Signal:
    """Return those requests that are of the highest age which any has.

    Parameters
    ----------
    m
        Where to put it.
    name
        Name of the result.
    requests
        A bit for each.
    ages
        For each age, from the lowest, who has it.
    """
    found = Signal(len(requests), name=f"{name}_oldest")
    m.d.comb += found.eq(requests)
    for i, age in enumerate(ages):
        these = Signal(len(requests), name=f"{name}_age_{i}")
        m.d.comb += these.eq(requests & age)
        with m.If(these.any()):
            m.d.comb += found.eq(these)
    return found


def select(grant: Value, values: list[Value]) -> Value:
    """Return the value of the one that is granted, or zero."""
    result: Value = values[0] & grant[0].replicate(len(values[0]))
    for i, value in enumerate(values[1:], 1):
        result = result | (value & grant[i].replicate(len(value)))
    return result


def number(grant: Value) -> Value:
    """Return the number of the one that is granted, or zero."""
    size = len(grant)
    return Cat(
        Cat(grant[i] for i in range(size) if i >> bit & 1).any() for bit in range(ceil_log2(size))
    )
