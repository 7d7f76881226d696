"""Geometry of the mesh, shares of its outputs, and the channels that wait for each other."""

import json
import os
import random

import networkx as nx
import pytest

from gen.package import generate
from rtl.config import Mesh, TileConfig
from rtl.noc.dependencies import DeadlockError, check, dependencies, require_acyclic
from rtl.noc.geometry import PAIRS, Side, hops, inputs_of, neighbour, outputs_of, path
from rtl.noc.router import PlaceLayout
from rtl.noc.shares import count_bits, shares, sources

MESHES = [Mesh(*size) for size in ((1, 1), (1, 4), (5, 1), (2, 2), (4, 4), (3, 5), (16, 1), (8, 8))]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_paths_are_shortest_and_make_legal_turns(mesh):
    for source in range(mesh.tiles):
        for to in range(mesh.tiles):
            way = list(path(mesh, source, to))
            (sy, sx), (y, x) = divmod(source, mesh.x), divmod(to, mesh.x)
            assert hops(mesh, source, to) == abs(sx - x) + abs(sy - y) == len(way) - 1
            assert (way[0][:2], way[-1][0]) == ((source, Side.LOCAL), to)
            assert all((came, leaves) in PAIRS for _, came, leaves in way)


def test_ways_through_a_router():
    assert len(PAIRS) == len(set(PAIRS)) == 17
    for side in Side:
        assert (side in outputs_of(side)) == (side is Side.LOCAL)
        assert all(side in outputs_of(i) for i in inputs_of(side))
    assert outputs_of(Side.NORTH) == (Side.LOCAL, Side.SOUTH)


def test_neighbours_face_each_other():
    mesh = Mesh(3, 5)
    for tile in range(mesh.tiles):
        for side in (Side.EAST, Side.WEST, Side.NORTH, Side.SOUTH):
            other = neighbour(mesh, tile, side)
            assert other is None or neighbour(mesh, other, side.opposite) == tile


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_sources_are_those_of_all_paths(mesh):
    found = {(tile, *pair): set() for tile in range(mesh.tiles) for pair in PAIRS}
    for source in range(mesh.tiles):
        for to in range(mesh.tiles):
            for tile, came, leaves in path(mesh, source, to):
                found[tile, came, leaves].add(source)
    for tile in range(mesh.tiles):
        counted = {pair: len(found[tile, *pair]) for pair in PAIRS}
        assert sources(mesh, tile) == counted


@pytest.mark.parametrize("mesh", [*MESHES, Mesh(16, 16)], ids=str)
def test_every_source_has_a_share(mesh):
    size = 1 << count_bits(mesh)
    rng = random.Random(1)
    for tile in rng.sample(range(mesh.tiles), min(16, mesh.tiles)):
        counted = sources(mesh, tile)
        for o in Side:
            starts = [0, *shares(mesh, tile)[o.name.lower()], size]
            weights = [counted[i, o] for i in inputs_of(o)]
            if not any(weights):
                continue
            for weight, low, high in zip(weights, starts, starts[1:], strict=False):
                assert low <= high
                ideal = size * weight / sum(weights)
                assert abs(high - low - ideal) <= 1
                assert high > low or not weight
        assert PlaceLayout.of(mesh, tile).x == tile % mesh.x


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_no_channel_waits_for_itself(mesh):
    found = check(mesh)
    links = 2 * ((mesh.x - 1) * mesh.y + mesh.x * (mesh.y - 1))
    assert found["count"] == links + mesh.tiles
    assert found["longest_chain"] == mesh.x + mesh.y - 2
    assert found["acyclic"]


def test_a_circle_is_noticed():
    """What the turns from y to x would do, which the routers do not make."""
    mesh = Mesh(2, 2)
    graph = dependencies(mesh)
    assert not graph.has_edge((2, Side.SOUTH), (3, Side.WEST))
    graph.add_edges_from([((2, Side.SOUTH), (3, Side.WEST)), ((1, Side.NORTH), (0, Side.EAST))])
    assert not nx.is_directed_acyclic_graph(graph)
    with pytest.raises(DeadlockError, match=r"wait for each other in a circle: .* of [0-3]"):
        require_acyclic(graph)


def test_the_manifest_says_so(tmp_path):
    config = TileConfig(mesh="1x2", flit_bytes=4, noc_buffer=1)
    package = generate("noc", config, tmp_path)
    manifest = json.loads((package.directory / "manifest.json").read_text())
    assert manifest["facts"] == {"channels": check(config.mesh)}
    assert os.listdir(tmp_path) == [package.directory.name]
