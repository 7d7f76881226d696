"""What tiles do together: collectives, messages, and reading each other's memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl.core.isa import Collective
from sim.golden import fp32
from sim.interpreter.errors import Fault

_SUMS = (Collective.REDUCE_SCATTER_SUM, Collective.ALL_REDUCE_SUM)
_MAXIMA = (Collective.REDUCE_SCATTER_MAXIMUM, Collective.ALL_REDUCE_MAXIMUM)
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
    """Units on their way: words, or blocks with their scales.

    Attributes
    ----------
    words : uint32 [units, words of a unit]
    extra : any [units]
        What stands beside the words: kinds and scales of blocks.
    """

    words: NDArray[np.uint32]
    extra: NDArray[Any]

    def __len__(self) -> int:
        return len(self.words)


@dataclass
class Message:
    """A message that has not been taken."""

    source: int
    tag: int
    place: int
    payload: Payload


@dataclass
class Request:
    """A tile's part in a collective."""

    kind: Collective
    place: int
    count: int
    root: int
    payload: Payload | None
    result: Payload | None = None
    where: slice = field(default_factory=lambda: slice(0, 0))
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
        self.inboxes: list[deque[Message]] = [deque() for _ in range(tiles)]
        self._requests: dict[int, Request] = {}

    def send(self, tile: int, message: Message) -> None:
        """Deliver a message."""
        self.check_tile(tile)
        self.inboxes[tile].append(message)

    def receive(self, tile: int, o: SimpleNamespace) -> Message | None:
        """Take the first message for `tile` that fits; None if there is none yet."""
        if not o.any_tile:
            self.check_tile(o.tile)
        inbox = self.inboxes[tile]
        for message in inbox:
            if (o.any_tile or message.source == o.tile) and (o.any_tag or message.tag == o.tag):
                inbox.remove(message)
                return message
        return None

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
                mine, theirs = (
                    getattr(value, name) if name in ("count", "root") else getattr(value, name).name
                    for value in (first, request)
                )
                error = f"The collective's {name} is {mine} on tile 0 and {theirs} on tile {tile}"
                for each in requests:
                    each.error, each.done = error, True
                return
        if first.kind is Collective.BROADCAST and first.root >= self.tiles:
            for each in requests:
                each.error = f"root is {first.root}, there are tiles 0 to {self.tiles - 1}"
                each.done = True
            return
        whole = self._whole(requests)
        for tile, request in enumerate(requests):
            request.done = True
            if whole is None:
                continue
            scattered = first.kind in _SCATTERS
            request.where = (
                share(first.count, tile, self.tiles) if scattered else slice(0, first.count)
            )
            request.result = Payload(whole.words[request.where], whole.extra[request.where])

    def _whole(self, requests: list[Request]) -> Payload | None:
        """Return what the tiles have together, before each gets its part."""
        kind, count = requests[0].kind, requests[0].count
        payloads = [request.payload for request in requests]
        if kind is Collective.BARRIER:
            return None
        if kind is Collective.BROADCAST:
            return payloads[requests[0].root]
        present = [payload for payload in payloads if payload is not None]
        if kind is Collective.ALL_GATHER:
            words, extra = np.copy(present[0].words), np.copy(present[0].extra)
            for tile, payload in enumerate(present):
                own = share(count, tile, self.tiles)
                words[own], extra[own] = payload.words[own], payload.extra[own]
            return Payload(words, extra)
        stacked = np.stack([payload.words[:, 0] for payload in present])
        if kind in _SUMS:
            total = ring_sum(stacked)
        else:
            assert kind in _MAXIMA
            values = stacked.view(np.float32)
            total = fp32.reduce_max(values.T).view(np.uint32)
        return Payload(total[:, None], present[0].extra)
