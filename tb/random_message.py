"""Random programs of messages and remote reads that come to their end whatever takes how long.

They are made from a sequence of all that happens in which every message is sent before it is taken
and no tile ever has too many under way. Programs that name whom they receive from then end in every
other sequence too. Messages that are taken from any tile are so few that nobody waits for room
because of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rtl.config import TileConfig
from rtl.core.fields import Instruction
from rtl.core.isa import BLOCK_WORDS, MESSAGES, ROWS, SLOT, Place
from rtl.message.standalone import BEATS
from tb.message import op

FEW = 2
"""Messages of a tile to be taken from any tile, where others have names."""

ANY_TAG = 7
"""Their tag; others have lesser ones."""

MODES = ("named", "some from any tile", "all from any tile")


@dataclass
class Sent:
    """A message that waits: its tag, units and how many, and whether anyone's will do."""

    tag: int
    place: Place
    count: int
    anyones: bool = False


@dataclass
class Tile:
    """What a tile does: its program, what it has under way, and what waits for it by sender."""

    program: list[Instruction] = field(default_factory=list)
    under_way: int = 0
    few: int = 0
    envelopes: Iterator[int] = field(default_factory=lambda: iter(range(ROWS)))
    waiting: dict[int, list[Sent]] = field(default_factory=dict)


def count(rng: random.Random, most: int) -> int:
    """Return a number of units: none, a few, all that fits, or any."""
    few = [0, 1, 2, BLOCK_WORDS - 1, BLOCK_WORDS, BLOCK_WORDS + 1, 4 * BLOCK_WORDS + 1]
    return min(most, rng.choice([*few, most, most - 1, *[rng.randint(0, most)] * 5]))


class Programs:
    """Programs for all tiles.

    Parameters
    ----------
    rng
        What they are.
    config
        The configuration of the tiles.
    mode
        How they receive, one of `MODES`.
    steps
        About how many instructions they have.

    Attributes
    ----------
    programs
        One for each tile.
    taken
        Of each message that is taken: whether it is to oneself, how it is asked for, units, how
        many, and whether another of its sender has been waiting for longer.
    reads
        Of each remote read: whether it is of oneself, and how many words.
    """

    def __init__(self, rng: random.Random, config: TileConfig, mode: str, steps: int) -> None:
        self._rng, self._config, self._mode = rng, config, mode
        self._tiles = [Tile() for _ in range(config.tiles)]
        self._hot = rng.randrange(config.tiles)
        self.taken: list[tuple[bool, str, Place, int, bool]] = []
        self.reads: list[tuple[bool, int]] = []
        self._same = self._message()
        self._limit = MESSAGES - (FEW if mode == MODES[1] else 0)
        for _ in range(steps):
            rng.choice([self._send, self._send, self._receive, self._remote])()
        while any(tile.waiting for tile in self._tiles):
            self._receive()
        self.programs = [tile.program for tile in self._tiles]

    def _length(self, place: Place) -> int:
        return self._config.vector_length // (BLOCK_WORDS if place is Place.BLOCKS else 1)

    def _message(self) -> Sent:
        place = self._rng.choice([Place.WORDS, Place.BLOCKS])
        return Sent(self._rng.randrange(3), place, count(self._rng, self._length(place)))

    def _offset(self, place: Place, units: int) -> int:
        unit = 1 if place is Place.BLOCKS else SLOT
        return self._rng.randint(0, (self._length(place) - units) // unit)

    def _send(self) -> None:
        rng, number = self._rng, self._rng.randrange(len(self._tiles))
        tile, message = self._tiles[number], self._message()
        if self._mode == MODES[2]:
            if tile.few == MESSAGES:
                return
            message = Sent(message.tag, self._same.place, self._same.count, True)
        elif self._mode == MODES[1] and tile.few < FEW and rng.random() < 0.3:
            message = Sent(ANY_TAG, self._same.place, self._same.count, True)
        elif tile.under_way == self._limit:
            return
        to = rng.choice([self._hot, *range(len(self._tiles))])
        if message.anyones and self._anyones(self._tiles[to]) >= ROWS:
            return
        tile.few += message.anyones
        tile.under_way += not message.anyones
        self._tiles[to].waiting.setdefault(number, []).append(message)
        blocks = message.place is Place.BLOCKS
        tile.program.append(
            op(
                "send",
                tile=to,
                tag=message.tag,
                place=message.place,
                count=message.count,
                source=rng.choice([6, 7] if blocks else [0, 1, 2, 3, 4]),
                offset=self._offset(message.place, message.count),
            )
        )

    def _anyones(self, tile: Tile) -> int:
        """Return how many from any tile a tile takes and has taken."""
        waiting = sum(m.anyones for messages in tile.waiting.values() for m in messages)
        return waiting + sum(
            i.name == "receive" and bool(i.values["any_tile"]) for i in tile.program
        )

    def _receive(self) -> None:
        rng, number = self._rng, self._rng.randrange(len(self._tiles))
        tile = self._tiles[number]
        if not tile.waiting:
            return
        source = rng.choice([*tile.waiting])
        messages = tile.waiting[source]
        chosen = rng.choice(messages)
        how: dict[str, Any] = {"tile": source, "tag": chosen.tag}
        if chosen.anyones:
            how = {"any_tile": True, "envelope": next(tile.envelopes)}
            how |= {"tag": chosen.tag} if self._mode == MODES[1] else {"any_tag": True}
        else:
            # It is the first with its tag; or the first of all, if none is anyone's.
            chosen = next(m for m in messages if m.tag == chosen.tag and not m.anyones)
            if messages[0] is chosen and self._mode == MODES[0] and rng.random() < 0.5:
                how = {"tile": source, "any_tag": True, "envelope": ROWS - 1}
        named = "tile" if "tile" in how else "any tile"
        named += " and tag" if "tag" in how else ""
        late = messages[0] is not chosen and not chosen.anyones
        self.taken.append((source == number, named, chosen.place, chosen.count, late))
        messages.remove(chosen)
        if not messages:
            del tile.waiting[source]
        self._tiles[source].under_way -= not chosen.anyones
        place, units = chosen.place, chosen.count
        tile.program.append(
            op("receive", place=place, count=units, **how, **self._to(place, units))
        )

    def _to(self, place: Place, units: int) -> dict[str, Any]:
        """Return a destination; what is also a source stays all defined."""
        to = 7 if place is Place.BLOCKS else self._rng.choice([4, 5])
        into = to != 5 or self._rng.random() < 0.5
        return {"to": to, "into": into, "offset": self._offset(place, units)}

    def _remote(self) -> None:
        rng, config = self._rng, self._config
        number, of = (rng.randrange(len(self._tiles)) for _ in range(2))
        beat_words = config.beat_bytes // 4
        units = count(rng, min(config.vector_length, beat_words * BEATS))
        word = rng.randint(0, beat_words * BEATS - units)
        beat, within = divmod(min(word, beat_words * BEATS - 1), beat_words)
        ahead = rng.choice([0, 4, 8])
        self.reads.append((number == of, units))
        self._tiles[number].program.append(
            op(
                "remote",
                tile=of,
                address=(beat * config.beat_stride + 4 * within - ahead) % (1 << 32),
                address_offset=ahead,
                count=units,
                **self._to(Place.WORDS, units),
            )
        )
