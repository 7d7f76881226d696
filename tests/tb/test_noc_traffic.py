"""The mesh under load, as the bench measures it, and what it is measured against."""

import pytest

from rtl.config import Mesh, TileConfig
from sim.bench import noc as bench
from sim.noc import PATTERNS, Pattern, fair_shares, harness, saturation
from sim.progress import NoProgress


@pytest.mark.parametrize(
    ("name", "mesh", "bound"),
    [
        ("uniform", Mesh(4, 4), 15 / 16),
        ("uniform", Mesh(8, 8), 63 / 128),
        ("transpose", Mesh(4, 4), 1 / 3),
        ("transpose", Mesh(8, 8), 1 / 7),
        ("complement", Mesh(4, 4), 1 / 2),
        ("complement", Mesh(8, 8), 1 / 4),
        ("hotspot_twentieth", Mesh(4, 4), 1 / (15 * 0.05 + 0.95)),
        ("hotspot_fifth", Mesh(8, 8), 1 / (63 * 0.2 + 0.8)),
        ("neighbour", Mesh(4, 4), 6 / 7),
    ],
)
def test_saturation_is_that_of_the_fullest_channel(name, mesh, bound):
    assert saturation(PATTERNS[name], mesh) == pytest.approx(bound)


def test_packets_of_every_tile_add_up():
    for mesh in (Mesh(4, 4), Mesh(2, 3)):
        for pattern in PATTERNS.values():
            if pattern.code == 1 and mesh.x != mesh.y:
                continue
            sums = dict.fromkeys(range(mesh.tiles), 0.0)
            for (source, _), part in pattern.shares(mesh).items():
                sums[source] += part
            assert list(sums.values()) == pytest.approx([1.0] * mesh.tiles)


def test_fair_shares():
    # In a row of three, the middle one is in nobody's way but its own.
    assert fair_shares(Pattern(2), Mesh(3, 1)) == pytest.approx([1, 1, 1])
    # The outer half of a row and the inner half share the link in the middle.
    assert fair_shares(Pattern(2), Mesh(4, 1)) == pytest.approx([0.5] * 4)
    # The diagonal sends to itself, and nobody else passes there on the way to its tile.
    shares = fair_shares(PATTERNS["transpose"], Mesh(4, 4))
    assert shares[0] == shares[5] == pytest.approx(1)
    assert min(shares) == pytest.approx(1 / 3)


def test_traffic_needs_its_flits():
    with pytest.raises(ValueError, match="flits have 4 bytes; traffic needs 8"):
        harness(TileConfig(mesh="2x2", flit_bytes=4))


def test_figures_of_a_small_mesh(monkeypatch):
    mesh = Mesh(2, 2)
    monkeypatch.setattr(bench, "MESHES", (mesh,))
    figures = {f.name: f for f in bench.run(TileConfig(noc_buffer=4), NoProgress())}
    assert figures["noc.cycles_per_hop"].value == 1
    assert 0.8 < figures["noc.uniform2x2"].value < 1
    assert figures["noc.transpose2x2.last_load"].bound == 1
    assert 0.7 < figures["noc.min_node"].value <= 1.01
    assert 7000 < figures["noc.router_cells"].value <= bench.CELLS_TARGET
    assert figures["noc.router_depth"].value < 60
    for name, pattern in PATTERNS.items():
        last = figures[f"noc.{name}2x2.last_load"]
        assert 0.5 * saturation(pattern, mesh) < last.value <= last.bound
