"""`matrix` against the golden window: formats, shapes, chains, ranges, masks, heads, argmax, V."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from gen.layout import ValueLayout, WeightLayout, pack_values, pack_weights
from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.core.fields import S
from rtl.core.isa import MatrixFormat
from sim.golden import window_matmul
from tests import exact
from tests.exact import NAN, bits_of
from tests.sim.interpreter.programs import (
    FP4,
    INT8,
    NANO,
    SMALL,
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
)

WIDE = SMALL.replace(vector_bytes=1 << 20, lanes=8)
"""Registers of 8192 words, eight rows of MXFP4 or four of MXINT8."""

CONFIGS = {
    "one column": WIDE,
    "two columns": WIDE.replace(pseudo_channels=2, acc_depth=4),
    "three columns": WIDE.replace(pseudo_channels=3, acc_depth=5, stream_bytes=0, acc_bits=40),
    "one accumulator": WIDE.replace(acc_depth=1, acc_bits=52),
}
PAIRS = [*itertools.product((FP4, INT8), (FP4, INT8))]
each_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
LIMIT = 1 << 17


def tensor(rng, fmt, rows, length, nan=0.03, zero=0.1):
    """Random codes and scales, some blocks NaN or zero."""
    blocks = -(-length // 32)
    codes = rng.integers(0, 16 if fmt is FP4 else 256, (rows, blocks, 32), np.uint8)
    codes[rng.random((rows, blocks)) < zero] = 0
    codes[:, -1, length - 32 * (blocks - 1) :] = 0
    scales = rng.integers(110, 140, (rows, blocks)).astype(np.uint8)
    scales[rng.random((rows, blocks)) < nan] = 255
    codes[scales == 255] = 0
    return MXTensor(codes, scales, fmt, length)


def formats(activation, weight):
    return {
        "activation": MatrixFormat[activation.name],
        "weight": MatrixFormat[weight.name],
    }


@dataclass
class Product:
    """A tile with activations in v0 and r0 and an operand from address 0 on, ready to multiply."""

    config: TileConfig
    a: MXTensor
    w: MXTensor
    fields: dict = field(default_factory=dict)

    def __post_init__(self):
        config = self.config
        self.tile = make_tile(config, LIMIT)
        beats = pack_weights(
            self.w, pseudo_channels=config.pseudo_channels, acc_depth=config.acc_depth
        )
        self.tile.memory.poke(0, beats)
        set_blocks(self.tile, 0, self.a)
        set_rows(self.tile, 0, self.a.maximum_scale)
        self.fields = {
            "address": 0,
            "beats": len(beats),
            "outputs": self.w.shape[0],
            "blocks": self.a.blocks,
            "last": self.a.length - 1,
            **formats(self.a.format, self.w.format),
            "rows": self.a.shape[0],
            "source": 0,
            "pitch": self.a.blocks,
            "maxima": 0,
            "maxima_pitch": 1,
            "to": 1,
            "result_pitch": self.w.shape[0],
            **self.fields,
        }

    def op(self, **changes):
        return op("matrix", **{**self.fields, **changes})

    def run(self, **changes):
        execute(self.tile, self.op(**changes))
        return self

    def results(self, rows=None, outputs=None):
        rows = self.a.shape[0] if rows is None else rows
        outputs = self.w.shape[0] if outputs is None else outputs
        return get_words(self.tile, 1, rows * outputs).reshape(rows, outputs)

    def expected(self):
        return bits_of(window_matmul(self.a, self.w, self.config.acc_bits))


# Formats and shapes


@each_config
@each_pair
@pytest.mark.parametrize(("neurons", "length"), [(1, 1), (3, 32), (33, 33), (40, 100), (7, 330)])
def test_products(config, pair, neurons, length):
    rng = np.random.default_rng([neurons, length])
    for rows in (1, 3, config.lanes // pair[0].planes):
        p = Product(
            config, tensor(rng, pair[0], rows, length), tensor(rng, pair[1], neurons, length)
        )
        np.testing.assert_array_equal(p.run().results(), p.expected())
        assert defined(p.tile, 1).sum() == rows * neurons


@each_pair
def test_against_rationals(pair):
    rng = np.random.default_rng(1)
    p = Product(WIDE, tensor(rng, pair[0], 2, 70), tensor(rng, pair[1], 5, 70))
    results = p.run().results()
    for row, neuron in itertools.product(range(2), range(5)):
        a, w = exact.row(p.a, row), exact.row(p.w, neuron)
        assert results[row, neuron] == exact.window_dot(a, w, WIDE.acc_bits)[0]


def test_maxima_beyond_the_scales_drop_bits():
    """The anchor is where `maxima` puts it; what is below its window is floored away."""
    config = WIDE.replace(acc_bits=32)
    codes = np.zeros((1, 2, 32), np.int64)
    codes[0, :, 0] = 1, -1
    a = MXTensor.from_elements(codes, np.array([[127, 118]], np.uint8), INT8)
    codes[0, :, 0] = 1, 1
    w = MXTensor.from_elements(codes, np.array([[127, 127]], np.uint8), INT8)
    results = set()
    for raised in (0, 3, 9):
        p = Product(config, a, w)
        set_rows(p.tile, 0, np.array([127 + raised]))
        lsb = (127 + raised - 133) + (127 - 133) + 20 + 1 + 1 - 32
        ones = [Fraction(2) ** (scale - 133 + 127 - 133 - lsb) for scale in (127, 118)]
        acc = ones[0] // 1 + -ones[1] // 1
        results.add(int(p.run().results()[0, 0]))
        assert exact.fp32_bits(acc * Fraction(2) ** lsb) in results
        assert len(results) == 1 + (0, 3, 9).index(raised)


def test_the_format_of_the_engine():
    rng = np.random.default_rng(2)
    config = WIDE.replace(formats="mxfp4")
    p = Product(config, tensor(rng, FP4, 8, 40), tensor(rng, FP4, 4, 40))
    np.testing.assert_array_equal(p.run().results(), p.expected())
    for name in ("activation", "weight"):
        check_fault(
            lambda p=p: Product(config, p.a, p.w).tile,
            [p.op(rows=1, **{name: MatrixFormat.MXINT8})],
            f"{name} is mxint8, the engine has mxfp4.",
        )


# Where rows are


def test_heads_and_tokens_are_found_and_delivered_where_they_are_said_to_be():
    """Three tokens of two heads, each with a place of its own in every register."""
    rng = np.random.default_rng(3)
    a, w = tensor(rng, FP4, 6, 64), tensor(rng, INT8, 5, 64)
    p = Product(WIDE, a, w)
    for row in range(6):
        token, head = divmod(row, 2)
        set_blocks(p.tile, 2, a[row : row + 1], 7 + 20 * token + 3 * head)
        set_rows(p.tile, 2, a.maximum_scale[row : row + 1], 4 + 5 * token + head)
    p.run(
        source=2, offset=7, pitch=20, stride=3, heads=2, maxima=2, maxima_offset=4,
        maxima_pitch=5, result_offset=11, result_pitch=100, result_stride=17,
    )  # fmt: skip
    for row in range(6):
        token, head = divmod(row, 2)
        start = 11 + 100 * token + 17 * head
        words = p.tile.vectors.read_words(1, np.array([start]), 5)[0]
        assert words.tolist() == p.expected()[row].tolist()
    assert defined(p.tile, 1).sum() == 30


def test_rows_that_do_not_take_part():
    rng = np.random.default_rng(4)
    p = Product(WIDE, tensor(rng, FP4, 6, 64), tensor(rng, FP4, 4, 64))
    set_words(p.tile, 1, np.full(24, 9))
    p.tile.vectors.kinds[0, 16:32] = 0  # row 1 is not even there
    p.tile.rows.defined[0, 1] = False
    p.run(masked=True, mask=0b1101, into=True, argmax=True, best=1, best_index=2)
    expected = p.expected()
    expected[[1, 4, 5]] = 9
    np.testing.assert_array_equal(p.results(), expected)
    assert p.tile.rows.defined[1].nonzero()[0].tolist() == [0, 2, 3]
    assert p.tile.rows.defined[2].nonzero()[0].tolist() == [0, 2, 3]


def test_no_rows_take_part():
    rng = np.random.default_rng(5)
    p = Product(WIDE, tensor(rng, FP4, 6, 64), tensor(rng, FP4, 4, 64))
    p.run(masked=True, mask=0, argmax=True, best=1, best_index=2)
    cause = "beats is 8, this operand has 10."
    check_fault(lambda: p.tile, [p.op(masked=True, beats=8)], cause)
    assert not defined(p.tile, 1).any()
    assert not p.tile.rows.defined[[1, 2]].any()


def test_into_keeps_the_rest():
    rng = np.random.default_rng(6)
    p = Product(WIDE, tensor(rng, FP4, 1, 32), tensor(rng, FP4, 3, 32))
    for into, left in ((True, 40), (False, 3)):
        set_words(p.tile, 1, np.zeros(40))
        p.run(into=into, result_offset=30)
        assert defined(p.tile, 1).sum() == left


def test_results_may_be_written_over_activations():
    rng = np.random.default_rng(7)
    p = Product(WIDE, tensor(rng, FP4, 2, 64), tensor(rng, FP4, 3, 64))
    p.run(to=0)
    assert get_words(p.tile, 0, 6).tolist() == p.expected().reshape(-1).tolist()


# Chains


def cuts(rng, total, parts):
    """Random sizes of parts, the first ones at least 1."""
    inner = np.sort(rng.choice(np.arange(1, total), parts - 1, replace=False))
    return np.diff([0, *inner, total]).tolist()


@each_config
@each_pair
def test_chains_give_the_bits_of_the_whole(config, pair):
    """Any cut of the blocks and any cut of the beats, sources in any registers."""
    rng = np.random.default_rng(8)
    neurons = min(config.group_outputs, 11)
    p = Product(config, tensor(rng, pair[0], 3, 290), tensor(rng, pair[1], neurons, 290))
    pairs_of_beats = -(-p.fields["beats"] // 2)
    for parts in (2, 3, 5):
        blocks, start, program, address, left = cuts(rng, 10, parts), 0, [], 0, p.fields["beats"]
        beats = (
            [2 * n for n in cuts(rng, pairs_of_beats, parts)]
            if pairs_of_beats >= parts
            else ([left] + [0] * (parts - 1))
        )
        for index, count in enumerate(blocks):
            register = 5 + index
            part = slice(start, start + count)
            set_blocks(
                p.tile, register,
                MXTensor(p.a.codes[:, part], p.a.scales[:, part], pair[0], 32 * count), index,
            )  # fmt: skip
            bring = min(beats[index], left)
            program.append(
                p.op(
                    blocks=count, clear=index == 0, drain=index == parts - 1, source=register,
                    offset=index, pitch=count, address=address if bring else 0xFFFFFFF1,
                    beats=bring,
                )
            )  # fmt: skip
            start, left, address = start + count, left - bring, address + bring * config.beat_stride
        execute(p.tile, *program)
        np.testing.assert_array_equal(p.results(), p.expected())


def test_only_the_last_of_a_chain_writes():
    rng = np.random.default_rng(9)
    p = Product(WIDE, tensor(rng, FP4, 1, 64), tensor(rng, FP4, 3, 64))
    first = p.op(blocks=1, drain=False)
    last = p.op(blocks=1, clear=False, beats=0, offset=1)
    set_words(p.tile, 1, np.zeros(40))
    execute(p.tile, first, op("readv", to=S(1), source=1), last)
    np.testing.assert_array_equal(p.results(), p.expected())


def test_all_of_a_chain_read_the_same_maxima():
    """They are what blocks are aligned with, so they are there from the first one on."""
    rng = np.random.default_rng(9)
    p = Product(WIDE, tensor(rng, FP4, 1, 64), tensor(rng, FP4, 3, 64))
    first = p.op(blocks=1, drain=False, maxima=5)
    last = p.op(blocks=1, clear=False, beats=0, offset=1, maxima=5)
    cause = "r5 is read at row 0, which was never written."
    check_fault(lambda: p.tile, [first], cause)
    set_rows(p.tile, 5, [200])
    copy = op("vector", a_row=True, a=0, rows=1, output=2, to=5)
    cause = "The maximum of row 0 is not what it was when the chain began."
    check_fault(lambda: p.tile, [first, copy, last], cause)


# Ranges


@pytest.mark.parametrize("step", [False, True])
@pytest.mark.parametrize(("lo", "hi"), [(0, 9), (2, 5), (-3, 4), (6, 500), (5, 5), (7, 2)])
def test_ranges(lo, hi, step):
    rng = np.random.default_rng(10)
    p = Product(WIDE, tensor(rng, FP4, 6, 64), tensor(rng, FP4, 9, 64))
    p.run(heads=2, pitch=4, stride=2, maxima_pitch=2, ranged=True, lo=lo, hi=hi, range_step=step,
          result_pitch=18, result_stride=9)  # fmt: skip
    expected = p.expected()
    for row, column in itertools.product(range(6), range(9)):
        token = row // 2 if step else 0
        if not lo + token <= column < hi + token:
            expected[row, column] = 0
    np.testing.assert_array_equal(p.results(), expected)


@pytest.mark.parametrize("length", [32, 96])
def test_out_of_range_the_operand_may_hold_anything(length):
    """Keys that were never written: scales above their maxima, NaN, whatever."""
    rng = np.random.default_rng(11)
    a, w = tensor(rng, INT8, 2, length, nan=0), tensor(rng, FP4, 32, length)
    p = Product(WIDE, a, w)
    garbage = rng.integers(0, 256, LIMIT, np.uint8)
    layout = WeightLayout(32, length, FP4, 1, WIDE.acc_depth)
    beats = garbage[: layout.beats.total * 16].reshape(-1, 16)
    clean = p.tile.memory.peek(0, beats.size).reshape(-1, 16)
    neuron = np.arange(10)
    for block in range(layout.blocks):
        place = layout.scale_place(neuron, block)
        beats[place] = clean[place]
        beats[layout.element_place(neuron, block).beat] = clean[
            layout.element_place(neuron, block).beat
        ]
    if layout.blocks > 1:
        place = layout.maximum_place(neuron)
        beats[place] = clean[place]
    p.tile.memory.poke(0, beats)
    p.run(ranged=True, lo=0, hi=10)
    expected = p.expected()
    expected[:, 10:] = 0
    np.testing.assert_array_equal(p.results(), expected)


# The greatest result


def argmax_product(values):
    """A product whose results are `values` [rows, outputs], small integers or NaN."""
    values = np.asarray(values, np.float32)
    rows, outputs = values.shape
    codes = np.zeros((rows, 1, 32), np.int64)
    codes[np.arange(rows), 0, np.arange(rows)] = 1
    a = MXTensor.from_elements(codes, np.full((rows, 1), 133, np.uint8), INT8)
    codes = np.zeros((outputs, 1, 32), np.int64)
    codes[:, 0, :rows] = np.nan_to_num(values).T
    scales = np.where(np.isnan(values).any(0), 255, 133).astype(np.uint8)[:, None]
    return Product(WIDE, a, MXTensor.from_elements(codes, scales, INT8))


@pytest.mark.parametrize(
    ("row", "index"),
    [
        ([1, 5, 3], 1),
        ([4, 4, 4], 0),
        ([-5, -2, -9, -2], 1),
        ([0, -1, 0], 0),
        ([np.nan, -100], 1),
        ([np.nan, np.nan], 0),
        ([3], 0),
    ],
)
def test_the_greatest_result_and_its_index(row, index):
    p = argmax_product([row]).run(argmax=True, best=3, best_index=4, argmax_base=1000)
    assert get_rows(p.tile, 4, 1)[0] == 1000 + index
    best = get_rows(p.tile, 3, 1)
    assert best[0] == (NAN if np.isnan(row[index]) else bits_of(np.float32(row[index])))


def test_argmax_of_several_rows_without_results():
    p = argmax_product([[1, 7, 3], [9, 2, 9], [-1, -2, -3]])
    p.run(argmax=True, best=3, best_index=4, results=False)
    assert get_rows(p.tile, 4, 3).tolist() == [1, 0, 0]
    assert get_rows(p.tile, 3, 3).view(np.float32).tolist() == [7, 9, -1]
    assert not defined(p.tile, 1).any()


def test_out_of_range_counts_as_zero():
    p = argmax_product([[-5, 60, -2]]).run(
        argmax=True, best=3, best_index=4, ranged=True, lo=2, hi=3
    )
    assert get_rows(p.tile, 4, 1)[0] == 0
    assert get_rows(p.tile, 3, 1)[0] == 0


@pytest.mark.parametrize(
    ("old", "row", "wins"),
    [
        (5, [3, 4], "old"),
        (5, [3, 6], 1),
        (5, [5, 5], "old"),
        (-1, [0, 0], 0),
        (-0.0, [0, -1], "old"),
        (np.nan, [np.nan, np.nan], "old"),
        (np.nan, [-100, np.nan], 0),
        (-np.inf, [np.nan, np.nan], "old"),
    ],
)
def test_argmax_goes_on_from_what_was_found(old, row, wins):
    """Among equals the old one wins, which has the lower index."""
    p = argmax_product([row])
    set_rows(p.tile, 3, np.float32([old]))
    set_rows(p.tile, 4, np.array([77]))
    p.run(argmax=True, best=3, best_index=4, argmax_resume=True, argmax_base=100)
    best, index = get_rows(p.tile, 3, 1)[0], get_rows(p.tile, 4, 1)[0]
    if wins == "old":
        assert (best, index) == (bits_of(np.float32(old)), 77)
    else:
        assert (best, index) == (bits_of(np.float32(row[wins])), 100 + wins)


def test_argmax_in_pieces_is_that_of_the_whole():
    rng = np.random.default_rng(12)
    values = rng.integers(-4, 5, (4, 60)).astype(np.float32)
    whole = argmax_product(values).run(argmax=True, best=3, best_index=4)
    rows = [get_rows(whole.tile, register, 4).tolist() for register in (3, 4)]
    assert rows[1] == values.argmax(1).tolist()
    pieces = argmax_product(values)
    for start in range(0, 60, 20):
        piece = argmax_product(values[:, start : start + 20])
        pieces.tile.memory.poke(0, piece.tile.memory.peek(0, 64 * 1024))
        pieces.run(
            outputs=20, beats=piece.fields["beats"], argmax=True, best=3, best_index=4,
            argmax_base=start, argmax_resume=start > 0, results=False,
        )  # fmt: skip
    assert [get_rows(pieces.tile, register, 4).tolist() for register in (3, 4)] == rows


# V


def value_product(config, pair, rows, positions, first, outputs, last, heads=1, seed=0):
    """Probabilities in v0 and r0, V from address 0 on; returns tile, fields, operands."""
    rng = np.random.default_rng(seed)
    p, v = tensor(rng, pair[0], rows, positions, nan=0.02), tensor(rng, pair[1], positions, 32)
    tokens = np.arange(rows) // heads
    seen = last + tokens + 1  # later positions are +0 in the probabilities
    codes = p.codes.copy()
    codes.reshape(rows, -1)[np.arange(codes[0].size) >= seen[:, None]] = 0
    p = MXTensor(codes, p.scales, pair[0], positions)
    capacity = 32 * -(-positions // 32)
    layout = ValueLayout(capacity, pair[1], config.pseudo_channels)
    beats, _ = pack_values(v, layout)
    tile = make_tile(config, LIMIT)
    garbage = rng.integers(0, 256, beats[0].shape, np.uint8)
    written = layout.element_place(np.arange(positions)[:, None], np.arange(pair[1].planes))
    for beat, byte in zip(*(np.ravel(x) for x in np.broadcast_arrays(*written)), strict=True):
        garbage[beat, byte : byte + 16] = beats[0][beat, byte : byte + 16]
    tile.memory.poke(0, garbage)  # what was not written yet holds anything
    set_blocks(tile, 0, p)
    set_rows(tile, 0, p.maximum_scale)
    fields = {
        "address": 0, "beats": len(beats[0]), "outputs": outputs, "blocks": p.blocks,
        "last": last, "last_step": True, **formats(*pair), "transpose": True,
        "tile_row": first // config.pseudo_channels, "rows": rows, "heads": heads, "source": 0,
        "stride": p.blocks, "pitch": p.blocks * heads, "maxima": 0, "maxima_pitch": heads,
        "to": 1, "result_stride": outputs, "result_pitch": outputs * heads,
    }  # fmt: skip
    return tile, fields, p, v, tokens


def expected_values(config, p, v, tokens, last, first, outputs):
    operand = v.column_operand(0)[first : first + outputs]
    counts = (last + tokens) // 32 + 1
    return bits_of(window_matmul(p, operand, config.acc_bits, blocks=counts))


@each_config
@each_pair
@pytest.mark.parametrize(("positions", "last"), [(1, 0), (32, 31), (33, 30), (100, 97), (100, 94)])
def test_probabilities_times_values(config, pair, positions, last):
    """Every tile row there is; where acc_depth·P is below 32 a tile of V goes in several times."""
    size = min(32, config.group_outputs)
    rows, heads = (4, 2) if positions >= last + 2 else (1, 1)
    for first in range(0, 32, size - size % config.pseudo_channels):
        outputs = min(size, 32 - first)
        tile, fields, p, v, tokens = value_product(
            config, pair, rows, positions, first, outputs, last, heads, first
        )
        execute(tile, op("matrix", **fields))
        got = get_words(tile, 1, rows * outputs).reshape(rows, outputs)
        np.testing.assert_array_equal(
            got, expected_values(config, p, v, tokens, last, first, outputs)
        )


def test_every_row_has_the_anchor_of_its_own_position():
    """Tokens on both sides of a block's end: the window of the first is a bit lower."""
    config = WIDE.replace(acc_bits=32)
    differs = False
    for seed in range(6):
        tile, fields, p, v, tokens = value_product(
            config, (INT8, INT8), 4, 40, 0, 32, 30, seed=seed
        )
        execute(tile, op("matrix", **fields))
        got = get_words(tile, 1, 128).reshape(4, 32)
        np.testing.assert_array_equal(got, expected_values(config, p, v, tokens, 30, 0, 32))
        same = bits_of(window_matmul(p, v.column_operand(0), 32, blocks=2))
        np.testing.assert_array_equal(got[2:], same[2:])
        differs |= bool((got[:2] != same[:2]).any())
    assert differs


