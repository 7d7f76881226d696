"""The quantiser against exact rationals, ml_dtypes and the public reports of others."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gen.mx import MXTensor
from gen.quantise import quantise
from rtl.formats import Format, ScaleRule
from tests import exact

RULES = [(f, r) for f in Format for r in ScaleRule]
each_rule = pytest.mark.parametrize(("fmt", "rule"), RULES, ids=lambda v: str(v))

FP4, INT8 = Format.MXFP4, Format.MXINT8
FLOOR, CEIL = ScaleRule.FLOOR, ScaleRule.CEIL


def f32(*values):
    return np.array(values, np.float32)


def random_blocks(rng, count, spread=14):
    """Blocks of finite values, normal and not, with exponents within `spread` of each other."""
    top = rng.integers(0, 255, (count, 1))
    exponent = np.clip(top - rng.integers(0, spread, (count, 32)), 0, 254).astype(np.uint32)
    rest = rng.integers(0, 2**23, (count, 32), np.uint32) | rng.integers(0, 2, (count, 32)) << 31
    return (exponent << 23 | rest.astype(np.uint32)).view(np.float32)


def tie_blocks(fmt):
    """For every scale: every midpoint and grid point with both float32 neighbours and both signs.

    The first element of each block is the largest element of the format, which fixes the scale.
    """
    if fmt is FP4:
        points = np.array(
            [0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6], np.float32
        )
    else:
        points = (np.arange(1, 255) / 128).astype(np.float32)
    near = np.concatenate([points, np.nextafter(points, f32(0)), np.nextafter(points, f32(9))])
    near = near[near <= points[-1]]
    near = np.concatenate([near, -near])
    near = np.pad(near, (0, -len(near) % 31)).reshape(-1, 31)
    blocks = np.pad(near, ((0, 0), (1, 0)), constant_values=points[-1]).astype(np.float64)
    scales = np.arange(0, 253) if fmt is FP4 else np.arange(1, 255)  # all that float32 can reach
    scaled = blocks * np.ldexp(1.0, scales - 127)[:, None, None]
    scaled[np.abs(scaled) < 2.0**-126] = 0  # subnormals have their own tests
    assert (scaled.astype(np.float32) == scaled).all()
    return scaled.astype(np.float32).reshape(-1, 32)


def many_blocks(fmt):
    rng = np.random.default_rng(2024)
    ties = tie_blocks(fmt)
    return np.concatenate([ties, random_blocks(rng, 2**15 + 4096)])


def scale_from_definition(values, fmt, rule):
    """Scale bytes by way of float64 logarithms of exact powers, not of bit fields."""
    values = np.where(np.abs(values) < 2.0**-126, 0, np.abs(values.astype(np.float64)))
    amax = values.max(-1)
    largest = 6.0 if fmt is FP4 else 127 / 64
    candidates = np.ldexp(1.0, np.arange(255) - 127)
    if rule is CEIL:
        fits = amax[:, None] <= largest * candidates
        return np.where(fits.any(-1), fits.argmax(-1), 254)
    fits = candidates * (4 if fmt is FP4 else 1) <= amax[:, None]
    return np.maximum(fits.sum(-1) - 1, 0)


@each_rule
def test_a_million_values_with_every_tie_and_its_neighbours(fmt, rule):
    values = many_blocks(fmt)
    assert values.size >= 10**6
    tensor = quantise(values, fmt, rule)
    scales = scale_from_definition(values, fmt, rule)
    np.testing.assert_array_equal(tensor.scales[:, 0], scales)

    daz = np.where(np.abs(values) < 2.0**-126, np.copysign(f32(0), values), values)
    scaled = np.ldexp(daz.astype(np.float64), (127 - scales)[:, None])
    if fmt is FP4:
        codes = scaled.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    else:
        # Round half to even in integers: 24-bit significand, shifted by the distance of exponents.
        significand, exponent = np.frexp(scaled)
        integer = (significand * 2**24).astype(np.int64)
        shift = np.minimum(24 - exponent - 6, 40)
        floor, rest = integer >> shift, integer & (1 << shift) - 1
        half = 1 << shift - 1
        rounded = floor + ((rest > half) | (rest == half) & (floor & 1 == 1))
        codes = np.clip(rounded, -127, 127).astype(np.int8).view(np.uint8)
    np.testing.assert_array_equal(tensor.codes[:, 0], codes)


@each_rule
def test_blocks_against_rationals(fmt, rule):
    rng = np.random.default_rng(7)
    ties = tie_blocks(fmt)
    values = np.concatenate(
        [
            random_blocks(rng, 250),
            random_blocks(rng, 100, spread=40),
            np.clip(random_blocks(rng, 50), -1e-37, 1e-37),
            ties[rng.integers(0, len(ties), 100)],
            rng.integers(0, 2**32, (100, 32), np.uint32).view(np.float32),  # NaN and Inf among them
        ]
    )
    tensor = quantise(values, fmt, rule)
    for i, bits in enumerate(exact.bits_of(values).tolist()):
        expected = exact.quantise_block(bits, str(fmt), str(rule))
        assert (tensor.scales[i, 0], tensor.codes[i, 0].tolist()) == expected, i


@each_rule
def test_every_exponent_around_the_largest_element(fmt, rule):
    """The scale at, below and above the fraction where ``ceil`` steps, for all 254 exponents."""
    exponent = np.arange(1, 255, dtype=np.uint32)[:, None] << 23
    fractions = np.array(
        [0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x600000, 0x7DFFFF, 0x7E0000, 0x7E0001, 0x7FFFFF],
        np.uint32,
    )
    values = (exponent | fractions).view(np.float32).reshape(-1, 1)
    tensor = quantise(values, fmt, rule)
    for i, bits in enumerate(exact.bits_of(values).ravel().tolist()):
        scale, codes = exact.quantise_block([bits], str(fmt), str(rule))
        assert (tensor.scales[i, 0], tensor.codes[i, 0, 0]) == (scale, codes[0]), hex(bits)


@each_rule
def test_negating_flips_signs_and_nothing_else(fmt, rule):
    values = random_blocks(np.random.default_rng(8), 500)
    plus, minus = quantise(values, fmt, rule), quantise(-values, fmt, rule)
    np.testing.assert_array_equal(plus.scales, minus.scales)
    flipped = plus.codes ^ 8 if fmt is FP4 else (-plus.elements).view(np.uint8)
    np.testing.assert_array_equal(minus.codes, flipped)


@each_rule
def test_ceil_never_saturates_and_floor_does(fmt, rule):
    values = random_blocks(np.random.default_rng(9), 4000)
    amax = np.abs(values).max(-1)
    values = values[(amax >= 2.0**-126) & (amax < 2.0**127)]  # where the scale is not clamped
    tensor = quantise(values, fmt, rule)
    unit = np.ldexp(1.0, tensor.exponents[..., 0])
    largest = 12 if fmt is FP4 else 127
    above = np.abs(values.astype(np.float64)).max(-1) > largest * unit
    assert above.any() == (rule is FLOOR)


@pytest.mark.parametrize("fmt", Format)
def test_blocks_do_not_see_each_other(fmt):
    values = random_blocks(np.random.default_rng(10), 64).reshape(8, 8 * 32)
    whole = quantise(values, fmt)
    for b in range(8):
        part = quantise(values[:, 32 * b : 32 * b + 32], fmt)
        np.testing.assert_array_equal(part.codes[:, 0], whole.codes[:, b])
        np.testing.assert_array_equal(part.scales[:, 0], whole.scales[:, b])


def test_leading_axes_are_kept():
    values = random_blocks(np.random.default_rng(11), 24).reshape(2, 3, 4, 32)
    tensor = quantise(values, FP4)
    assert tensor.shape == (2, 3, 4, 32)
    assert tensor[1, 2] == quantise(values[1, 2], FP4)


@pytest.mark.parametrize("values", [np.zeros(32), np.zeros(32, np.int8)])
def test_only_float32_is_quantised(values):
    with pytest.raises(ValueError, match=f"values has dtype {values.dtype}"):
        quantise(values, FP4)


@pytest.mark.parametrize("shape", [(), (0,), (4, 0)])
def test_rows_need_elements(shape):
    with pytest.raises(ValueError, match="rows need at least one element"):
        quantise(np.zeros(shape, np.float32), FP4)


# Deliberate differences to ml_dtypes, each with what ml_dtypes does beside what happens here.


def e2m1(*values):
    return f32(*values).astype(ml_dtypes.float4_e2m1fn).view(np.uint8).tolist()


def e8m0(*values):
    return f32(*values).astype(ml_dtypes.float8_e8m0fnu).view(np.uint8).tolist()


@each_rule
@pytest.mark.parametrize(
    ("bits", "theirs"), [(0x7FC00000, 8), (0xFFC00000, 0), (0x7F800000, 7), (0xFF800000, 15)]
)
def test_nan_and_infinity_make_a_nan_block_where_ml_dtypes_has_a_code(fmt, rule, bits, theirs):
    special = np.uint32(bits).view(np.float32)
    assert e2m1(special) == [theirs]
    values = f32(*range(-16, 16))
    values[5] = special
    tensor = quantise(values, fmt, rule)
    assert tensor.scales.tolist() == [255]
    assert not tensor.codes.any()


def test_a_zero_block_has_scale_zero_where_ml_dtypes_has_nan():
    assert e8m0(0.0) == [255]
    assert quantise(np.zeros(32, np.float32), FP4).scales.tolist() == [0]


def test_the_scale_follows_the_rule_where_ml_dtypes_rounds_to_nearest():
    assert e8m0(1.5, 3.0, 6.0) == [128, 129, 130]  # ties up
    for fmt, x in ((FP4, 1.5 * 4), (INT8, 1.5)):
        for rule in ScaleRule:
            assert quantise(f32(x), fmt, rule).scales.tolist() == [127]


def test_huge_scales_clamp_where_ml_dtypes_has_nan():
    huge = float(np.finfo(np.float32).max)
    assert e8m0(huge) == [255]
    tensor = quantise(f32(huge, -huge), INT8, CEIL)  # 255 would be wanted
    assert tensor.scales.tolist() == [254]
    assert tensor.elements[0, :2].tolist() == [127, -127]


def test_subnormals_are_zero_where_ml_dtypes_keeps_them():
    tiny = 2.0**-127
    assert e8m0(2.0**-149) == [0]
    assert (f32(tiny).astype(np.float64) * 2.0**127).astype(ml_dtypes.float4_e2m1fn).view(
        np.uint8
    ).tolist() == [2]
    tensor = quantise(f32(tiny, -tiny, 2.0**-126), FP4)
    assert tensor.codes[0, :3].tolist() == [0, 8, 4]
    assert tensor.scales.tolist() == [0]


def test_minus_zero_is_kept_by_both():
    assert e2m1(-0.0, -0.25) == [8, 8]
    assert quantise(f32(-0.0, -0.25, 4), FP4).codes[0, :3].tolist() == [8, 8, 6]
    assert quantise(f32(-0.0, 0.0), FP4).codes[0, :2].tolist() == [8, 0]  # also in a zero block
    assert quantise(f32(-0.0, -0.001, 1), INT8).codes[0, :2].tolist() == [0, 0]  # one zero


def test_saturation_is_shared_with_ml_dtypes():
    assert e2m1(6.5, 7.0, -7.9, 100) == [7, 7, 15, 7]
    assert quantise(f32(6.5, 7.0, -7.9), FP4).codes[0, :3].tolist() == [7, 7, 15]


# Deliberate differences to the GGUF and microxcaling quantisers, which are described, not run.


def test_ties_go_to_the_even_code_where_gguf_goes_down_and_microxcaling_away():
    """GGUF keeps the first of equally near codes; microxcaling rounds half away by default."""
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    first_nearest = np.abs(grid - ties[:, None]).argmin(-1).tolist()
    away = [code + 1 for code in first_nearest]
    ours = quantise(f32(4.0, *ties), FP4).codes[0, 1:8].tolist()
    assert first_nearest == [0, 1, 2, 3, 4, 5, 6]
    assert away == [1, 2, 3, 4, 5, 6, 7]
    assert ours == [0, 2, 2, 4, 4, 6, 6]


def test_an_overflowing_scale_clamps_where_microxcaling_makes_a_nan_block():
    tensor = quantise(f32(np.finfo(np.float32).max), INT8, CEIL)
    assert not tensor.nan.any()


# Public reports.


def test_aiter_974_a_negative_tie_and_the_subnormal_quarter():
    """ROCm/aiter#974, again #2247: -0.625 / 0.5 is a tie; 0.25 is one, 0.25 + ulp is not."""
    half = f32(4.0) / 2  # a block with scale 0.5
    tensor = quantise(f32(half[0], -0.625), FP4)
    assert tensor.scales.tolist() == [126]
    assert tensor.codes[0, 1] == 8 | 2  # -1.25 goes to -1
    above = np.nextafter(f32(0.25), f32(1))[0]
    assert quantise(f32(4, 0.25, above), FP4).codes[0, 1:3].tolist() == [0, 1]


