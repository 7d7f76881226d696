"""A mesh of routers."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.noc.endpoint import Ejector, Injector
from rtl.noc.geometry import Side, neighbour
from rtl.noc.link import FlitLayout
from rtl.noc.router import PlaceLayout, Router
from rtl.noc.shares import count_bits

__all__ = ["MeshNetwork"]


class MeshNetwork(wiring.Component):
    """A network that carries packets from any tile to any tile, in order for every two of them.

    Parameters
    ----------
    config
        Configuration with mesh, flits and buffers.

    Members
    -------
    inject, eject : arrays of In, Out
        What the tiles send and get: flits of packets, packet after packet.
    refused : Out
        Of each tile, whether a packet of it is dropped in this cycle: its tile does not exist.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        flits = stream.Signature(FlitLayout(config.flit_bytes))
        super().__init__(
            {
                "inject": In(flits).array(config.tiles),
                "eject": Out(flits).array(config.tiles),
                "refused": Out(config.tiles),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the routers, connected; at the edge nothing comes, and there is no space."""
        m = Module()
        config, mesh = self.config, self.config.mesh
        routers = [
            Router(config.flit_bytes, config.noc_buffer, count_bits(mesh))
            for _ in range(mesh.tiles)
        ]
        for tile, router in enumerate(routers):
            m.submodules[f"router_{tile}"] = router
            m.submodules[f"injector_{tile}"] = injector = Injector(mesh, config.flit_bytes)
            m.submodules[f"ejector_{tile}"] = ejector = Ejector(config.flit_bytes)
            m.d.comb += [
                router.place.eq(PlaceLayout.of(mesh, tile)),
                self.refused[tile].eq(injector.refused),
            ]
            connect(m, flipped(self.inject[tile]), injector.flits)
            connect(m, injector.link, router.inputs[Side.LOCAL])
            connect(m, router.outputs[Side.LOCAL], ejector.link)
            connect(m, ejector.flits, flipped(self.eject[tile]))
            for side in (Side.EAST, Side.WEST, Side.NORTH, Side.SOUTH):
                other = neighbour(mesh, tile, side)
                if other is not None:
                    connect(m, router.outputs[side], routers[other].inputs[side.opposite])
        return m
