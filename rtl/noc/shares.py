"""How an output divides its time among the inputs that contend for it.

Merging two streams one to one halves, at every router, what the tiles behind them get, and the
farthest tile of a row is left with next to nothing. So an output's time is divided by how many
tiles can come through each input: then all of them get the same.

A share is a range of numbers. An output counts what it has sent and reads the count with its bits
reversed, which visits every range about evenly; the input in whose range it falls comes first.
"""

from __future__ import annotations

from amaranth.lib import data
from amaranth.utils import ceil_log2

from rtl.config import Mesh
from rtl.noc.geometry import Side, inputs_of

__all__ = ["SharesLayout", "count_bits", "shares", "sources"]

COUNT_BITS_MIN = 2
"""Two bits of the count choose who comes next where the input at its turn has nothing to send."""


def count_bits(mesh: Mesh) -> int:
    """Return the width of an output's count, enough for a share of every tile."""
    return max(COUNT_BITS_MIN, ceil_log2(mesh.tiles))


def sources(mesh: Mesh, tile: int) -> dict[tuple[Side, Side], int]:
    """Return for every way through a tile's router how many tiles have a path that takes it."""
    x, y = tile % mesh.x, tile // mesh.x
    east, west = mesh.x - 1 - x, x
    south, north = mesh.x * y, mesh.x * (mesh.y - 1 - y)
    beyond = {
        Side.LOCAL: 1, Side.EAST: east, Side.WEST: west, Side.NORTH: north, Side.SOUTH: south,
    }  # fmt: skip
    # Where there is nothing beyond a side, nobody goes.
    return {(i, o): beyond[i] if beyond[o] else 0 for o in Side for i in inputs_of(o)}


def shares(mesh: Mesh, tile: int) -> dict[str, list[int]]:
    """Return where the ranges of the inputs begin, for each output; the first begins at 0."""
    size = 1 << count_bits(mesh)
    counted = sources(mesh, tile)
    result = {}
    for o in Side:
        weights = [counted[i, o] for i in inputs_of(o)]
        total = sum(weights) or 1
        starts, before = [], 0
        for weight in weights[:-1]:
            before += weight
            starts.append((2 * size * before + total) // (2 * total))  # rounded
        result[o.name.lower()] = starts
    return result


class SharesLayout(data.StructLayout):
    """Shares of every output of a router.

    Parameters
    ----------
    bits
        Width of the counts.
    """

    def __init__(self, bits: int) -> None:
        super().__init__(
            {o.name.lower(): data.ArrayLayout(bits + 1, len(inputs_of(o)) - 1) for o in Side}
        )
