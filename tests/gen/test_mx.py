"""Codes, nibbles and file conventions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gen.mx import (
    MXTensor,
    decode_elements,
    encode_elements,
    from_gguf,
    from_gptoss,
    join_planes,
    nibble_planes,
    pack_nibbles,
    to_gptoss,
    unpack_nibbles,
)
from rtl.formats import Format, product_bits

NIBBLES = np.arange(16, dtype=np.uint8)
BYTES = np.arange(256, dtype=np.uint8)


def tensor(rng, fmt, *shape, length=None):
    codes = rng.integers(0, 16 if fmt is Format.MXFP4 else 256, (*shape, 32), np.uint8)
    length = length or 32 * shape[-1]
    codes[..., -1, length - 32 * (shape[-1] - 1) :] = 0
    return MXTensor(codes, rng.integers(0, 256, shape, np.uint8), fmt, length)


def test_every_e2m1_code_as_ml_dtypes_decodes_it():
    values = NIBBLES.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    np.testing.assert_array_equal(decode_elements(NIBBLES, Format.MXFP4), 2 * values)


def test_every_int8_code_is_twos_complement():
    expected = [b if b < 128 else b - 256 for b in range(256)]
    assert decode_elements(BYTES, Format.MXINT8).tolist() == expected


@pytest.mark.parametrize("fmt", Format)
def test_encoding_inverts_decoding(fmt):
    codes = np.delete(NIBBLES, 8) if fmt is Format.MXFP4 else BYTES
    np.testing.assert_array_equal(encode_elements(decode_elements(codes, fmt), fmt), codes)


def test_encoding_has_plus_zero_only():
    assert encode_elements(np.array([0, -0]), Format.MXFP4).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("fmt", "element"), [(Format.MXFP4, 5), (Format.MXFP4, -13), (Format.MXINT8, 128)]
)
def test_elements_without_a_code_are_refused(fmt, element):
    with pytest.raises(ValueError, match=f"elements holds {element}, {fmt} has"):
        encode_elements(np.array([1, element]), fmt)


@pytest.mark.parametrize("a", Format)
@pytest.mark.parametrize("w", Format)
def test_product_bits_bound_the_largest_block_dot_tightly(a, w):
    largest = 32 * int(np.prod([12 if f is Format.MXFP4 else 128 for f in (a, w)]))
    assert 2 ** (product_bits(a, w) - 1) <= largest < 2 ** product_bits(a, w)


def test_int8_planes_are_a_signed_high_and_an_unsigned_low_nibble():
    planes = nibble_planes(BYTES.reshape(8, 32), Format.MXINT8)
    assert planes.shape == (8, 2, 32)
    high = (planes[:, 0].astype(int) ^ 8) - 8  # sign of the nibble
    value = 16 * high + planes[:, 1]
    np.testing.assert_array_equal(value.ravel(), BYTES.view(np.int8))


@pytest.mark.parametrize("fmt", Format)
def test_joining_inverts_planes(fmt):
    codes = tensor(np.random.default_rng(1), fmt, 5, 2).codes
    planes = nibble_planes(codes, fmt)
    assert planes.max() < 16
    np.testing.assert_array_equal(join_planes(planes, fmt), codes)


def test_the_even_element_is_the_low_nibble():
    packed = pack_nibbles(np.array([1, 2, 3, 4], np.uint8))
    assert packed.tolist() == [0x21, 0x43]
    assert unpack_nibbles(packed).tolist() == [1, 2, 3, 4]


def test_nibbles_survive_packing_for_every_byte():
    np.testing.assert_array_equal(pack_nibbles(unpack_nibbles(BYTES)), BYTES)


def test_gptoss_checkpoints_pack_neighbours():
    blocks = np.zeros((2, 1, 16), np.uint8)
    blocks[0, 0, :2] = 0x21, 0x43
    read = from_gptoss(blocks, np.full((2, 1), 127, np.uint8))
    assert read.shape == (2, 32)
    assert read.codes[0, 0, :5].tolist() == [1, 2, 3, 4, 0]
    again, scales = to_gptoss(read)
    np.testing.assert_array_equal(again, blocks)
    np.testing.assert_array_equal(scales, read.scales)


def test_gptoss_holds_no_int8():
    with pytest.raises(ValueError, match="format is mxint8"):
        to_gptoss(tensor(np.random.default_rng(0), Format.MXINT8, 1, 1))


def test_kekzl_imp_567_split_and_linear_nibbles_differ():
    """kekzl/imp#567: GGUF's split nibbles (j, j + 16) were read as neighbours."""
    codes = np.arange(32, dtype=np.uint8) // 2
    row = np.array([130, *(codes[:16] | codes[16:] << 4)], np.uint8)
    read = from_gguf(row[None])
    assert read.codes[0, 0].tolist() == codes.tolist()
    assert read.scales.tolist() == [[130]]
    linear = from_gptoss(row[None, None, 1:], read.scales)
    assert linear.codes[0, 0].tolist() != codes.tolist()


