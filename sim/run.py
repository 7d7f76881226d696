"""Text from a model, token by token, on any engine; and every logit compared with golden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gen.models.errors import ModelError
from gen.models.library import Opened
from gen.models.tokenizer import TextStream, Tokenizer, prompt_tokens
from sim.activity import Activity
from sim.engines import Engine
from sim.figures import Figure
from sim.golden import fp32

Choose = Callable[[fp32.Floats], int]
"""Picks the next token from logits [vocabulary]."""


class Mismatch(ValueError):
    """An engine gave another bit than golden; the message is one sentence that says where."""


@dataclass(frozen=True)
class Prompt:
    """A prompt that fits its model.

    Attributes
    ----------
    tokens : list of int
        What the model is given.
    room : int
        Tokens that can follow; the last of them need not be appended.
    tokenizer : Tokenizer
        Of the model.
    """

    tokens: list[int]
    room: int
    tokenizer: Tokenizer

    @classmethod
    def of(cls, text: str, opened: Opened) -> Prompt:
        """Return the prompt with this text.

        Raises
        ------
        ModelError
            The model has no tokenizer, or the prompt is empty or too long for it.
        """
        model = opened.model
        if opened.tokenizer is None:
            raise ModelError(f"{model.name} has no tokenizer; give one with --tokenizer FILE.")
        tokens = prompt_tokens(opened.tokenizer, text)
        room = model.context - len(tokens) + 1
        if room < 1:
            raise ModelError(
                f"The prompt has {len(tokens)} tokens; the context of {model.name} holds "
                f"{model.context}, so it must have at most those."
            )
        return cls(tokens, room, opened.tokenizer)


@dataclass(frozen=True)
class Token:
    """A token that was generated.

    Attributes
    ----------
    number : int
        The token.
    text : str
        What is complete with it.
    """

    number: int
    text: str


class Generation:
    """Continues a prompt; iterate over it for the tokens.

    Parameters
    ----------
    engine
        New, for this sequence alone.
    prompt
        What to continue.
    count
        Tokens to add at most.
    choose
        How to pick them.

    Attributes
    ----------
    stopped : str
        Why it ended: ``count``, ``end`` for an end token (which is not yielded), or ``context``
        when the context was full.
    rest : str
        Text that is left at the end: a character that was begun and never completed.
    """

    def __init__(self, engine: Engine, prompt: Prompt, count: int, choose: Choose) -> None:
        self._engine, self._prompt, self._count, self._choose = engine, prompt, count, choose
        self.stopped = self.rest = ""

    def __iter__(self) -> Iterator[Token]:
        prompt = self._prompt
        stream = TextStream(prompt.tokenizer, prompt.tokens)
        logits = self._engine.prefill(prompt.tokens)
        total = min(self._count, prompt.room)
        self.stopped = "count" if total == self._count else "context"
        for index in range(total):
            number = self._choose(logits)
            if number in prompt.tokenizer.end:
                self.stopped = "end"
                break
            yield Token(number, stream.push(number))
            if index + 1 < total:
                logits = self._engine.decode(number)
        self.rest = stream.finish()


class CheckedEngine:
    """Two engines side by side; every logit of the first must be the second's, bit by bit.

    Parameters
    ----------
    name
        Of the engine, for messages.
    engine, golden
        The one that is checked, and the one it must equal.

    Attributes
    ----------
    compared : int
        Logits that were the same.
    """

    def __init__(self, name: str, engine: Engine, golden: Engine) -> None:
        self._name, self._engine, self._golden = name, engine, golden
        self._tokens = 0
        self.compared = 0

    def prefill(self, tokens: Sequence[int]) -> fp32.Floats:
        """Append tokens to both and return the logits after the last.

        Raises
        ------
        Mismatch
            A bit differs.
        """
        return self._compare(
            len(tokens), self._engine.prefill(tokens), self._golden.prefill(tokens)
        )

    def decode(self, token: int) -> fp32.Floats:
        """Append a token to both and return the logits after it.

        Raises
        ------
        Mismatch
            A bit differs.
        """
        return self._compare(1, self._engine.decode(token), self._golden.decode(token))

    def figures(self) -> list[Figure]:
        """Return what the engine that is checked has measured."""
        return self._engine.figures()

    def activity(self) -> list[Activity]:
        """Return what the hardware of the engine that is checked did."""
        return self._engine.activity()

    def close(self) -> None:
        """End whatever runs for either."""
        self._engine.close()
        self._golden.close()

    def _compare(self, count: int, found: fp32.Floats, expected: fp32.Floats) -> fp32.Floats:
        self._tokens += count
        if found.shape != expected.shape:
            raise Mismatch(
                f"{self._name} returned {found.size} logits after {self._tokens} tokens; golden "
                f"has {expected.size}."
            )
        bits, golden = fp32.to_bits(found), fp32.to_bits(expected)
        for index in np.flatnonzero(bits != golden)[:1]:
            raise Mismatch(
                f"Logit {index} after {self._tokens} tokens is 0x{bits[index]:08X} "
                f"({found[index]:.9g}) in {self._name} and 0x{golden[index]:08X} "
                f"({expected[index]:.9g}) in golden."
            )
        self.compared += found.size
        return found


def greedy(logits: fp32.Floats) -> int:
    """Return the token with the greatest logit, the lowest of equals."""
    return int(fp32.argmax(logits))


def sampler(temperature: float, seed: int) -> Choose:
    """Return a way to pick tokens at random, as likely as the model finds them.

    Parameters
    ----------
    temperature
        Logits are divided by it; 0 is `greedy`.
    seed
        The same one picks the same tokens.
    """
    if temperature == 0:
        return greedy
    random = np.random.default_rng(seed)

    def choose(logits: fp32.Floats) -> int:
        scores = np.where(np.isnan(logits), -np.inf, logits.astype(np.float64)) / temperature
        if not np.isfinite(scores.max()):
            return greedy(logits)
        likely = np.exp(scores - scores.max())
        return int(random.choice(len(likely), p=likely / likely.sum()))

    return choose
