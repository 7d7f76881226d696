"""The cache of keys and values: what is appended, and what is dropped."""

from __future__ import annotations

import numpy as np
import pytest

from gen.quantise import quantise
from rtl.formats import Format
from sim.golden.kv_cache import LayerCache, Rows, append
from tests.sim.golden import models


def floats(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("length", [-1, 4])
def test_truncating_to_what_is_not_there_is_refused(length):
    attention = models.gptoss().layers[0].attention
    cache = LayerCache.empty(attention)
    append(attention, cache, floats(0, 3, 2, 10), floats(1, 3, 2, 10))
    with pytest.raises(ValueError, match="0 to 3"):
        cache.truncate(length)


def test_rows_come_back_as_they_were_appended():
    rows = Rows(2, 40, Format.MXFP4)
    tensor = quantise(floats(0, 70, 2, 40), Format.MXFP4)
    for first in range(0, 70, 9):
        rows.append(tensor[first : first + 9])
    assert rows.length == 70
    for head in range(2):
        assert rows.of(head) == tensor[:, head]
