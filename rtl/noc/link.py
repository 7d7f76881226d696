"""What travels between routers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Mux, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["COORDINATE_BITS", "FlitLayout", "HeaderLayout", "LinkSignature", "pick"]

COORDINATE_BITS = 4
"""Width of a coordinate, the same in every mesh: up to 16 tiles in x and in y."""


class HeaderLayout(data.StructLayout):
    """The lowest bits of the first flit of a packet; what else is in the flit is the sender's.

    Fields
    ------
    x, y
        The tile that it goes to.
    """

    def __init__(self) -> None:
        super().__init__({"x": COORDINATE_BITS, "y": COORDINATE_BITS})


class FlitLayout(data.StructLayout):
    """A piece of a packet.

    Fields
    ------
    data
        What it carries; in the first flit of a packet, a header in its lowest bits.
    last
        The packet ends here.
    """

    def __init__(self, flit_bytes: int) -> None:
        super().__init__({"data": 8 * flit_bytes, "last": 1})


class LinkSignature(wiring.Signature):
    """A link between routers; what is sent is taken.

    This is no stream: who sends looks first whether there is space, and what waits may give way to
    something else. `space` comes from registers, so a flit is chosen in the cycle in which it is
    sent, and nothing has to be counted as on a link with credits, whose return takes a cycle.

    Parameters
    ----------
    flit_bytes
        Bytes of a flit.

    Members
    -------
    flit : Out
        What is sent.
    valid : Out
        It is. Only with `space`.
    space : In
        A flit can be sent in this cycle.
    """

    def __init__(self, flit_bytes: int) -> None:
        self.flit_bytes = flit_bytes
        super().__init__({"flit": Out(FlitLayout(flit_bytes)), "valid": Out(1), "space": In(1)})

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, LinkSignature) and other.flit_bytes == self.flit_bytes

    def __repr__(self) -> str:
        return f"LinkSignature({self.flit_bytes})"


def pick(chosen: Value, values: Sequence[Value]) -> Value:
    """Return the value whose bit is set, or zero; no more than one is."""
    return reduce(or_, (Mux(chosen[i], value, 0) for i, value in enumerate(values)))
