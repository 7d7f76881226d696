"""FP32 arithmetic against rationals, float64 and the wording of the contract."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from sim.golden import fp32
from tests import exact

CORNERS = [
    0x00000000,  # zero
    0x00000001,  # subnormals
    0x00400000,
    0x007FFFFF,
    0x00800000,  # smallest normals
    0x00800001,
    0x00FFFFFF,
    0x01000000,
    0x01800000,
    0x1FFFFFFF,  # about 2^-64: products at the edge of the normal numbers
    0x20000000,
    0x3F000000,  # 0.5
    0x3F7FFFFF,
    0x3F800000,  # 1
    0x3F800001,
    0x3FFFFFFF,
    0x40490FDB,
    0x4B7FFFFF,
    0x4B800000,  # 2^24
    0x5F800000,  # 2^64
    0x7F000000,
    0x7F7FFFFF,  # largest
    0x7F800000,  # infinity
    0x7F800001,  # signalling NaN
    0x7FC00000,
    0x7FFFFFFF,
]
CORNERS += [bits | exact.SIGN for bits in CORNERS]
PAIRS = np.array(list(itertools.product(CORNERS, CORNERS)), np.uint32)

OPERATIONS = {"add": fp32.add, "sub": fp32.sub, "mul": fp32.mul}
each_operation = pytest.mark.parametrize("name", OPERATIONS)


def f32(*values):
    return np.array(values, np.float32)


def is_nan(bits):
    return bits & 0x7FFFFFFF > exact.INFINITY


def is_zero(bits):
    return bits >> 23 & 0xFF == 0


def by_definition(name, a, b):
    """Bits of ``a op b``: the special cases of IEEE 754, then rationals."""
    if name == "sub":
        name, b = "add", b if is_nan(b) else b ^ exact.SIGN
    x, y = exact.fp32_value(a), exact.fp32_value(b)
    if is_nan(a) or is_nan(b):
        return exact.NAN
    sign = (a ^ b) & exact.SIGN
    if name == "mul":
        if x is None or y is None:
            return exact.NAN if is_zero(a) or is_zero(b) else exact.INFINITY | sign
        return exact.fp32_bits(x * y, bool(sign))
    if x is None or y is None:
        return exact.NAN if x is None and y is None and sign else (a if x is None else b)
    both_minus = a & b & exact.SIGN
    return exact.fp32_bits(x + y, bool(both_minus) and not x + y)


@each_operation
def test_all_pairs_of_corners(name):
    a, b = fp32.from_bits(PAIRS.T)
    got = exact.bits_of(OPERATIONS[name](a, b))
    for (p, q), bits in zip(PAIRS.tolist(), got.tolist(), strict=True):
        assert bits == by_definition(name, p, q), (hex(p), hex(q))


def random_pairs(name, count=1_500_000):
    """Finite pairs: exponents apart by little for sums, products around both ends of the range."""
    rng = np.random.default_rng(42)
    bits = rng.integers(0, 2**32, (2, count), np.uint32) & np.uint32(0x807FFFFF)
    exponent = rng.integers(0, 255, count)
    if name == "mul":
        target = rng.choice([rng.integers(-150, 129, count), rng.integers(-130, -123, count)])
        other = np.where(
            rng.random(count) < 0.5, target + 254 - exponent, rng.integers(0, 255, count)
        )
    else:
        other = exponent + rng.integers(-30, 31, count)
    exponents = np.stack([exponent, other.clip(0, 254)]).astype(np.uint32)
    return (bits | exponents << 23).view(np.float32)


def flushed(bits):
    return np.where(bits & 0x7F800000, bits, bits & np.uint32(exact.SIGN))


@each_operation
def test_a_million_pairs_against_float64(name):
    """Float64 has more than twice the digits plus two, so rounding through it is harmless."""
    a, b = random_pairs(name)
    daz = [flushed(exact.bits_of(v)).view(np.float32).astype(np.float64) for v in (a, b)]
    wide = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](*daz)
    with np.errstate(over="ignore", under="ignore"):
        expected = flushed(exact.bits_of(wide.astype(np.float32)))
    np.testing.assert_array_equal(exact.bits_of(OPERATIONS[name](a, b)), expected)
    kinds = {"zero": expected << 1 == 0, "infinite": expected << 1 == np.uint32(0xFF000000)}
    assert all(kind.any() for kind in kinds.values())


@each_operation
def test_random_pairs_against_rationals(name):
    a, b = random_pairs(name)[:, :20_000]
    got = exact.bits_of(OPERATIONS[name](a, b)).tolist()
    p, q = exact.bits_of(a).tolist(), exact.bits_of(b).tolist()
    assert got == [by_definition(name, *pair) for pair in zip(p, q, strict=True)]


def test_products_below_the_smallest_normal_go_up_only_with_24_leading_ones():
    """The hardware's wording of the rule, on exact 48-bit products in [2^-127, 2^-126)."""
    top = np.arange(0xFFFF00, 0x1000000, dtype=np.int64)
    other = np.concatenate([np.arange(0x800000, 0x800100), np.arange(0xFFFF00, 0x1000000)])
    left, right = (grid.ravel() for grid in np.meshgrid(top, other))
    product = left * right
    length = np.where(product >> 47, 48, 47)
    # Give the product a most significant bit of weight 2^-127, and split the exponent.
    exponent = -127 - (length - 1)
    a = np.ldexp(left.astype(np.float64), exponent // 2).astype(np.float32)
    b = np.ldexp(right.astype(np.float64), exponent - exponent // 2).astype(np.float32)
    ones = product >> (length - 24) == 0xFFFFFF
    assert ones.any()
    assert not ones.all()
    expected = np.where(ones, np.float32(2.0**-126), np.float32(0))
    np.testing.assert_array_equal(fp32.mul(a, b), expected)
    np.testing.assert_array_equal(exact.bits_of(fp32.mul(-a, b)), exact.bits_of(-expected))


@pytest.mark.parametrize(
    ("exponent_24", "bits"), [(-149, 0x00FFFFFF), (-150, 0x00800000), (-151, 0), (-174, 0)]
)
def test_rounding_24_ones_at_every_height(exponent_24, bits):
    ones = float(2**24 - 1) * 2.0**exponent_24
    assert exact.bits_of(fp32.rounded(np.array(ones))) == bits
    assert exact.bits_of(fp32.rounded(np.array(-ones))) == bits | exact.SIGN
    assert exact.bits_of(fp32.rounded(np.array(ones - 2.0 ** (exponent_24 - 1)))) <= bits


def test_rounding_takes_more_digits_than_24():
    near = 2.0**-126 - 2.0**-150  # the tie between the largest subnormal and the smallest normal
    assert fp32.rounded(np.array(near)) == np.float32(2.0**-126)
    assert fp32.rounded(np.array(np.nextafter(near, 0))) == 0


@pytest.mark.parametrize("bits", CORNERS)
def test_flushing(bits):
    got = int(exact.bits_of(fp32.flush(fp32.from_bits(bits))))
    expected = exact.NAN if is_nan(bits) else bits & exact.SIGN if is_zero(bits) else bits
    assert got == expected


def test_ldexp_of_corners_by_every_exponent():
    exponents = np.array([*range(-300, 301), -(2**31), -10_000, 10_000, 2**31 - 1], np.int64)
    values = fp32.from_bits(CORNERS)
    got = exact.bits_of(fp32.ldexp(values[:, None], exponents))
    for i, bits in enumerate(CORNERS):
        value = exact.fp32_value(bits)
        for k, exponent in enumerate(exponents.tolist()):
            if value is None or is_zero(bits):
                expected = (
                    exact.NAN if is_nan(bits) else bits if value is None else bits & exact.SIGN
                )
            else:
                power = exact.power(max(-600, min(600, exponent)))
                expected = exact.fp32_bits(value * power)
            assert got[i, k] == expected, (hex(bits), exponent)


def test_a_million_ldexps_against_two_exact_steps():
    """Scaling normals to the edge: integer arithmetic on the significand, rounded half to even."""
    rng = np.random.default_rng(3)
    count = 1_200_000
    bits = rng.integers(0x00800000, 0x7F800000, count, np.uint32)
    near_top = rng.random(count) < 0.5
    bits = np.where(near_top, bits | 0x7FFF00, bits).astype(np.uint32)
    field = (bits >> 23).astype(np.int64)
    target = rng.integers(-2, 3, count)  # exponent field before flushing
    got = exact.bits_of(fp32.ldexp(bits.view(np.float32), target - field)).astype(np.int64)
    significand = (bits & 0x7FFFFF | 0x800000).astype(np.int64)
    drop = np.maximum(1 - target, 0)
    low = significand & (1 << drop) - 1
    half = np.where(drop > 0, 1 << np.maximum(drop - 1, 0), 1 << 40)
    kept = significand >> drop
    kept += (low > half) | (low == half) & (kept & 1 == 1)
    expected = np.where(drop > 0, kept, significand + (target - 1 << 23))
    np.testing.assert_array_equal(got, np.where(expected >> 23, expected, 0))
    assert ((got == 0x00800000) & (target == 0)).any()


# Maximum, minimum, order


def total_order(bits):
    """Position on the number line with -0 just below +0; not for NaN."""
    value = exact.fp32_value(bits)
    if value is None:
        value = exact.power(999) * (-1 if bits & exact.SIGN else 1)
    return (value, 0 if bits & exact.SIGN else 1)


def daz(bits):
    return bits & exact.SIGN if is_zero(bits) else bits


@pytest.mark.parametrize(("ours", "theirs"), [(fp32.maximum, max), (fp32.minimum, min)])
def test_extremes_of_all_pairs_of_corners(ours, theirs):
    got = exact.bits_of(ours(*fp32.from_bits(PAIRS.T))).tolist()
    for (p, q), bits in zip(PAIRS.tolist(), got, strict=True):
        nan = is_nan(p) or is_nan(q)
        assert bits == (exact.NAN if nan else daz(theirs(p, q, key=total_order)))


def test_extremes_of_a_million_pairs():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2**32, (2, 1_000_000), np.uint32).view(np.float32)
    a, b = fp32.flush(a), fp32.flush(b)
    for ours, theirs in ((fp32.maximum, np.maximum), (fp32.minimum, np.minimum)):
        np.testing.assert_array_equal(ours(a, b), theirs(a, b))
        np.testing.assert_array_equal(exact.bits_of(ours(a, b)), exact.bits_of(ours(b, a)))


def test_the_maximum_of_a_row_is_that_of_its_pairs():
    rng = np.random.default_rng(2)
    rows = fp32.from_bits(rng.choice(np.array(CORNERS, np.uint32), (500, 7)))
    folded = functools.reduce(fp32.maximum, rows.T)
    np.testing.assert_array_equal(
        exact.bits_of(fp32.reduce_max(rows)), exact.bits_of(np.asarray(folded))
    )
    assert np.isnan(folded).any()
    assert not np.isnan(folded).all()


@pytest.mark.parametrize(
    ("value", "expected"), [(-8, -7), (8, 7), (3, 3), (np.inf, 7), (-np.inf, -7), (1e-40, 0)]
)
def test_clamping(value, expected):
    assert fp32.clamp(f32(value), f32(-7), f32(7)) == expected


def test_clamping_passes_nan_on():
    assert exact.bits_of(fp32.clamp(fp32.from_bits([0xFFC00001]), f32(-7), f32(7))) == exact.NAN


def comparison_key(bits):
    """Sorts NaN below everything, and zeros (and subnormals) as equals."""
    return (0, 0) if is_nan(bits) else (1, total_order(bits)[0])


def test_comparison_of_all_pairs_of_corners():
    a, b = fp32.from_bits(PAIRS.T)
    less, equal = fp32.less(a, b).tolist(), fp32.equal(a, b).tolist()
    for (p, q), lt, eq in zip(PAIRS.tolist(), less, equal, strict=True):
        assert (lt, eq) == (
            comparison_key(p) < comparison_key(q),
            comparison_key(p) == comparison_key(q),
        ), (hex(p), hex(q))


def test_top_k_and_argmax_are_a_stable_descending_sort():
    rng = np.random.default_rng(4)
    rows = rng.choice(np.array(CORNERS, np.uint32), (300, 12))
    values = fp32.from_bits(rows)
    for k in (1, 4, 12):
        got = fp32.top_k(values, k).tolist()
        for row, indices in zip(rows.tolist(), got, strict=True):
            ranked = sorted(range(12), key=lambda i: comparison_key(row[i]), reverse=True)
            assert indices == ranked[:k]  # Python's sort keeps equals in order, reversed or not
    np.testing.assert_array_equal(fp32.argmax(values), fp32.top_k(values, 1)[:, 0])


def test_ties_go_to_the_lowest_index_and_nan_last():
    assert fp32.top_k(f32(0.0, -0.0, np.nan, -np.inf, 0.0), 5).tolist() == [0, 1, 4, 3, 2]
    assert fp32.argmax(f32(np.nan, np.nan)) == 0
    assert fp32.argmax(f32(-0.0, 0.0)) == 0
    assert fp32.argmax(f32(np.nan, -np.inf)) == 1


@pytest.mark.parametrize("k", [0, 6, -1])
def test_k_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match=f"k is {k}, with 5 values it must be 1 to 5"):
        fp32.top_k(np.zeros(5, np.float32), k)


