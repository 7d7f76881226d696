"""exp2, reciprocal and rsqrt: every mantissa, and every argument that is a case of its own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gen import derive_elementary
from rtl import elementary_tables as tables
from sim.golden import fp32
from sim.golden.elementary import curve, exp2, fixed_point, reciprocal, rsqrt
from tests import exact

STEP = 1 << 20
"""Mantissas at a time: small enough for the processor's cache."""

INF, NAN = np.float32(np.inf), np.float32(np.nan)


def floats(exponent: int, sign: int = 0, step: int = 1):
    """All float32 of one exponent field, ascending in magnitude, in pieces."""
    for first in range(0, 1 << 23, STEP):
        fraction = np.arange(first, first + STEP, step, dtype=np.uint32)
        yield fp32.from_bits(fraction | np.uint32(sign << 31 | exponent << 23))


def sweep(function, wanted, pieces) -> float:
    """Greatest relative error; on the way, that results never rise (or never fall) throughout."""
    worst, last, direction = 0.0, None, 0
    for x in pieces:
        got = function(x).astype(np.float64)
        ideal = wanted(x.astype(np.float64))
        worst = max(worst, float(np.abs(got / ideal - 1).max()))
        steps = np.sign(np.diff(got, prepend=got[0] if last is None else last))
        direction = direction or int(steps.sum() > 0) - int(steps.sum() < 0)
        assert (steps * direction >= 0).all(), "the results go back and forth"
        last = got[-1]
    return worst


def test_every_mantissa_of_reciprocal():
    worst = sweep(reciprocal, lambda x: 1 / x, floats(127))
    assert 2**-22.41 < worst < 2**-22.38


def test_every_mantissa_of_both_parities_of_rsqrt():
    def pieces():
        yield from floats(127)
        yield from floats(128)

    worst = sweep(rsqrt, lambda x: 1 / np.sqrt(x), pieces())
    assert 2**-23.18 < worst < 2**-23.15


def test_every_reduced_fraction_of_exp2():
    worst = sweep(exp2, np.exp2, floats(127))  # 1 + f for every f of 23 bits
    assert 2**-23.26 < worst < 2**-23.23


@pytest.mark.parametrize("sign", [0, 1])
def test_arguments_of_exp2_below_one_lose_little(sign):
    worst = sweep(exp2, np.exp2, floats(126, sign))
    for exponent in range(90, 126):
        worst = max(worst, sweep(exp2, np.exp2, floats(exponent, sign, 61)))
    assert worst < 2**-22.7


@pytest.mark.parametrize("exponent", range(1, 255))
def test_every_exponent_of_reciprocal_and_rsqrt(exponent):
    x = fp32.from_bits(np.arange(0, 1 << 23, 8191, dtype=np.uint32) | exponent << 23)
    if exponent < 253:
        for sign in (1, -1):
            wanted = sign / x.astype(np.float64)
            assert np.abs(reciprocal(np.float32(sign) * x) / wanted - 1).max() < 2**-22.3
    assert np.abs(rsqrt(x) * np.sqrt(x.astype(np.float64)) - 1).max() < 2**-23.1


@pytest.mark.parametrize("integer", range(-126, 128))
def test_every_integer_part_of_exp2(integer):
    x = np.unique(np.float32(integer + np.arange(0, 1, 1 / 997)))
    x = x[x < 128]
    assert np.abs(exp2(x) / np.exp2(x.astype(np.float64)) - 1).max() < 2**-22.7


