"""The blocks that can be generated, tested and measured by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from amaranth.lib import wiring

from gen.lookup import lookup
from rtl.config import TileConfig


@dataclass(frozen=True)
class Block:
    """A block of the chip that stands for itself.

    Attributes
    ----------
    name
        Name on the command line and in file and module names.
    description
        What it is, as a phrase.
    build
        Function that makes the component from a configuration. It imports the hardware itself, so
        that listing blocks loads none.
    """

    name: str
    description: str
    build: Callable[[TileConfig], wiring.Component]


def _mac(config: TileConfig) -> wiring.Component:
    from rtl.mac import MatrixEngine

    return MatrixEngine(config)


def _hbm(config: TileConfig) -> wiring.Component:
    from rtl.hbm.slice import HbmSlice

    return HbmSlice(config)


def _vec(config: TileConfig) -> wiring.Component:
    from rtl.vec import VectorEngine

    return VectorEngine(config)


def _matrix(config: TileConfig) -> wiring.Component:
    from rtl.matrix import StandaloneMatrixUnit

    return StandaloneMatrixUnit(config)


def _l1(config: TileConfig) -> wiring.Component:
    from rtl.l1 import L1Cache

    return L1Cache(config)


def _memory(config: TileConfig) -> wiring.Component:
    from rtl.memory.standalone import StandaloneMemoryEngine

    return StandaloneMemoryEngine(config)


def _core(config: TileConfig) -> wiring.Component:
    from rtl.core.core import Core

    return Core(config)


def _host(config: TileConfig) -> wiring.Component:
    from rtl.host import HostPort

    return HostPort(config)


def _ring(config: TileConfig) -> wiring.Component:
    from rtl.ring import StandaloneRing

    return StandaloneRing(config)


def _noc(config: TileConfig) -> wiring.Component:
    from rtl.noc import Noc

    return Noc(config)


def _message(config: TileConfig) -> wiring.Component:
    from rtl.message import StandaloneMessages

    return StandaloneMessages(config)


def _streaming(config: TileConfig) -> wiring.Component:
    from rtl.streaming import StreamingEngine

    return StreamingEngine(config)


def _tile(config: TileConfig) -> wiring.Component:
    from rtl.tile import Tile

    return Tile(config)


BLOCKS: Mapping[str, Block] = MappingProxyType(
    {
        block.name: block
        for block in [
            Block("mac", "matrix engine: streamed weights past stationary activations", _mac),
            Block("matrix", "matrix unit: matrix engine with its ways to registers", _matrix),
            Block("vec", "vector engine: registers, and one pass over their rows at a time", _vec),
            Block("l1", "L1 cache in front of the HBM slice", _l1),
            Block("memory", "memory engine: loads, stores and appends, with L1", _memory),
            Block("core", "core: scalar unit, renamed registers, issue window", _core),
            Block("ring", "collective ring: a node and registers for every tile", _ring),
            Block("noc", "network on chip: two meshes of routers, for requests and replies", _noc),
            Block(
                "message", "message engines: one with registers for every tile, on a NoC", _message
            ),
            Block("host", "host port: AXI4 to the memory, AXI4-Lite to the registers", _host),
            Block("hbm", "HBM slice: a controller for every pseudo-channel", _hbm),
            Block("tile", "tile: core, engines, L1 and HBM slice, all that runs a model", _tile),
            Block("streaming", "matrix engine fed from the HBM slice, host port", _streaming),
        ]
    }
)
"""Every block by name."""


def find(name: str) -> Block:
    """Return the block called `name`.

    Raises
    ------
    UnknownName
        There is none.
    """
    return lookup("block", BLOCKS, name)
