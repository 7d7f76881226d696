"""Benches: each measures one block on the RTL and returns figures."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rtl.config import TileConfig
from sim.figures import Figure
from sim.progress import ProgressReporter


class UnknownBench(ValueError):
    """There is no bench of that name; the message is one sentence that says which there are."""


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


BENCHES: Mapping[str, Bench] = MappingProxyType(
    {
        bench.name: bench
        for bench in [
            Bench("mac", "matrix engine: throughput under Verilator, size by Yosys", _mac),
        ]
    }
)
"""Every bench by name."""


def find(name: str) -> Bench:
    """Return the bench called `name`.

    Raises
    ------
    UnknownBench
        There is none.
    """
    if name not in BENCHES:
        near = difflib.get_close_matches(name, BENCHES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(BENCHES)}."
        raise UnknownBench(f"There is no bench {name}; {hint}")
    return BENCHES[name]
