"""The window dot product: against rationals, over orders and splits, and at its extremes."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from gen.mx import MXTensor
from rtl.formats import Format, product_bits
from sim.golden import Window, anchor, block_dots, dequantise, quantise, window_matmul
from tests import exact

FP4, INT8 = Format.MXFP4, Format.MXINT8
PAIRS = list(itertools.product(Format, Format))
each_pair = pytest.mark.parametrize("formats", PAIRS, ids=lambda p: f"{p[0]}-{p[1]}")

SCALES = {
    "narrow": (124, 130),
    "wide": (90, 165),
    "all": (0, 255),
    "low": (0, 6),
    "high": (249, 255),
}
"""Ranges of random scale bytes; with 255 excluded, NaN is put in on purpose."""


def tensor(rng, fmt, rows, length, scales="narrow", nan=0.0, zero=0.0):
    """Random codes (-128 among them) and scales; a fraction of blocks is NaN or zero."""
    blocks = -(-length // 32)
    codes = rng.integers(0, 16 if fmt is FP4 else 256, (rows, blocks, 32), np.uint8)
    if fmt is INT8:
        codes[rng.random(codes.shape) < 0.1] = 0x80
    codes[rng.random(codes.shape[:-1]) < zero] = 0
    codes[:, -1, length - 32 * (blocks - 1) :] = 0
    bytes_ = rng.integers(*SCALES[scales], (rows, blocks)).astype(np.uint8)
    bytes_[rng.random(bytes_.shape) < nan] = 255
    return MXTensor(codes, bytes_, fmt, length)


def single(fmt, scale, *elements):
    """One row of blocks with one nonzero element each."""
    codes = np.zeros((1, len(elements), 32), np.int64)
    codes[0, :, 0] = elements
    scales = np.broadcast_to(np.asarray(scale, np.uint8), (1, len(elements)))
    return MXTensor.from_elements(codes, scales, fmt)


def check_against_rationals(a, w, acc_bits=48, blocks=None):
    window = Window(a, w, acc_bits, blocks).add()
    bits = exact.bits_of(window.drain())
    for r in range(a.shape[0]):
        n = None if blocks is None else int(blocks[r])
        for c in range(w.shape[0]):
            expected, acc, lsb = exact.window_dot(exact.row(a, r), exact.row(w, c), acc_bits, n)
            got = bits[r, c], window.acc[r, c], window.lsb[r, c]
            assert got == (expected, acc, lsb), (r, c)
    return bits


@each_pair
@pytest.mark.parametrize("length", [1, 32, 33, 70, 33 * 32, 90 * 32])
@pytest.mark.parametrize("acc_bits", [32, 48, 52])
def test_against_rationals(formats, length, acc_bits):
    rng = np.random.default_rng([length, acc_bits])
    size = 2 if length > 1000 else 3
    for scales in SCALES:
        a = tensor(rng, formats[0], size, length, scales, zero=0.2)
        w = tensor(rng, formats[1], size + 1, length, scales, zero=0.2)
        check_against_rationals(a, w, acc_bits)


@each_pair
def test_mixed_ranges_nan_and_zero_blocks(formats):
    rng = np.random.default_rng(5)
    seen = set()
    for left, right in itertools.product(SCALES, SCALES):
        a = tensor(rng, formats[0], 3, 150, left, nan=0.04, zero=0.3)
        w = tensor(rng, formats[1], 3, 150, right, nan=0.04, zero=0.3)
        bits = check_against_rationals(a, w)
        seen |= {(int(b) >> 23 & 0xFF) // 255 * 2 + (int(b) & 0x7FFFFFFF == 0) for b in bits.flat}
        seen |= {"nan"} if (bits == exact.NAN).any() else set()
    assert seen >= {0, 1, 2, "nan"}  # numbers, zeros, infinities, NaN


def test_quantised_activations_and_weights():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((4, 200)).astype(np.float32) * np.exp2(rng.integers(-9, 9, (4, 200)))
    w = rng.standard_normal((5, 200)).astype(np.float32)
    a, w = quantise(x.astype(np.float32), INT8), quantise(w, FP4)
    check_against_rationals(a, w)
    reference = dequantise(a).astype(np.float64) @ dequantise(w).astype(np.float64).T
    np.testing.assert_allclose(window_matmul(a, w), reference, rtol=2e-7, atol=1e-9)


# NaN


def test_a_nan_block_marks_its_rows_or_columns_and_adds_nothing():
    rng = np.random.default_rng(7)
    a, w = tensor(rng, INT8, 3, 96), tensor(rng, FP4, 4, 96)
    clean = window_matmul(a, w)
    scales = a.scales.copy()
    scales[1, 2] = 255
    marked = window_matmul(MXTensor(a.codes, scales, INT8, 96), w)
    assert (exact.bits_of(marked[1]) == exact.NAN).all()
    np.testing.assert_array_equal(marked[[0, 2]], clean[[0, 2]])
    scales = w.scales.copy()
    scales[3, 0] = 255
    marked = window_matmul(a, MXTensor(w.codes, scales, FP4, 96))
    assert (exact.bits_of(marked[:, 3]) == exact.NAN).all()
    np.testing.assert_array_equal(marked[:, :3], clean[:, :3])


def test_a_nan_scale_is_left_out_of_the_anchor():
    a = single(FP4, [[127, 255]], 1, 1)
    assert anchor(a, single(FP4, 127, 1, 1)) == -1 - 1 + 13 + 1 + 1
    nan = single(FP4, 255, 1, 1)
    assert anchor(nan, nan) == -128 - 128 + 13 + 1 + 1


@pytest.mark.parametrize("zero_side", ["activations", "weights"])
def test_nan_times_zero_is_nan(zero_side):
    nan, zero = single(FP4, 255, 0), single(FP4, 0, 0)
    pair = (zero, nan) if zero_side == "activations" else (nan, zero)
    assert exact.bits_of(window_matmul(*pair)) == exact.NAN


# Anchor


@each_pair
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 64, 65])
def test_the_anchor_is_its_formula(formats, n):
    rng = np.random.default_rng(n)
    a, w = tensor(rng, formats[0], 3, 32 * n, "wide"), tensor(rng, formats[1], 4, 32 * n, "wide")
    clog2 = next(k for k in range(20) if 2**k >= n)
    for r, c in itertools.product(range(3), range(4)):
        expected = a.exponents[r].max() + w.exponents[c].max() + product_bits(*formats) + clog2 + 1
        assert anchor(a, w)[r, c] == expected


def test_zero_blocks_count_with_the_scale_they_carry():
    a = single(FP4, [[100, 200]], 1, 0)
    w = single(FP4, 127, 1, 1)
    assert anchor(a, w) == (200 - 128) + (127 - 128) + 13 + 1 + 1
    # The 1 lies so far below that anchor that it is shifted out: floor leaves 0, or -1.
    assert exact.bits_of(window_matmul(a, w)) == 0
    minus = single(FP4, [[100, 200]], -1, 0)
    assert Window(minus, w).add().acc == -1


def test_floor_of_what_is_shifted_out_is_minus_one_however_far():
    for low in (0, 60, 100, 180):
        acc = Window(single(INT8, [[254, low]], 127, -1), single(INT8, 254, 1, 1)).add().acc
        expected = 127 << 48 - 20 - 1 - 1
        assert acc == expected - 1


@each_pair
def test_rows_and_neurons_do_not_see_each_other(formats):
    """Sharding by neuron, fusing matrices and batching rows change no bits."""
    rng = np.random.default_rng(8)
    a = tensor(rng, formats[0], 5, 100, "wide", nan=0.05)
    w = tensor(rng, formats[1], 7, 100, "wide", nan=0.05)
    whole = exact.bits_of(window_matmul(a, w))
    for r, c in itertools.product(range(5), range(7)):
        alone = window_matmul(a[r : r + 1], w[c : c + 1])
        assert exact.bits_of(alone) == whole[r, c]


# P·V: n per row, weights in units of one


@each_pair
def test_the_block_count_of_each_row(formats):
    rng = np.random.default_rng(9)
    positions = 96
    v = tensor(rng, formats[1], positions, 40, "wide")
    last = np.array([0, 31, 32, 63, 64, 95])  # the rows' own positions
    p = np.abs(rng.standard_normal((len(last), positions))).astype(np.float32)
    p *= np.exp2(rng.integers(-30, 1, p.shape)).astype(np.float32)
    p[np.arange(positions) > last[:, None]] = 0
    a = quantise(p, formats[0])
    blocks = last // 32 + 1
    for chunk in range(2):
        w = v.column_operand(chunk)
        bits = check_against_rationals(a, w, blocks=blocks)
        # The same row in a longer cache, or alone in a shorter one, has the same bits.
        for r, n in enumerate(blocks):
            short = quantise(p[r : r + 1, : 32 * n], formats[0])
            alone = window_matmul(short, v[: 32 * n].column_operand(chunk))
            np.testing.assert_array_equal(exact.bits_of(alone)[0], bits[r])


def test_the_block_count_enters_the_anchor():
    a, w = single(FP4, 127, 1, 0), single(FP4, 127, 1, 1)
    assert anchor(a, w, 5) - anchor(a, w) == 2
    assert anchor(a, w, 1) - anchor(a, w) == -1


@pytest.mark.parametrize("blocks", [0, 1, [2, 1]])
def test_a_row_with_more_blocks_than_announced_is_refused(blocks):
    a = MXTensor.from_elements(np.ones((2, 2, 32)), np.zeros((2, 2), np.uint8), FP4)
    with pytest.raises(ValueError, match=r"blocks is [01] for row [01], which has 2 nonzero"):
        window_matmul(a, a, blocks=blocks)


# Rounding at the drain


def dot_of(*terms):
    """A row and a neuron whose exact dot is the sum of qa·qw·2^exponent, a block for each term."""
    qa, qw, exponent = np.array(terms).T
    ea = exponent // 2
    return single(INT8, ea + 133, *qa), single(INT8, exponent - ea + 133, *qw)


@pytest.mark.parametrize(
    ("high", "low", "exponent", "magnitude"),
    [
        ((63, 65), (63, 65), -150, 0x00800000),  # 2^24 - 1: 24 ones, becomes 2^-126
        ((63, 65), (89, 46), -150, 0),  # 2^24 - 2: 23 ones and a zero
        ((63, 65), (63, 65), -149, 0x00FFFFFF),  # normal
        ((64, 64), (0, 1), -150, 0x00800000),  # 2^24: 2^-126 itself
        ((63, 65), (63, 65), -151, 0),
        ((127, 127), (127, 127), -152, 0),  # 66,080,513 has 26 bits: 1.97·2^-127
        ((127, 127), (127, 127), -151, 0x00FC13C0),  # 1.97·2^-126
    ],
)
def test_rounding_at_the_edge_of_the_normal_numbers(high, low, exponent, magnitude):
    for sign, sign_bit in ((1, 0), (-1, exact.SIGN)):
        a, w = dot_of((sign * high[0], high[1], exponent + 12), (sign * low[0], low[1], exponent))
        assert check_against_rationals(a, w)[0, 0] == sign_bit | magnitude


def test_many_results_between_the_smallest_normal_and_its_half():
    """The sum is 4095·4096 + x·y in units of 2^-150: only with 24 leading ones it goes up."""
    for x, y in [(1, 1), (63, 64), (4, 100), (89, 46), (45, 91), (39, 105), (35, 117), (63, 65)]:
        bits = check_against_rationals(*dot_of((63, 65, -138), (x, y, -150)))
        assert bits[0, 0] == (0x00800000 if x * y == 4095 else 0)


def test_the_drain_rounds_half_to_even_and_once():
    """2^24 + 1 and 2^24 + 3 are ties; a trace, 8 bits further down, breaks them."""
    for low, trace, expected in [(1, 0, 0), (1, 1, 2), (1, -1, 0), (3, 0, 4), (3, -1, 2)]:
        a, w = dot_of((64, 64, 12), (low, 1, 0), (trace, 1, -8))
        assert window_matmul(a, w) == np.float32(2**24 + expected)


def test_overflow_is_infinite_and_the_largest_number_is_not():
    top = single(FP4, 254, 12)
    assert window_matmul(top, single(FP4, 127, 2)) == np.inf  # 6·2^127
    assert window_matmul(single(FP4, 254, -12), single(FP4, 254, 12)) == -np.inf
    assert window_matmul(single(FP4, 254, 2), single(FP4, 127, 2)) == np.float32(2.0**127)
    largest = (63, 65, 116), (63, 65, 104)  # (2^24 - 1)·2^104
    assert check_against_rationals(*dot_of(*largest))[0, 0] == 0x7F7FFFFF
    assert check_against_rationals(*dot_of(*largest, (63, 1, 97)))[0, 0] == 0x7F7FFFFF
    assert check_against_rationals(*dot_of(*largest, (64, 1, 97)))[0, 0] == 0x7F800000  # the tie


def test_transformer_engine_3262_scale_byte_0_carries_weight():
    """NVIDIA/TransformerEngine#3262: byte 0 became zero; 2^-127 times 2^127 is one."""
    assert window_matmul(single(FP4, 0, 2), single(FP4, 254, 2)) == 1
    assert window_matmul(single(INT8, 0, 64), single(INT8, 254, 64)) == 1


