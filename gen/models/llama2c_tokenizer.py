"""The tokenizer of llama2.c: byte-pair encoding by scores, as its ``run.c`` does it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from gen.models.errors import ModelError

_BEGIN, _END = 1, 2
_FIRST_BYTE = 3
"""Tokens 3 to 258 are the bytes, for text that has no other token."""

_BYTES = {f"<0x{byte:02X}>".encode(): bytes([byte]) for byte in range(256)}


class Llama2cTokenizer:
    """Pieces of text with scores; the pair that makes the best piece is merged first.

    Parameters
    ----------
    pieces
        The bytes of every token.
    scores
        One per piece.
    """

    kind = "llama2c"

    def __init__(self, pieces: Sequence[bytes], scores: Sequence[float]) -> None:
        self.pieces = tuple(pieces)
        self.scores = tuple(scores)

    @classmethod
    def load(cls, path: Path, vocabulary: int) -> Llama2cTokenizer:
        """Read a tokenizer file; it does not say itself how many tokens it has.

        Parameters
        ----------
        path
            The file.
        vocabulary
            Tokens of the model.

        Raises
        ------
        ModelError
            It is no tokenizer of so many tokens.
        """
        data = path.read_bytes()
        pieces, scores, offset = [], [], 4  # the first word is the length of the longest piece
        try:
            for _ in range(vocabulary):
                score, length = struct.unpack_from("<fi", data, offset)
                offset += 8 + length
                if length < 0 or offset > len(data):
                    raise struct.error
                pieces.append(data[offset - length : offset])
                scores.append(score)
        except struct.error:
            offset = -1
        if offset != len(data):
            raise ModelError(
                f"{path} is not a llama2.c tokenizer of {vocabulary} tokens, as many as the model "
                "has."
            )
        return cls(pieces, scores)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Llama2cTokenizer:
        """Return the tokenizer that gave `state`."""
        return cls([bytes.fromhex(piece) for piece in state["pieces"]], state["scores"])

    def state(self) -> dict[str, Any]:
        """Return pieces and scores as JSON values."""
        return {"pieces": [piece.hex() for piece in self.pieces], "scores": list(self.scores)}

    @property
    def vocabulary(self) -> int:
        """Tokens there are."""
        return len(self.pieces)

    @property
    def begin(self) -> tuple[int, ...]:
        """What a prompt starts with."""
        return (_BEGIN,)

    @property
    def end(self) -> frozenset[int]:
        """Begin and end of a text: both are learned to follow its last word."""
        return frozenset({_BEGIN, _END})

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; words know the space before them, so one is added."""
        tokens = []
        for character in (" " + text) if text else "":
            piece = character.encode()
            known = self._tokens.get(piece)
            tokens += [known] if known is not None else [_FIRST_BYTE + byte for byte in piece]
        while merges := list(self._merges(tokens)):
            _, at, merged = max(merges, key=lambda merge: merge[0])  # the first of equals
            tokens[at : at + 2] = [merged]
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without the space that `encode` adds after the first."""
        parts = []
        previous = None
        for token in tokens:
            if not 0 <= token < self.vocabulary:
                raise ModelError(f"token is {token}; it must be 0 to {self.vocabulary - 1}.")
            piece = self.pieces[token]
            if previous == _BEGIN:
                piece = piece.removeprefix(b" ")
            if token not in self.end:
                parts.append(_BYTES.get(piece, piece))
            previous = token
        return b"".join(parts).decode(errors="replace")

    @cached_property
    def _tokens(self) -> dict[bytes, int]:
        return {piece: token for token, piece in reversed([*enumerate(self.pieces)])}

    def _merges(self, tokens: list[int]) -> Any:
        for at in range(len(tokens) - 1):
            merged = self._tokens.get(self.pieces[tokens[at]] + self.pieces[tokens[at + 1]])
            if merged is not None:
                yield self.scores[merged], at, merged
