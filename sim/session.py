"""A model on an interpreted tile: tokens in, logits or the next token out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gen.kernels.program import TileProgram
from gen.kernels.stored import COUNT, POSITION, RESULT, TOKENS
from rtl.core.isa import SLOT
from sim.golden import fp32
from sim.interpreter import Memory, Tile, run


class Session:
    """One sequence of tokens on a tile of its own.

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
        self.stored = stored = tile_program.stored
        self.logits, self._last_chunk = tile_program.logits, tile_program.last_chunk
        self.words = tile_program.program.words
        config = stored.plan.config
        self.memory = Memory(config, stored.map.end)
        for name, data in stored.contents.items():
            self.memory.poke(stored.map[name].address, data)
        self.memory.constant_end = self.memory.run(stored.constant_end, 0).start
        self.tile = Tile(config, self.memory)
        self._length = 0
        self._count = 0
        self._rows: fp32.Floats | None = None

    def append(self, tokens: Sequence[int]) -> fp32.Floats | int:
        """Run the program over tokens.

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
        self.memory.poke(mailbox + 4 * POSITION, np.uint32(self.length))
        self.memory.poke(mailbox + 4 * COUNT, np.uint32(array.size))
        self.memory.poke(mailbox + 4 * TOKENS, array.astype(np.uint32))
        run(self.tile, self.words)
        self._length += array.size
        self._count = array.size
        if self.logits:
            size = array.size * model.vocabulary
            data = self.memory.peek(memory_map["logits"].address, 4 * size)
            self._rows = data.view(np.float32).reshape(array.size, -1).copy()
            return self._rows
        return self.next_token

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
        assert self._rows is not None
        return self._rows[-1]

    @property
    def next_token(self) -> int:
        """The token that the program found to be next, after the last `append`."""
        mailbox = self.stored.map["mailbox"].address
        return int(self.memory.peek(mailbox + 4 * RESULT, 4).view(np.uint32)[0])

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
