"""A model on a tile, as its host sees it: tokens in, logits or the next token out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from gen.kernels.program import TileProgram
from gen.kernels.stored import COUNT, POSITION, RESULT, TOKENS
from gen.mx import Bytes
from rtl.core.isa import SLOT
from sim.golden import fp32
from sim.interpreter import Memory, Tile, run


class HostSession(ABC):
    """One sequence of tokens on a tile of its own, whatever that is.

    Parameters
    ----------
    tile_program
        From `gen.kernels.program.build`.
    """

    def __init__(self, tile_program: TileProgram) -> None:
        self.stored = tile_program.stored
        self.logits, self._last_chunk = tile_program.logits, tile_program.last_chunk
        self.words = tile_program.program.words
        self._length = 0
        self._count = 0

    @abstractmethod
    def poke(self, address: int, data: Any) -> None:
        """Write an array to memory."""

    @abstractmethod
    def peek(self, address: int, size: int) -> Bytes:
        """Read bytes of memory."""

    @abstractmethod
    def execute(self) -> None:
        """Run the program."""

    def append(self, tokens: Sequence[int]) -> fp32.Floats | int:
        """Run the program over tokens, and see what it found.

        Parameters
        ----------
        tokens
            At least one; they follow those in the cache.

        Returns
        -------
        float32 [tokens, vocabulary] or int
            Logits of every token, if the program writes them; otherwise the token that is next.

        Raises
        ------
        ValueError
            If a token is unknown, there are none, or the cache is too short for them.
        ProgramError
            If the program has a fault.
        """
        self.advance(tokens)
        return self._rows(0, self._count) if self.logits else self.next_token

    def advance(self, tokens: Sequence[int]) -> None:
        """Run the program over tokens; see `append`."""
        self._request(tokens)
        self.execute()
        self._length += self._count

    def _request(self, tokens: Sequence[int]) -> None:
        """Put a request into the mailbox."""
        model, memory_map = self.stored.model, self.stored.map
        array = np.asarray(tokens, np.int64)
        if array.ndim != 1 or not array.size:
            raise ValueError(f"tokens has shape {array.shape}, it must be a row of at least one.")
        for token in array[(array < 0) | (array >= model.vocabulary)][:1]:
            raise ValueError(f"token is {token}, it must be 0 to {model.vocabulary - 1}.")
        limit = self.stored.positions
        if self.length + array.size > limit:
            raise ValueError(
                f"The sequence would have {self.length + array.size} tokens, there is room for "
                f"{limit}."
            )
        mailbox = memory_map["mailbox"].address
        self.poke(mailbox + 4 * POSITION, np.uint32(self.length))
        self.poke(mailbox + 4 * COUNT, np.uint32(array.size))
        self.poke(mailbox + 4 * TOKENS, array.astype(np.uint32))
        self._count = array.size

    @property
    def length(self) -> int:
        """Tokens in the cache; setting it to less forgets the others.

        Raises
        ------
        ValueError
            If fewer are held.
        """
        return self._length

    @length.setter
    def length(self, length: int) -> None:
        if not 0 <= length <= self._length:
            raise ValueError(f"length is {length}, it must be 0 to {self._length}.")
        self._length = length

    @property
    def last_logits(self) -> fp32.Floats:
        """Logits of the last token, float32 [vocabulary]; only of a program that writes them."""
        assert self.logits
        assert self._count
        return self._rows(self._count - 1, 1)[0]

    @property
    def next_token(self) -> int:
        """The token that the program found to be next, after the last `append`."""
        mailbox = self.stored.map["mailbox"].address
        return int(self.peek(mailbox + 4 * RESULT, 4).view(np.uint32)[0])

    def _rows(self, first: int, count: int) -> fp32.Floats:
        """Return logits of some tokens of the last request."""
        size = 4 * self.stored.model.vocabulary
        data = self.peek(self.stored.map["logits"].address + first * size, count * size)
        return data.view(np.float32).reshape(count, -1).copy()


class Session(HostSession):
    """One sequence of tokens on an interpreted tile of its own.

    Parameters
    ----------
    tile_program
        From `gen.kernels.program.build`.

    Attributes
    ----------
    tile
        The tile.
    """

    def __init__(self, tile_program: TileProgram) -> None:
        super().__init__(tile_program)
        stored = self.stored
        config = stored.plan.config
        self.memory = Memory(config, stored.map.end)
        for name, data in stored.contents.items():
            self.memory.poke(stored.map[name].address, data)
        self.memory.constant_end = self.memory.run(stored.constant_end, 0).start
        self.tile = Tile(config, self.memory)

    def poke(self, address: int, data: Any) -> None:
        """Write an array to memory."""
        self.memory.poke(address, data)

    def peek(self, address: int, size: int) -> Bytes:
        """Read bytes of memory."""
        return self.memory.peek(address, size)

    def execute(self) -> None:
        """Interpret the program."""
        run(self.tile, self.words)

    @property
    def residual(self) -> fp32.Floats:
        """Residual stream of the last chunk behind the last layer, float32 [rows, width]."""
        rows, columns = self._last_chunk(self._count)
        parts = [
            self.tile.vectors.floats(
                part.register, SLOT * part.stride * np.arange(rows), part.columns
            )
            for part in columns.parts
        ]
        return np.concatenate(parts, axis=1)
