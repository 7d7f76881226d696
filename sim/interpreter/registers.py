"""Registers of a tile: their contents, and which of it is defined.

A destination that is renamed holds whatever was there before, so that reading what was not written
is an error here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.mx import MXTensor, pack_nibbles, unpack_nibbles
from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, ROWS, SCALARS, SLOT, VECTORS
from rtl.formats import BLOCK, Format
from sim.golden import fp32
from sim.interpreter.errors import Fault
from sim.interpreter.journal import Journal

Integers = NDArray[np.integer[Any]]

_UNDEFINED, _WORD, _MX = 0, 1, {Format.MXFP4: 2, Format.MXINT8: 3}
_WHAT = {0: "undefined", 1: "words", 2: "MXFP4 blocks", 3: "MXINT8 blocks"}


class Scalars:
    """The scalar registers; register 0 is 0."""

    def __init__(self) -> None:
        self._values = [0] * SCALARS

    def __getitem__(self, number: int) -> int:
        return self._values[number]

    def __setitem__(self, number: int, value: int) -> None:
        if number:
            self._values[number] = value & 0xFFFFFFFF


class RowRegisters:
    """One word per row, FP32 or integer."""

    def __init__(self, config: TileConfig, journal: Journal) -> None:
        self._journal = journal
        self.words = np.zeros((ROWS, config.row_length), np.uint32)
        self.defined = np.zeros((ROWS, config.row_length), np.bool_)

    def read(self, register: int, rows: Integers) -> NDArray[np.uint32]:
        """Return the words of some rows."""
        self._check(register, rows)
        if not self.defined[register, rows].all():
            row = int(np.asarray(rows)[~self.defined[register, rows]][0])
            raise Fault(f"r{register} is read at row {row}, which was never written")
        return self.words[register, rows]

    def write(self, register: int, rows: Integers, words: Any) -> None:
        """Write the words of some rows; the others stay."""
        self._check(register, rows)
        self._journal.write(self.words, (register, rows), words)
        self._journal.write(self.defined, (register, rows), True)

    def _check(self, register: int, rows: Integers) -> None:
        length = self.words.shape[1]
        if register >= ROWS:
            raise Fault(f"Register {register} is no row register, they are 0 to {ROWS - 1}")
        if np.size(rows) and not (np.min(rows) >= 0 and np.max(rows) < length):
            raise Fault(f"r{register} has rows 0 to {length - 1}, row {np.max(rows)} is wanted")


class VectorRegisters:
    """Runs of words, or of MX blocks with a scale byte each."""

    def __init__(self, config: TileConfig, journal: Journal) -> None:
        self._journal = journal
        self.length = config.vector_length
        self.words = np.zeros((VECTORS, self.length), np.uint32)
        self.scales = np.zeros((VECTORS, self.length // BLOCK_WORDS), np.uint8)
        self.kinds = np.zeros((VECTORS, self.length), np.uint8)

    def fresh(self, register: int) -> None:
        """Make all of a register undefined, unless the instruction keeps the rest."""
        self._register(register)
        self._journal.write(self.kinds, register, _UNDEFINED)

    def read_words(self, register: int, starts: Integers, count: int) -> NDArray[np.uint32]:
        """Return runs of `count` words from each of the start words, [runs, count]."""
        where = self._run(register, starts, count)
        self._expect(register, where, _WORD)
        return self.words[register, where]

    def write_words(self, register: int, starts: Integers, words: NDArray[Any]) -> None:
        """Write runs of words [runs, count]."""
        where = self._run(register, starts, words.shape[1])
        self._write(register, where, words, _WORD)

    def read_blocks(self, register: int, starts: Integers, count: int, fmt: Format) -> MXTensor:
        """Return runs of `count` blocks from each of the start blocks, [runs, count]."""
        where = self._run(register, np.asarray(starts) * BLOCK_WORDS, count * BLOCK_WORDS)
        self._expect(register, where, _MX[fmt])
        blocks = np.asarray(starts)[:, None] + np.arange(count)
        data = np.ascontiguousarray(self.words[register, where]).view(np.uint8)
        data = data.reshape(len(blocks), count, BLOCK)
        nibbles = fmt is Format.MXFP4 and data.size
        codes = unpack_nibbles(data[..., : BLOCK // 2]) if nibbles else data
        return MXTensor(codes, self.scales[register, blocks], fmt, count * BLOCK)

    def write_blocks(self, register: int, starts: Integers, tensor: MXTensor) -> None:
        """Write runs of blocks, the rows of a tensor."""
        count = tensor.blocks
        where = self._run(register, np.asarray(starts) * BLOCK_WORDS, count * BLOCK_WORDS)
        data = np.zeros((*tensor.scales.shape, BLOCK), np.uint8)
        if tensor.format is Format.MXFP4:
            data[..., : BLOCK // 2] = pack_nibbles(tensor.codes)
        else:
            data[...] = tensor.codes
        self._write(register, where, data.view(np.uint32).reshape(where.shape), _MX[tensor.format])
        blocks = np.asarray(starts)[:, None] + np.arange(count)
        self._journal.write(self.scales, (register, blocks), tensor.scales)

    def copy_blocks(self, register: int, first: int, count: int) -> tuple[Any, Any]:
        """Return blocks as they are: words [count, 8], and kind and scale of each [count, 2]."""
        where = self._run(register, BLOCK_WORDS * np.arange(first, first + count), BLOCK_WORDS)
        kinds = self.kinds[register, where]
        whole = (kinds == kinds[:, :1]).all(1) & np.isin(kinds[:, 0], [*_MX.values()])
        for block in np.flatnonzero(~whole)[:1]:
            raise Fault(f"v{register} has no MX block {first + block}")
        scales = self.scales[register, first : first + count]
        return self.words[register, where], np.stack([kinds[:, 0], scales], axis=1)

    def paste_blocks(self, register: int, first: int, words: Any, about: Any) -> None:
        """Write blocks that `copy_blocks` returned."""
        blocks = np.arange(first, first + len(words))
        self._write(
            register, self._run(register, BLOCK_WORDS * blocks, BLOCK_WORDS), words, about[:, :1]
        )
        self._journal.write(self.scales, (register, blocks), about[:, 1])

    def floats(self, register: int, starts: Integers, count: int) -> fp32.Floats:
        """Return runs of words as FP32."""
        return self.read_words(register, starts, count).view(np.float32)

    def _write(self, register: int, where: Any, words: Any, kinds: Any) -> None:
        self._journal.write(self.words, (register, where), words)
        self._journal.write(self.kinds, (register, where), kinds)

    def _register(self, register: int) -> None:
        if register >= VECTORS:
            raise Fault(f"Register {register} is no vector register, they are 0 to {VECTORS - 1}")

    def _run(self, register: int, starts: Integers, count: int) -> Integers:
        self._register(register)
        starts = np.asarray(starts)
        if starts.size and not (starts.min() >= 0 and starts.max() + count <= self.length):
            raise Fault(
                f"v{register} has {self.length} words, {count} from word {starts.max()} are wanted"
            )
        return starts[:, None] + np.arange(count)

    def _expect(self, register: int, where: Integers, kind: int) -> None:
        kinds = self.kinds[register, where]
        if (wrong := kinds != kind).any():
            first = np.argmax(wrong.reshape(-1))
            word, found = where.reshape(-1)[first], _WHAT[int(kinds.reshape(-1)[first])]
            raise Fault(
                f"v{register} is {found} at slot {word // SLOT}, word {word % SLOT}, where "
                f"{_WHAT[kind]} are read"
            )
