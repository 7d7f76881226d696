"""The matrix unit with registers of its own, as it is tested and measured by itself."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.mac.operation import FetchLayout
from rtl.matrix.operation import MATRIX
from rtl.matrix.unit import MatrixUnit
from rtl.registers import RegisterBus
from rtl.vec.geometry import VectorGeometry
from rtl.vec.ports import (
    LineReadSignature,
    LineWriteLayout,
    WordReadSignature,
    WordWriteLayout,
)
from rtl.vec.registers import RowRegisterFile, VectorRegisterFile

OTHERS = "others"
"""Name of the ports that stand for the rest of a tile, which go first."""


class StandaloneMatrixUnit(wiring.Component):
    """The matrix unit with registers.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations, fetches, beats, done, bus
        Of the matrix unit, see `MatrixUnit`.
    lines_read, words_read : In
        Ports that read vector and row registers.
    lines_write, words_write : In
        Ports that write them.

    Attributes
    ----------
    register_map
        That of the matrix engine.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = VectorGeometry(config)
        self._unit = MatrixUnit(config)
        self.register_map = self._unit.register_map
        super().__init__(
            {
                "operations": In(stream.Signature(MATRIX)),
                "fetches": In(stream.Signature(FetchLayout(config))),
                "beats": In(stream.Signature(config.beat_bits)),
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
        m.submodules.unit = unit = self._unit
        m.submodules.vectors = vectors = VectorRegisterFile(
            self.config, (OTHERS, "activations"), ("put", "results")
        )
        m.submodules.rows = rows = RowRegisterFile(
            self.config, (OTHERS, "maxima", "get"), ("put", "best")
        )
        connect(m, unit.read_activations, vectors.activations)
        connect(m, unit.write_results, vectors.results)
        connect(m, unit.rows_read_maxima, rows.maxima)
        connect(m, unit.rows_read_best, rows.get)
        connect(m, unit.rows_write_best, rows.best)
        connect(m, flipped(self.lines_read), getattr(vectors, OTHERS))
        connect(m, flipped(self.words_read), getattr(rows, OTHERS))
        connect(m, flipped(self.lines_write), vectors.put)
        connect(m, flipped(self.words_write), rows.put)
        connect(m, flipped(self.operations), unit.operations)
        connect(m, flipped(self.fetches), unit.fetches)
        connect(m, flipped(self.beats), unit.beats)
        connect(m, flipped(self.bus), unit.bus)
        m.d.comb += self.done.eq(unit.done)
        return m
