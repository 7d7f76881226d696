"""What can run a model: the golden model, and whatever claims to give the same bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from gen.lookup import lookup
from gen.models.model import Model
from rtl.config import TileConfig
from rtl.core.isa import OPCODES
from sim.activity import Activity
from sim.figures import Figure
from sim.golden.fp32 import Floats
from sim.golden.transformer import Cache, forward


class Engine(Protocol):
    """Runs one sequence of tokens through a model."""

    def prefill(self, tokens: Sequence[int]) -> Floats:
        """Append a prompt, one token at least, and return the logits after its last token.

        Returns
        -------
        float32 [vocabulary]
        """

    def decode(self, token: int) -> Floats:
        """Append a token and return the logits after it.

        Returns
        -------
        float32 [vocabulary]
        """

    def figures(self) -> list[Figure]:
        """Return what was measured so far; it may be nothing."""

    def activity(self) -> list[Activity]:
        """Return what the parts of the hardware did, if there is any."""

    def close(self) -> None:
        """End whatever runs for it."""


class SoftwareEngine:
    """What engines have in common that are no hardware."""

    def activity(self) -> list[Activity]:
        """Return nothing: there is no hardware."""
        return []

    def close(self) -> None:
        """Do nothing: everything runs in here."""


class GoldenEngine(SoftwareEngine):
    """The golden model in numpy.

    Parameters
    ----------
    model
        Quantised.
    config
        Only its ``acc_bits`` matters.
    positions
        Tokens that will be appended at most; nothing depends on it.
    """

    def __init__(self, model: Model, config: TileConfig, positions: int | None = None) -> None:
        self._model, self._acc_bits, self._cache = model, config.acc_bits, Cache(model)

    def prefill(self, tokens: Sequence[int]) -> Floats:
        """Append tokens and return the logits after the last."""
        return forward(self._model, list(tokens), self._cache, self._acc_bits)[-1]

    def decode(self, token: int) -> Floats:
        """Append a token and return the logits after it."""
        return self.prefill([token])

    def figures(self) -> list[Figure]:
        """Return nothing: numpy has no cycles."""
        return []


class InterpreterEngine(SoftwareEngine):
    """The model as a program for one tile, executed instruction by instruction.

    Parameters
    ----------
    model
        Quantised.
    config
        Of the tile.
    positions
        Tokens that will be appended at most; memory is made for so many. By default as many as the
        model takes.

    Raises
    ------
    DoesNotFit
        The model does not fit the tile.
    """

    def __init__(self, model: Model, config: TileConfig, positions: int | None = None) -> None:
        # Only who runs programs pays for importing what writes them.
        from gen.kernels.program import build
        from sim.session import Session

        self._session = Session(build(model, config, capacity=positions, logits=True))

    def prefill(self, tokens: Sequence[int]) -> Floats:
        """Append tokens and return the logits after the last."""
        self._session.append(tokens)
        return self._session.last_logits

    def decode(self, token: int) -> Floats:
        """Append a token and return the logits after it."""
        return self.prefill([token])

    def figures(self) -> list[Figure]:
        """Return how many instructions were executed, by engine."""
        counts: Counter[str] = Counter()
        for name, count in self._session.tile.executed.items():
            counts[OPCODES[name].engine] += count
        return [
            Figure(f"run.{engine}", count, "instructions", "executed, prompt included")
            for engine, count in sorted(counts.items())
        ]


def _rtl(model: Model, config: TileConfig, positions: int) -> Engine:
    from sim.tile_engine import TileEngine

    return TileEngine(model, config, positions)


REFERENCE = "golden"
"""The engine that others are compared with."""

DEFAULT = "rtl"
"""The engine that runs a model if none is named: the hardware."""

Make = Callable[[Model, TileConfig, int], Engine]
"""Makes an engine, for one sequence, of a quantised model, a configuration, and most positions."""

ENGINES: dict[str, Make] = {
    REFERENCE: GoldenEngine,
    "interpreter": InterpreterEngine,
    DEFAULT: _rtl,
}
"""What makes an engine, by name; a factory that needs much imports it when it is called."""


def find(name: str) -> Make:
    """Return what makes an engine of that name.

    Raises
    ------
    UnknownName
        There is no engine of that name.
    """
    return lookup("engine", ENGINES, name)