# Sums


def scalar_sum(values):
    """The contract, one addition at a time."""
    partials = [np.float32(0)] * 32
    for i, value in enumerate(values):
        partials[i % 32] = fp32.add(partials[i % 32], value)
    for distance in (16, 8, 4, 2, 1):
        for i in range(distance):
            partials[i] = fp32.add(partials[i], partials[i + distance])
    return partials[0]


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 63, 64, 65, 100, 256])
def test_sums_are_32_partials_and_a_tree(count):
    rng = np.random.default_rng(count)
    rows = (rng.standard_normal((4, count)) * np.exp2(rng.integers(-20, 20, (4, count)))).astype(
        np.float32
    )
    got = fp32.reduce_sum(rows)
    assert exact.bits_of(got).tolist() == [int(exact.bits_of(scalar_sum(row))) for row in rows]


def test_the_order_of_a_sum_shows_in_its_bits():
    """If it did not, the tests of order could not fail."""
    rows = np.random.default_rng(5).standard_normal((200, 300)).astype(np.float32)
    in_sequence = np.zeros(200, np.float32)
    for column in rows.T:
        in_sequence = fp32.add(in_sequence, column)
    assert (fp32.reduce_sum(rows) != in_sequence).mean() > 0.5
    assert (fp32.reduce_sum(rows) != fp32.reduce_sum(rows[:, ::-1])).mean() > 0.5


