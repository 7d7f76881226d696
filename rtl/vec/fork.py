"""One stream to two readers."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Fork(wiring.Component):
    """Give each payload to both readers, each of which takes it when it is ready.

    Parameters
    ----------
    shape
        Of a payload.

    Members
    -------
    source : In
        What comes in.
    left, right : Out
        The two.
    """

    def __init__(self, shape: Any) -> None:
        super().__init__(
            {
                "source": In(stream.Signature(shape)),
                "left": Out(stream.Signature(shape)),
                "right": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a bit for each reader: it has this one."""
        m = Module()
        finished: list[Any] = []
        for name in ("left", "right"):
            port = getattr(self, name)
            has = Signal(name=f"{name}_has")
            m.d.comb += [
                port.payload.eq(self.source.payload),
                port.valid.eq(self.source.valid & ~has),
            ]
            finished.append(has | port.ready)
            m.d.sync += has.eq((has | (port.valid & port.ready)) & ~self.source.ready)
        m.d.comb += self.source.ready.eq(self.source.valid & finished[0] & finished[1])
        return m
