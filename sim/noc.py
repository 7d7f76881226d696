"""Traffic for the mesh: a simulation of it under load, and what could be carried at best.

Every tile gets a source and a sink in SystemVerilog, so that Python need not follow each cycle:
``tb/run_noc.py`` sets a pattern and a load, and reads the sums.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gen.verilog import VerilogDesign, emit
from rtl.config import Mesh, TileConfig
from rtl.noc.geometry import Side, neighbour, path
from rtl.noc.mesh import MeshNetwork

__all__ = [
    "CONTROLS",
    "PATTERNS",
    "RESULTS",
    "Harness",
    "Pattern",
    "fair_shares",
    "harness",
    "keep_routers",
    "saturation",
]

TRAFFIC = Path(__file__).parent / "noc_traffic.sv"
FLIT_BYTES = 8
"""The flits of the harness: it puts numbers of 64 bits into them."""


@dataclass(frozen=True)
class Pattern:
    """Where packets go.

    Attributes
    ----------
    code
        Number of the pattern in ``noc_traffic.sv``.
    hot
        Share of the packets of every other tile that goes to the hot one.
    """

    code: int
    hot: float = 0.0

    def shares(self, mesh: Mesh) -> dict[tuple[int, int], float]:
        """Return of what each tile sends, the share that goes to each other."""
        n, hot = mesh.tiles, mesh.x // 2 + mesh.x * (mesh.y // 2)
        found: dict[tuple[int, int], float] = defaultdict(float)
        for tile in range(n):
            y, x = divmod(tile, mesh.x)
            near = [neighbour(mesh, tile, side) for side in Side if side is not Side.LOCAL]
            match self.code:
                case 1:
                    parts = {y + mesh.x * x: 1.0}
                case 2:
                    parts = {n - 1 - tile: 1.0}
                case 4:
                    others = [other for other in near if other is not None]
                    parts = dict.fromkeys(others, 1 / len(others))
                case _:
                    share = self.hot if tile != hot else 0.0
                    parts = {to: (1 - share) / (n - 1) for to in range(n) if to != tile}
                    if share:
                        parts[hot] += share
            for to, part in parts.items():
                found[tile, to] += part
        return dict(found)


PATTERNS: Mapping[str, Pattern] = {
    "uniform": Pattern(0),
    "transpose": Pattern(1),
    "complement": Pattern(2),
    "hotspot_twentieth": Pattern(3, 0.05),
    "hotspot_tenth": Pattern(3, 0.1),
    "hotspot_fifth": Pattern(3, 0.2),
    "neighbour": Pattern(4),
}
"""By name. Uniform traffic leaves out the tile itself; a transpose is for square meshes."""


def channel_loads(pattern: Pattern, mesh: Mesh) -> list[dict[int, float]]:
    """Return for every channel, ways in and out included, what each tile's packets load it with."""
    loads: dict[object, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for (source, to), part in pattern.shares(mesh).items():
        loads["in", source][source] += part
        for tile, _, leaves in path(mesh, source, to):
            loads[tile, leaves][source] += part
    return [dict(load) for load in loads.values()]


def saturation(pattern: Pattern, mesh: Mesh) -> float:
    """Return what every tile can send at most if all send the same."""
    return 1 / max(sum(load.values()) for load in channel_loads(pattern, mesh))


def fair_shares(pattern: Pattern, mesh: Mesh) -> list[float]:
    """Return what each tile gets to send if nobody can have more without one having less.

    All rates grow together; tiles whose packets meet a channel that is full stay where they are.
    """
    channels = channel_loads(pattern, mesh)
    rates: dict[int, float] = {}
    while len(rates) < mesh.tiles:
        limits = []
        for load in channels:
            growing = sum(part for tile, part in load.items() if tile not in rates)
            used = sum(part * rates[tile] for tile, part in load.items() if tile in rates)
            limits.append((1 - used) / growing if growing > 1e-12 else float("inf"))
        rate = min(limits)
        for load, limit in zip(channels, limits, strict=True):
            if limit <= rate + 1e-9:
                rates |= {tile: rate for tile in load if tile not in rates}
    return [rates[tile] for tile in range(mesh.tiles)]


def keep_routers(design: VerilogDesign) -> str:
    """Return a file for Verilator by which routers stay modules: code for each would be long."""
    names = [name for name in design.modules if re.fullmatch(r"noc_router_\d+_\d+_\d+", name)]
    return "`verilator_config\n" + "".join(f'no_inline -module "{name}"\n' for name in names)


CONTROLS = {
    "seed": 32,
    "load": 33,
    "pattern": 3,
    "hot": 33,
    "single": 1,
    "from_tile": 8,
    "to_x": 4,
    "to_y": 4,
    "warm_up": 32,
    "measured": 32,
}
"""Inputs of the harness, and widths."""

RESULTS = {"injected": 32, "ejected": 32, "latency": 64, "errors": 32}
"""Its outputs for each tile, and widths; beside them there is `done`."""


@dataclass(frozen=True)
class Harness:
    """A mesh with traffic.

    Attributes
    ----------
    sources
        Verilog by file name.
    top
        Name of the top module.
    ports
        Its ports.
    design
        The mesh.
    """

    sources: Mapping[str, str]
    top: str
    ports: tuple[str, ...]
    design: VerilogDesign


def harness(config: TileConfig) -> Harness:
    """Return a network with a source and a sink at every tile.

    Parameters
    ----------
    config
        Configuration with mesh and buffers, and flits of 8 bytes.
    """
    if config.flit_bytes != FLIT_BYTES:
        raise ValueError(f"flits have {config.flit_bytes} bytes; traffic needs {FLIT_BYTES}.")
    design = emit(MeshNetwork(config), "mesh", config)
    mesh, tiles = config.mesh, config.tiles
    controls = [name for name in CONTROLS if name not in ("warm_up", "measured")]
    wires, links, parts = [], [], []
    for tile in range(tiles):
        y, x = divmod(tile, mesh.x)
        ways = {
            "inject_payload": f"in_{tile}",
            "inject_valid": f"in_valid_{tile}",
            "inject_ready": f"in_ready_{tile}",
            "eject_payload": f"out_{tile}",
            "eject_valid": f"out_valid_{tile}",
        }
        sums = {name: f"{name}[{width * tile} +: {width}]" for name, width in RESULTS.items()}
        common = {name: name for name in ("clk", "rst", "cycle", "measuring", *controls)}
        wires += [
            f"  wire [64:0] in_{tile}, out_{tile};",
            f"  wire in_valid_{tile}, in_ready_{tile}, out_valid_{tile};",
        ]
        links += [
            f"    .{way}__{tile}__{part}({ways[f'{way}_{part}']}),"
            for way, part in (name.split("_") for name in ways)
        ]
        links.append(f"    .eject__{tile}__ready(1'b1),")
        parts += [
            f"  noc_traffic #(.X({x}), .Y({y}), .MESH_X({mesh.x}), .MESH_Y({mesh.y}))",
            f"    traffic_{tile} ({_connections(common | ways | sums)});",
        ]
    inputs = "".join(f"  input wire [{width - 1}:0] {name},\n" for name, width in CONTROLS.items())
    outputs = "".join(
        f"  output wire [{width * tiles - 1}:0] {name},\n" for name, width in RESULTS.items()
    )
    text = "\n".join(
        [
            f"module noc_harness (\n  input wire clk,\n  input wire rst,\n{inputs}{outputs}"
            "  output wire done\n);",
            "  reg [31:0] cycle;",
            "  always @(posedge clk) cycle <= rst ? 0 : cycle + 1;",
            "  wire measuring = cycle >= warm_up && cycle < warm_up + measured;",
            "  assign done = !rst && cycle >= warm_up + measured;",
            *wires,
            f"  {design.top} network (",
            *links,
            "    .refused(), .clk(clk), .rst(rst));",
            *parts,
            "endmodule\n",
        ]
    )
    sources = {
        "noc_modules.vlt": keep_routers(design),
        "noc_traffic.sv": TRAFFIC.read_text(),
        f"{design.top}.sv": design.text,
        "noc_harness.sv": text,
    }
    return Harness(sources, "noc_harness", ("clk", "rst", *CONTROLS, *RESULTS, "done"), design)


def _connections(ports: Mapping[str, str]) -> str:
    return ", ".join(f".{port}({wire})" for port, wire in ports.items())