def test_a_sum_may_be_cut_anywhere():
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((3, 150)).astype(np.float32)
    expected = exact.bits_of(fp32.reduce_sum(rows))
    for cut in range(1, 150):
        state = fp32.sum_partials(rows[:, :cut])
        state = fp32.sum_partials(rows[:, cut:], state, start=cut)
        np.testing.assert_array_equal(exact.bits_of(fp32.fold_partials(state)), expected)
    state = None
    for i in range(150):
        state = fp32.sum_partials(rows[:, i : i + 1], state, start=i)
    np.testing.assert_array_equal(exact.bits_of(fp32.fold_partials(state)), expected)


def test_continuing_leaves_the_saved_state_alone():
    state = fp32.sum_partials(np.ones(32, np.float32))
    fp32.sum_partials(np.ones(32, np.float32), state)
    assert (state == 1).all()


def test_a_partial_can_be_minus_zero_so_padding_must_not_be_added():
    tiny = 2.0**-126
    values = np.zeros(33, np.float32)
    values[[0, 32]] = tiny * 1.5, -tiny * 1.75  # -0.25·2^-126, flushed to -0
    state = fp32.sum_partials(values)
    assert exact.bits_of(state)[0] == exact.SIGN
    assert exact.bits_of(fp32.add(state, np.zeros(32, np.float32)))[0] == 0
    np.testing.assert_array_equal(
        exact.bits_of(fp32.sum_partials(f32(), state, start=33)), exact.bits_of(state)
    )


def test_sums_start_at_plus_zero():
    assert exact.bits_of(fp32.reduce_sum(f32(-0.0, -0.0))) == 0
    assert exact.bits_of(fp32.reduce_sum(f32(np.inf, -np.inf))) == exact.NAN


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fp32.sum_partials(f32(1), np.zeros(16, np.float32)), r"partials has shape \(16,"),
        (lambda: fp32.sum_partials(f32(1), start=-1), "start is -1, it must be at least 0"),
        (lambda: fp32.add(f32(1), np.array(1.0)), "operand has dtype float64"),
        (lambda: fp32.mul(np.array([1]), f32(1)), "operand has dtype int64"),
        (lambda: fp32.ldexp(np.array(1.0), 1), "operand has dtype float64"),
        (lambda: fp32.order_key(np.array(1.0)), "operand has dtype float64"),
    ],
)
def test_bad_operands_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
