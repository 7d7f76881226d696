"""Pieces of a model as importers build them, before `gen.models.quantised` chooses formats."""

from __future__ import annotations

from typing import Any

import numpy as np

from gen.models.model import Attention, Floats, Linear, Precision, Weights
from rtl.formats import Format

UNCHOSEN = Precision(Format.MXINT8)
"""Stands wherever formats are still to be chosen; every one of them is replaced then."""


def linear(weights: Weights, bias: Floats | None = None) -> Linear:
    """Return a matrix product whose input format is still to be chosen."""
    return Linear(weights, UNCHOSEN, bias)


def attention(
    query: Linear, key: Linear, value: Linear, output: Linear, *, head: int, **others: Any
) -> Attention:
    """Return attention whose formats are still to be chosen; scores are divided by sqrt(head).

    Parameters
    ----------
    query, key, value, output
        Projections; the numbers of heads follow from their outputs.
    head
        Elements of a head.
    others
        ``window`` and ``sinks``, where there are such.
    """
    return Attention(
        query,
        key,
        value,
        output,
        heads=query.shape[0] // head,
        kv_heads=key.shape[0] // head,
        head=head,
        scale=np.float32(1 / np.sqrt(head)),
        queries=UNCHOSEN,
        keys=UNCHOSEN,
        values=UNCHOSEN,
        probabilities=UNCHOSEN,
        **others,
    )
