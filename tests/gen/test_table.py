"""Row-major tables: every byte by hand, and back."""

from __future__ import annotations

import numpy as np
import pytest

from gen.mx import MXTensor, join_planes, unpack_nibbles
from gen.quantise import quantise
from gen.table import pack_table, row_bytes, scale_bytes
from rtl.config import PRESETS
from rtl.formats import Format

NANO, BASE = PRESETS["nano"], PRESETS["base"]
CONFIGS = pytest.mark.parametrize("config", [NANO, BASE], ids=["nano", "base"])
FP4, INT8 = Format.MXFP4, Format.MXINT8


def numbers(rows, columns):
    return np.random.default_rng(columns).standard_normal((rows, columns)).astype(np.float32)


@CONFIGS
@pytest.mark.parametrize("columns", [1, 8, 9, 100])
def test_words_are_padded_with_zeros_to_whole_lines(config, columns):
    table = numbers(3, columns)
    packed = pack_table(config, table)
    assert packed.shape == (3, row_bytes(config, table))
    assert packed.shape[1] % config.line_bytes == 0
    assert 0 <= packed.shape[1] - 4 * columns < config.line_bytes
    stored = packed[:, : 4 * columns].copy().view(np.float32)
    np.testing.assert_array_equal(stored, table)
    assert not packed[:, 4 * columns :].any()


@CONFIGS
@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("columns", [1, 32, 33, 16 * 32, 16 * 32 + 1])
def test_scales_come_before_what_they_scale(config, fmt, columns):
    table = quantise(numbers(2, columns), fmt)
    packed = pack_table(config, table)
    start = scale_bytes(table)
    assert start % 16 == 0
    assert 0 <= start - table.blocks < 16
    size = 16 * fmt.planes * table.blocks
    assert packed.shape == (2, row_bytes(config, table))
    assert packed.shape[1] % config.line_bytes == 0
    assert 0 <= packed.shape[1] - start - size < config.line_bytes
    np.testing.assert_array_equal(packed[:, : table.blocks], table.scales)
    assert not packed[:, table.blocks : start].any()
    assert not packed[:, start + size :].any()
    blocks = packed[:, start : start + size].reshape(2, table.blocks, fmt.planes, 16)
    codes = join_planes(unpack_nibbles(blocks), fmt)
    assert MXTensor(codes, table.scales, fmt, columns) == table


def test_bytes_by_hand():
    codes = np.arange(32, dtype=np.uint8)[None, None]
    table = MXTensor(codes, np.array([[130]], np.uint8), INT8, 32)
    packed = pack_table(NANO, table)[0]
    assert packed[:16].tolist() == [130] + [0] * 15
    assert packed[16:32].tolist() == [0x00] * 8 + [0x11] * 8  # high nibbles of 0 to 31
    assert packed[32:48].tolist() == [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE] * 2
    assert packed.size == 64