@each_pair
@pytest.mark.parametrize("acc_bits", [32, 48, 52])
@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 254), (254, 0), (254, 254)])
def test_the_product_of_accumulator_and_lsb_is_exact_in_float64(formats, acc_bits, left, right):
    """The extremes of lsb: far from the subnormals and the limit of float64."""
    largest = [-12 if f is FP4 else -128 for f in formats]
    codes = [np.full((1, 1, 32), q) for q in largest]
    a = MXTensor.from_elements(codes[0], np.array([[left]], np.uint8), formats[0])
    w = MXTensor.from_elements(codes[1], np.array([[right]], np.uint8), formats[1])
    window = Window(a, w, acc_bits).add()
    acc, lsb = int(window.acc[0, 0]), int(window.lsb[0, 0])
    assert lsb >= -297
    for value in (acc, acc + 1, -acc - 1, 2 ** (acc_bits - 1) - 1):
        assert Fraction(float(np.ldexp(float(value), lsb))) == value * exact.power(lsb)
    check_against_rationals(a, w, acc_bits)


def test_zero_is_plus_zero_and_a_tiny_negative_is_minus_zero():
    plus = window_matmul(single(FP4, 127, 1, 1), single(FP4, 127, 1, -1))
    assert exact.bits_of(plus) == 0
    minus = window_matmul(single(FP4, 0, -1), single(FP4, 0, 1))
    assert exact.bits_of(minus) == exact.SIGN