def test_what_has_to_be_exact_is():
    powers = np.arange(-126, 127)
    x = np.ldexp(np.float32(1), powers)
    assert np.array_equal(exp2(np.arange(-126, 128).astype("f4")), np.ldexp(1.0, range(-126, 128)))
    assert np.array_equal(reciprocal(x), np.ldexp(1.0, -powers))
    assert np.array_equal(reciprocal(-x), -np.ldexp(1.0, -powers))
    even = np.arange(-126, 128, 2)
    assert np.array_equal(rsqrt(np.ldexp(np.float32(1), even)), np.ldexp(1.0, -even // 2))


SPECIAL = [
    (exp2, [0.0, -0.0, 1e-40, -1e-40], [1, 1, 1, 1]),
    (exp2, [INF, 128, 3e38, -INF, -3e38, NAN], [INF, INF, INF, 0, 0, NAN]),
    (exp2, [-126, np.nextafter(np.float32(-126), -INF)], [2.0**-126, 0.0]),
    (reciprocal, [0.0, -0.0, 1e-40, -1e-40], [INF, -INF, INF, -INF]),
    (reciprocal, [INF, -INF, NAN, 3e38, -3e38], [0.0, -0.0, NAN, 0.0, -0.0]),
    (reciprocal, [2.0**126, -(2.0**126)], [2.0**-126, -(2.0**-126)]),
    (reciprocal, np.nextafter(np.float32([2.0**126, -(2.0**126)]), [INF, -INF]), [0.0, -0.0]),
    (rsqrt, [0.0, -0.0, 1e-40, -1e-40], [INF, -INF, INF, -INF]),
    (rsqrt, [INF, -INF, -1, -2e-38, NAN], [0.0, NAN, NAN, NAN, NAN]),
]


@pytest.mark.parametrize(("function", "arguments", "results"), SPECIAL)
def test_special_arguments(function, arguments, results):
    got = exact.bits_of(function(np.array(arguments, np.float32)))
    assert got.tolist() == exact.bits_of(fp32.flush(np.array(results, np.float32))).tolist()


def test_results_are_normal_or_special():
    bits = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint32)
    x = fp32.from_bits(bits)
    for function in (exp2, reciprocal, rsqrt):
        result = function(x)
        assert np.array_equal(exact.bits_of(fp32.flush(result)), exact.bits_of(result))
    assert exp2(np.float32(3)) == 8
    assert reciprocal(np.float32(np.inf)) == 0


def scalar_curve(which: int, fraction: int) -> int:
    """The documented steps in Python's integers, with the documented widths."""
    c0, c1, c2 = tables.ROWS[which * 64 + fraction // 131072]
    d = fraction % 131072
    inner = c1 + math.floor(c2 * d / 131072)
    total = c0 + (inner * d) // 131072
    assert 0 <= c2 < 2**14
    assert max(abs(c1), abs(inner)) < 2**20
    assert 0 <= total < 2**27
    return total // 4


def test_the_steps_in_plain_integers():
    rng = np.random.default_rng(1)
    fractions = [0, 1, 131071, 131072, 2**23 - 1, *rng.integers(0, 2**23, 3000).tolist()]
    for which in range(4):
        got = curve(which, fractions).tolist()
        assert got == [scalar_curve(which, fraction) for fraction in fractions]
        assert 2**23 <= min(got) <= max(got) <= 2**24


def test_exponent_fields_are_simple_functions_of_the_argument_s():
    bits = (np.arange(1, 255) << 23) + 12345  # no curve meets 2 here, so nothing carries
    x = fp32.from_bits(bits)
    field = np.arange(1, 255)
    assert np.array_equal(exact.bits_of(reciprocal(x[:252])) >> 23, 253 - field[:252])
    assert np.array_equal(exact.bits_of(rsqrt(x)) >> 23, 190 - (field + 1 >> 1))


def test_the_reduction_of_exp2_against_rationals():
    rng = np.random.default_rng(2)
    for bits in rng.integers(0, 134 << 23, 3000).tolist():
        value = exact.fp32_value(bits)
        expected = math.floor(value * 2**23 + exact.Fraction(1, 2))
        assert fixed_point(fp32.from_bits(bits)) == expected
        assert fixed_point(fp32.from_bits(bits | exact.SIGN)) == -expected


def test_the_table_is_the_one_that_is_derived():
    assert derive_elementary.TABLE.read_text() == derive_elementary.source()


@pytest.mark.parametrize("column", range(3))
def test_a_table_with_one_wrong_bit_is_noticed(column, monkeypatch):
    from sim.golden import elementary

    name = f"_C{column}"
    broken = getattr(elementary, name).copy()
    broken[64 + 17] ^= 64
    monkeypatch.setattr(elementary, name, broken)
    worst = max(float(np.abs(reciprocal(x) * x.astype(np.float64) - 1).max()) for x in floats(127))
    assert worst > 2**-22.3
