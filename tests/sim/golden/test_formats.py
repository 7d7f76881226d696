"""What codes and scales are worth: against ml_dtypes, rationals and public reports."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from gen.mx import MXTensor
from rtl.formats import Format
from sim.golden import dequantise, element_values, fold_scale, fp32, quantise, scale_values
from tests import exact

FP4, INT8 = Format.MXFP4, Format.MXINT8
NIBBLES = np.arange(16, dtype=np.uint8)
BYTES = np.arange(256, dtype=np.uint8)


def every_code_under_every_scale(fmt):
    codes = NIBBLES.repeat(2) if fmt is FP4 else BYTES
    codes = np.broadcast_to(codes.reshape(-1, 32), (256, codes.size // 32, 32))
    scales = np.broadcast_to(BYTES[:, None], codes.shape[:2])
    return MXTensor(codes, scales, fmt, 32 * codes.shape[1])


def test_every_e2m1_code_is_worth_what_ml_dtypes_says_with_the_sign_of_zero():
    theirs = NIBBLES.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    ours = element_values(NIBBLES, FP4)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


def test_every_int8_code_is_in_64ths():
    assert element_values(BYTES, INT8)[[0, 1, 127, 128, 255]].tolist() == [
        0.0,
        1 / 64,
        127 / 64,
        -2.0,
        -1 / 64,
    ]


def test_every_e8m0_code_is_worth_what_ml_dtypes_says():
    theirs = BYTES.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    np.testing.assert_array_equal(scale_values(BYTES), theirs)


@pytest.mark.parametrize("fmt", Format)
def test_every_code_under_every_scale_against_rationals(fmt):
    tensor = every_code_under_every_scale(fmt)
    got = exact.bits_of(dequantise(tensor)).reshape(tensor.codes.shape)
    for scale in range(256):
        for code, bits in zip(tensor.codes[scale].ravel(), got[scale].ravel(), strict=True):
            unit = exact.power(scale + exact.EXPONENT_OF_UNIT[str(fmt)])
            expected = exact.NAN
            if scale < 255:
                minus_zero = fmt is FP4 and code == 8
                expected = exact.fp32_bits(exact.units(int(code), str(fmt)) * unit, minus_zero)
            assert bits == expected, (scale, code)


@pytest.mark.parametrize("fmt", Format)
def test_dequantising_undoes_the_encoding_of_representable_numbers(fmt):
    tensor = every_code_under_every_scale(fmt)
    codes = np.where(tensor.codes == 0x80, np.uint8(0), tensor.codes)  # -128 is never encoded
    values = dequantise(MXTensor(codes, tensor.scales, fmt, tensor.length))[:252]
    again = dequantise(quantise(values, fmt))
    np.testing.assert_array_equal(again, values)
    if fmt is FP4:
        np.testing.assert_array_equal(np.signbit(again), np.signbit(values))


def test_the_padding_is_cut_off():
    values = np.arange(1, 34, dtype=np.float32)[None]
    assert dequantise(quantise(values, INT8)).shape == (1, 33)


def one(code, scale, fmt):
    codes = np.zeros((1, 32), np.uint8)
    codes[0, 0] = code
    return dequantise(MXTensor(codes, np.array([scale], np.uint8), fmt, 1))[0]


def test_products_beyond_fp32_are_infinite_where_a_scale_in_fp32_could_not_say():
    assert one(0x80, 254, INT8) == -np.inf  # -128 · 2^121 = -2^128
    assert one(0x7F, 254, INT8) == np.float32(127 * 2.0**121)
    assert one(7, 254, FP4) == np.inf  # 6 · 2^127
    assert one(15, 254, FP4) == -np.inf
    assert one(1, 254, FP4) == 2.0**126


def test_products_below_fp32_are_zeros_of_their_sign_where_ml_dtypes_keeps_subnormals():
    theirs = np.uint8(0).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    assert theirs == 2.0**-127
    assert exact.bits_of(one(2, 0, FP4)) == 0  # 1 · 2^-127
    assert exact.bits_of(one(10, 0, FP4)) == exact.SIGN
    assert one(4, 0, FP4) == 2.0**-126
    assert one(3, 0, FP4) == 0  # 1.5 · 2^-127 has not 24 ones and stays below


def test_sglang_25519_byte_134_is_a_number_and_255_is_not():
    """sgl-project/sglang#25519: scale byte 134 became NaN, 255 became Inf."""
    assert one(2, 134, FP4) == 128
    assert exact.bits_of(one(2, 255, FP4)) == exact.NAN
    assert exact.bits_of(one(0, 255, INT8)) == exact.NAN


def test_transformer_engine_3262_byte_0_is_a_power_of_two():
    """NVIDIA/TransformerEngine#3262: byte 0 (2^-127) became 0, and 255 Inf."""
    assert scale_values(np.uint8(0)) == 2.0**-127
    assert one(7, 0, FP4) == np.float32(6 * 2.0**-127)
    assert np.isnan(scale_values(np.uint8(255)))


def test_llvm_214919_nan_stays_nan_when_widened():
    """llvm-project#214919: E8M0 NaN became Inf on widening."""
    assert np.isnan(scale_values(np.array([255], np.uint8))).all()
    assert not np.isinf(scale_values(BYTES)).any()


def test_gguf_has_no_nan_scale_and_no_minus_zero():
    """GGUF reads byte 255 as a finite power of two and code 8 as plus zero; both differ here."""
    assert exact.bits_of(one(8, 127, FP4)) == exact.SIGN
    assert np.isnan(one(1, 255, FP4))


def test_compressed_tensors_538_byte_127_is_one():
    """compressed-tensors#538 (bias 125 or 127), tilelang#2748 (raw or unbiased byte)."""
    assert one(2, 127, FP4) == 1
    assert one(64, 127, INT8) == 1


@pytest.mark.parametrize("fmt", Format)
def test_folding_a_scale_is_ldexp_by_the_exponent_of_the_unit(fmt):
    values = np.array([0.0, -0.0, 1, 0.3, 1e-30, 1.2e-38, np.inf], np.float32)
    got = exact.bits_of(fold_scale(values[:, None], BYTES, fmt))
    for i, value in enumerate(values[:-1]):
        for scale in range(255):
            product = Fraction(float(value)) * exact.power(scale - fmt.unit_offset)
            assert got[i, scale] == exact.fp32_bits(product, bool(np.signbit(value)))
    assert (got[-1, :255] == exact.INFINITY).all()
    assert (got[:, 255] == exact.NAN).all()
    assert (got[1, :255] == exact.SIGN).all()
    assert fp32.NAN_BITS == exact.NAN
