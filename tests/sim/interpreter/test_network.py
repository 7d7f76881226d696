"""Shares, sums around the ring, and what finds its way: the parts of the network by themselves."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from rtl.core.isa import Collective, Place
from sim.interpreter.errors import Fault
from sim.interpreter.network import Message, Network, Payload, Request, ring_sum, share
from tests.sim.interpreter import oracle

TILES = [1, 2, 3, 4, 8]


def ring(wholes):
    """The sum as the page has it, word by word: where it starts, which way it goes."""
    tiles, count = len(wholes), len(wholes[0])
    start, result = 0, []
    for owner in range(tiles):
        words = count // tiles + (owner < count % tiles)
        for i in range(words):
            way = 1 if i < (words + 1) // 2 else -1
            tile = owner
            total = None
            for _ in range(tiles):
                tile = (tile + way) % tiles
                word = int(wholes[tile][start + i])
                total = oracle.flush(word) if total is None else oracle.add(total, word)
            assert tile == owner
            result.append(total)
        start += words
    return result


def awkward(rng, tiles, count):
    """Numbers for which the order of a sum matters, and some that are none."""
    values = rng.choice([1.0, -1.0, 3e7, -3e7, 1e-38, -1e-38], (tiles, count))
    values *= 1 + rng.random((tiles, count))
    words = values.astype(np.float32).view(np.uint32).copy()
    words[rng.random(words.shape) < 0.02] = 0x7F800000
    words[rng.random(words.shape) < 0.01] = 0x7FC00000
    words[rng.random(words.shape) < 0.1] = 0x80000000
    words[rng.random(words.shape) < 0.05] = 0x80000001
    return words


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 64, 65])
def test_shares_follow_each_other_and_differ_by_one(tiles, count):
    shares = [share(count, tile, tiles) for tile in range(tiles)]
    assert [i for s in shares for i in range(s.start, s.stop)] == [*range(count)]
    sizes = [s.stop - s.start for s in shares]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("count", [0, 1, 5, 16, 67])
def test_a_sum_goes_around_the_ring(tiles, count):
    words = awkward(np.random.default_rng([tiles, count]), tiles, count)
    assert ring_sum(words).tolist() == ring(words)


def test_the_order_of_a_sum_shows_in_its_bits():
    """Otherwise the test above would show nothing: plain order differs, and so does each turn."""
    words = awkward(np.random.default_rng(0), 4, 200)
    results = [ring_sum(np.roll(words, turn, axis=0)).tolist() for turn in range(4)]
    plain = []
    for column in words.T:
        total = oracle.flush(int(column[0]))
        for word in column[1:]:
            total = oracle.add(total, int(word))
        plain.append(total)
    for one, other in itertools.combinations([*results, plain], 2):
        assert one != other


# Messages


def message(source, tag, *words):
    payload = Payload.of_words(np.array(words, np.uint32))
    return Message(source, tag, Place.WORDS, payload)


def wanted(tile=None, tag=None):
    return SimpleNamespace(any_tile=tile is None, tile=tile or 0, any_tag=tag is None, tag=tag or 0)


def test_the_first_message_that_fits_is_found():
    network = Network(3)
    sent = [message(0, 7, 1), message(1, 5, 2), message(1, 7, 3), message(0, 5, 4)]
    for each in sent:
        network.send(2, each)
    assert network.find(2, wanted()) is sent[0]
    assert network.find(2, wanted(tile=1)) is sent[1]
    assert network.find(2, wanted(tag=5)) is sent[1]
    assert network.find(2, wanted(tile=0, tag=5)) is sent[3]
    assert network.find(2, wanted(tile=2)) is None
    assert network.find(2, wanted(tag=9)) is None
    assert network.find(0, wanted()) is None


def test_a_message_is_there_until_it_is_taken():
    network = Network(2)
    same = [message(0, 0, 1), message(0, 0, 1)]
    for each in same:
        network.send(1, each)
    network.take(1, same[1])
    assert [*network.inboxes[1]] == [same[0]]
    network.take(1, network.find(1, wanted()))
    assert network.find(1, wanted()) is None


@pytest.mark.parametrize("tile", [2, 255])
def test_tiles_that_there_are_not(tile):
    network = Network(2)
    sentence = rf"^tile is {tile}, there are tiles 0 to 1$"
    with pytest.raises(Fault, match=sentence):
        network.send(tile, message(0, 0))
    with pytest.raises(Fault, match=sentence):
        network.find(0, wanted(tile=tile))


def test_a_start_forgets_what_is_under_way():
    network = Network(2)
    network.send(1, message(0, 0))
    request = Request(Collective.BARRIER, Place.WORDS, 0, 0, None)
    network.join(0, request)
    network.start()
    assert network.find(1, wanted()) is None
    network.join(1, Request(Collective.BARRIER, Place.WORDS, 0, 0, None))
    assert not request.done


# Collectives


def test_a_collective_is_carried_out_when_the_last_tile_joins():
    network = Network(3)
    requests = [Request(Collective.BARRIER, Place.WORDS, 0, 0, None) for _ in range(3)]
    for tile in (2, 0, 1):
        assert not any(request.done for request in requests)
        network.join(tile, requests[tile])
    assert all(request.done for request in requests)
    assert not any(request.error or request.result for request in requests)


def test_every_tile_gets_its_own_part():
    network = Network(3)
    words = np.arange(21, dtype=np.float32).reshape(3, 7)
    kind = Collective.REDUCE_SCATTER_SUM
    requests = [
        Request(kind, Place.WORDS, 7, 0, Payload.of_words(row.view(np.uint32))) for row in words
    ]
    for tile, request in enumerate(requests):
        network.join(tile, request)
    total = words.sum(0).view(np.uint32)
    for request, first, size in zip(requests, (0, 3, 5), (3, 2, 2), strict=True):
        assert request.first == first
        assert request.result.words[:, 0].tolist() == total[first : first + size].tolist()