def test_values_in_a_chain():
    config = CONFIGS["two columns"]
    tile, fields, p, v, tokens = value_product(config, (INT8, FP4), 2, 150, 8, 8, 147)
    each = fields["beats"] // 5
    program = [
        op(
            "matrix",
            **{
                **fields, "blocks": count, "offset": start, "clear": start == 0,
                "drain": start + count == 5, "beats": each * count,
                "address": each * start * config.beat_stride,
            },
        )
        for start, count in ((0, 2), (2, 1), (3, 2))
    ]  # fmt: skip
    execute(tile, *program)
    got = get_words(tile, 1, 16).reshape(2, 8)
    np.testing.assert_array_equal(got, expected_values(config, p, v, tokens, 147, 8, 8))


# Weights that do not change


def test_constant_operands_are_unpacked_once_and_again_when_they_change():
    rng = np.random.default_rng(13)
    p = Product(WIDE, tensor(rng, FP4, 2, 64), tensor(rng, FP4, 9, 64))
    p.tile.memory.constant_end = 4096
    for _ in range(2):
        np.testing.assert_array_equal(p.run().results(), p.expected())
    other = Product(WIDE, p.a, tensor(rng, FP4, 9, 64))
    p.tile.memory.poke(0, other.tile.memory.peek(0, 4096))
    np.testing.assert_array_equal(p.run().results(), other.expected())