@each_pair
@pytest.mark.parametrize("n", [1, 2, 3, 16, 90, 128])
@pytest.mark.parametrize("sign", [1, -1])
def test_gemmini_315_the_largest_sums_fit(formats, n, sign):
    """ucb-bar/gemmini#315: small random data missed an overflow; these are the largest sums."""
    extremes = [(-12, 12) if f is FP4 else (-128, 127) for f in formats]
    p, q = max(itertools.product(*extremes), key=lambda pq: sign * pq[0] * pq[1])
    left, right = np.full((1, n, 32), p), np.full((1, n, 32), q)
    scales = np.full((1, n), 200, np.uint8)
    a = MXTensor.from_elements(left, scales, formats[0])
    w = MXTensor.from_elements(right, scales, formats[1])
    for acc_bits in (32, 48):
        window = Window(a, w, acc_bits).add()
        fill = abs(int(window.acc[0, 0])) / 2 ** (acc_bits - 1)
        assert 2**-3 <= fill <= 1
        check_against_rationals(a, w, acc_bits)


# Order and splits


def float32_sum(a, w, order):
    """What an FP32 accumulator would make of the same block pairs."""
    total = np.zeros((a.shape[0], w.shape[0]), np.float32)
    for b in order:
        exponent = a.exponents[:, b, None] + w.exponents[:, b]
        total += np.ldexp(block_dots(a, w, b).astype(np.float64), exponent).astype(np.float32)
    return total


