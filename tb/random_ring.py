"""Random programs for the ring, and what gets in their way."""

from __future__ import annotations

import random
from collections.abc import Callable

from rtl.config import TileConfig
from rtl.core.fields import Instruction
from rtl.core.isa import BLOCK_WORDS, SLOT, Collective, Place
from rtl.ring.geometry import WORD_BYTES
from tb.ring import BLOCKS, WORDS, collective, memory_words

IN_PLACE = (WORDS[4], BLOCKS[0])
"""Registers that are read and written, where the rest always stays; of words and of blocks."""

TARGETS = (WORDS[5], BLOCKS[1])
"""Registers that are only written."""

QUAD = 4
"""Words of 16 bytes, to multiples of which wholes in memory are aligned."""

COPIES = (Collective.ALL_GATHER, Collective.BROADCAST)


def counts(rng: random.Random, tiles: int, most: int) -> int:
    """Return a number of units: a few, about as many as tiles, all that fits, or any."""
    near = [tiles - 1, tiles, tiles + 1, 2 * tiles, 8 * tiles, 8 * tiles + 1]
    chosen = rng.choice([0, 1, 2, rng.choice(near), most, *[rng.randint(0, most)] * 3])
    return min(chosen, most)


def in_memory(rng: random.Random, config: TileConfig, tiles: int) -> list[Instruction]:
    """Return a collective on memory, as each tile says it."""
    length = memory_words(config) // 2
    kind, count = rng.choice([*Collective]), counts(rng, tiles, length)
    root = rng.randrange(tiles)
    found = []
    for _ in range(tiles):
        halves = rng.sample([0, length], 2)
        at = [half + QUAD * rng.randint(0, (length - count) // QUAD) for half in halves]
        if rng.random() < 0.4:
            at[1] = at[0]  # in place
        found.append(memory_collective(config, kind, count, *at, root=root))
    return found


def memory_collective(
    config: TileConfig, kind: Collective, count: int, read: int, written: int, **more: int
) -> Instruction:
    """Return a collective on memory, whose wholes begin at these words."""
    fields: dict[str, int] = {}
    for name, word in (("address", read), ("result", written)):
        beat, byte = divmod(WORD_BYTES * word, config.beat_bytes)
        address = beat * config.beat_stride + byte
        fields |= {name: (address - 400) & 0xFFFFFFFF, f"{name}_offset": 400}
    return collective(kind=kind, place=Place.MEMORY, count=count, **fields, **more)


def operation(
    rng: random.Random, config: TileConfig, tiles: int, memory: bool = False
) -> list[Instruction]:
    """Return a collective, as each tile says it; perhaps on memory."""
    if memory and rng.random() < 0.5:
        return in_memory(rng, config, tiles)
    kind = rng.choice([*Collective] * 2 + [*COPIES])
    place = Place.BLOCKS if kind in COPIES and rng.random() < 0.4 else Place.WORDS
    blocks = place is Place.BLOCKS
    length = config.vector_length // (BLOCK_WORDS if blocks else 1)
    unit = 1 if blocks else SLOT
    count = counts(rng, tiles, length)
    root = rng.randrange(tiles)
    offsets = (length - count) // unit
    found = []
    for _ in range(tiles):
        source = rng.choice([IN_PLACE[blocks], *(() if blocks else WORDS[:4])])
        to = rng.choice([IN_PLACE[blocks], TARGETS[blocks]])
        offset, result = (rng.randint(0, offsets) for _ in range(2))
        if source == to:
            result = offset
        found.append(
            collective(
                kind=kind,
                place=place,
                count=count,
                root=root,
                source=source,
                offset=offset,
                to=to,
                into=to in IN_PLACE or rng.random() < 0.5,
                result_slot=result,
            )
        )
    return found


def stalls(rng: random.Random, links: int) -> Callable[[], int]:
    """Return one of the ways to stall links, chosen at random."""
    everything = (1 << links) - 1
    slow = rng.getrandbits(links) & rng.getrandbits(links)

    def often() -> int:
        return rng.getrandbits(links) | rng.getrandbits(links)

    def half() -> int:
        return rng.getrandbits(links)

    def seldom() -> int:
        return rng.getrandbits(links) & rng.getrandbits(links) & rng.getrandbits(links)

    def some_links() -> int:
        return slow & (rng.getrandbits(links) | rng.getrandbits(links) | rng.getrandbits(links))

    state = {"left": 0, "mask": 0}

    def bursts() -> int:
        if not state["left"]:
            state["left"] = rng.randint(1, 60)
            state["mask"] = rng.choice([0, everything, rng.getrandbits(links)])
        state["left"] -= 1
        return state["mask"]

    return rng.choice([lambda: 0, often, half, seldom, some_links, bursts])
