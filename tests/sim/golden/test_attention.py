"""Attention: against scalars, its masks, its heads, and what must not show in its bits."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from gen.models.precision import Precision
from gen.mx import MXTensor
from gen.quantise import quantise
from rtl.formats import Format
from sim.golden import attention as module
from sim.golden import dequantise, fp32
from sim.golden.attention import attend, attend_head, visible_range
from sim.golden.kv_cache import LayerCache, append
from tests import scalar
from tests.exact import bits_of
from tests.sim.golden import models

FORMATS = list(itertools.product(Format, Format))


def floats(seed, *shape, scale=1.0):
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def layer(heads=4, kv_heads=2, head=10, sinks=False, window=None, **others):
    rng = np.random.default_rng(0)
    plain = models.attention(rng, 4, heads, kv_heads, head, window=window)
    own = {"sinks": floats(1, heads)} if sinks else {}
    return dataclasses.replace(plain, **own, **others)


def filled(attention, keys, values):
    cache = LayerCache.empty(attention)
    append(attention, cache, keys, values)
    return cache


def random_case(attention, tokens, seed=0):
    shape = (tokens, attention.kv_heads, attention.head)
    cache = filled(attention, floats(seed, *shape), floats(seed + 1, *shape))
    return cache, floats(seed + 2, tokens, attention.heads, attention.head)


def by_scalars(attention, keys, values, queries, position):
    """Output of one token, head by head."""
    outputs = []
    for head in range(attention.heads):
        kv = head // (attention.heads // attention.kv_heads)
        rows = [
            [scalar.quantised(scalar.row(r[j, kv]), precision) for j in range(position + 1)]
            for r, precision in ((keys, attention.keys), (values, attention.values))
        ]
        query = scalar.row(queries[position, head])
        outputs += scalar.attend(attention, query, *rows, head)
    return outputs


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("window", [None, 1, 5])
@pytest.mark.parametrize(("fmt", "other"), FORMATS)
def test_against_scalars(fmt, other, window, sinks):
    precisions = {"queries": fmt, "keys": other, "values": other, "probabilities": fmt}
    precisions = {name: Precision(f) for name, f in precisions.items()}
    attention = layer(2, 1, 34, sinks, window, **precisions)
    keys, values, queries = floats(0, 40, 1, 34), floats(1, 40, 1, 34), floats(2, 40, 2, 34)
    got = attend(attention, queries, filled(attention, keys, values), np.arange(40))
    for position in (0, 6, 39):
        expected = by_scalars(attention, keys, values, queries, position)
        assert bits_of(got)[position].tolist() == expected


@pytest.mark.parametrize(("heads", "kv_heads"), [(28, 4), (12, 12), (32, 8), (6, 1)])
def test_onnxim_34_query_heads_read_their_own_kv_head(heads, kv_heads):
    attention = layer(heads, kv_heads, 4)
    _, queries = random_case(attention, 3)
    values = (
        np.ones((3, kv_heads, 4), np.float32) * np.exp2(np.arange(kv_heads, dtype="f4"))[:, None]
    )
    cache = filled(attention, floats(0, 3, kv_heads, 4), values)
    got = attend(attention, queries, cache, np.arange(3)).reshape(3, heads, 4)
    wanted = 2.0 ** np.repeat(np.arange(kv_heads), heads // kv_heads)
    assert np.abs(got / wanted[:, None] - 1).max() < 0.05
    for head in (0, heads // 2, heads - 1):  # and each is what it would be alone
        kv = head // (heads // kv_heads)
        alone = attend_head(
            quantise(queries[:, head], Format.MXINT8),
            cache.keys.of(kv),
            cache.values.of(kv),
            np.arange(3),
            *visible_range(np.arange(3)),
            attention.scale,
            attention.probabilities,
        )
        assert np.array_equal(bits_of(alone), bits_of(got[:, head]))


def direct(lo, hi, positions=None, sinks=None, head=8, cached=40, keys=None, values=None):
    """`attend_head` of some rows on random data."""
    rows = len(lo)
    positions = np.full(rows, cached - 1) if positions is None else np.asarray(positions)
    return attend_head(
        quantise(floats(0, rows, head), Format.MXINT8),
        quantise(floats(1, cached, head), Format.MXINT8) if keys is None else keys,
        quantise(floats(2, cached, head), Format.MXINT8) if values is None else values,
        positions,
        np.asarray(lo),
        np.asarray(hi),
        np.float32(0.5),
        Precision(Format.MXINT8),
        sinks,
    )


@pytest.mark.parametrize("sinks", [None, np.zeros(3, np.float32)])
def test_burn_4694_iree_24175_a_row_that_sees_nothing_is_plus_zero(sinks):
    got = direct([0, 5, 7], [9, 5, 3], sinks=sinks)
    assert not bits_of(got)[1:].any()
    assert np.isfinite(got[0]).all()
    assert got[0].any()


def test_flashmla_11_no_positions_at_all():
    empty = MXTensor(np.zeros((0, 1, 32), np.uint8), np.zeros((0, 1), np.uint8), Format.MXINT8, 8)
    got = direct([0, 0], [0, 0], positions=[0, 0], keys=empty, values=empty)
    assert not bits_of(got).any()


def test_a_single_visible_position_gives_its_value():
    values = quantise(floats(2, 40, 8), Format.MXINT8)
    got = direct([3], [4])
    assert np.abs(got - dequantise(values)[3]).max() < 0.02


def with_scale(tensor, position, scale):
    scales = tensor.scales.copy()
    scales[position] = scale
    return MXTensor(tensor.codes, scales, tensor.format, tensor.length)


def test_nan_in_a_masked_position_does_not_exist():
    keys, values = (quantise(floats(s, 40, 8), Format.MXINT8) for s in (1, 2))
    expected = direct([5, 0], [20, 4])
    for position in (4, 20, 39):
        got = direct(
            [5, 0],
            [20, 4],
            keys=with_scale(keys, position, 255),
            values=with_scale(values, position, 255),
        )
        assert np.array_equal(bits_of(got), bits_of(expected))


@pytest.mark.parametrize("which", ["keys", "values"])
def test_nan_in_a_visible_position_is_nan(which):
    tensor = quantise(floats({"keys": 1, "values": 2}[which], 40, 8), Format.MXINT8)
    got = direct([5, 0], [20, 4], **{which: with_scale(tensor, 6, 255)})
    assert np.isnan(got[0]).all()
    assert np.isfinite(got[1]).all()


def test_nan_in_one_chunk_of_v_spoils_that_chunk():
    values = quantise(floats(2, 40, 40), Format.MXINT8)
    scales = values.scales.copy()
    scales[3, 1] = 255
    got = direct([0], [40], head=40, values=MXTensor(values.codes, scales, values.format, 40))
    assert np.isfinite(got[0, :32]).all()
    assert np.isnan(got[0, 32:]).all()


def test_what_lies_behind_a_query_may_hold_anything():
    attention = layer(sinks=True)
    cache, queries = random_case(attention, 70)
    expected = attend(attention, queries[:37], cache, np.arange(37))
    rng = np.random.default_rng(9)
    for rows in (cache.keys, cache.values):
        rows._codes[:, 37:] = rng.integers(0, 256, rows._codes[:, 37:].shape)
        rows._codes[..., attention.head :] = 0
        rows._scales[:, 37:] = 255
    got = attend(attention, queries[:37], cache, np.arange(37))
    assert np.array_equal(bits_of(got), bits_of(expected))


@pytest.mark.parametrize("window", [1, 2, 31, 32, 33, 128, 129, 200])
def test_sglang_30050_windows_beyond_128_tokens(window):
    attention = layer(2, 1, 6, window=window)
    cache, queries = random_case(attention, 300)
    got = attend(attention, queries, cache, np.arange(300))
    keys, values = (
        dequantise(rows.of(0)).astype(np.float64) for rows in (cache.keys, cache.values)
    )
    operand = dequantise(quantise(queries, Format.MXINT8)).astype(np.float64)
    for position in (0, window - 1, window, 127, 128, 129, 255, 256, 299):
        if position > 299:
            continue
        first = max(0, position - window + 1)
        scores = operand[position] @ keys[first : position + 1].T * float(attention.scale)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = p / p.sum(-1, keepdims=True) @ values[first : position + 1]
        assert np.abs(got[position].reshape(2, 6) - wanted).max() < 0.06, position


def test_the_edge_of_the_window_is_exact():
    lo, hi = visible_range(np.array([0, 3, 4, 9]), 4)
    assert (lo.tolist(), hi.tolist()) == ([0, 0, 1, 6], [1, 4, 5, 10])
    lo, hi = visible_range(np.array([0, 9]))
    assert (lo.tolist(), hi.tolist()) == ([0, 0], [1, 10])


def test_under_a_window_the_anchor_is_still_that_of_the_position(monkeypatch):
    seen = []
    original = module.window_matmul

    def spy(*args, **kwargs):
        seen.append(kwargs.get("blocks"))
        return original(*args, **kwargs)

    monkeypatch.setattr(module, "window_matmul", spy)
    direct([90, 0], [100, 1], positions=[99, 0], cached=100)
    assert [b.tolist() for b in seen if b is not None] == [[4, 1]]


def test_rows_that_see_too_much_are_refused():
    for lo, hi, positions in (([0], [6], [4]), ([0], [41], [60]), ([-1], [3], [9])):
        with pytest.raises(ValueError, match="row 0 sees positions"):
            direct(lo, hi, positions)


def test_chunks_decode_and_longer_caches_give_the_same_bits():
    attention = layer(sinks=True, window=40)
    cache, queries = random_case(attention, 80)
    whole = attend(attention, queries, cache, np.arange(80))
    for step in (1, 7, 32, 33):
        for first in range(0, 80, step):
            rows = slice(first, first + step)
            part = attend(attention, queries[rows], cache, np.arange(80)[rows])
            assert np.array_equal(bits_of(part), bits_of(whole[rows]))


def test_truncating_and_appending_again_is_as_if_nothing_had_been():
    attention = layer()
    keys, values, queries = floats(0, 50, 2, 10), floats(1, 50, 2, 10), floats(2, 50, 4, 10)
    plain = attend(attention, queries, filled(attention, keys, values), np.arange(50))
    cache = filled(attention, keys[:33], values[:33])
    append(attention, cache, floats(5, 40, 2, 10, scale=100), floats(6, 40, 2, 10, scale=100))
    cache.truncate(33)
    append(attention, cache, keys[33:], values[33:])
    assert cache.length == 50
    again = attend(attention, queries, cache, np.arange(50))
    assert np.array_equal(bits_of(again), bits_of(plain))


def broken_by(monkeypatch, name, replacement):
    """Whether prefill and decode differ with one function replaced."""
    attention = layer(window=50)
    cache, queries = random_case(attention, 80)
    monkeypatch.setattr(module, name, replacement)
    whole = attend(attention, queries, cache, np.arange(80))
    parts = [attend(attention, queries[i : i + 1], cache, np.array([i])) for i in range(80)]
    return not np.array_equal(bits_of(whole), bits_of(np.concatenate(parts)))


def test_the_promise_holds_unbroken(monkeypatch):
    assert not broken_by(monkeypatch, "window_matmul", module.window_matmul)


def test_anchors_by_the_length_of_the_batch_would_break_the_promise(monkeypatch):
    original = module.window_matmul

    def without_blocks(a, w, acc_bits, blocks=None):
        return original(a, w, 32)

    assert broken_by(monkeypatch, "window_matmul", without_blocks)


def test_a_sum_may_start_where_the_window_does_but_not_run_straight_through(monkeypatch):
    attention = layer(window=50)
    cache, queries = random_case(attention, 80)
    whole = attend(attention, queries, cache, np.arange(80))
    original = module.probabilities

    def with_sum(summed):
        def replacement(scores, visible, sinks):
            p, _ = original(scores, visible, sinks)
            starts = visible.argmax(-1)
            rows = [np.roll(row, -start) for row, start in zip(p, starts, strict=True)]
            return p, summed(np.stack(rows))

        monkeypatch.setattr(module, "probabilities", replacement)
        return attend(attention, queries, cache, np.arange(80))

    # Partials and tree are the same under rotation, so hardware may count from the first visible.
    assert np.array_equal(bits_of(with_sum(fp32.reduce_sum)), bits_of(whole))
    straight = with_sum(lambda rows: np.add.accumulate(rows, axis=-1)[:, -1])
    assert not np.array_equal(bits_of(straight), bits_of(whole))


def test_the_width_of_the_accumulators_reaches_both_products():
    attention = layer(2, 1, 64)
    cache, queries = random_case(attention, 80)
    widths = [
        attend(attention, queries, cache, np.arange(80), acc_bits=bits) for bits in (32, 40, 48)
    ]
    assert not np.array_equal(bits_of(widths[0]), bits_of(widths[2]))


def test_zero_probabilities_meet_any_scale():
    keys = quantise(np.float32([[1, 0], [-1, 0]]) * np.float32(1000), Format.MXINT8)
    values = with_scale(quantise(floats(2, 2, 2), Format.MXINT8), 1, 254)
    query = quantise(np.float32([[1000, 0]]), Format.MXINT8)
    got = attend_head(
        query,
        keys,
        values,
        np.array([1]),
        np.array([0]),
        np.array([2]),
        np.float32(1),
        Precision(Format.MXINT8),
    )
    assert np.abs(got - dequantise(values)[0]).max() < 0.02
