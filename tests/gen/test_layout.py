"""The packer: against a packer that follows the text step by step, and against bytes by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gen.layout import (
    Beats,
    ValueLayout,
    WeightLayout,
    key_capacity,
    key_layout,
    pack_keys,
    pack_values,
    pack_weights,
    unpack_values,
    unpack_weights,
)
from gen.mx import MXTensor
from rtl.formats import Format

FP4, INT8 = Format.MXFP4, Format.MXINT8

formats = st.sampled_from(list(Format))
channels = st.sampled_from([1, 2, 3, 6, 8])
depths = st.sampled_from([1, 5, 32])
seeds = st.integers(0, 2**32 - 1)
examples = settings(max_examples=150, deadline=None)


def tensor(seed, fmt, *shape):
    rng = np.random.default_rng(seed)
    length = shape[-1]
    blocks = -(-length // 32)
    codes = rng.integers(0, 16 if fmt is FP4 else 256, (*shape[:-1], blocks, 32), np.uint8)
    codes[..., -1, length - 32 * (blocks - 1) :] = 0
    return MXTensor(codes, rng.integers(0, 256, codes.shape[:-1], np.uint8), fmt, length)


def nibbles(codes, fmt):
    """The 16-byte pieces of a block: one for MXFP4, high and low for MXINT8."""
    parts = [codes] if fmt is FP4 else [[c // 16 for c in codes], [c % 16 for c in codes]]
    return [bytes(p[i] + 16 * p[i + 1] for i in range(0, 32, 2)) for p in parts]


def beats_of(pieces, beat_bytes):
    """Bytes, padded with zeros to whole beats."""
    data = b"".join(pieces)
    data += bytes(-len(data) % beat_bytes)
    return [data[i : i + beat_bytes] for i in range(0, len(data), beat_bytes)]


def reference_weights(weights, p, depth):
    """Design of the layout, step by step; returns beats, and how many of each kind."""
    n = weights.blocks
    neurons = [
        [(int(s), nibbles(c.tolist(), weights.format)) for s, c in zip(scales, codes, strict=True)]
        for scales, codes in zip(weights.scales, weights.codes, strict=True)
    ]
    zero = (0, nibbles([0] * 32, weights.format))
    while len(neurons) % p:
        neurons.append([zero] * n)
    out, kinds = [], {"maximum": 0, "scale": 0, "element": 0}

    def emit(kind, beats):
        out.extend(beats)
        kinds[kind] += len(beats)

    for start in range(0, len(neurons), depth * p):
        group = neurons[start : start + depth * p]
        if n > 1:
            maxima = [max([s for s, _ in row if s < 255], default=0) for row in group]
            emit("maximum", beats_of([bytes(maxima)], 16 * p))
        sequence = [row[k] for k in range(n) for row in group]
        for s in range(0, len(sequence), 16 * p):
            superblock = sequence[s : s + 16 * p]
            emit("scale", beats_of([bytes(scale for scale, _ in superblock)], 16 * p))
            for r in range(0, len(superblock), p):
                for plane in range(weights.format.planes):
                    row = [pieces[plane] for _, pieces in superblock[r : r + p]]
                    emit("element", beats_of(row, 16 * p))
    return np.array([list(beat) for beat in out], np.uint8), kinds


@examples
@given(seeds, formats, st.integers(1, 30), st.integers(1, 130), channels, depths)
def test_weights_are_packed_as_the_text_says_and_come_back(seed, fmt, n, k, p, depth):
    weights = tensor(seed, fmt, n, k)
    packed = pack_weights(weights, pseudo_channels=p, acc_depth=depth)
    expected, kinds = reference_weights(weights, p, depth)
    np.testing.assert_array_equal(packed, expected)
    layout = WeightLayout(n, k, fmt, p, depth)
    assert layout.beats == Beats(**kinds)
    assert unpack_weights(packed, layout) == weights


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("p", [1, 6])
def test_several_groups_of_the_default_depth(fmt, p):
    weights = tensor(p, fmt, 70 * p - 1, 600)
    packed = pack_weights(weights, pseudo_channels=p, acc_depth=32)
    expected, _ = reference_weights(weights, p, 32)
    np.testing.assert_array_equal(packed, expected)
    assert unpack_weights(packed, WeightLayout(70 * p - 1, 600, fmt, p, 32)) == weights


def counting(fmt, neurons, length, scales):
    """Codes count 1, 2, 3 … along each row, from the neuron's number on."""
    blocks = -(-length // 32)
    codes = np.zeros((neurons, blocks * 32), np.uint8)
    codes[:, :length] = np.arange(length) + np.arange(1, neurons + 1)[:, None]
    codes = codes % 16 if fmt is FP4 else codes
    return MXTensor(codes.reshape(neurons, blocks, 32), np.array(scales, np.uint8), fmt, length)


def hexes(packed):
    return [bytes(beat).hex(" ", 16) for beat in packed]


def test_mxfp4_by_hand():
    """P = 2, depth 1: two groups of two neurons, the fourth neuron being padding."""
    weights = counting(FP4, 3, 33, [[100, 101], [102, 255], [104, 103]])
    one = "21436587a9cbed0f21436587a9cbed0f"  # neuron 0: 1 2 3 4 …
    two = "32547698badcfe1032547698badcfe10"
    three = "436587a9cbed0f21436587a9cbed0f21"
    none = "00" * 16
    assert hexes(pack_weights(weights, pseudo_channels=2, acc_depth=1)) == [
        f"6566{'00' * 14} {none}",  # maxima of neurons 0 and 1: 101, and 102 beside a NaN
        f"646665ff{'00' * 12} {none}",  # scales: block 0 of both neurons, block 1 of both
        f"{one} {two}",
        f"01{'00' * 15} 02{'00' * 15}",  # element 32 alone
        f"6800{'00' * 14} {none}",
        f"68006700{'00' * 12} {none}",
        f"{three} {none}",
        f"03{'00' * 15} {none}",
    ]


def test_mxint8_by_hand():
    """P = 1, depth 2, one block per row: no maxima, high plane then low plane of each row."""
    codes = np.zeros((2, 1, 32), np.uint8)
    codes[0, 0, :3] = 0x12, 0x34, 0xF6
    codes[1, 0, 0] = 0x80
    weights = MXTensor(codes, np.array([[7], [9]], np.uint8), INT8, 3)
    assert hexes(pack_weights(weights, pseudo_channels=1, acc_depth=2)) == [
        f"0709{'00' * 14}",
        f"310f{'00' * 14}",
        f"4206{'00' * 14}",
        f"08{'00' * 15}",
        f"00{'00' * 15}",
    ]


def test_the_last_superblock_ends_with_its_last_block_row():
    """P = 1, depth 5, 4 blocks: 20 block rows are a superblock of 16 and one of 4."""
    layout = WeightLayout(5, 128, FP4, 1, 5)
    assert layout.beats == Beats(maximum=1, scale=2, element=20)
    packed = pack_weights(tensor(0, FP4, 5, 128), pseudo_channels=1, acc_depth=5)
    assert packed.shape == (23, 16)
    scale_beat = packed[1 + 17]
    assert not scale_beat[4:].any()  # the scale beat is whole, its unused bytes are 0


@pytest.mark.parametrize("fmt", Format)
def test_rows_of_one_block_have_no_maximum_beats(fmt):
    layout = WeightLayout(64, 32, fmt, 1, 32)
    assert layout.beats == Beats(maximum=0, scale=4, element=64 * fmt.planes)
    with pytest.raises(ValueError, match="blocks is 1, only rows of more than one block"):
        layout.maximum_place(0)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (WeightLayout(512, 512, FP4, 1, 32), Beats(16 * 2, 16 * 32, 512 * 16)),
        (WeightLayout(512, 512, INT8, 1, 32), Beats(16 * 2, 16 * 32, 512 * 32)),
        (WeightLayout(2880, 2880, FP4, 6, 64), Beats(7 * 4 + 2, 7 * 360 + 180, 480 * 90)),
        (WeightLayout(1, 33, FP4, 8, 32), Beats(1, 1, 2)),
    ],
)
def test_beat_counts(layout, expected):
    assert layout.beats == expected
    assert layout.beats.total == sum(expected)