def test_aiter_3992_ties_were_rounded_away():
    """ROCm/aiter#3992: 0.25, 1.25, 2.5 and 5.0 went up instead of to even."""
    assert quantise(f32(4, 0.25, 1.25, 2.5, 5.0), FP4).codes[0, 1:5].tolist() == [0, 2, 4, 6]


@each_rule
@pytest.mark.parametrize("magnitude", [0.0, 1e-10, 1e-11, 1e-30, 2e-38])
def test_odyssey_3031_zero_and_tiny_blocks(fmt, rule, magnitude):
    """Odyssey#3031, #2379: zero blocks, and blocks below 1e-10 that were treated as zero."""
    tensor = quantise(np.full(32, magnitude, np.float32), fmt, rule)
    value = tensor.elements[0] * np.ldexp(1.0, int(tensor.exponents[0]))
    assert np.abs(value - magnitude).max() <= 0.25 * magnitude
    assert tensor.elements.all() == (magnitude > 0)


def test_odyssey_1909_thirty_three_elements_stay_thirty_three():
    """Odyssey#1909: 33 elements were padded to 64 and the length was lost."""
    tensor = quantise(np.ones((2, 33), np.float32), FP4)
    assert tensor.shape == (2, 33)
    assert tensor.codes.shape == (2, 2, 32)
    assert not tensor.codes[:, 1, 1:].any()