@each_pair
def test_any_order_and_any_split_give_the_same_bits(formats):
    rng = np.random.default_rng(11)
    a, w = tensor(rng, formats[0], 4, 90 * 32, "wide"), tensor(rng, formats[1], 6, 90 * 32, "wide")
    forward = Window(a, w).add()
    expected = exact.bits_of(forward.drain())
    floats = {float32_sum(a, w, range(90)).tobytes()}
    for _ in range(20):
        order = rng.permutation(90)
        cuts = np.sort(rng.integers(0, 91, 3))
        parts = np.split(order, cuts)
        continued = Window(a, w)
        for part in parts:
            continued.add(part)
        merged = Window(a, w)
        for part in reversed(parts):
            merged.merge(Window(a, w).add(part))
        for window in (continued, merged):
            np.testing.assert_array_equal(window.acc, forward.acc)
            np.testing.assert_array_equal(exact.bits_of(window.drain()), expected)
        floats.add(float32_sum(a, w, order).tobytes())
    # The mutation: with a float32 accumulator nearly every order gives bits of its own.
    assert len(floats) > 10


def test_nan_marks_survive_any_order():
    rng = np.random.default_rng(12)
    a, w = tensor(rng, INT8, 3, 320, nan=0.1), tensor(rng, INT8, 3, 320, nan=0.1)
    expected = exact.bits_of(window_matmul(a, w))
    assert (expected == exact.NAN).any()
    for _ in range(5):
        order = rng.permutation(10)
        whole = Window(a, w).add(order)
        merged = Window(a, w).add(order[:4]).merge(Window(a, w).add(order[4:]))
        for window in (whole, merged):
            np.testing.assert_array_equal(exact.bits_of(window.drain()), expected)


