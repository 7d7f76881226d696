"""Tables of rotary position embedding, in float64 and rounded once.

Frequencies come first: `frequencies` as RoPE was published, `llama3` and `yarn` stretch them for
contexts longer than a model was trained on. `table` turns them into cosines and sines.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gen.models.model import Pairing, Rope

Frequencies = NDArray[np.float64]
"""Radians per position, one for each pair of elements of a head."""


def frequencies(head: int, theta: float) -> Frequencies:
    """Return ``theta ** (-2 * i / head)`` for each pair i."""
    return theta ** (-2.0 * np.arange(head // 2) / head)


def table(frequency: Frequencies, context: int, pairing: Pairing, amplitude: float = 1.0) -> Rope:
    """Return cosines and sines of all positions.

    Parameters
    ----------
    frequency
        Radians per position.
    context
        Positions there are.
    pairing
        Which elements of a head belong together.
    amplitude
        What cosines and sines are multiplied with (YaRN).
    """
    angle = np.arange(context)[:, None] * frequency
    cos, sin = (amplitude * function(angle) for function in (np.cos, np.sin))
    return Rope(cos.astype(np.float32), sin.astype(np.float32), pairing)


def llama3(
    frequency: Frequencies, *, factor: float, low: float, high: float, trained: float
) -> Frequencies:
    """Stretch frequencies as Llama 3.1 does.

    Parameters
    ----------
    frequency
        As published.
    factor
        What slow ones are divided by.
    low, high
        Turns over the trained context below which one is slow, and above which it stays.
    trained
        Positions of the trained context.
    """
    turns = trained * frequency / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clip(0, 1)
    return frequency * (kept + (1 - kept) / factor)


def yarn(
    frequency: Frequencies,
    *,
    theta: float,
    factor: float,
    fast: float,
    slow: float,
    trained: float,
    truncate: bool,
) -> Frequencies:
    """Stretch frequencies as YaRN does.

    Parameters
    ----------
    frequency
        As published.
    theta
        Base they come from.
    factor
        What slow ones are divided by.
    fast, slow
        Turns over the trained context above which a frequency stays, and below which it is divided;
        a ramp over the index of the pair lies between.
    trained
        Positions of the trained context.
    truncate
        Whether the ramp begins and ends at whole indices.
    """
    pairs = len(frequency)

    def index(turns: float) -> float:
        return pairs * math.log(trained / (turns * 2 * math.pi)) / math.log(theta)

    first, last = index(fast), index(slow)
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * pairs - 1)
    if first == last:
        last += 0.001  # as every implementation does: a step, not a division by zero
    divided = ((np.arange(pairs) - first) / (last - first)).clip(0, 1)
    return frequency * ((1 - divided) + divided / factor)


def yarn_amplitude(factor: float, mscale: float = 1.0) -> float:
    """Return what YaRN multiplies cosines and sines with."""
    return 0.1 * mscale * math.log(factor) + 1 if factor > 1 else 1.0
