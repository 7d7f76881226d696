"""Sides of a router, the turns it can make, and where flits go: plain Python, no hardware."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from rtl.config import Mesh

__all__ = ["ORDERS", "PAIRS", "Side", "hops", "inputs_of", "neighbour", "outputs_of", "path"]


class Side(IntEnum):
    """Sides of a router: its tile, and its neighbours; x grows to the east, y to the north."""

    LOCAL = 0
    EAST = 1
    WEST = 2
    NORTH = 3
    SOUTH = 4

    @property
    def opposite(self) -> Side:
        """The side of the neighbour that faces this one."""
        return _OPPOSITE[self]


_OPPOSITE = {
    Side.LOCAL: Side.LOCAL,
    Side.EAST: Side.WEST,
    Side.WEST: Side.EAST,
    Side.NORTH: Side.SOUTH,
    Side.SOUTH: Side.NORTH,
}

_STEPS = {Side.EAST: (1, 0), Side.WEST: (-1, 0), Side.NORTH: (0, 1), Side.SOUTH: (0, -1)}


def outputs_of(side: Side) -> tuple[Side, ...]:
    """Return where a flit that came in from a side can leave: in y only after x, and never back."""
    if side is Side.LOCAL:
        return tuple(Side)
    straight = side.opposite
    turns = (Side.NORTH, Side.SOUTH) if side in (Side.EAST, Side.WEST) else ()
    return (Side.LOCAL, *sorted({straight, *turns}))


def inputs_of(side: Side) -> tuple[Side, ...]:
    """Return the sides whose flits can leave at a side."""
    return tuple(i for i in Side if side in outputs_of(i))


PAIRS = tuple((i, o) for i in Side for o in outputs_of(i))
"""Every way through a router, (from, to), those from the same side together."""

ORDERS = tuple(
    (i, o, other) for i in Side for o in outputs_of(i) for other in outputs_of(i) if o < other
)
"""Every two ways that begin at the same side: (from, to, or to)."""


def neighbour(mesh: Mesh, tile: int, side: Side) -> int | None:
    """Return the number of the tile at a side of another, or None at the edge of the mesh."""
    dx, dy = _STEPS[side]
    x, y = tile % mesh.x + dx, tile // mesh.x + dy
    return x + mesh.x * y if 0 <= x < mesh.x and 0 <= y < mesh.y else None


def step(mesh: Mesh, tile: int, to: int) -> Side:
    """Return the side at which a flit leaves a tile on its way to another: first x, then y."""
    dx, dy = to % mesh.x - tile % mesh.x, to // mesh.x - tile // mesh.x
    if dx:
        return Side.EAST if dx > 0 else Side.WEST
    if dy:
        return Side.NORTH if dy > 0 else Side.SOUTH
    return Side.LOCAL


def path(mesh: Mesh, source: int, to: int) -> Iterator[tuple[int, Side, Side]]:
    """Yield the routers on the way between two tiles, with the sides of coming and leaving."""
    tile, came = source, Side.LOCAL
    while True:
        leaves = step(mesh, tile, to)
        yield tile, came, leaves
        if leaves is Side.LOCAL:
            return
        following = neighbour(mesh, tile, leaves)
        assert following is not None, "a way leaves the mesh"
        tile, came = following, leaves.opposite


def hops(mesh: Mesh, source: int, to: int) -> int:
    """Return how many links there are between two tiles."""
    return sum(1 for _ in path(mesh, source, to)) - 1
