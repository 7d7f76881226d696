"""RoPE tables against their definitions, written otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gen.models import rope
from gen.models.model import Pairing


def test_table():
    table = rope.table(rope.frequencies(8, 100.0), 5, Pairing.HALVES, amplitude=1.5)
    assert (table.context, table.pairing) == (5, Pairing.HALVES)
    assert table.cos.dtype == table.sin.dtype == np.float32
    for position in range(5):
        for pair in range(4):
            angle = position / 100 ** (pair / 4)
            assert table.cos[position, pair] == np.float32(1.5 * math.cos(angle))
            assert table.sin[position, pair] == np.float32(1.5 * math.sin(angle))


def test_llama3_divides_long_waves_and_keeps_short_ones():
    frequency = rope.frequencies(64, 500000.0)
    stretched = rope.llama3(frequency, factor=8, low=1, high=4, trained=8192)
    ratio = frequency / stretched
    length = 2 * np.pi / frequency
    np.testing.assert_allclose(ratio[length > 8192], 8)
    np.testing.assert_array_equal(ratio[length < 8192 / 4], 1)
    between = (length > 8192 / 4) & (length < 8192)
    assert between.any()
    smooth = (8192 / length[between] - 1) / 3
    expected = (1 - smooth) * frequency[between] / 8 + smooth * frequency[between]
    np.testing.assert_allclose(stretched[between], expected)


@pytest.mark.parametrize(
    ("truncate", "first", "last"), [(False, 8.092779, 17.398025), (True, 8, 18)]
)
def test_yarn_as_gpt_oss_has_it(truncate, first, last):
    """First and last pair of the ramp are those of the published model (head 64)."""
    frequency = rope.frequencies(64, 150000.0)
    stretched = rope.yarn(
        frequency, theta=150000.0, factor=32, fast=32, slow=1, trained=4096, truncate=truncate
    )
    divided = ((np.arange(32) - first) / (last - first)).clip(0, 1)
    np.testing.assert_allclose(stretched, frequency * (1 - divided + divided / 32), rtol=1e-5)


def test_yarn_with_a_ramp_of_no_width():
    frequency = rope.frequencies(8, 10000.0)
    stretched = rope.yarn(
        frequency, theta=10000.0, factor=2, fast=1e9, slow=1e9, trained=16, truncate=False
    )
    assert np.isfinite(stretched).all()


def test_yarn_amplitude():
    assert rope.yarn_amplitude(32) == 0.1 * math.log(32) + 1
    assert rope.yarn_amplitude(1) == rope.yarn_amplitude(0.5) == 1
    assert rope.yarn_amplitude(math.e, 2) == pytest.approx(1.2)
