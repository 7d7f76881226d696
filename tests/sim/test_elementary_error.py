"""The plot of the errors of elementary functions, and what it shows."""

import numpy as np
import pytest

from sim import elementary_error
from sim.elementary_error import CURVES

LARGEST = {
    "exp2": 1.6,
    "reciprocal": 3.1,
    "rsqrt": 1.5,
    "exp": 15.5,
    "sigmoid": 11.5,
    "silu": 11,
}
"""Units of the last place that no argument exceeds."""


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_errors_are_as_small_as_stated(curve):
    errors = np.abs(curve.errors(1 << 18))
    assert errors.max() < LARGEST[curve.name]
    assert errors.max() > LARGEST[curve.name] / 2, "the statement says little"


def test_a_unit_of_the_last_place_is_one():
    """A function that is off by one place everywhere has an error of one, plus its rounding."""
    curve = elementary_error.Curve(
        "next", lambda x: np.nextafter(x, np.float32(4)), lambda x: x, 1, 2
    )
    assert set(curve.errors(1000)) == {1.0}


def test_the_plot_is_the_same_every_time(tmp_path):
    texts = []
    for folder in ("a", "b"):
        path = tmp_path / folder / "plot.svg"
        path.parent.mkdir()
        elementary_error.plot(path, 1 << 12)
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]
    assert texts[0].startswith(b"<?xml")
    assert str(tmp_path).encode() not in texts[0]
