"""What quantisation costs: a quantised model against the same model in float64.

Text to measure on is drawn from the float64 model itself, so it needs no corpus and is, for any
model, text that it should find likely.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gen.models.formats import ModelFormats
from gen.models.model import Model
from gen.models.quantised import quantise_model
from sim.golden import reference
from sim.golden.transformer import Cache, forward

Reals = NDArray[np.float64]


class Accuracy(NamedTuple):
    """How well a model knows some text.

    Attributes
    ----------
    nll : float
        Mean negative log-likelihood of a token; its exponential is the perplexity.
    divergence : float
        Mean Kullback-Leibler divergence from the probabilities of the float64 model.
    agreement : float
        Share of tokens for which both find the same one most likely.
    """

    nll: float
    divergence: float
    agreement: float


def sample(
    model: Model, start: Sequence[int], length: int, seed: int, end: Collection[int] = ()
) -> list[int]:
    """Draw text from the float64 model.

    Parameters
    ----------
    model
        As imported.
    start
        Tokens it begins with.
    length
        Tokens it has at most, those of `start` included.
    seed
        The same one gives the same text.
    end
        Tokens that end it.
    """
    random, tokens = np.random.default_rng(seed), list(start)
    while len(tokens) < length:
        likely = np.exp(_log_likelihood(reference.forward(model, tokens)[-1]))
        token = int(random.choice(len(likely), p=likely / likely.sum()))
        if token in end:
            break
        tokens.append(token)
    return tokens


def accuracy(
    model: Model, texts: Sequence[Sequence[int]], formats: ModelFormats | None = None
) -> Accuracy:
    """Measure a model on texts.

    Parameters
    ----------
    model
        As imported.
    texts
        Tokens; each text is at least two, and the first of it is not predicted.
    formats
        What to quantise it with; ``None`` measures the float64 model.
    """
    quantised = quantise_model(model, formats) if formats else None
    results = []
    for text in texts:
        exact = _log_likelihood(reference.forward(model, text))[:-1]
        found = exact
        if quantised is not None:
            found = _log_likelihood(forward(quantised, text, Cache(quantised)))[:-1]
        results.append(
            [
                -found[np.arange(len(found)), text[1:]],
                (np.exp(exact) * (exact - found)).sum(-1),
                exact.argmax(-1) == found.argmax(-1),
            ]
        )
    return Accuracy(*(float(value) for value in np.concatenate(results, axis=1).mean(axis=1)))


def _log_likelihood(logits: NDArray[np.floating]) -> Reals:
    shifted = logits - logits.max(-1, keepdims=True).astype(np.float64)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
