"""Regions of a tile's memory."""

from __future__ import annotations

import pytest

from gen.memory_map import DoesNotFit, MemoryMap, align
from rtl.config import PRESETS, TileConfig

NANO, BASE = PRESETS["nano"], PRESETS["base"]


@pytest.mark.parametrize("config", [NANO, BASE, TileConfig(pseudo_channels=6, stream_bytes=0)])
def test_regions_follow_each_other_and_begin_at_even_beats(config):
    memory = MemoryMap(config)
    sizes = [1, 0, config.line_bytes, config.line_bytes + 1, 1000]
    for number, size in enumerate(sizes):
        memory.add(f"region {number}", size, "something")
    end = 0
    for region, size in zip(memory.regions, sizes, strict=True):
        assert region.address == end
        assert region.address % config.line_bytes == 0
        assert size <= region.size < size + config.line_bytes
        end = region.end
    assert memory.end == end


def test_sizes_in_whole_pairs_of_beats():
    assert [align(NANO, size) for size in (0, 1, 32, 33)] == [0, 32, 32, 64]
    assert [align(BASE, size) for size in (1, 64, 65)] == [64, 64, 128]


def test_regions_by_name():
    memory = MemoryMap(NANO)
    added = memory.add("weights", 100, "of the model")
    assert memory["weights"] is added
    with pytest.raises(KeyError, match="cache"):
        memory["cache"]


def test_a_name_is_given_once():
    memory = MemoryMap(NANO)
    memory.add("weights", 100, "of the model")
    with pytest.raises(AssertionError, match="weights is added twice"):
        memory.add("weights", 100, "of the model")


def test_what_does_not_fit_and_by_how_much():
    memory = MemoryMap(NANO, 4096)
    memory.add("weights", 4000, "of the model")
    with pytest.raises(DoesNotFit) as caught:
        memory.add("cache", 1000, "keys and values")
    assert str(caught.value) == (
        "cache needs 1,024 bytes, 928 more than are left of the tile's 4,096."
    )
    assert [region.name for region in memory.regions] == ["weights"]
    memory.add("mailbox", 96, "exactly what is left")
    assert memory.end == 4096


def test_an_empty_map():
    memory = MemoryMap(NANO)
    assert memory.end == 0
    assert memory.rows() == []


def test_the_map_as_a_table():
    memory = MemoryMap(NANO)
    memory.add("weights", 5000, "of the model")
    memory.add("mailbox", 4, "requests")
    assert memory.rows() == [
        {"region": "weights", "from": "0x00000000", "to": "0x000013a0", "bytes": "5,024",
         "what": "of the model"},
        {"region": "mailbox", "from": "0x000013a0", "to": "0x000013c0", "bytes": "32",
         "what": "requests"},
    ]  # fmt: skip
