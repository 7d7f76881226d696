"""Which way of a set was not used for long: pseudo-LRU, a binary tree over the ways.

Node n has the children 2n and 2n + 1; the root is node 1. A node's bit says in which half of its
ways the victim is. The bit of node n is bit n; bit 0 is not used.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Mux, Value
from amaranth.utils import exact_log2


def victim(bits: Value, ways: int) -> Value:
    """Return the way, as a number, to which the bits lead."""
    levels = exact_log2(ways)

    def below(node: int, depth: int) -> Value:
        if depth == levels:
            return Const(node - ways, max(1, levels))
        return Mux(bits[node], below(2 * node + 1, depth + 1), below(2 * node, depth + 1))

    return below(1, 0)


def touched(bits: Value, way: Value, ways: int) -> Value:
    """Return the bits after a way was used: every node on the way to it points away from it."""
    levels = exact_log2(ways)
    result = [bits[0]]
    for node in range(1, ways):
        depth = node.bit_length() - 1
        below = way[levels - depth :] if depth else Const(0)
        on_path = (below == node - (1 << depth)) if depth else Const(1)
        result.append(Mux(on_path, ~way[levels - depth - 1], bits[node]))
    return Cat(result)
