"""What tiles do together: collectives, messages, and reading each other's memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from rtl.core.fields import Choice
from rtl.core.isa import MESSAGES, Collective, Place
from sim.golden import fp32
from sim.interpreter.errors import Fault

_SUMS = (Collective.REDUCE_SCATTER_SUM, Collective.ALL_REDUCE_SUM)
_SCATTERS = (Collective.REDUCE_SCATTER_SUM, Collective.REDUCE_SCATTER_MAXIMUM)


def share(count: int, tile: int, tiles: int) -> slice:
    """Return the units of the whole that belong to a tile.

    Parameters
    ----------
    count
        Units of the whole.
    tile, tiles
        Which tile, of how many.
    """
    each, rest = divmod(count, tiles)
    start = tile * each + min(tile, rest)
    return slice(start, start + each + (tile < rest))


def ring_sum(wholes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the sum of every tile's words [tiles, count] in the order of the ring, [count].

    The first half of share s starts with tile s + 1 and goes up, the other starts with s - 1 and
    goes down; both end with tile s.
    """
    tiles, count = wholes.shape
    values = wholes.view(np.float32)
    total = np.empty(count, np.float32)
    for owner in range(tiles):
        own = share(count, owner, tiles)
        middle = own.start + -(-(own.stop - own.start) // 2)
        for part, step in ((slice(own.start, middle), 1), (slice(middle, own.stop), -1)):
            order = [(owner + step * distance) % tiles for distance in range(1, tiles + 1)]
            run = fp32.flush(values[order[0], part])
            for tile in order[1:]:
                run = fp32.add(run, values[tile, part])
            total[part] = run
    return total.view(np.uint32)


@dataclass
class Payload:
    """Units on their way: words, or blocks with what is known about them.

    Attributes
    ----------
    words : uint32 [units, words of a unit]
    about : uint8 [units, 2]
        Kind and scale of each block; nothing for words.
    """

    words: NDArray[np.uint32]
    about: NDArray[np.uint8]

    @classmethod
    def of_words(cls, words: NDArray[np.uint32]) -> Payload:
        """Return words [units] as a payload."""
        return cls(words.reshape(-1, 1).copy(), np.zeros((words.size, 0), np.uint8))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, units: slice) -> Payload:
        return Payload(self.words[units], self.about[units])


@dataclass(eq=False)
class Message:
    """A message that has not been taken."""

    source: int
    tag: int
    place: Place
    payload: Payload


@dataclass
class Request:
    """A tile's part in a collective: what it gives, and what it gets and where in the whole."""

    kind: Collective
    place: Place
    count: int
    root: int
    payload: Payload | None
    result: Payload | None = None
    first: int = 0
    error: str = ""
    done: bool = False

    def differs(self, other: Request) -> str:
        """Return in what this is no part of the same collective; nothing if it is."""
        for name in ("kind", "place", "count", "root"):
            if getattr(self, name) != getattr(other, name):
                return name
        return ""


class Network:
    """Ring and mesh of the interpreter: everything arrives, in order, as soon as it is sent.

    Parameters
    ----------
    tiles
        How many there are.
    """

    def __init__(self, tiles: int) -> None:
        self.tiles = tiles
        self.start()

    def start(self) -> None:
        """Forget everything that is under way."""
        self.inboxes: list[deque[Message]] = [deque() for _ in range(self.tiles)]
        self.under_way = [0] * self.tiles  # messages of each tile that were not taken
        self._requests: dict[int, Request] = {}

    def room(self, source: int) -> bool:
        """Return whether a tile can send one more message."""
        return self.under_way[source] < MESSAGES

    def send(self, tile: int, message: Message) -> None:
        """Deliver a message, for which there is room."""
        self.check_tile(tile)
        self.inboxes[tile].append(message)
        self.under_way[message.source] += 1

    def find(self, tile: int, o: SimpleNamespace) -> Message | None:
        """Return the first message for `tile` that fits; None if there is none yet."""
        if not o.any_tile:
            self.check_tile(o.tile)
        for message in self.inboxes[tile]:
            if (o.any_tile or message.source == o.tile) and (o.any_tag or message.tag == o.tag):
                return message
        return None

    def take(self, tile: int, message: Message) -> None:
        """Take a message that `find` returned."""
        self.inboxes[tile].remove(message)
        self.under_way[message.source] -= 1

    def check_tile(self, tile: int) -> None:
        """Raise `Fault` unless there is such a tile."""
        if tile >= self.tiles:
            raise Fault(f"tile is {tile}, there are tiles 0 to {self.tiles - 1}")

    def join(self, tile: int, request: Request) -> None:
        """Take part in a collective; when all do, it is carried out."""
        self._requests[tile] = request
        if len(self._requests) == self.tiles:
            requests = [self._requests[i] for i in range(self.tiles)]
            self._requests = {}
            self._carry_out(requests)

    def _carry_out(self, requests: list[Request]) -> None:
        first = requests[0]
        for tile, request in enumerate(requests):
            if name := first.differs(request):
                one, other = (
                    value.name.lower() if isinstance(value, Choice) else value
                    for value in (getattr(first, name), getattr(request, name))
                )
                return self._refuse(
                    requests,
                    f"The collective's {name} is {one} on tile 0 and {other} on tile {tile}",
                )
        if first.kind is Collective.BROADCAST and first.root >= self.tiles:
            return self._refuse(
                requests, f"root is {first.root}, there are tiles 0 to {self.tiles - 1}"
            )
        whole = self._whole(requests)
        for tile, request in enumerate(requests):
            if whole is not None:
                part = slice(0, first.count)
                if first.kind in _SCATTERS:
                    part = share(first.count, tile, self.tiles)
                request.result, request.first = whole[part], part.start
            request.done = True

    def _refuse(self, requests: list[Request], error: str) -> None:
        for request in requests:
            request.error, request.done = error, True

    def _whole(self, requests: list[Request]) -> Payload | None:
        """Return what the tiles have together, before each gets its part."""
        kind = requests[0].kind
        if kind is Collective.BARRIER:
            return None
        if kind is Collective.BROADCAST:
            return requests[requests[0].root].payload
        payloads = [request.payload for request in requests if request.payload is not None]
        if kind is Collective.ALL_GATHER:
            return Payload(
                np.concatenate([payload.words for payload in payloads]),
                np.concatenate([payload.about for payload in payloads]),
            )
        stacked = np.stack([payload.words[:, 0] for payload in payloads])
        if kind in _SUMS:
            return Payload.of_words(ring_sum(stacked))
        return Payload.of_words(fp32.reduce_max(stacked.view(np.float32).T).view(np.uint32))
