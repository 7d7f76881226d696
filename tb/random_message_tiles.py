"""Random programs for tiles on both networks: what each does by itself, collectives, messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, ROWS, SLOT, VECTORS, Collective, Place
from tb.random_core import PAST
from tb.random_ring_tiles import RingProgramMaker
from tb.random_vec import FLOATS

SHARE = 0.4
"""Of the steps, those that are messages."""

READS = 4
"""Remote reads of a tile before anybody stores anything."""


class MessageProgramMaker(RingProgramMaker):
    """Writes a random program for every tile, with messages under way while others do other things.

    Attributes
    ----------
    count
        How many messages and remote reads there are, by mnemonic.
    """

    def __init__(self, config: TileConfig, rng: np.random.Generator, tiles: int) -> None:
        super().__init__(config, rng, tiles)
        self.count: Counter[str] = Counter()
        for maker in self.makers:
            maker.tile.peers = [other.tile for other in self.makers]

    def write(self, fields: Sequence[dict[str, Any]]) -> bool:
        """Write a collective, see `RingProgramMaker`; messages that are under way stay so."""
        inboxes, under_way = self.network.inboxes, self.network.under_way
        written = super().write(fields)
        self.network.inboxes, self.network.under_way = inboxes, under_way
        return written

    def step(self) -> None:
        """Write an instruction or a few."""
        if self.rng.random() >= SHARE:
            return super().step()
        if self.rng.random() < 0.6:
            return self.send()
        return self.receive(int(self.rng.integers(0, len(self.makers))))

    def _place(self, units: int, place: Place) -> int:
        length = self.config.vector_length
        most = length // BLOCK_WORDS if place is Place.BLOCKS else length // SLOT
        used = units if place is Place.BLOCKS else -(-units // SLOT)
        return int(self.rng.integers(0, min(most - used, 2) + 1))

    def _to(self, units: int, place: Place) -> dict[str, int]:
        to = int(self.rng.choice([0, 1, 2, *range(9, VECTORS)]))
        into = int(self.rng.random() < 0.6)
        return {"to": to, "into": into, "offset": self._place(units, place)}

    def send(self) -> None:
        """Write a `send` on some tile, if it has room."""
        rng = self.rng
        source, to = (int(i) for i in rng.integers(0, len(self.makers), 2))
        if not self.network.room(source):
            return
        place = Place.BLOCKS if rng.random() < 0.3 else Place.WORDS
        length = self.config.vector_length // (BLOCK_WORDS if place is Place.BLOCKS else 1)
        units = min(length, int(rng.integers(0, int(rng.choice([3, 16, length])) + 1)))
        registers = range(9, VECTORS) if place is Place.BLOCKS else FLOATS
        fields = {
            "tile": to,
            "tag": int(rng.integers(0, 3)),
            "place": place,
            "count": units,
            "source": int(rng.choice([*registers])),
            "offset": self._place(units, place),
        }
        maker = self.makers[source]
        self.count["send"] += maker.write("send", **maker.with_scalars("send", fields))

    def receive(self, number: int) -> None:
        """Write a `receive` of something that waits for a tile, if anything does."""
        rng, maker = self.rng, self.makers[number]
        waiting = [*self.network.inboxes[number]]
        if not waiting:
            return
        message = waiting[int(rng.integers(0, len(waiting)))]
        first = next(m for m in waiting if m.source == message.source)
        if first is message and rng.random() < 0.3:
            how: dict[str, int] = {"any_tag": True, "envelope": int(rng.integers(0, ROWS))}
        else:
            message = next(m for m in waiting if (m.source, m.tag) == (message.source, message.tag))
            how = {"tag": message.tag}
        units = len(message.payload)
        fields = {"tile": message.source, "place": message.place, "count": units}
        fields |= how | self._to(units, message.place)
        assert maker.write("receive", **maker.with_scalars("receive", fields))
        self.count["receive"] += 1

    def read(self) -> None:
        """Let all read each other's memory; then all know it."""
        rng = self.rng
        for maker in self.makers:
            for _ in range(READS):
                units = int(rng.integers(0, self.config.vector_length + 1))
                fields = {
                    "tile": int(rng.integers(0, len(self.makers))),
                    "address": 4 * int(rng.integers(0, (PAST - 0x1000) // 4)),
                    "address_offset": 4 * int(rng.integers(0, 9)),
                    "count": units,
                    **self._to(units, Place.WORDS),
                }
                self.count["remote"] += maker.write(
                    "remote", **maker.with_scalars("remote", fields)
                )
        assert self.write([{"kind": Collective.BARRIER, "place": Place.WORDS}] * len(self.makers))
        for maker in self.makers:
            assert maker.write("fence")

    def finish(self) -> None:
        """Take what is left, and stop."""
        for number, maker in enumerate(self.makers):
            while self.network.inboxes[number]:
                self.receive(number)
            maker.epilogue()


def random_programs(
    config: TileConfig, rng: np.random.Generator, tiles: int, steps: int
) -> MessageProgramMaker:
    """Return finished random programs."""
    programs = MessageProgramMaker(config, rng, tiles)
    for maker in programs.makers:
        maker.prologue()
    programs.read()
    for _ in range(steps):
        programs.step()
    programs.finish()
    return programs