def test_ao_436_just_below_the_next_power_must_clamp():
    """pytorch/ao#436: 127.9999 rounds to 128, past the largest element."""
    tensor = quantise(f32(127.9999, -127.9999, 64), INT8)
    assert tensor.scales.tolist() == [127 + 6]
    assert tensor.elements[0, :3].tolist() == [127, -127, 64]


def test_microxcaling_4_floor_saturates_the_upper_quarter_of_a_binade():
    """microxcaling#4 (there 957 became 896): 7.9 becomes 6 under floor, 8 under ceil."""
    floor, ceil = quantise(f32(7.9), FP4, FLOOR), quantise(f32(7.9), FP4, CEIL)
    assert (floor.scales[0], floor.elements[0, 0]) == (127, 12)  # 6
    assert (ceil.scales[0], ceil.elements[0, 0]) == (128, 8)  # 4 times 2


def test_aiter_3212_how_many_blocks_floor_clips():
    """ROCm/aiter#3212: ceil replaced floor, which clipped about 37 % of the groups."""
    values = np.random.default_rng(0).standard_normal((4000, 32)).astype(np.float32)
    clipped = quantise(values, FP4, FLOOR).scales != quantise(values, FP4, CEIL).scales
    assert 0.25 < clipped.mean() < 0.4  # of normally distributed blocks


