"""The part of a tile that has to do with messages: its engine, and what a host reads of it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from rtl.config import TileConfig
from rtl.message.engine import COUNTERS, MessageEngine
from rtl.registers import RegisterBlock, RegisterBus, RegisterMap


class MessageUnit(wiring.Component):
    """An engine with its counters.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    bus : In
        Counters, see `register_map`.
    operations, done, failed, number, requests_out, requests_in, replies_out, replies_in, cache,
    reading, lines_read, lines_write, words_write
        Of the engine, see `MessageEngine`.

    Attributes
    ----------
    register_map
        Counters.
    """

    def __init__(self, config: TileConfig) -> None:
        self._engine = MessageEngine(config)
        self.register_map = RegisterMap(config, (), COUNTERS)
        members = dict(self._engine.signature.members)
        del members["events"]
        super().__init__({"bus": In(RegisterBus(self.register_map.words)), **members})

    def elaborate(self, platform: Any) -> Module:
        """Return engine and counters."""
        m = Module()
        m.submodules.engine = engine = self._engine
        m.submodules.registers = block = RegisterBlock(self.register_map)
        connect(m, flipped(self.bus), block.bus)
        connect(m, engine.events, block.step)
        for name in ("operations", "requests_in", "replies_in"):
            connect(m, flipped(getattr(self, name)), getattr(engine, name))
        for name in ("requests_out", "replies_out", "lines_read", "lines_write", "words_write"):
            connect(m, getattr(engine, name), flipped(getattr(self, name)))
        connect(m, engine.cache, flipped(self.cache))
        m.d.comb += [
            engine.number.eq(self.number),
            self.done.eq(engine.done),
            self.failed.eq(engine.failed),
            self.reading.eq(engine.reading),
        ]
        return m
