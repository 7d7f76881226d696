"""The memory engine with all it works on: L1 and registers. To be tested, and measured."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.hbm.ports import ClientSignature, find_client
from rtl.l1 import L1Cache, RangeLayout
from rtl.memory.engine import MemoryEngine
from rtl.memory.geometry import MemoryGeometry
from rtl.memory.scalar import WordAccessLayout
from rtl.memory.sequence import OPERATION_BITS
from rtl.registers import RegisterBus
from rtl.vec.ports import (
    LineReadSignature,
    LineWriteLayout,
    WordReadSignature,
    WordWriteLayout,
)
from rtl.vec.registers import RowRegisterFile, VectorRegisterFile

CLIENTS = ("l1", "loads", "stores")
"""Clients of the HBM slice, which are ports here."""


class StandaloneMemoryEngine(wiring.Component):
    """A memory engine, an L1 cache and the registers of a tile.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations, done, access, answers, failed
        See `rtl.memory.engine.MemoryEngine`.
    ranges : In
        See `rtl.l1.cache.L1Cache`.
    lines_read, words_read : In
        Ports that read the registers, for others, who go first.
    lines_write, words_write : In
        Ports that write them.
    l1, loads, stores : Out
        To the HBM slice.
    bus, cache_bus : In
        Registers and counters of the engine and of the cache.

    Attributes
    ----------
    register_map, cache_register_map
        Of both.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = MemoryGeometry(config)
        self._engine, self._cache = MemoryEngine(config), L1Cache(config)
        self.register_map = self._engine.register_map
        self.cache_register_map = self._cache.register_map
        channels = config.pseudo_channels
        super().__init__(
            {
                "operations": In(stream.Signature(OPERATION_BITS)),
                "done": Out(1),
                "access": In(stream.Signature(WordAccessLayout())),
                "answers": Out(stream.Signature(32)),
                "failed": Out(1),
                "ranges": In(stream.Signature(RangeLayout(g.cache))),
                "lines_read": In(LineReadSignature(g.vectors)),
                "lines_write": In(stream.Signature(LineWriteLayout(g.vectors))),
                "words_read": In(WordReadSignature(g.vectors)),
                "words_write": In(stream.Signature(WordWriteLayout(g.vectors))),
                **{
                    name: Out(ClientSignature(find_client(config, name), channels))
                    for name in CLIENTS
                },
                "bus": In(RegisterBus(self.register_map.words)),
                "cache_bus": In(RegisterBus(self.cache_register_map.words)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the parts, connected."""
        m = Module()
        m.submodules.engine = engine = self._engine
        m.submodules.cache = cache = self._cache
        names = ("others", "engine")
        m.submodules.vectors = vectors = VectorRegisterFile(
            self.config, [f"read_{n}" for n in names], [f"write_{n}" for n in names]
        )
        m.submodules.rows = rows = RowRegisterFile(
            self.config, [f"read_{n}" for n in names], [f"write_{n}" for n in names]
        )
        for file, read, write in (
            (vectors, "lines_read", "lines_write"),
            (rows, "words_read", "words_write"),
        ):
            connect(m, flipped(getattr(self, read)), file.read_others)
            connect(m, flipped(getattr(self, write)), file.write_others)
            connect(m, getattr(engine, read), file.read_engine)
            connect(m, getattr(engine, write), file.write_engine)
        connect(m, engine.cache.requests, cache.requests)
        connect(m, cache.answers, engine.cache.answers)
        connect(m, flipped(self.operations), engine.operations)
        connect(m, flipped(self.access), engine.access)
        connect(m, engine.answers, flipped(self.answers))
        connect(m, flipped(self.ranges), cache.ranges)
        connect(m, cache.client, flipped(self.l1))
        connect(m, engine.loads, flipped(self.loads))
        connect(m, engine.stores, flipped(self.stores))
        connect(m, flipped(self.bus), engine.bus)
        connect(m, flipped(self.cache_bus), cache.bus)
        m.d.comb += [self.done.eq(engine.done), self.failed.eq(engine.failed)]
        return m