@examples
@given(formats, st.integers(1, 200), st.integers(1, 200), channels, depths)
def test_beat_counts_are_their_formula(fmt, n, k, p, depth):
    layout = WeightLayout(n, k, fmt, p, depth)
    blocks = -(-k // 32)
    sizes = [min(depth * p, layout.padded_neurons - g * depth * p) for g in range(layout.groups)]
    assert layout.padded_neurons == -(-n // p) * p == sum(sizes)
    assert layout.beats == Beats(
        maximum=sum(-(-size // (16 * p)) for size in sizes) if blocks > 1 else 0,
        scale=sum(-(-blocks * size // (16 * p)) for size in sizes),
        element=blocks * layout.padded_neurons // p * fmt.planes,
    )


def test_kekzl_imp_567_the_packer_pairs_neighbours():
    """kekzl/imp#567: split (j, j + 16) and linear nibbles were mixed up."""
    packed = pack_weights(counting(FP4, 1, 32, [[0]]), pseudo_channels=1, acc_depth=1)
    assert packed[1, 0] == 0x21


def test_odyssey_1909_the_length_comes_back():
    """Odyssey#1909: 33 elements came back as 64."""
    weights = tensor(1, INT8, 2, 33)
    packed = pack_weights(weights, pseudo_channels=2, acc_depth=5)
    assert unpack_weights(packed, WeightLayout(2, 33, INT8, 2, 5)).length == 33


# K cache


@examples
@given(seeds, formats, st.integers(0, 40), st.integers(1, 70), channels, depths)
def test_appending_a_key_touches_its_own_bytes_only(seed, fmt, positions, head_dim, p, depth):
    keys = tensor(seed, fmt, positions + 1, head_dim)
    capacity = key_capacity(positions + 1, pseudo_channels=p, acc_depth=depth)
    layout = key_layout(capacity, head_dim, fmt, pseudo_channels=p, acc_depth=depth)
    after = pack_keys(keys, layout)
    before = pack_keys(keys[:-1], layout)
    own = np.zeros(after.shape, bool)
    if layout.blocks > 1:
        own[layout.maximum_place(positions)] = True
    for block in range(layout.blocks):
        own[layout.scale_place(positions, block)] = True
        for plane in range(fmt.planes):
            beat, byte = layout.element_place(positions, block, plane)
            assert not own[beat, byte : byte + 16].any()
            own[beat, byte : byte + 16] = True
    np.testing.assert_array_equal(before[~own], after[~own])
    assert not before[own].any()
    everything = unpack_weights(after, layout)
    assert everything[: positions + 1] == keys
    assert not everything[positions + 1 :].codes.any()


def test_a_full_key_cache_is_a_weight_matrix():
    keys = tensor(3, INT8, 64, 80)
    layout = key_layout(64, 80, INT8, pseudo_channels=2, acc_depth=32)
    np.testing.assert_array_equal(
        pack_keys(keys, layout), pack_weights(keys, pseudo_channels=2, acc_depth=32)
    )


# V cache


def reference_values(chunk, capacity, p):
    """One 32-wide chunk of V, step by step."""
    out = []
    blocks = [nibbles(c.tolist(), chunk.format) for c in chunk.codes[:, 0]]
    zero = nibbles([0] * 32, chunk.format)
    blocks += [zero] * (capacity - len(blocks))
    for start in range(0, capacity, 32):
        group = blocks[start : start + 32]
        while len(group) % p:
            group.append(zero)
        for r in range(0, len(group), p):
            for plane in range(chunk.format.planes):
                out += beats_of([pieces[plane] for pieces in group[r : r + p]], 16 * p)
    return np.array([list(beat) for beat in out], np.uint8)


@examples
@given(seeds, formats, st.integers(1, 70), st.integers(1, 70), st.integers(0, 2), channels)
def test_values_are_packed_as_the_text_says_and_come_back(seed, fmt, positions, dim, spare, p):
    values = tensor(seed, fmt, positions, dim)
    capacity = 32 * (-(-positions // 32) + spare)
    layout = ValueLayout(capacity, fmt, p)
    beats, scales = pack_values(values, layout)
    assert beats.shape == (values.blocks, layout.beats, 16 * p)
    for chunk in range(values.blocks):
        one = MXTensor(values.codes[:, chunk, None], values.scales[:, chunk, None], fmt, 32)
        np.testing.assert_array_equal(beats[chunk], reference_values(one, capacity, p))
        np.testing.assert_array_equal(scales[chunk, :positions], values.scales[:, chunk])
        assert not scales[chunk, positions:].any()
    assert unpack_values(beats, scales, layout, positions, dim) == values


def test_values_by_hand():
    """P = 3: 32 positions are padded to 33, so a group is 11 block rows of two planes."""
    codes = np.zeros((33, 1, 32), np.uint8)
    codes[:, 0, 0] = np.arange(33) + 0x20
    values = MXTensor(codes, np.arange(33, dtype=np.uint8)[:, None], INT8, 32)
    layout = ValueLayout(64, INT8, 3)
    assert (layout.group_beats, layout.beats) == (22, 44)
    beats, scales = pack_values(values, layout)
    first = beats[0, :, ::16].tolist()  # the first byte of each column
    assert first[:4] == [[2, 2, 2], [0, 1, 2], [2, 2, 2], [3, 4, 5]]
    assert first[20:24] == [[3, 3, 0], [14, 15, 0], [4, 0, 0], [0, 0, 0]]
    assert scales[0].tolist() == [*range(33), *[0] * 31]


def test_values_of_several_heads_are_packed_head_by_head():
    values = tensor(4, FP4, 3, 40, 64)
    layout = ValueLayout(64, FP4, 6)
    beats, scales = pack_values(values, layout)
    assert beats.shape == (3, 2, 2 * 6, 96)
    assert scales.shape == (3, 2, 64)
    for head in range(3):
        alone = pack_values(values[head], layout)
        np.testing.assert_array_equal(beats[head], alone[0])
        np.testing.assert_array_equal(scales[head], alone[1])
    assert unpack_values(beats, scales, layout, 40, 64) == values


@examples
@given(seeds, formats, st.integers(0, 63), channels)
def test_appending_a_value_touches_its_own_bytes_only(seed, fmt, positions, p):
    values = tensor(seed, fmt, positions + 1, 32)
    layout = ValueLayout(64, fmt, p)
    after, _ = pack_values(values, layout)
    before, _ = pack_values(values[:-1], layout)
    own = np.zeros(after.shape[1:], bool)
    for plane in range(fmt.planes):
        beat, byte = layout.element_place(positions, plane)
        own[beat, byte : byte + 16] = True
    np.testing.assert_array_equal(before[0][~own], after[0][~own])
    assert not before[0][own].any()


# Bad input

LAYOUT = WeightLayout(4, 64, FP4, 1, 4)
KEYS = key_layout(4, 64, FP4, pseudo_channels=1, acc_depth=4)
VALUES = ValueLayout(32, FP4, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WeightLayout(0, 1, FP4, 1, 1), "neurons is 0, it must be at least 1"),
        (lambda: WeightLayout(1, 1, FP4, 0, 1), "pseudo_channels is 0, it must be at least 1"),
        (lambda: WeightLayout(1, 1, FP4, 1, -1), "acc_depth is -1, it must be at least 1"),
        (lambda: ValueLayout(33, FP4, 1), "capacity is 33, it must be a multiple of 32"),
        (lambda: ValueLayout(32, FP4, 0), "pseudo_channels is 0, it must be at least 1"),
        (
            lambda: key_layout(6, 64, FP4, pseudo_channels=2, acc_depth=2),
            "capacity is 6, it must be a multiple of acc_depth·pseudo_channels = 4",
        ),
        (lambda: LAYOUT.scale_place(4, 0), "neuron is 4, it must be 0 to 3"),
        (lambda: LAYOUT.maximum_place([1, -1]), "neuron is -1, it must be 0 to 3"),
        (lambda: LAYOUT.element_place(0, [0, 2]), "block is 2, it must be 0 to 1"),
        (lambda: VALUES.element_place(32), "position is 32, it must be 0 to 31"),
        (
            lambda: pack_weights(tensor(0, FP4, 64), pseudo_channels=1, acc_depth=1),
            r"weights has shape \(64,\), it must be \[N, K\]",
        ),
        (
            lambda: unpack_weights(np.zeros((11, 16), np.uint8), LAYOUT),
            r"beats is uint8 \(11, 16\), for this layout it must be uint8 \(10, 16\)",
        ),
        (lambda: pack_keys(tensor(0, FP4, 5, 64), KEYS), "keys has 5 positions, the cache holds 4"),
        (
            lambda: pack_keys(tensor(0, INT8, 4, 64), KEYS),
            "keys has 64 elements of mxint8 in a row, the cache has 64 of mxfp4",
        ),
        (lambda: pack_values(tensor(0, FP4, 33, 32), VALUES), "values has 33 positions"),
        (lambda: pack_values(tensor(0, INT8, 3, 32), VALUES), "values has format mxint8"),
        (lambda: pack_values(tensor(0, FP4, 32), VALUES), r"values has shape \(32,\)"),
        (
            lambda: unpack_values(
                np.zeros((1, 31, 16), np.uint8), np.zeros((1, 32), np.uint8), VALUES, 32, 32
            ),
            r"beats is uint8 \(1, 31, 16\), for this layout it must be uint8 \(1, 32, 16\)",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
