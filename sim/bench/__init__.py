"""Benches: each measures one block on the RTL and returns figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gen.lookup import lookup
from rtl.config import TileConfig
from sim.figures import Figure
from sim.progress import ProgressReporter


@dataclass(frozen=True)
class Bench:
    """A bench.

    Attributes
    ----------
    name
        Name on the command line, that of the block it measures.
    description
        What it measures, as a phrase.
    run
        Function that measures a configuration and returns the figures. It imports what it needs
        itself, so that listing benches loads nothing.
    """

    name: str
    description: str
    run: Callable[[TileConfig, ProgressReporter], Sequence[Figure]]


def _mac(config: TileConfig, progress: ProgressReporter) -> Sequence[Figure]:
    from sim.bench import mac

    return mac.run(config, progress)


def _hbm(config: TileConfig, progress: ProgressReporter) -> Sequence[Figure]:
    from sim.bench import hbm

    return hbm.run(config, progress)


def _vec(config: TileConfig, progress: ProgressReporter) -> Sequence[Figure]:
    from sim.bench import vec

    return vec.run(config, progress)


def _noc(config: TileConfig, progress: ProgressReporter) -> Sequence[Figure]:
    from sim.bench import noc

    return noc.run(config, progress)


def _ring(config: TileConfig, progress: ProgressReporter) -> Sequence[Figure]:
    from sim.bench import ring

    return ring.run(config, progress)


def _tile(config: TileConfig, progress: ProgressReporter) -> Sequence[Figure]:
    from sim.bench import tile

    return tile.run(config, progress)


BENCHES: Mapping[str, Bench] = MappingProxyType(
    {
        bench.name: bench
        for bench in [
            Bench("mac", "matrix engine: throughput under Verilator, size by Yosys", _mac),
            Bench("vec", "vector unit: passes, latencies, size of its arithmetic", _vec),
            Bench("ring", "collective ring: bandwidth, barrier, size of a node", _ring),
            Bench("tile", "tile: whole models, where their cycles go, size", _tile),
            Bench("hbm", "HBM slice: bandwidth, idle latency, size", _hbm),
            Bench("noc", "network on chip: throughput, latency, fairness, size", _noc),
        ]
    }
)
"""Every bench by name."""


def find(name: str) -> Bench:
    """Return the bench called `name`.

    Raises
    ------
    UnknownName
        There is none.
    """
    return lookup("bench", BENCHES, name)
