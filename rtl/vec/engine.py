"""The vector engine: the vector unit, the registers of the tile, and their ports for others."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.registers import RegisterBlock, RegisterBus, RegisterMap
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import VectorOperationLayout
from rtl.vec.ports import (
    LineReadSignature,
    LineWriteLayout,
    WordReadSignature,
    WordWriteLayout,
)
from rtl.vec.registers import RowRegisterFile, VectorRegisterFile
from rtl.vec.unit import (
    COUNTERS,
    LINE_READS,
    LINE_WRITES,
    WORD_READS,
    WORD_WRITES,
    VectorUnit,
)

OTHERS = "others"
"""Name of the ports for the rest of the tile, which go first."""


class VectorEngine(wiring.Component):
    """The vector unit with its registers.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Instructions, see `VectorOperationLayout`.
    done : Out
        An instruction has written everything; they end in their order.
    lines_read, words_read : In
        Ports that read vector and row registers.
    lines_write, words_write : In
        Ports that write them.
    bus : In
        Counters, see `register_map`.

    Attributes
    ----------
    register_map
        The counters.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = VectorGeometry(config)
        self.register_map = RegisterMap(config, (), COUNTERS)
        super().__init__(
            {
                "operations": In(stream.Signature(VectorOperationLayout())),
                "done": Out(1),
                "lines_read": In(LineReadSignature(g)),
                "lines_write": In(stream.Signature(LineWriteLayout(g))),
                "words_read": In(WordReadSignature(g)),
                "words_write": In(stream.Signature(WordWriteLayout(g))),
                "bus": In(RegisterBus(self.register_map.words)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return unit and registers."""
        m = Module()
        m.submodules.unit = unit = VectorUnit(self.config)
        m.submodules.vectors = vectors = VectorRegisterFile(
            self.config,
            (OTHERS, *(f"read_{name}" for name in LINE_READS)),
            ("put", *(f"write_{name}" for name in LINE_WRITES)),
        )
        m.submodules.rows = rows = RowRegisterFile(
            self.config,
            (OTHERS, *(f"read_{name}" for name in WORD_READS)),
            ("put", *(f"write_{name}" for name in WORD_WRITES)),
        )
        for name in LINE_READS:
            connect(m, getattr(unit, f"read_{name}"), getattr(vectors, f"read_{name}"))
        for name in LINE_WRITES:
            connect(m, getattr(unit, f"write_{name}"), getattr(vectors, f"write_{name}"))
        for name in WORD_READS:
            connect(m, getattr(unit, f"rows_read_{name}"), getattr(rows, f"read_{name}"))
        for name in WORD_WRITES:
            connect(m, getattr(unit, f"rows_write_{name}"), getattr(rows, f"write_{name}"))
        connect(m, flipped(self.lines_read), getattr(vectors, OTHERS))
        connect(m, flipped(self.words_read), getattr(rows, OTHERS))
        connect(m, flipped(self.lines_write), vectors.put)
        connect(m, flipped(self.words_write), rows.put)
        connect(m, flipped(self.operations), unit.operations)
        m.submodules.registers = block = RegisterBlock(self.register_map)
        connect(m, flipped(self.bus), block.bus)
        m.d.comb += self.done.eq(unit.done)
        for counter in COUNTERS:
            m.d.comb += getattr(block.step, counter.name).eq(getattr(unit.counters, counter.name))
        return m
