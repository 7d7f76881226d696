"""The ring's part of a tile: its node, and what a host says to it and reads of it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from rtl.config import TileConfig
from rtl.registers import Access, Field, Register, RegisterBlock, RegisterBus, RegisterMap
from rtl.ring.engine import COUNTERS, RingEngine
from rtl.ring.layouts import RANK_BITS, TILES_BITS

REGISTERS = (
    Register(
        "place",
        "where on the ring the tile is; to be written before any tile runs a program",
        (
            Field("present", 1, Access.READ_WRITE, "take part; or flits pass by", reset=1),
            Field("tiles", TILES_BITS, Access.READ_WRITE, "tiles that do, 1 or more", reset=1),
            Field("rank", RANK_BITS, Access.READ_WRITE, "how many of them come before this one"),
        ),
    ),
)
"""A tile that nobody tells anything is a ring of its own."""


class RingUnit(wiring.Component):
    """A node with its registers.

    The place is a register, not pins: which tiles take part is known to the host, once it has
    tested them, and nobody else needs it. Flits that come before it is written wait.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    bus : In
        Registers and counters, see `register_map`.
    operations, done, failed, memory_failed, up_in, up_out, down_in, down_out, read, write, cache
        Of the node, see `RingEngine`.

    Attributes
    ----------
    register_map
        Place and counters.
    """

    def __init__(self, config: TileConfig) -> None:
        self._node = RingEngine(config)
        self.register_map = RegisterMap(config, REGISTERS, COUNTERS)
        members = dict(self._node.signature.members)
        for name in ("place", "events"):
            del members[name]
        super().__init__({"bus": In(RegisterBus(self.register_map.words)), **members})

    def elaborate(self, platform: Any) -> Module:
        """Return node and registers."""
        m = Module()
        m.submodules.node = node = self._node
        m.submodules.registers = block = RegisterBlock(self.register_map)
        connect(m, flipped(self.bus), block.bus)
        connect(m, node.events, block.step)
        for name in ("present", "tiles", "rank"):
            m.d.comb += node.place[name].eq(getattr(block.place, name))
        for name in ("operations", "up_in", "down_in"):
            connect(m, flipped(getattr(self, name)), getattr(node, name))
        for name in ("up_out", "down_out", "read", "write", "cache"):
            connect(m, getattr(node, name), flipped(getattr(self, name)))
        for name in ("done", "failed", "memory_failed"):
            m.d.comb += getattr(self, name).eq(getattr(node, name))
        return m
