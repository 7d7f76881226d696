"""Tokenizers of the ``tokenizers`` library: a file ``tokenizer.json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from gen.models.errors import ModelError


class HuggingFaceTokenizer:
    """A tokenizer that the library runs.

    Parameters
    ----------
    text
        What is in ``tokenizer.json``.
    end
        Tokens after which nothing follows; the file does not say.
    """

    kind = "huggingface"

    def __init__(self, text: str, end: Iterable[int] = ()) -> None:
        self._text = text
        self._tokenizer = tokenizers.Tokenizer.from_str(text)
        self._end = frozenset(end)
        # What the library puts around nothing is what it puts around a prompt.
        around = self._tokenizer.encode("", add_special_tokens=True).ids
        self._begin = tuple(token for token in around if token not in self._end)

    @classmethod
    def load(cls, path: Path, end: Iterable[int] = ()) -> HuggingFaceTokenizer:
        """Read ``tokenizer.json``.

        Raises
        ------
        ModelError
            The library cannot read it.
        """
        try:
            return cls(path.read_text(encoding="utf-8"), end)
        except OSError:
            raise
        except Exception as error:  # the library raises nothing more precise
            raise ModelError(f"{path} is not a tokenizer.json: {error}.") from None

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> HuggingFaceTokenizer:
        """Return the tokenizer that gave `state`."""
        return cls(state["text"], state["end"])

    def state(self) -> dict[str, Any]:
        """Return the file and the end tokens."""
        return {"text": self._text, "end": sorted(self._end)}

    @property
    def vocabulary(self) -> int:
        """Tokens there are."""
        return self._tokenizer.get_vocab_size()

    @property
    def begin(self) -> tuple[int, ...]:
        """What a prompt starts with."""
        return self._begin

    @property
    def end(self) -> frozenset[int]:
        """Tokens after which nothing follows."""
        return self._end

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; those without a text of their own are left out."""
        return self._tokenizer.decode(list(tokens))