def test_gguf_rows_are_whole_blocks():
    with pytest.raises(ValueError, match="rows of 18 bytes, they must be a multiple of 17"):
        from_gguf(np.zeros((3, 18), np.uint8))


def test_gguf_blocks_follow_each_other():
    rng = np.random.default_rng(2)
    data = rng.integers(0, 256, (3, 2, 34), np.uint8)
    read = from_gguf(data)
    assert read.shape == (3, 2, 64)
    np.testing.assert_array_equal(
        read[1, 0].codes, from_gguf(data[1, 0].reshape(2, 17)).codes[:, 0]
    )


def test_odyssey_1909_the_length_survives_padding():
    """Odyssey#1909: 33 elements were padded to 64 and their number was lost."""
    t = tensor(np.random.default_rng(3), Format.MXINT8, 4, 2, length=33)
    assert (t.length, t.blocks, t.shape) == (33, 2, (4, 33))
    assert t[1:].shape == (3, 33)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": np.zeros((2, 32), np.int8)}, "codes has dtype int8, it must be uint8"),
        ({"scales": np.zeros(2, np.int64)}, "scales has dtype int64, it must be uint8"),
        ({"scales": np.zeros(3, np.uint8)}, r"scales \(3,\), they must be \[..., n, 32\]"),
        ({"codes": np.full((2, 32), 16, np.uint8)}, "codes holds 16, codes of mxfp4 are 0 to 15"),
        ({"length": 65}, "length is 65, with 2 blocks of 32 it must be 33 to 64"),
        ({"length": 32}, "length is 32, with 2 blocks of 32 it must be 33 to 64"),
        ({"codes": np.ones((2, 32), np.uint8), "length": 63}, "codes after element 63 must all be"),
    ],
)
def test_inconsistent_tensors_are_refused(change, message):
    parts = {
        "codes": np.zeros((2, 32), np.uint8),
        "scales": np.zeros(2, np.uint8),
        "format": Format.MXFP4,
        "length": 64,
    }
    with pytest.raises(ValueError, match=message):
        MXTensor(**{**parts, **change})


def test_tensors_are_read_only_without_locking_the_callers_arrays():
    codes, scales = np.zeros((1, 32), np.uint8), np.zeros(1, np.uint8)
    t = MXTensor(codes, scales, Format.MXFP4, 32)
    with pytest.raises(ValueError, match="read-only"):
        t.codes[0, 0] = 1
    codes[0, 0] = 1


def test_equality_sees_codes_scales_format_and_length():
    t = tensor(np.random.default_rng(4), Format.MXINT8, 2, 2, length=40)
    assert t == MXTensor(t.codes.copy(), t.scales.copy(), t.format, 40)
    assert t != MXTensor(t.codes, t.scales ^ 1, t.format, 40)
    assert t != MXTensor(t.codes, t.scales, t.format, 41)
    assert t[:1] != t[1:]


def test_the_maximum_scale_leaves_nan_out():
    scales = np.array([[3, 255, 7], [255, 255, 255], [0, 0, 254]], np.uint8)
    t = MXTensor(np.zeros((3, 3, 32), np.uint8), scales, Format.MXFP4, 96)
    assert t.maximum_scale.tolist() == [7, 0, 254]


@pytest.mark.parametrize("fmt", Format)
def test_a_column_operand_is_v_transposed_in_units_of_one(fmt):
    v = tensor(np.random.default_rng(5), fmt, 70, 2)
    columns = v.column_operand(1)
    assert columns.shape == (32, 70)
    assert (columns.exponents == 0).all()
    integers = columns.elements.reshape(32, -1)
    np.testing.assert_array_equal(integers[:, :70], v.elements[:, 1].T)
    assert not integers[:, 70:].any()
    assert (v.without_scales().exponents == 0).all()
    np.testing.assert_array_equal(v.without_scales().codes, v.codes)


@pytest.mark.parametrize("chunk", [-1, 2])
def test_chunks_out_of_range_are_refused(chunk):
    v = tensor(np.random.default_rng(6), Format.MXFP4, 3, 2)
    with pytest.raises(ValueError, match=f"chunk is {chunk}, it must be 0 to 1"):
        v.column_operand(chunk)
