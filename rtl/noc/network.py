"""Both networks of a chip: one for requests, one for replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.noc.dependencies import check
from rtl.noc.link import FlitLayout
from rtl.noc.mesh import MeshNetwork

__all__ = ["NETWORKS", "Noc"]

NETWORKS = ("requests", "replies")


class Noc(wiring.Component):
    """Two networks that share nothing, so that a reply never waits for a request.

    A tile that answers a request needs the network to take its reply. Were it the same network,
    requests that wait for tiles to answer could stand in the way of the answers.

    Parameters
    ----------
    config
        Configuration with mesh, flits and buffers.

    Members
    -------
    requests, replies
        Each network, see `rtl.noc.mesh.MeshNetwork`.

    Attributes
    ----------
    facts
        What the manifest says of the channels of a network: how many there are, and that none
        waits for itself.

    Raises
    ------
    DeadlockError
        A channel waits for itself, over however many others.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.facts: Mapping[str, Any] = {"channels": check(config.mesh)}
        flits = stream.Signature(FlitLayout(config.flit_bytes))
        network = wiring.Signature(
            {
                "inject": In(flits).array(config.tiles),
                "eject": Out(flits).array(config.tiles),
                "refused": Out(config.tiles),
            }
        )
        super().__init__(dict.fromkeys(NETWORKS, Out(network)))

    def elaborate(self, platform: Any) -> Module:
        """Return two meshes."""
        m = Module()
        for name in NETWORKS:
            m.submodules[f"mesh_of_{name}"] = mesh = MeshNetwork(self.config)
            outer = getattr(self, name)
            for tile in range(self.config.tiles):
                connect(m, flipped(outer.inject[tile]), mesh.inject[tile])
                connect(m, mesh.eject[tile], flipped(outer.eject[tile]))
            m.d.comb += outer.refused.eq(mesh.refused)
        return m