def test_an_operand_that_is_constant_in_part_is_not():
    """Its last beats lie behind the end of what is constant, where writing is not noticed."""
    rng = np.random.default_rng(14)
    a, w = (tensor(rng, FP4, rows, 64, nan=0, zero=0) for rows in (2, 9))
    p = Product(WIDE, a, w)
    p.tile.memory.constant_end = 64
    p.run()
    codes = p.w.codes.copy()
    codes[8, 1] ^= 7
    other = Product(WIDE, p.a, MXTensor(codes, p.w.scales, FP4, 64))
    np.testing.assert_array_equal(other.tile.memory.peek(0, 64), p.tile.memory.peek(0, 64))
    p.tile.memory.poke(64, other.tile.memory.peek(64, 4096))
    np.testing.assert_array_equal(p.run().results(), other.expected())
    assert (other.expected() != p.expected()).any()


# Faults

RNG = np.random.default_rng(15)
OPERANDS = tensor(RNG, INT8, 2, 90, nan=0, zero=0), tensor(RNG, FP4, 5, 90, nan=0, zero=0)


def product(config=WIDE):
    p = Product(config, *OPERANDS)
    set_rows(p.tile, 5, np.full(4, 256))
    set_rows(p.tile, 6, np.full(4, 100))
    set_words(p.tile, 6, np.zeros(100))
    return p


