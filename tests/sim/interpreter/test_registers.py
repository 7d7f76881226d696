"""Registers: what is written is read, as what it was written, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from gen.mx import MXTensor
from rtl.core.isa import SLOT
from sim.interpreter.errors import Fault
from sim.interpreter.journal import Journal
from sim.interpreter.registers import RowRegisters, Scalars, VectorRegisters
from tests.sim.interpreter.programs import FP4, INT8, NANO, SMALL

LENGTH = NANO.vector_length
BLOCKS = LENGTH // 8


def vectors():
    return VectorRegisters(NANO, Journal())


def tensor(fmt, rows, blocks, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 16 if fmt is FP4 else 256, (rows, blocks, 32), np.uint8)
    return MXTensor(codes, rng.integers(0, 256, (rows, blocks), np.uint8), fmt, 32 * blocks)


# Scalars and rows


def test_scalars_keep_32_bits():
    scalars = Scalars()
    scalars[3] = -1
    scalars[0] = 7
    assert (scalars[3], scalars[0], scalars[31]) == (0xFFFFFFFF, 0, 0)


def test_rows_that_are_written_and_others():
    rows = RowRegisters(SMALL, Journal())
    rows.write(4, np.array([7, 2]), np.array([70, 20]))
    assert rows.read(4, np.array([2, 7, 2])).tolist() == [20, 70, 20]
    with pytest.raises(Fault, match=r"^r4 is read at row 3, which was never written$"):
        rows.read(4, np.array([2, 3, 5]))
    with pytest.raises(Fault, match=r"^r5 is read at row 2, which"):
        rows.read(5, np.array([2]))


def test_rows_end():
    rows = RowRegisters(SMALL, Journal())
    assert SMALL.row_length == 32
    rows.write(31, np.array([31]), 1)
    for access in (lambda r: rows.read(31, r), lambda r: rows.write(31, r, 0)):
        with pytest.raises(Fault, match=r"^r31 has rows 0 to 31, row 40 is wanted$"):
            access(np.array([31, 40, 32]))
    rows.read(31, np.arange(0))


# Words


def test_words_come_back():
    v = vectors()
    words = np.arange(6, dtype=np.uint32).reshape(2, 3) + 0x7F800000
    v.write_words(5, np.array([10, LENGTH - 3]), words)
    np.testing.assert_array_equal(v.read_words(5, np.array([10, LENGTH - 3]), 3), words)
    assert v.floats(5, np.array([10]), 1).view(np.uint32) == words[0, 0]
    assert (v.kinds[5] != 0).sum() == 6


@pytest.mark.parametrize(("start", "count"), [(LENGTH, 1), (LENGTH - 2, 3), (5 * LENGTH, 1)])
def test_registers_end(start, count):
    v = vectors()
    sentence = f"^v23 has {LENGTH} words, {count} from word {start} are wanted$"
    with pytest.raises(Fault, match=sentence):
        v.read_words(23, np.array([0, start]), count)
    with pytest.raises(Fault, match=sentence):
        v.write_words(23, np.array([start]), np.zeros((1, count), np.uint32))
    with pytest.raises(Fault, match=f"^v23 has {LENGTH} words, 8 from word {LENGTH} are wanted$"):
        v.read_blocks(23, np.array([BLOCKS]), 1, FP4)


@pytest.mark.parametrize("register", [24, 31])
def test_registers_that_there_are_not(register):
    """Fields that may be a vector or a row register take 31."""
    v = vectors()
    for access in (
        lambda: v.read_words(register, np.array([0]), 1),
        lambda: v.write_words(register, np.array([0]), np.zeros((1, 1), np.uint32)),
        lambda: v.fresh(register),
        lambda: v.copy_blocks(register, 0, 1),
    ):
        with pytest.raises(Fault, match=f"^Register {register} is no vector register, they are"):
            access()


def test_undefined_words_are_not_read():
    v = vectors()
    v.write_words(0, np.array([SLOT]), np.zeros((1, 5), np.uint32))
    v.read_words(0, np.array([SLOT]), 5)
    sentence = "^v0 is undefined at slot 1, word 5, where words are read$"
    with pytest.raises(Fault, match=sentence):
        v.read_words(0, np.array([SLOT]), 6)
    v.fresh(0)
    with pytest.raises(Fault, match=r"^v0 is undefined at slot 1, word 0, where words are read$"):
        v.read_words(0, np.array([SLOT]), 1)


# Blocks


@pytest.mark.parametrize("fmt", [FP4, INT8])
def test_blocks_come_back(fmt):
    v = vectors()
    written = tensor(fmt, 2, 3)
    v.write_blocks(1, np.array([4, 9]), written)
    assert v.read_blocks(1, np.array([4, 9]), 3, fmt) == written
    assert v.read_blocks(1, np.array([10]), 2, fmt) == MXTensor(
        written.codes[1:, 1:], written.scales[1:, 1:], fmt, 64
    )
    assert (v.kinds[1] != 0).sum() == 2 * 3 * 8


def test_where_the_codes_of_a_block_are():
    """Element 0 lowest; MXFP4 in the lower four words."""
    v = vectors()
    codes = np.arange(32, dtype=np.uint8)[None, None]
    v.write_blocks(0, np.array([2]), MXTensor(codes, np.array([[9]], np.uint8), INT8, 32))
    assert v.words[0, 16:24].tolist() == [0x03020100 + 0x04040404 * i for i in range(8)]
    v.write_blocks(0, np.array([2]), MXTensor(codes % 16, np.array([[8]], np.uint8), FP4, 32))
    assert v.words[0, 16:24].tolist() == [0x76543210, 0xFEDCBA98] * 2 + [0] * 4
    assert v.scales[0, 2] == 8


def test_words_and_blocks_of_two_formats_are_told_apart():
    v = vectors()
    v.write_blocks(2, np.array([0, 5]), tensor(FP4, 2, 1))
    v.write_blocks(2, np.array([1]), tensor(INT8, 1, 1))
    with pytest.raises(Fault, match=r"^v2 is MXFP4 blocks at slot 0, word 0, where words are"):
        v.read_words(2, np.array([0]), 1)
    with pytest.raises(Fault, match=r"^v2 is MXINT8 blocks at slot 0, word 8, where MXFP4 blocks"):
        v.read_blocks(2, np.array([0]), 2, FP4)
    with pytest.raises(Fault, match=r"^v2 is MXFP4 blocks at slot 1, word 8, where MXINT8 blocks"):
        v.read_blocks(2, np.array([5]), 1, INT8)
    v.write_words(2, np.array([3]), np.zeros((1, 1), np.uint32))
    with pytest.raises(Fault, match=r"^v2 is words at slot 0, word 3, where MXFP4 blocks are read"):
        v.read_blocks(2, np.array([0]), 1, FP4)


def test_blocks_as_they_are():
    v = vectors()
    v.write_blocks(3, np.array([0]), tensor(FP4, 1, 1))
    v.write_blocks(3, np.array([1]), tensor(INT8, 1, 2, seed=1))
    words, about = v.copy_blocks(3, 0, 3)
    v.paste_blocks(4, 5, words, about)
    assert v.read_blocks(4, np.array([5]), 1, FP4) == tensor(FP4, 1, 1)
    assert v.read_blocks(4, np.array([6]), 2, INT8) == tensor(INT8, 1, 2, seed=1)
    assert v.copy_blocks(3, 0, 0)[0].shape == (0, 8)


@pytest.mark.parametrize("spoil", [0, 7])
def test_half_a_block_is_none(spoil):
    v = vectors()
    v.write_blocks(3, np.array([2]), tensor(FP4, 1, 2))
    v.write_words(3, np.array([24 + spoil]), np.zeros((1, 1), np.uint32))
    v.copy_blocks(3, 2, 1)
    with pytest.raises(Fault, match=r"^v3 has no MX block 3$"):
        v.copy_blocks(3, 2, 2)
    with pytest.raises(Fault, match=r"^v3 has no MX block 1$"):
        v.copy_blocks(3, 1, 2)
