"""Several tiles in a ring, each with its memory.

>>> harness = ring_of(attach(emit(Tile(config), "tile", config), rows=256), 2)   # doctest: +SKIP
>>> verilator.build(harness.sources, harness.top, harness.ports)                 # doctest: +SKIP

Ports of tile i are those of the tile with ``tile<i>_`` before them, its reset among them; all have
one clock. Links are inside; each has a bit of ``stall``, those up first, that makes it carry
nothing in a cycle.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gen.verilog import VerilogDesign
from sim.hbm.harness import Harness

_PORT = re.compile(r"^  (input|output) logic (\[\d+:0\]) (\w+)", re.MULTILINE)
_LINK = re.compile(r"(up|down)_(in|out)__(payload|valid|ready)")
_FLITS = re.compile(r"(requests|replies)_(in|out)__(payload|valid|ready)|number")


def ring_of(tile: Harness, tiles: int, noc: VerilogDesign | None = None) -> Harness:
    """Return so many of a tile with its memory, in a ring, and on a network on chip.

    Parameters
    ----------
    tile
        What `sim.hbm.harness.attach` made of it.
    tiles
        How many, at least 1.
    noc
        The network, of a mesh of as many tiles; it is reset with tile 0. None if left out.
    """
    header, _, _ = tile.sources[f"{tile.top}.sv"].partition(");")
    ports = _PORT.findall(header)
    links = {
        name: width
        for _, width, name in ports
        if _LINK.fullmatch(name) or (noc and _FLITS.fullmatch(name))
    }
    outer = [port for port in ports if port[2] not in links and port[2] != "clk"]
    declared = [("input", "[0:0]", "clk"), ("input", f"[{2 * tiles - 1}:0]", "stall")]
    lines = []
    for i in range(tiles):
        prefix = f"tile{i}_"
        declared += [(way, width, prefix + name) for way, width, name in outer]
        lines += [f"  logic {width} {prefix}{name};" for name, width in links.items()]
        inner = ["clk", *(name for _, _, name in ports if name != "clk")]
        connections = ", ".join(
            f".{name}({name if name == 'clk' else prefix + name})" for name in inner
        )
        lines.append(f"  {tile.top} tile{i} ({connections});")
        for way, neighbour, bit in (
            ("up", (i + 1) % tiles, i),
            ("down", (i - 1) % tiles, tiles + i),
        ):
            out, into = f"{prefix}{way}_out__", f"tile{neighbour}_{way}_in__"
            lines += [
                f"  assign {into}payload = {out}payload;",
                f"  assign {into}valid = {out}valid & ~stall[{bit}];",
                f"  assign {out}ready = {into}ready & ~stall[{bit}];",
            ]
    sources = dict(tile.sources)
    if noc:
        sources[f"{noc.top}.sv"] = noc.text
        lines += [f"  assign tile{i}_number = {i};" for i in range(tiles)]
        wires = {"clk": "clk", "rst": "tile0_rst"} | {
            f"{network}__{end}__{i}__{part}": f"tile{i}_{network}_{way}__{part}"
            for network in ("requests", "replies")
            for end, way in (("inject", "out"), ("eject", "in"))
            for i in range(tiles)
            for part in ("payload", "valid", "ready")
        }
        connections = ", ".join(f".{port}({wire})" for port, wire in wires.items())
        lines.append(f"  {noc.top} noc ({connections});")
    top = f"{tile.top}_ring"
    text = ",\n".join(f"  {way} logic {width} {name}" for way, width, name in declared)
    body = "\n".join(lines)
    source = f"module {top} (\n{text}\n);\n{body}\nendmodule\n"
    return replace(
        tile,
        top=top,
        sources={**sources, f"{top}.sv": source},
        ports=tuple(name for _, _, name in declared),
        channels=tiles * tile.channels,
    )
