"""Tiles in a ring: which links meet, and which ports are left."""

import re
from types import SimpleNamespace

import pytest

from sim.hbm.harness import Harness
from sim.tiles import ring_of

LINKS = [
    (way, f"{link}_{part}")
    for link, side in (("up", "out"), ("up", "in"), ("down", "out"), ("down", "in"))
    for part, way in (
        (f"{side}__payload", "output" if side == "out" else "input"),
        (f"{side}__valid", "output" if side == "out" else "input"),
        (f"{side}__ready", "input" if side == "out" else "output"),
    )
]
FLITS = [
    (way, f"{network}_{side}__{part}")
    for network in ("requests", "replies")
    for side in ("in", "out")
    for part in ("payload", "valid", "ready")
    for way in ["output" if (side == "out") != (part == "ready") else "input"]
]
PORTS = [
    ("input", "clk"),
    ("input", "rst"),
    ("output", "running"),
    ("input", "number"),
    *LINKS,
    *FLITS,
]
TILE = Harness(
    top="tile",
    sources={
        "tile.sv": "module tile import package::*; (\n"
        + ",\n".join(f"  {way} logic [0:0] {name}" for way, name in PORTS)
        + "\n);\n  inner inner0 (.clk(clk));\nendmodule\n",
        "inner.sv": "",
    },
    ports=tuple(name for _, name in PORTS),
    channels=2,
    rows=64,
)


@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_ring_of(tiles):
    ring = ring_of(TILE, tiles)
    text = ring.sources[f"{ring.top}.sv"]
    assert ring.sources.keys() == {"tile.sv", "inner.sv", "tile_ring.sv"}
    assert (ring.channels, ring.rows) == (2 * tiles, 64)
    outer = ("rst", "running", "number", *(name for _, name in FLITS))
    each = [f"tile{i}_{name}" for i in range(tiles) for name in outer]
    assert ring.ports == ("clk", "stall", *each)
    assert f"input logic [{2 * tiles - 1}:0] stall" in text
    assigned = dict(re.findall(r"assign (\w+) = (.+);", text))
    assert len(assigned) == 6 * tiles
    for i in range(tiles):
        for way, j, bit in (("up", (i + 1) % tiles, i), ("down", (i - 1) % tiles, tiles + i)):
            out, into = f"tile{i}_{way}_out__", f"tile{j}_{way}_in__"
            assert assigned[f"{into}payload"] == f"{out}payload"
            assert assigned[f"{into}valid"] == f"{out}valid & ~stall[{bit}]"
            assert assigned[f"{out}ready"] == f"{into}ready & ~stall[{bit}]"


def test_ring_of_tiles_on_a_network():
    """Every tile has its number, and its flits go to its place in both networks."""
    ring = ring_of(TILE, 2, SimpleNamespace(top="noc", text="module noc(); endmodule"))
    text = ring.sources[f"{ring.top}.sv"]
    assert ring.sources["noc.sv"]
    each = [f"tile{i}_{name}" for i in range(2) for name in ("rst", "running")]
    assert ring.ports == ("clk", "stall", *each)
    assert dict(re.findall(r"assign (\w+_number) = (.+);", text)) == {
        "tile0_number": "0",
        "tile1_number": "1",
    }
    (network,) = re.findall(r"  noc noc \((.+)\);", text)
    wires = dict(re.findall(r"\.(\w+)\((\w+)\)", network))
    assert wires.pop("clk") == "clk"
    assert wires.pop("rst") == "tile0_rst"
    assert wires["requests__inject__1__valid"] == "tile1_requests_out__valid"
    assert wires["replies__eject__0__ready"] == "tile0_replies_in__ready"
    assert len(wires) == len(set(wires.values())) == 2 * len(FLITS)
