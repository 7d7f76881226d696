"""Between a tile's streams and its router."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import Mesh
from rtl.noc.link import FlitLayout, HeaderLayout, LinkSignature

__all__ = ["Ejector", "Injector"]


class Injector(wiring.Component):
    """Lets packets into the network, except those to a tile that does not exist.

    Parameters
    ----------
    mesh
        Tiles that exist.
    flit_bytes
        Bytes of a flit.

    Members
    -------
    flits : In
        Flits of packets, packet after packet.
    link : Out
        To the router.
    refused : Out
        The last flit of a packet that was dropped is taken in this cycle.
    """

    def __init__(self, mesh: Mesh, flit_bytes: int) -> None:
        self.mesh, self.flit_bytes = mesh, flit_bytes
        super().__init__(
            {
                "flits": In(stream.Signature(FlitLayout(flit_bytes))),
                "link": Out(LinkSignature(flit_bytes)),
                "refused": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the comparison with the size of the mesh."""
        m = Module()
        flit, link = self.flits.payload, self.link
        header = HeaderLayout()(flit.data[: HeaderLayout().size])
        inside, dropping, drop = Signal(), Signal(), Signal()
        outside = (header.x >= self.mesh.x) | (header.y >= self.mesh.y)
        m.d.comb += [
            drop.eq(Mux(inside, dropping, outside)),
            link.flit.eq(flit),
            link.valid.eq(self.flits.valid & ~drop & link.space),
            self.flits.ready.eq(drop | link.space),
            self.refused.eq(self.flits.valid & drop & flit.last),
        ]
        with m.If(self.flits.valid & self.flits.ready):
            m.d.sync += [inside.eq(~flit.last), dropping.eq(drop)]
        return m


class Ejector(wiring.Component):
    """Offers flits that leave the network until they are taken.

    It takes no time: what comes is offered at once, and kept if it is not taken.

    Parameters
    ----------
    flit_bytes
        Bytes of a flit.

    Members
    -------
    link : In
        From the router.
    flits : Out
        Flits of packets, packet after packet.
    """

    def __init__(self, flit_bytes: int) -> None:
        self.flit_bytes = flit_bytes
        super().__init__(
            {
                "link": In(LinkSignature(flit_bytes)),
                "flits": Out(stream.Signature(FlitLayout(flit_bytes))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return room for a flit that was not taken."""
        m = Module()
        kept, full = Signal(FlitLayout(self.flit_bytes)), Signal()
        m.d.comb += [
            self.link.space.eq(~full),
            self.flits.valid.eq(full | self.link.valid),
            Value.cast(self.flits.payload).eq(
                Mux(full, Value.cast(kept), Value.cast(self.link.flit))
            ),
        ]
        m.d.sync += full.eq(self.flits.valid & ~self.flits.ready)
        with m.If(~full):
            m.d.sync += kept.eq(self.link.flit)
        return m
