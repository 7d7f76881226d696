"""Memory: addresses and holes, and who may see what on which way."""

from __future__ import annotations

import numpy as np
import pytest

from rtl.config import TileConfig
from sim.interpreter.errors import Fault
from sim.interpreter.memory import UNWRITTEN, Memory
from tests.sim.interpreter.programs import BASE, NANO

SIX = TileConfig(pseudo_channels=6, stream_bytes=0)
"""Beats of 96 bytes in 128."""

LINE = 32
"""Bytes of a line of `NANO`."""


def memory(config=NANO, size=1024):
    return Memory(config, size)


def data(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


# Addresses


@pytest.mark.parametrize("config", [NANO, BASE])
def test_without_holes_addresses_are_places(config):
    m = memory(config)
    m.poke(5, data(100))
    np.testing.assert_array_equal(m.peek(5, 100), data(100))
    assert (m.peek(0, 5) == UNWRITTEN).all()
    assert (m.peek(105, 1024 - 105) == UNWRITTEN).all()


def test_size_is_rounded_up_to_lines():
    assert memory(size=1).size == LINE
    assert memory(size=LINE + 1).size == 2 * LINE
    assert memory(SIX, 1).size == 256


def test_any_array_can_be_poked():
    m = memory()
    m.poke(0, np.array([[1.5, -2.0]], np.float32))
    m.poke(8, np.uint32(0x01020304))
    assert m.peek(0, 8).view(np.float32).tolist() == [1.5, -2.0]
    assert m.peek(8, 4).tolist() == [4, 3, 2, 1]  # little-endian


def test_a_run_goes_on_behind_holes():
    m = memory(SIX)
    m.poke(90, data(200))  # 6 bytes, a hole, 96 bytes, a hole, 96 bytes, a hole, 2 bytes
    np.testing.assert_array_equal(m.peek(128, 96), data(200)[6:102])
    np.testing.assert_array_equal(m.peek(256, 96), data(200)[102:198])
    np.testing.assert_array_equal(m.peek(384, 2), data(200)[198:])
    assert m.peek(386, 1) == UNWRITTEN


@pytest.mark.parametrize("address", [96, 127, 224, 255])
def test_holes_have_no_bytes(address):
    with pytest.raises(Fault, match=f"^Address {address:#x} is a hole between beats$"):
        memory(SIX).load(address, 1)


@pytest.mark.parametrize(
    ("config", "address", "count"),
    [(NANO, 1024, 1), (NANO, 1023, 2), (NANO, 0xFFFFFFFC, 4), (NANO, 0, 1025), (SIX, 1024, 1)],
)
def test_memory_ends(config, address, count):
    m = memory(config)
    sentence = f"{count} bytes from address {address:#x} are not all in memory, which ends at 0x400"
    for access in (m.load, m.stream):
        with pytest.raises(Fault) as caught:
            access(address, count)
        assert str(caught.value) == sentence
    for access in (m.store, m.append, m.poke):
        with pytest.raises(Fault) as caught:
            access(address, np.zeros(count, np.uint8))
        assert str(caught.value) == sentence


def test_the_last_byte_and_nothing_behind_it():
    m = memory()
    m.store(1020, data(4))
    assert m.load(1024, 0).size == 0


# Ways


def read(m, address):
    return m.load(address, 1)


def write(m, address):
    m.store(address, data(1))


def append(m, address):
    m.append(address, data(1))


def stream(m, address):
    return m.stream(address, 1)


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        (read, read, ""),
        (read, write, ""),
        (write, read, ""),
        (write, write, ""),
        (read, stream, ""),
        (stream, read, ""),
        (stream, write, ""),
        (stream, append, ""),
        (append, append, ""),
        (read, append, "writes past L1 what L1 may hold"),
        (write, append, "writes past L1 what L1 may hold"),
        (append, read, "reads through L1 what was written past it"),
        (append, write, "writes through L1 what was written past it"),
        (write, stream, "streams what was written through L1"),
        (append, stream, "streams what was stored since the last fence"),
    ],
)
@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("other_byte", [0, 31])
def test_two_ways_to_one_line(first, second, complaint, fenced, other_byte):
    """All pairs, to one byte and to another of its line; a fence helps only the last."""
    m = memory()
    first(m, 64)
    if fenced:
        m.fence()
    if complaint.endswith("fence") and fenced:
        complaint = ""
    second(m, 32)  # the lines beside it are free
    second(m, 96)
    if not complaint:
        second(m, 64 + other_byte)
        return
    before = m.bytes.copy()
    with pytest.raises(Fault) as caught:
        second(m, 64 + other_byte)
    assert str(caught.value) == f"The program {complaint}, in the line at 0x40"
    np.testing.assert_array_equal(m.bytes, before)


def test_the_line_is_named_in_addresses():
    m = memory(SIX)
    m.append(300, data(1))
    with pytest.raises(Fault, match=r"in the line at 0x100$"):
        m.load(128, 200)


def test_a_long_access_meets_every_line():
    m = memory()
    m.append(200, data(1))
    m.load(0, 192)
    m.load(224, 100)
    with pytest.raises(Fault, match=r"in the line at 0xc0$"):
        m.load(0, 1024)


def test_an_access_of_nothing_touches_nothing():
    m = memory()
    m.load(70, 0)
    m.append(64, data(32))
    m.fence()
    assert m.stream(64, 32).tolist() == data(32).tolist()


def test_a_fence_is_for_what_came_before_it():
    m = memory()
    m.append(0, data(1))
    m.fence()
    m.append(64, data(1))
    m.stream(0, 1)
    with pytest.raises(Fault, match=r"since the last fence"):
        m.stream(64, 1)
    m.append(0, data(1, 1))
    with pytest.raises(Fault, match=r"since the last fence"):
        m.stream(0, 1)
    m.fence()
    m.stream(0, 96)


def test_a_program_begins_with_an_empty_l1():
    m = memory()
    m.store(0, data(4))
    m.append(64, data(4))
    m.start()
    m.stream(0, 128)
    m.load(0, 128)
    np.testing.assert_array_equal(m.peek(64, 4), data(4))


def test_the_host_sees_everything_and_leaves_no_trace():
    m = memory()
    m.append(0, data(4))
    np.testing.assert_array_equal(m.peek(0, 4), data(4))
    m.poke(32, data(4))
    m.load(32, 4)


def test_the_version_changes_with_the_constants():
    """What was computed from weights is forgotten when they change, and only then."""
    m = memory()
    m.constant_end = 100
    for address, count, changes in [(100, 4, 0), (96, 4, 1), (90, 20, 1), (512, 1, 0)]:
        before = m.version
        m.poke(address, data(count))
        assert m.version - before == changes