CHAINED = {"blocks": 1, "drain": False}
GO_ON = {"blocks": 2, "offset": 1, "clear": False, "beats": 0}


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ([{"rows": 0}], "rows is 0, the engine takes 1 to 4 of these activations."),
        ([{"rows": 5}], "rows is 5, the engine takes 1 to 4 of these activations."),
        ([{"heads": 3}], "rows is 2, it must be a multiple of heads, which is 3."),
        ([{"blocks": 0}], "blocks is 0, it must be 1 to 96."),
        ([{"blocks": 97}], "blocks is 97, it must be 1 to 96."),
        ([{"outputs": 0}], "outputs is 0, it must be at least 1."),
        ([{**CHAINED, "outputs": 33}], "outputs is 33, in a chain it must be at most 32."),
        ([{"transpose": True, "outputs": 33}],
         "outputs is 33, with transpose it must be at most 32."),
        ([{"last_step": True}], "last_step is set, without transpose it must not be."),
        ([{"last": 95}, {"last": 96}], "last is 96, but there are 3 blocks along K."),
        ([{"last": 63}], "last is 63, but there are 3 blocks along K."),
        ([{"blocks": 2}], "last is 89, but there are 2 blocks along K."),
        ([{"address": 16}], "Address 0x10 is not an even beat."),
        ([{"address": 8}], "Address 0x8 is not an even beat."),
        ([{"beats": 0}], "beats is 0, this operand has 17."),
        ([{"beats": 18}], "beats is 18, this operand has 17."),
        ([{"outputs": 6}], "beats is 17, this operand has 21."),
        ([{"address": LIMIT - 32}],
         f"272 bytes from address {LIMIT - 32:#x} are not all in memory, which ends at 0x20000."),
        ([{"activation": MatrixFormat.MXFP4}],
         "v0 is MXINT8 blocks at slot 0, word 0, where MXFP4 blocks are read."),
        ([{"source": 6}], "v6 is words at slot 0, word 0, where MXINT8 blocks are read."),
        ([{"offset": 4}], "v0 is undefined at slot 1, word 16, where MXINT8 blocks are read."),
        ([{"maxima": 4}], "r4 is read at row 0, which was never written."),
        ([{"maxima": 5}], "r5 holds 256, scales are 0 to 255."),
        ([{"maxima": 6}], "The maximum of row 0 is less than one of its scales."),
        ([{"result_offset": 8188}], "v1 has 8192 words, 5 from word 8193 are wanted."),
        ([{"argmax": True, "best": 3, "best_index": 3}], "best and best_index are both r3."),
        ([{"argmax": True, "best": 3, "best_index": 4, "argmax_resume": True}],
         "r3 is read at row 0, which was never written."),
        ([{**GO_ON}], "There is no chain to continue; clear is not set."),
        ([CHAINED, {}], "The chain before it was not drained."),
        ([CHAINED, {**GO_ON, "maxima_offset": 1}],
         "maxima_offset is not that of the chain's first instruction."),
        ([CHAINED, {**GO_ON, "mask": 1}], "mask is not that of the chain's first instruction."),
        ([CHAINED, {**GO_ON, "last": 88}], "last is not that of the chain's first instruction."),
        ([CHAINED, {**GO_ON, "offset": 9}],
         "v0 is undefined at slot 2, word 8, where MXINT8 blocks are read."),
        ([CHAINED, {**GO_ON, "blocks": 1}], "last is 89, but there are 2 blocks along K."),
        ([CHAINED, {**GO_ON, "beats": 2}], "beats is 19, this operand has 17."),
        ([CHAINED, {**GO_ON, "result_offset": 8188}],
         "v1 has 8192 words, 5 from word 8193 are wanted."),
    ],
)  # fmt: skip
def test_faults(changes, cause):
    check_fault(lambda: product().tile, [product().op(**change) for change in changes], cause)