def test_halves_of_a_block_must_not_be_shifted_apart():
    """Floor is not additive: shifting D by halves would change accumulators."""
    rng = np.random.default_rng(13)
    a, w = tensor(rng, INT8, 8, 32 * 8, "wide"), tensor(rng, INT8, 8, 32 * 8, "wide")

    def half(t, keep):
        return MXTensor(np.where(keep, t.codes, 0).astype(np.uint8), t.scales, t.format, t.length)

    low = np.arange(32) < 16
    whole = Window(a, w).add().acc
    apart = Window(half(a, low), w).add().acc + Window(half(a, ~low), w).add().acc
    assert (whole != apart).any()
    assert np.abs(whole - apart).max() <= a.blocks


def test_windows_over_other_operands_do_not_merge():
    rng = np.random.default_rng(14)
    a, w = tensor(rng, FP4, 2, 64), tensor(rng, FP4, 2, 64)
    with pytest.raises(ValueError, match="lsb differs"):
        Window(a, w).merge(Window(a, w, acc_bits=40))


# Bad input


@pytest.mark.parametrize("acc_bits", [31, 53, 0])
def test_accumulator_widths_out_of_range_are_refused(acc_bits):
    a = single(FP4, 127, 1)
    with pytest.raises(ValueError, match=f"acc_bits is {acc_bits}, it must be 32 to 52"):
        window_matmul(a, a, acc_bits)


def test_operands_of_different_length_are_refused():
    rng = np.random.default_rng(15)
    with pytest.raises(ValueError, match="weights has rows of 63 elements, those of activations"):
        window_matmul(tensor(rng, FP4, 1, 64), tensor(rng, FP4, 1, 63))


def test_operands_have_two_axes():
    a = single(FP4, 127, 1)
    with pytest.raises(ValueError, match=r"weights has shape \(32,\), it must have two axes"):
        window_matmul(a, a[0])


@pytest.mark.parametrize("block", [-1, 1])
def test_blocks_out_of_range_are_refused(block):
    a = single(FP4, 127, 1)
    with pytest.raises(ValueError, match=f"block is {block}, it must be 0 to 0"):
        Window(a, a).add([block])