def test_vllm_43557_the_scale_steps_just_above_one_and_a_half():
    """vllm#43557: the threshold of the rounded-up scale is 1.5·2^n, not 1.75·2^n."""
    at = f32(1.5)
    assert quantise(at, FP4, CEIL).scales == quantise(at, FP4, FLOOR).scales
    above = np.nextafter(at, f32(2))
    assert quantise(above, FP4, CEIL).scales == quantise(above, FP4, FLOOR).scales + 1


def test_compressed_tensors_538_the_bias_is_127():
    """compressed-tensors#538 (125 or 127) and tilelang#2748 (raw or unbiased byte)."""
    assert quantise(f32(6), FP4).scales.tolist() == [127]
    assert quantise(f32(1), INT8).scales.tolist() == [127]


def test_torchtitan_1703_a_last_axis_of_sixteen():
    """torchtitan#1703: a last axis that is not a multiple of 32."""
    values = random_blocks(np.random.default_rng(12), 4)[:, :16]
    tensor = quantise(values, INT8)
    padded = quantise(np.pad(values, ((0, 0), (0, 16))), INT8)
    assert tensor.shape == (4, 16)
    np.testing.assert_array_equal(tensor.codes, padded.codes)
    np.testing.assert_array_equal(tensor.scales, padded.scales)


def test_model_optimizer_1397_a_zero_maximum_is_no_nan():
    """NVIDIA/Model-Optimizer#1397: amax = 0 gave a NaN scale."""
    for fmt, rule in RULES:
        tensor = quantise(np.zeros((1, 40), np.float32), fmt, rule)
        assert tensor == MXTensor(
            np.zeros((1, 2, 32), np.uint8), np.zeros((1, 2), np.uint8), fmt, 40
        )
