"""A tile: loads and stores of every kind, appends, reading registers, how programs end."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from gen.layout import (
    ValueLayout,
    key_layout,
    pack_keys,
    pack_values,
    unpack_values,
    unpack_weights,
)
from gen.quantise import quantise
from gen.table import pack_table, row_bytes, scale_bytes
from rtl.config import TileConfig
from rtl.core.fields import Kind, S
from rtl.core.isa import OPCODES, LoadKind, MatrixFormat, Output
from sim.golden import dequantise
from sim.interpreter import ProgramError, run
from tests.exact import bits_of
from tests.sim.interpreter.programs import (
    BASE,
    FENCE,
    FP4,
    INT8,
    NANO,
    SIZE,
    STOP,
    assert_same_state,
    check_fault,
    defined,
    execute,
    get_rows,
    get_words,
    make_tile,
    op,
    set_blocks,
    set_rows,
    set_words,
    words_of,
)

LONG = NANO.replace(vector_bytes=64 * 1024)
SIX = TileConfig(pseudo_channels=6, stream_bytes=0)
each_format = pytest.mark.parametrize("fmt", [FP4, INT8])


def numbers(rng, *shape):
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 12, shape))
    return values.astype(np.float32)


def add(to, a, b):
    return op("add", to=S(to), a=S(a), b=b)


def const(to, value):
    return op("const", to=S(to), value=value)


# Words


def test_words_through_l1():
    tile = make_tile()
    tile.memory.poke(96, np.uint32(0xDEADBEEF))
    execute(
        tile,
        const(1, 60),
        op("lw", to=S(2), address=S(1), address_offset=36),
        op("sw", value=S(2), address=8, address_offset=S(1)),
        op("sw", value=S(0), address=0xFFFFFFF0, address_offset=0x30),  # addresses wrap around
        op("lw", to=S(0), address=96),
    )
    assert tile.scalars[2] == 0xDEADBEEF
    assert tile.scalars[0] == 0
    assert tile.memory.peek(64, 8).view(np.uint32).tolist() == [0xDBDBDBDB, 0xDEADBEEF]
    assert tile.memory.peek(32, 4).view(np.uint32) == 0


def test_row_registers_from_memory():
    tile = make_tile()
    tile.memory.poke(40, np.arange(5, dtype=np.uint32))
    set_rows(tile, 3, np.full(8, 9))
    execute(tile, op("loadr", to=3, row=2, rows=5, address=40))
    assert get_rows(tile, 3, 8).tolist() == [9, 9, 0, 1, 2, 3, 4, 9]
    execute(tile, op("loadr", to=3, row=2, rows=0, address=40))
    assert get_rows(tile, 3, 8).tolist() == [9, 9, 0, 1, 2, 3, 4, 9]


# Loads


@pytest.mark.parametrize("config", [NANO, BASE, SIX], ids=["nano", "base", "holes"])
@pytest.mark.parametrize("streaming", [False, True])
def test_rows_of_words(config, streaming):
    config = config.replace(vector_bytes=64 * 1024)
    rng = np.random.default_rng(0)
    tile = make_tile(config)
    data = numbers(rng, 3, 40)
    pitch = 2 * config.line_bytes * 3
    for row in range(3):
        tile.memory.poke(64 + row * pitch, data[row])
    execute(
        tile,
        const(1, pitch),
        op("load", to=2, offset=1, stride=3, rows=3, columns=40, address=32, address_offset=32,
           pitch=S(1), streaming=streaming),
    )  # fmt: skip
    for row in range(3):
        assert get_words(tile, 2, 40, offset=1 + 3 * row).tolist() == bits_of(data[row]).tolist()
    assert defined(tile, 2).sum() == 120


def test_bytes_become_words():
    tile = make_tile()
    data = np.random.default_rng(1).integers(0, 256, 100, np.uint8)
    tile.memory.poke(33, data)
    execute(
        tile,
        op("load", to=1, rows=2, columns=45, address=33, pitch=50, stride=2, kind=LoadKind.BYTES),
    )
    assert get_words(tile, 1, 45).tolist() == data[:45].tolist()
    assert get_words(tile, 1, 45, offset=2).tolist() == data[50:95].tolist()


@each_format
@pytest.mark.parametrize("config", [LONG, BASE.replace(vector_bytes=64 * 1024)])
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 100])
def test_blocks_are_dequantised(fmt, config, columns):
    """Rows of a table of embeddings, one of them from its second block on."""
    rng = np.random.default_rng(columns)
    table = quantise(numbers(rng, 4, columns), fmt)
    size = row_bytes(config, table)
    tile = make_tile(config)
    tile.memory.poke(256, pack_table(config, table))
    fields = {"columns": columns, "kind": LoadKind[fmt.name], "pitch": size}
    execute(
        tile,
        op("load", to=1, rows=4, stride=4, address=256, address_offset=scale_bytes(table),
           scales=256, **fields),
    )  # fmt: skip
    values = bits_of(dequantise(table))
    for row in range(4):
        assert get_words(tile, 1, columns, offset=4 * row).tolist() == values[row].tolist()
    if columns > 32:
        start = 256 + scale_bytes(table) + 16 * fmt.planes
        rest = {**fields, "columns": columns - 32}
        execute(tile, op("load", to=2, rows=1, address=start, scales=256, scales_offset=1, **rest))
        assert get_words(tile, 2, columns - 32).tolist() == values[0, 32:].tolist()


def test_blocks_go_on_behind_holes():
    table = quantise(numbers(np.random.default_rng(3), 1, 32 * 7), INT8)
    tile = make_tile(SIX)
    tile.memory.poke(0, pack_table(SIX.replace(pseudo_channels=8), table))
    fields = {"columns": 224, "kind": LoadKind.MXINT8}
    execute(tile, op("load", to=0, rows=1, address=16, scales=0, **fields))
    assert get_words(tile, 0, 224).tolist() == bits_of(dequantise(table))[0].tolist()


def test_what_a_block_can_hold():
    """A NaN scale, infinities, minus zero: as the golden model has them."""
    codes = np.arange(32, dtype=np.uint8) % 16
    tile = make_tile()
    packed = codes[0::2] | codes[1::2] << 4
    for scale, kind in [(255, "nan"), (254, "inf"), (127, "number"), (0, "tiny")]:
        tile.memory.poke(0, np.uint8([scale]))
        tile.memory.poke(16, packed)
        execute(tile, op("load", to=0, rows=1, columns=32, address=16, kind=LoadKind.MXFP4))
        words = get_words(tile, 0, 32)
        values = words.view(np.float32)
        assert (words[[8, 24]] == (0x7FC00000 if kind == "nan" else 0x80000000)).all()
        assert np.isnan(values).all() == (kind == "nan")
        assert np.isinf(values).any() == (kind == "inf")
    assert not values[[1, 9]].any()  # 2^-128 is flushed


def test_a_load_keeps_or_forgets_the_rest():
    for into, left in ((True, 64), (False, 10)):
        tile = make_tile()
        set_words(tile, 1, np.zeros(64))
        load = op("load", to=1, rows=1, columns=10, offset=1, address=0, into=into)
        execute(tile, load)
        assert defined(tile, 1).sum() == left


def test_no_rows_and_no_columns_load_nothing():
    tile = make_tile()
    execute(
        tile,
        op("load", to=1, rows=0, columns=5, address=0xFFFFFFF0),
        op("load", to=1, rows=3, columns=0, address=0),
    )
    assert not defined(tile, 1).any()


# Stores


def test_rows_are_stored():
    tile = make_tile()
    data = numbers(np.random.default_rng(4), 4, 33)
    set_words(tile, 0, data, offset=0, stride=2)
    execute(
        tile,
        const(1, 0b1101),
        op("store", source=0, stride=2, rows=4, columns=33, address=100, pitch=200, masked=True,
           mask=S(1)),
    )  # fmt: skip
    for row in (0, 2, 3):
        stored = tile.memory.peek(100 + 200 * row, 132).view(np.uint32)
        assert stored.tolist() == bits_of(data[row]).tolist()
    assert (tile.memory.peek(300, 132) == 0xDB).all()


def test_rows_that_overlap_are_stored_in_order():
    tile = make_tile()
    set_words(tile, 0, np.arange(96).reshape(3, 32), stride=1)
    execute(tile, op("store", source=0, stride=1, rows=3, columns=32, address=0, pitch=4))
    assert tile.memory.peek(0, 12).view(np.uint32).tolist() == [0, 32, 64]


def test_a_pitch_wraps_around():
    """Rows from the last to the first."""
    tile = make_tile()
    set_words(tile, 0, np.arange(96).reshape(3, 32), stride=1)
    fields = {"stride": 1, "rows": 3, "columns": 1, "address": 64, "pitch": (1 << 32) - 32}
    execute(tile, op("store", source=0, **fields), op("load", to=1, **fields))
    assert [int(tile.memory.peek(a, 1)[0]) for a in (64, 32, 0)] == [0, 32, 64]
    assert [int(get_words(tile, 1, 1, slot)[0]) for slot in range(3)] == [0, 32, 64]


# Appends


@each_format
@pytest.mark.parametrize("config", [NANO, BASE], ids=["nano", "base"])
@pytest.mark.parametrize("head", [32, 80])
def test_appended_keys_lie_where_the_packer_puts_them(fmt, config, head):
    """A cache that grows position by position, from a register of FP32 rows."""
    rng = np.random.default_rng(head)
    group = config.group_outputs
    layout = key_layout(
        2 * group, head, fmt, pseudo_channels=config.pseudo_channels, acc_depth=config.acc_depth
    )
    keys = quantise(numbers(rng, group + 3, head), fmt)
    tile = make_tile(config)
    size = layout.beats.total * config.beat_bytes
    tile.memory.poke(64, np.zeros(size, np.uint8))

    def address(place):
        return 64 + int(place.beat) * config.beat_stride + int(place.byte)

    for position in range(keys.shape[0]):
        set_blocks(tile, 0, keys[position : position + 1], 1)
        set_rows(tile, 0, keys.maximum_scale[position : position + 1] + np.uint32(0x100), 3)
        program = [
            op("append", source=0, block=1 + block, format=MatrixFormat[fmt.name],
               elements=address(layout.element_place(position, block)),
               scale=address(layout.scale_place(position, block)))
            for block in range(keys.blocks)
        ]  # fmt: skip
        if keys.blocks > 1:
            place = address(layout.maximum_place(position))
            program.append(op("appendmax", source=0, row=3, address=place - 8, address_offset=8))
        execute(tile, *program)
    data = tile.memory.peek(64, size).reshape(-1, config.beat_bytes)
    np.testing.assert_array_equal(data, pack_keys(keys, layout))
    assert unpack_weights(data, layout)[: group + 3] == keys


@each_format
@pytest.mark.parametrize("config", [NANO, BASE], ids=["nano", "base"])
def test_appended_values_lie_where_the_packer_puts_them(fmt, config):
    rng = np.random.default_rng(6)
    values = quantise(numbers(rng, 40, 32), fmt)
    layout = ValueLayout(64, fmt, config.pseudo_channels)
    tile = make_tile(config)
    tile.memory.poke(0, np.zeros(SIZE, np.uint8))
    scales = layout.beats * config.beat_stride
    for position in range(40):
        place = layout.element_place(position)
        set_blocks(tile, 5, values[position : position + 1])
        execute(
            tile,
            const(1, int(place.beat) * config.beat_stride + int(place.byte)),
            const(2, position),
            op("append", source=5, block=0, format=MatrixFormat[fmt.name], elements=S(1),
               scale=S(2), scale_offset=scales),
        )  # fmt: skip
    beats = tile.memory.peek(0, layout.beats * config.beat_bytes).reshape(1, layout.beats, -1)
    stored = tile.memory.peek(scales, 64)[None]
    expected_beats, expected_scales = pack_values(values, layout)
    np.testing.assert_array_equal(beats, expected_beats)
    np.testing.assert_array_equal(stored, expected_scales)
    assert unpack_values(beats, stored, layout, 40, 32) == values


def test_an_append_in_beats_with_holes():
    block = quantise(numbers(np.random.default_rng(7), 1, 32), INT8)
    tile = make_tile(SIX)
    set_blocks(tile, 0, block)
    append = {"source": 0, "block": 0, "format": MatrixFormat.MXINT8}
    execute(tile, op("append", **append, elements=128 + 80, scale=95))
    codes = np.concatenate([tile.memory.peek(address, 16) for address in (208, 336)])
    high, low = codes[:16], codes[16:]
    expected = block.codes[0, 0]
    np.testing.assert_array_equal((high & 15) << 4 | low & 15, expected[0::2])
    np.testing.assert_array_equal((high >> 4) << 4 | low >> 4, expected[1::2])
    assert tile.memory.peek(95, 1) == block.scales[0, 0]


# Reading registers


def test_words_and_rows_of_registers():
    tile = make_tile()
    set_words(tile, 3, np.arange(200, 264))
    set_rows(tile, 4, np.arange(300, 332))
    execute(
        tile,
        const(1, 1),
        const(2, 31),
        op("readv", to=S(3), source=3, slot=S(1), word=S(2)),
        op("readv", to=S(4), source=3, slot=0, word=40),  # beyond the slot it begins in
        op("readr", to=S(5), source=4, row=S(2)),
        op("readr", to=S(0), source=4, row=0),
    )
    assert [tile.scalars[i] for i in (3, 4, 5, 0)] == [263, 240, 331, 0]


@pytest.mark.parametrize("rows", [0, 1, 31, 32])
def test_rows_that_match(rows):
    tile = make_tile(LONG.replace(vector_bytes=256 * 1024))
    rng = np.random.default_rng(rows)
    chosen = rng.integers(0, 3, 32) + 0x7FC00000  # compared as integers, all bits of them
    words = np.zeros((32, 4), np.uint32)
    words[:, 2] = chosen
    set_words(tile, 0, words, offset=3, stride=1)
    execute(
        tile,
        const(1, 0x7FC00001),
        op("match", to=S(2), source=0, offset=3, word=2, rows=rows, equal=S(1)),
    )
    expected = sum(1 << r for r in range(rows) if chosen[r] == 0x7FC00001)
    assert tile.scalars[2] == expected


def test_matching_reads_only_what_it_compares():
    tile = make_tile()
    for row in range(3):
        set_words(tile, 0, np.array([row % 2]), offset=2 * row)
    execute(tile, op("match", to=S(1), source=0, stride=2, rows=3, equal=0))
    assert tile.scalars[1] == 0b101


# Faults


def prepared():
    tile = make_tile()
    set_words(tile, 0, np.ones(256, np.float32))
    set_blocks(tile, 1, quantise(np.ones((1, 32), np.float32), INT8))
    set_rows(tile, 0, np.arange(32))
    return tile


APPEND = {"source": 1, "block": 0, "format": MatrixFormat.MXINT8, "elements": 64, "scale": 128}


@pytest.mark.parametrize(
    ("instructions", "cause"),
    [
        ([op("lw", to=S(1), address=2)], "Address 0x2 is no multiple of 4."),
        ([op("sw", value=S(1), address=1, address_offset=2)], "Address 0x3 is no multiple of 4."),
        ([op("lw", to=S(1), address=SIZE)],
         "4 bytes from address 0x8000 are not all in memory, which ends at 0x8000."),
        ([op("loadr", to=0, rows=1, address=6)], "Address 0x6 is no multiple of 4."),
        ([op("loadr", to=0, row=31, rows=2, address=0)],
         "r0 has rows 0 to 31, row 32 is wanted."),
        ([op("readr", to=S(1), source=1)], "r1 is read at row 0, which was never written."),
        ([op("readr", to=S(1), source=0, row=32)], "r0 has rows 0 to 31, row 32 is wanted."),
        ([op("readv", to=S(1), source=2)],
         "v2 is undefined at slot 0, word 0, where words are read."),
        ([op("readv", to=S(1), source=1)],
         "v1 is MXINT8 blocks at slot 0, word 0, where words are read."),
        ([op("readv", to=S(1), source=0, slot=8)], "v0 has 256 words, 1 from word 256 are wanted."),
        ([op("match", to=S(1), source=0, rows=33, equal=0)],
         "rows is 33, it must be at most 32."),
        ([op("match", to=S(1), source=0, rows=9, equal=0)],
         "v0 has 256 words, 1 from word 256 are wanted."),
        ([op("load", to=0, rows=1, columns=4, address=2)], "Address 0x2 is no multiple of 4."),
        ([op("load", to=0, rows=1, columns=4, address=24, kind=LoadKind.MXFP4)],
         "Address 0x18 is no multiple of 16."),
        ([op("load", to=0, rows=1, columns=0, address=0, kind=LoadKind.MXINT8)],
         "columns is 0, of blocks it must be at least 1."),
        # The second row is at fault: the first one is not loaded, stored or touched either.
        ([op("load", to=0, rows=2, columns=4, address=SIZE - 16, pitch=4)],
         "16 bytes from address 0x7ff4 are not all in memory, which ends at 0x8000."),
        ([op("load", to=0, rows=2, columns=4, address=0, offset=7, stride=1)],
         "v0 has 256 words, 4 from word 256 are wanted."),
        ([op("load", to=0, rows=2, columns=33, address=0, scales=SIZE - 2, pitch=1024,
             kind=LoadKind.MXFP4)],
         "2 bytes from address 0x83fe are not all in memory, which ends at 0x8000."),
        ([op("store", source=0, rows=2, columns=4, address=SIZE - 16, pitch=4)],
         "16 bytes from address 0x7ff4 are not all in memory, which ends at 0x8000."),
        ([op("store", source=0, rows=2, columns=4, address=0, pitch=2)],
         "Address 0x2 is no multiple of 4."),
        ([op("store", source=2, rows=1, columns=4, address=0)],
         "v2 is undefined at slot 0, word 0, where words are read."),
        ([op("store", source=0, rows=33, columns=4, address=0, masked=True)],
         "rows is 33, with a mask it must be at most 32."),
        ([op("append", **{**APPEND, "source": 0})],
         "v0 is words at slot 0, word 0, where MXINT8 blocks are read."),
        ([op("append", **{**APPEND, "format": MatrixFormat.MXFP4})],
         "v1 is MXINT8 blocks at slot 0, word 0, where MXFP4 blocks are read."),
        ([op("append", **{**APPEND, "block": 1})],
         "v1 is undefined at slot 0, word 8, where MXINT8 blocks are read."),
        ([op("append", **{**APPEND, "elements": 40})], "Address 0x28 is no multiple of 16."),
        # The low plane, or the scale, has no place: the high plane is not stored either.
        ([op("append", **{**APPEND, "elements": SIZE - 16})],
         "16 bytes from address 0x8000 are not all in memory, which ends at 0x8000."),
        ([op("append", **{**APPEND, "scale": SIZE})],
         "1 bytes from address 0x8000 are not all in memory, which ends at 0x8000."),
        ([op("sw", value=S(0), address=128), op("append", **APPEND)],
         "The program writes past L1 what L1 may hold, in the line at 0x80."),
        ([op("lw", to=S(1), address=72), op("append", **APPEND)],
         "The program writes past L1 what L1 may hold, in the line at 0x40."),
        ([op("lw", to=S(1), address=140), op("appendmax", source=0, row=1, address=130)],
         "The program writes past L1 what L1 may hold, in the line at 0x80."),
        ([op("append", **APPEND), FENCE, op("lw", to=S(1), address=64)],
         "The program reads through L1 what was written past it, in the line at 0x40."),
        ([op("append", **APPEND), FENCE, op("sw", value=S(1), address=156)],
         "The program writes through L1 what was written past it, in the line at 0x80."),
        ([op("append", **APPEND), FENCE,
          op("store", source=0, rows=2, columns=4, address=32, pitch=32)],
         "The program writes through L1 what was written past it, in the line at 0x40."),
        ([op("append", **APPEND), op("load", to=0, rows=1, columns=1, address=128, streaming=True)],
         "The program streams what was stored since the last fence, in the line at 0x80."),
        ([op("sw", value=S(0), address=128), FENCE,
          op("load", to=0, rows=1, columns=1, address=128, streaming=True)],
         "The program streams what was written through L1, in the line at 0x80."),
        ([op("appendmax", source=0, row=40, address=0)], "r0 has rows 0 to 31, row 40 is wanted."),
        ([op("appendmax", source=2, row=0, address=0)],
         "r2 is read at row 0, which was never written."),
    ],
)  # fmt: skip
def test_faults(instructions, cause):
    check_fault(prepared, instructions, cause)


@pytest.mark.parametrize(
    ("instruction", "address"),
    [
        (op("lw", to=S(1), address=96), 96),
        (op("load", to=0, rows=2, columns=1, address=0, pitch=100), 100),
        (op("load", to=0, rows=1, columns=1, address=224, kind=LoadKind.BYTES), 224),
        (op("appendmax", source=0, row=0, address=255), 255),
        (op("append", **{**APPEND, "elements": 112}), 112),
        (op("append", **{**APPEND, "scale": 100}), 100),
    ],
)
def test_holes(instruction, address):
    def make():
        tile = make_tile(SIX)
        set_blocks(tile, 1, quantise(np.ones((1, 32), np.float32), INT8))
        set_rows(tile, 0, np.arange(32))
        return tile

    check_fault(make, [instruction], f"Address {address:#x} is a hole between beats.")


def test_appends_are_seen_behind_a_fence():
    tile = prepared()
    read = {"rows": 1, "columns": 1, "address": 128, "kind": LoadKind.BYTES, "streaming": True}
    execute(tile, op("append", **APPEND), FENCE, op("load", to=3, **read))
    assert get_words(tile, 3, 1) == 127


# Programs


def test_words_that_are_no_instruction_stop_the_program_where_they_are():
    tile = make_tile()
    with pytest.raises(ProgramError) as caught:
        run(tile, [*add(1, 0, 1).words, 0xFF])
    error = caught.value
    assert str(error) == "0xff is no opcode (tile 0, pc 1)."
    assert (error.cause, error.pc, error.instruction) == ("0xff is no opcode.", 1, "")
    assert tile.scalars[1] == 1


def test_a_program_that_runs_out_of_words():
    with pytest.raises(ProgramError) as caught:
        run(make_tile(), add(1, 0, 1).words)
    assert caught.value.cause == "pc is 1; the program has words 0 to 0."
    with pytest.raises(ProgramError) as caught:
        run(make_tile(), op("load", to=0, rows=1, columns=1, address=0).words[:-1])
    assert caught.value.cause == "load takes 8 words; the program ends after 7."


def test_a_program_that_does_not_end():
    tile = make_tile()
    program = words_of([add(1, 1, 1), op("beq", a=S(0), b=0, target=0)])
    with pytest.raises(ProgramError) as caught:
        run(tile, program, limit=101)
    assert caught.value.cause == "The program does not end within 101 instructions."
    assert tile.scalars[1] == 51
    assert tile.executed == Counter(add=51, beq=50)


@pytest.mark.parametrize("limit", [2, 3, None])
def test_a_limit_that_suffices(limit):
    execute(make_tile(), add(1, 0, 1), add(1, 1, 1), limit=limit)


def test_what_was_executed_is_counted():
    tile = execute(make_tile(), add(1, 0, 1), const(2, 5), add(1, 1, 1))
    assert tile.executed == Counter(add=2, const=1)
    execute(tile, add(1, 0, 1))
    assert tile.executed == Counter(add=3, const=1)


def test_an_observer_is_told_of_everything_before_it_happens():
    tile = make_tile()
    seen = []
    tile.observe = lambda pc, instruction, o: seen.append(
        (pc, instruction.name, o.b if hasattr(o, "b") else o.value, tile.scalars[1])
    )
    execute(tile, const(1, 7), add(1, 1, S(1)))
    assert seen == [(0, "const", 7, 0), (2, "add", 7, 7)]


def test_a_tile_runs_one_program_after_the_other():
    """Registers and memory stay; L1 is empty again, and what was stored is in memory."""
    tile = make_tile()
    execute(tile, const(1, 5), op("sw", value=S(1), address=0))
    execute(tile, op("load", to=0, rows=1, columns=1, address=0, streaming=True))
    assert get_words(tile, 0, 1) == 5
    execute(tile, op("add", to=S(2), a=S(1), b=1))
    assert tile.scalars[2] == 6


def test_the_same_words_as_another_list_are_another_program():
    """Decoded instructions are kept by program, and a program must not be changed."""
    tile = make_tile()
    run(tile, [*add(1, 0, 1).words, *STOP.words])
    run(tile, [*add(1, 0, 2).words, *STOP.words])
    assert tile.scalars[1] == 2


def test_a_fault_leaves_what_came_before_it():
    tile, twin = prepared(), prepared()
    good = [const(1, 5), op("sw", value=S(1), address=0), op("vector", a=0, rows=1, columns=3,
            output=Output.WORDS, to=4)]  # fmt: skip
    with pytest.raises(ProgramError):
        execute(tile, *good, op("load", to=4, rows=2, columns=4, address=SIZE - 16, pitch=16))
    execute(twin, *good)
    assert_same_state(tile, twin)
    assert tile.pc == len(words_of(good))


def test_alone_there_is_nobody_to_wait_for():
    tile = make_tile()
    receive = op("receive", tile=0, tag=3, count=1, to=0)
    with pytest.raises(ProgramError) as caught:
        execute(tile, const(1, 5), receive)
    error = caught.value
    assert error.cause == (
        "There is no other tile, and this one waits for a message from tile 0 with tag 3."
    )
    assert (error.tile, error.pc) == (0, 2)


# Any instruction at all


def plausible(rng, field):
    """A value of a field that may make sense, and often does not."""
    if field.kind is Kind.SCALAR:
        return S(rng.randrange(32))
    if field.choices is not None:
        return rng.choice(list(field.choices))
    if field.kind is Kind.VALUE and rng.random() < 0.1:
        return S(rng.randrange(8))
    small = [0, 0, 1, 1, 2, 3, 4, 8, 32, 33, 64]
    number = rng.choice([*small, field.range[0], field.range[-1], rng.choice(field.range)])
    return min(max(number, field.range[0]), field.range[-1])


def full(config):
    """A tile with something in nearly all registers."""
    rng = np.random.default_rng(0)
    tile = make_tile(config, 1 << 13)
    for register in range(14):
        set_words(tile, register, numbers(rng, config.vector_length))
        set_rows(tile, register, rng.integers(0, 256, config.row_length))
    for register, fmt in ((14, FP4), (15, INT8)):
        set_blocks(tile, register, quantise(numbers(rng, 1, 4 * config.vector_length), fmt))
    for register, value in enumerate([0, 1, 2, 3, 8, 32, 1 << 31, (1 << 32) - 1]):
        tile.scalars[register] = value
    return tile


@pytest.mark.parametrize("name", OPCODES)
def test_any_instruction_is_executed_or_does_nothing(name):
    """Nothing but a `ProgramError` stops it, and then nothing has changed."""
    rng = random.Random(name)
    for config in (NANO, BASE, SIX):
        for _ in range(15):
            tile, twin = full(config), full(config)
            instruction = op(name, **{f.name: plausible(rng, f) for f in OPCODES[name].fields})
            try:
                execute(tile, instruction, limit=2)
            except ProgramError as error:
                if error.pc == 0 and "does not end" not in error.cause:
                    assert_same_state(tile, twin)