def test_the_stored_maximum_of_a_neuron():
    def spoiled():
        p = product()
        layout = WeightLayout(5, 90, FP4, 1, WIDE.acc_depth)
        beat, byte = layout.maximum_place(3)
        p.tile.memory.poke(int(16 * beat + byte), np.uint8([100]))
        return p.tile

    p = product()
    check_fault(spoiled, [p.op()], "The maximum of neuron 3 is less than one of its scales.")
    execute(spoiled(), p.op(ranged=True, lo=0, hi=3))
    cause = "The maximum of neuron 3 is less than one of its scales."
    check_fault(spoiled, [p.op(ranged=True, lo=0, hi=4)], cause)


def test_faults_of_transposed_operands():
    config = CONFIGS["two columns"]

    def make():
        return value_product(config, (INT8, FP4), 2, 40, 0, 8, 37)[0]

    fields = value_product(config, (INT8, FP4), 2, 40, 0, 8, 37)[1]
    for changes, cause in [
        ({"outputs": 9}, "outputs is 9, with transpose it must be at most 8."),
        ({"tile_row": 13}, "outputs 26 to 33 are not all in a tile of V."),
        ({"beats": 30}, "beats is 30, this operand has 32."),
        ({"last": 30}, "last is 30, but there are blocks behind it that are not zero."),
    ]:
        check_fault(make, [op("matrix", **{**fields, **changes})], cause)
    bare = config.replace(transposer=False)
    cause = "transpose is set, the engine has no transposer."
    check_fault(lambda: make_tile(bare), [op("matrix", **fields)], cause)


def test_a_program_must_not_stop_within_a_chain():
    p = product()
    check_fault(
        lambda: product().tile, [p.op(**CHAINED), op("stop")], "The last chain was not drained."
    )


def test_a_new_program_begins_without_a_chain():
    p = product()
    with pytest.raises(ValueError, match="was not drained"):
        p.run(**CHAINED)
    np.testing.assert_array_equal(p.run().results(), p.expected())


def test_a_stream_keeps_to_its_way():
    """Operands must not be dirty in L1, and appends must be fenced."""
    p = product()
    store = op("sw", value=S(0), address=4)
    check_fault(
        lambda: product().tile,
        [store, op("fence"), p.op()],
        "The program streams what was written through L1, in the line at 0x0.",
    )
    append = op("appendmax", source=0, row=0, address=100)
    check_fault(
        lambda: product().tile,
        [append, p.op()],
        "The program streams what was stored since the last fence, in the line at 0x60.",
    )


def test_nano_multiplies_too():
    rng = np.random.default_rng(16)
    p = Product(NANO, tensor(rng, INT8, 1, 300), tensor(rng, FP4, 40, 300))
    np.testing.assert_array_equal(p.run().results(), p.expected())
