"""The memory of a tile, and who may see what in it.

Bytes are addressed in the tile's address space, where a beat occupies the next power of two of its
size; the rest of that is a hole. A run of bytes goes on behind holes.

Two ways lead to memory: through L1, and past it. The hardware keeps them apart by convention only,
so the interpreter holds programs to it. Bytes that were touched through L1 must not be written past
it, bytes that were written past it must not be touched through it, bytes that were written through
it must not be streamed; and what was written past it may be streamed only after a fence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gen.mx import Bytes
from rtl.config import TileConfig
from sim.interpreter.errors import Fault
from sim.interpreter.journal import Journal

UNWRITTEN = 0xDB
"""What bytes that were never written read as."""

_READ, _WRITTEN, _PAST, _UNFENCED = 1, 2, 4, 8


class Memory:
    """Bytes, and for each line the ways it was touched.

    Parameters
    ----------
    config
        Of the tile: beat and line sizes.
    size
        Bytes of address space, holes included; rounded up to whole lines.

    Attributes
    ----------
    journal
        What the tile's instruction has overwritten so far, here and in the registers.
    """

    def __init__(self, config: TileConfig, size: int) -> None:
        self.stride, self.beat = config.beat_stride, config.beat_bytes
        self.line = 2 * self.beat
        lines = -(-size // config.line_bytes)
        self.size = lines * config.line_bytes
        self.bytes = np.full(lines * self.line, UNWRITTEN, np.uint8)
        self.journal = Journal()
        self._ways = np.zeros(lines, np.uint8)
        self.constant_end = 0
        """Data bytes below this hold weights, which a program does not change."""
        self.version = 0
        """Changes whenever a byte below `constant_end` does."""
        self._unfenced: list[slice] = []

    def start(self) -> None:
        """Forget all ways: L1 is empty and everything that was stored is in memory."""
        self._ways[:] = 0
        self._unfenced.clear()

    def run(self, address: int, count: int) -> slice:
        """Return where `count` bytes from an address lie among the data bytes.

        Raises
        ------
        Fault
            If the address is a hole, or the run leaves the memory.
        """
        beat, byte = divmod(address, self.stride)
        first = beat * self.beat + byte
        if byte >= self.beat:
            raise Fault(f"Address {address:#x} is a hole between beats")
        if address < 0 or first + count > self.bytes.size:
            raise Fault(
                f"{count} bytes from address {address:#x} are not all in memory, which ends "
                f"at {self.size:#x}"
            )
        return slice(first, first + count)

    def behind(self, address: int, count: int) -> int:
        """Return the address that is so many bytes behind another, which is no hole."""
        beat, byte = divmod(address, self.stride)
        beats, byte = divmod(byte + count, self.beat)
        return (beat + beats) * self.stride + byte

    # --- the host, while no program runs ---

    def peek(self, address: int, count: int) -> Bytes:
        """Return bytes."""
        return self.bytes[self.run(address, count)]

    def poke(self, address: int, data: Any) -> None:
        """Write bytes, or the bytes of any array."""
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._write(self.run(address, data.size), data)
        self.journal.forget()

    # --- through L1 ---

    def load(self, address: int, count: int) -> Bytes:
        """Read bytes through L1."""
        where = self.run(address, count)
        self._touch(where, _READ, _PAST, "reads through L1 what was written past it")
        return self.bytes[where]

    def store(self, address: int, data: Any) -> None:
        """Write bytes through L1."""
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        where = self.run(address, data.size)
        self._touch(where, _WRITTEN, _PAST, "writes through L1 what was written past it")
        self._write(where, data)

    # --- past L1 ---

    def append(self, address: int, data: Any) -> None:
        """Write bytes past L1."""
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        where = self.run(address, data.size)
        self._touch(where, _PAST | _UNFENCED, _READ | _WRITTEN, "writes past L1 what L1 may hold")
        self._unfenced.append(self._lines(where))
        self._write(where, data)

    def stream(self, address: int, count: int) -> Bytes:
        """Read bytes past L1."""
        where = self.run(address, count)
        self._touch(where, 0, _WRITTEN, "streams what was written through L1")
        self._touch(where, 0, _UNFENCED, "streams what was stored since the last fence")
        return self.bytes[where]

    def fence(self) -> None:
        """Let streams see everything that was stored."""
        for lines in self._unfenced:
            self._ways[lines] &= ~np.uint8(_UNFENCED)
        self._unfenced.clear()

    def _lines(self, where: slice) -> slice:
        first = where.start // self.line
        return slice(first, -(-where.stop // self.line) if where.stop > where.start else first)

    def _touch(self, where: slice, way: int, forbidden: int, complaint: str) -> None:
        lines = self._lines(where)
        ways = self._ways[lines]
        if (ways & forbidden).any():
            first = where.start // self.line + int(np.argmax(ways & forbidden != 0))
            raise Fault(f"The program {complaint}, in the line at {first * 2 * self.stride:#x}")
        if way:
            self.journal.write(self._ways, lines, ways | np.uint8(way))

    def _write(self, where: slice, data: Bytes) -> None:
        self.journal.write(self.bytes, where, data)
        if where.start < self.constant_end:
            self.version += 1
