"""Which channels of a mesh wait for which, and that none waits for itself.

A channel is the buffer behind a link. A flit in it waits for the channel that its path takes next,
and for nothing else (see `rtl.noc.buffer` for why sharing slots adds nothing). If no circle of
channels waits for each other, some flit can always move on, until all have arrived; tiles take
what arrives, by the rules of who uses the network.
"""

from __future__ import annotations

import networkx as nx

from rtl.config import Mesh
from rtl.noc.geometry import Side, path

__all__ = ["DeadlockError", "check", "dependencies"]

Channel = tuple[int, Side]
"""Tile and side of an input of a router."""


class DeadlockError(ValueError):
    """Channels wait for each other in a circle; the message is one sentence that names them."""


def dependencies(mesh: Mesh) -> nx.DiGraph[Channel]:
    """Return the graph of a mesh's channels, with an edge to each from those that wait for it.

    It is made from the paths of every tile to every tile, not from the turns that a router allows.
    """
    graph: nx.DiGraph[Channel] = nx.DiGraph()
    for source in range(mesh.tiles):
        for to in range(mesh.tiles):
            way = [(tile, came) for tile, came, _ in path(mesh, source, to)]
            nx.add_path(graph, way)
    return graph


def require_acyclic(graph: nx.DiGraph[Channel]) -> None:
    """Refuse a graph with a circle.

    Raises
    ------
    DeadlockError
        There is one.
    """
    if not nx.is_directed_acyclic_graph(graph):
        circle = [f"{side.name.lower()} of {tile}" for (tile, side), _ in nx.find_cycle(graph)]
        raise DeadlockError(f"Channels wait for each other in a circle: {', '.join(circle)}.")


def check(mesh: Mesh) -> dict[str, int | bool]:
    """Return what there is to say of a mesh's channels.

    Raises
    ------
    DeadlockError
        One waits for itself.
    """
    graph = dependencies(mesh)
    require_acyclic(graph)
    return {
        "count": graph.number_of_nodes(),
        "dependencies": graph.number_of_edges(),
        "longest_chain": nx.dag_longest_path_length(graph),
        "acyclic": True,
    }
