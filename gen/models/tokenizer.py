"""What a tokenizer is to this project, and text that appears as its tokens do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gen.models.errors import ModelError


class Tokenizer(Protocol):
    """Turns text into tokens and back.

    Attributes
    ----------
    kind : str
        Names the class in a model image.
    """

    kind: str

    @property
    def vocabulary(self) -> int:
        """Tokens there are."""

    @property
    def begin(self) -> tuple[int, ...]:
        """What a prompt starts with."""

    @property
    def end(self) -> frozenset[int]:
        """Tokens after which nothing follows."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without `begin`."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; U+FFFD stands for bytes that are no character."""

    def state(self) -> dict[str, Any]:
        """Return all there is to know as JSON values; ``from_state`` of the class inverts it."""


def prompt_tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens that a model is given for a prompt.

    Raises
    ------
    ModelError
        There are none: the text is empty and nothing is put in front of it; or it is no text.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ModelError("The prompt is not text: it holds bytes that are not UTF-8.") from None
    tokens = [*tokenizer.begin, *tokenizer.encode(text)]
    if not tokens:
        raise ModelError("The prompt is empty; this model needs at least one character to begin.")
    return tokens


class TextStream:
    """Text that grows token by token, one whole character at a time.

    Parameters
    ----------
    tokenizer
        Where the tokens come from.
    before
        Tokens whose text is known already, a prompt's.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._tokens = list(before)
        self._shown = len(tokenizer.decode(self._tokens))

    def push(self, token: int) -> str:
        """Take a token and return the text that it completes."""
        self._tokens.append(token)
        # All is decoded each time: what a token looks like may depend on those before it, and
        # decoding costs nothing beside making the token.
        text = self._tokenizer.decode(self._tokens)
        return "" if text.endswith("\ufffd") else self._take(text)

    def finish(self) -> str:
        """Return what has been held back: the beginning of a character that never came."""
        return self._take(self._tokenizer.decode(self._tokens))

    def _take(self, text: str) -> str:
        new, self._shown = text[self._shown :], len(text)
        return new
