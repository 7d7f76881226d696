"""What the matrix engine does: operands from memory, chains, the window, the drain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.layout import ValueLayout, WeightLayout, unpack_values, unpack_weights
from gen.mx import Bytes, MXTensor
from rtl.config import TileConfig
from rtl.core.isa import MatrixFormat
from rtl.formats import BLOCK, SCALE_NAN, Format
from sim.golden import fp32
from sim.golden.window import Window
from sim.interpreter.errors import Fault, check_apart
from sim.interpreter.memory import Memory
from sim.interpreter.registers import RowRegisters, VectorRegisters
from sim.interpreter.rows import Integers, Rows

FORMATS = {MatrixFormat.MXFP4: Format.MXFP4, MatrixFormat.MXINT8: Format.MXINT8}

_FREE = {
    "address",
    "address_offset",
    "beats",
    "blocks",
    "clear",
    "drain",
    "source",
    "offset",
    "pitch",
    "result_offset",
}
"""What the instructions of a chain may differ in."""


@dataclass(frozen=True)
class Chain:
    """K in chunks, so far.

    Attributes
    ----------
    first
        Operands of the instruction that began it.
    maxima
        Greatest scale of each row, [rows, 1], which its blocks are aligned with.
    activations
        Blocks, chunk by chunk, each [rows, k].
    beats
        Of the operand, chunk by chunk.
    """

    first: SimpleNamespace
    maxima: NDArray[np.int64]
    activations: tuple[MXTensor, ...] = ()
    beats: tuple[Bytes, ...] = ()


class MatrixUnit:
    """Streams operands past activations.

    Parameters
    ----------
    config
        Of the tile.
    memory, vectors, rows
        What it reads and writes.
    """

    def __init__(
        self, config: TileConfig, memory: Memory, vectors: VectorRegisters, rows: RowRegisters
    ) -> None:
        self.config, self.memory = config, memory
        self.vectors, self.row_registers = vectors, rows
        self.chain: Chain | None = None
        self._operands: dict[Any, tuple[MXTensor, Integers]] = {}
        self._version = memory.version

    def matrix(self, o: SimpleNamespace) -> None:
        """Execute `matrix`; `o` has all its fields as numbers."""
        self._check(o)
        if o.argmax:
            check_apart("r", best=o.best, best_index=o.best_index)
        rows = Rows.of(o)
        chain = self._continue(o, rows)
        starts = o.offset + rows.token * o.pitch + rows.head * o.stride
        activations = self.vectors.read_blocks(o.source, starts, o.blocks, FORMATS[o.activation])
        where = (o.address + o.address_offset) & 0xFFFFFFFF
        chain = replace(
            chain,
            activations=(*chain.activations, activations),
            beats=(*chain.beats, self._stream(where, o.beats)),
        )
        if o.drain:
            self._deliver(o, rows, self._product(o, rows, chain, where))
        self.chain = None if o.drain else chain

    def _stream(self, where: int, beats: int) -> Bytes:
        if not beats:
            return np.zeros((0, self.config.beat_bytes), np.uint8)
        if where % self.config.line_bytes:
            raise Fault(f"Address {where:#x} is not an even beat")
        data = self.memory.stream(where, beats * self.config.beat_bytes)
        return data.reshape(beats, self.config.beat_bytes)

    def _check(self, o: SimpleNamespace) -> None:
        planes = FORMATS[o.activation].planes
        most = self.config.lanes // planes
        if not 1 <= o.rows <= most:
            raise Fault(f"rows is {o.rows}, the engine takes 1 to {most} of these activations")
        if not 1 <= o.blocks <= self.config.act_blocks:
            raise Fault(f"blocks is {o.blocks}, it must be 1 to {self.config.act_blocks}")
        for name in ("activation", "weight"):
            fmt = FORMATS[getattr(o, name)]
            if fmt not in self.config.element_formats:
                raise Fault(f"{name} is {fmt}, the engine has {self.config.formats}")
        group = self.config.group_outputs
        if not (o.clear and o.drain) and o.outputs > group:
            raise Fault(f"outputs is {o.outputs}, in a chain it must be at most {group}")
        if o.outputs < 1:
            raise Fault("outputs is 0, it must be at least 1")
        if o.transpose and not self.config.transposer:
            raise Fault("transpose is set, the engine has no transposer")
        if o.last_step and not o.transpose:
            raise Fault("last_step is set, without transpose it must not be")
        if o.transpose and (o.outputs > group or o.outputs > BLOCK):
            raise Fault(
                f"outputs is {o.outputs}, with transpose it must be at most {min(group, BLOCK)}"
            )

    def _continue(self, o: SimpleNamespace, rows: Rows) -> Chain:
        if o.clear:
            if self.chain is not None:
                raise Fault("The chain before it was not drained")
            return Chain(o, self._maxima(o, rows))
        if self.chain is None:
            raise Fault("There is no chain to continue; clear is not set")
        for name, value in vars(o).items():
            if name not in _FREE and value != getattr(self.chain.first, name):
                raise Fault(f"{name} is not that of the chain's first instruction")
        for row in rows.index[(self._maxima(o, rows) != self.chain.maxima)[:, 0]][:1]:
            raise Fault(f"The maximum of row {row} is not what it was when the chain began")
        return self.chain

    def _product(self, o: SimpleNamespace, rows: Rows, chain: Chain, where: int) -> fp32.Floats:
        parts = chain.activations
        activations = MXTensor(
            np.concatenate([part.codes for part in parts], axis=1),
            np.concatenate([part.scales for part in parts], axis=1),
            parts[0].format,
            BLOCK * sum(part.blocks for part in parts),
        )
        counts = self._counts(o, rows, activations)
        beats = np.concatenate(chain.beats)
        if o.transpose:
            weights, beyond = self._values(o, activations.blocks, beats)
        else:
            weights, beyond = self._weights(o, activations.blocks, beats, where)
        if not len(rows):
            return np.zeros((0, o.outputs), np.float32)
        above = chain.maxima - activations.maximum_scale[:, None]
        for row in rows.index[(above < 0)[:, 0]][:1]:
            raise Fault(f"The maximum of row {row} is less than one of its scales")
        visible = self._visible(o, rows)
        for neuron in np.flatnonzero((visible & (beyond < 0)).any(0))[:1]:
            raise Fault(f"The maximum of neuron {neuron} is less than one of its scales")
        window = Window(activations, weights, self.config.acc_bits, counts)
        window.lsb += above + beyond
        window.add()
        # Neurons out of range may hold anything, also what no window can hold.
        window.acc[~visible] = 0
        return np.where(visible, window.drain(), np.float32(0))

    def _maxima(self, o: SimpleNamespace, rows: Rows) -> NDArray[np.int64]:
        """Return the greatest scale of each row [rows, 1]."""
        maxima = self.row_registers.read(o.maxima, rows.places(o.maxima_offset, o.maxima_pitch))
        if (maxima > SCALE_NAN).any():
            raise Fault(f"r{o.maxima} holds {maxima.max()}, scales are 0 to {SCALE_NAN}")
        return maxima.astype(np.int64)[:, None]

    def _counts(self, o: SimpleNamespace, rows: Rows, activations: MXTensor) -> Integers:
        """Return the number of blocks that the window of each row is made for."""
        counts = (o.last + rows.token * o.last_step) // BLOCK + 1
        if not o.transpose and o.last // BLOCK + 1 != activations.blocks:
            raise Fault(f"last is {o.last}, but there are {activations.blocks} blocks along K")
        beyond = np.arange(activations.blocks) >= counts[:, None]
        if (activations.elements.any(axis=-1) & beyond).any():
            raise Fault(f"last is {o.last}, but there are blocks behind it that are not zero")
        return counts

    def _visible(self, o: SimpleNamespace, rows: Rows) -> NDArray[np.bool_]:
        """Return which results are in range [rows, outputs]."""
        if not o.ranged:
            return np.ones((len(rows), o.outputs), np.bool_)
        lo, hi = rows.range(o)
        column = np.arange(o.outputs)
        return (lo <= column) & (column < hi)

    def _weights(
        self, o: SimpleNamespace, blocks: int, beats: Bytes, where: int
    ) -> tuple[MXTensor, Integers]:
        """Return an operand, and by how much its stored maxima are above its scales."""
        config = self.config
        layout = WeightLayout(
            o.outputs, BLOCK * blocks, FORMATS[o.weight], config.pseudo_channels, config.acc_depth
        )
        if len(beats) != layout.beats.total:
            raise Fault(f"beats is {len(beats)}, this operand has {layout.beats.total}")
        # Weights do not change, and unpacking them takes longer than multiplying them.
        constant = o.clear and self.memory.run(where, beats.size).stop <= self.memory.constant_end
        if self.memory.version != self._version:
            self._version = self.memory.version
            self._operands.clear()
        key = where, layout
        if constant and key in self._operands:
            return self._operands[key]
        weights = unpack_weights(beats, layout)
        beyond = np.zeros(o.outputs, np.int64)
        if blocks > 1:
            stored = beats[layout.maximum_place(np.arange(o.outputs))]
            beyond = stored.astype(np.int64) - weights.maximum_scale
        if constant:
            self._operands[key] = weights, beyond
        return weights, beyond

    def _values(self, o: SimpleNamespace, blocks: int, beats: Bytes) -> tuple[MXTensor, Integers]:
        """Return the outputs of V's tiles, as rows along positions, which have no maxima."""
        fmt, channels = FORMATS[o.weight], self.config.pseudo_channels
        layout = ValueLayout(BLOCK * blocks, fmt, channels)
        if len(beats) != layout.beats:
            raise Fault(f"beats is {len(beats)}, this operand has {layout.beats}")
        scales = np.zeros(BLOCK * blocks, np.uint8)
        rows = unpack_values(beats[None], scales[None], layout, BLOCK * blocks, BLOCK)
        first = o.tile_row * channels
        if first + o.outputs > BLOCK:
            raise Fault(f"outputs {first} to {first + o.outputs - 1} are not all in a tile of V")
        return rows.column_operand(0)[first : first + o.outputs], np.zeros(o.outputs, np.int64)

    def _deliver(self, o: SimpleNamespace, rows: Rows, results: fp32.Floats) -> None:
        if o.results:
            if not o.into:
                self.vectors.fresh(o.to)
            starts = o.result_offset + rows.token * o.result_pitch + rows.head * o.result_stride
            self.vectors.write_words(o.to, starts, np.ascontiguousarray(results).view(np.uint32))
        if o.argmax:
            self._argmax(o, rows, results)

    def _argmax(self, o: SimpleNamespace, rows: Rows, results: fp32.Floats) -> None:
        index = fp32.argmax(results)
        best = np.take_along_axis(results, index[:, None], axis=1)[:, 0]
        index = (index + o.argmax_base).astype(np.uint32)
        if o.argmax_resume:
            old = self.row_registers.read(o.best, rows.index).view(np.float32)
            old_index = self.row_registers.read(o.best_index, rows.index)
            stays = ~fp32.less(old, best)
            best, index = np.where(stays, old, best), np.where(stays, old_index, index)
        self.row_registers.write(o.best, rows.index, best.astype(np.float32).view(np.uint32))
        self.row_registers.write(o.best_index, rows.index, index)
