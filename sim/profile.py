"""Where the cycles of a program go: from what a tile's probe showed, by phase and by cause.

A cycle in which the matrix engine takes a beat of an operand is one that memory's peak allows.
Every other cycle is lost, to one cause, in the phase that the next product belongs to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from amaranth.lib import data
from numpy.typing import NDArray

from gen.assembler import Program
from gen.mx import Bytes
from rtl.config import TileConfig
from rtl.core.isa import OPCODES
from rtl.core.window import Engine
from rtl.tile import ProbeLayout

Numbers = NDArray[np.int64]

CAUSES = ("memory", "vector", "loads", "front end", "array")
"""What a lost cycle waits for: beats that were asked for; the vector unit, or loads and stores, in
order that a product can begin; instructions; products that were begun."""


@dataclass(frozen=True)
class Phase:
    """A part of a program.

    Attributes
    ----------
    name
        As `gen.kernels` calls it.
    beats
        Cycles in which the matrix engine took a beat.
    lost
        The other cycles, by cause.
    """

    name: str
    beats: int = 0
    lost: Counter[str] = field(default_factory=Counter)

    @property
    def cycles(self) -> int:
        """All cycles."""
        return self.beats + self.lost.total()


def profile(config: TileConfig, record: Bytes, program: Program) -> list[Phase]:
    """Return where cycles went, phase by phase.

    Parameters
    ----------
    config
        Of the tile.
    record : uint8 [cycles, bytes]
        What `sim.tile.RunningTile.record` returned.
    program
        What ran.
    """
    shown = fields(config, record)
    names = {line.address: (line.phase, line.instruction.name) for line in program.lines}
    phases: dict[str, Phase] = {}
    for name, beat, cause in zip(_phases(shown, names), shown["beat"], _causes(shown), strict=True):
        phase = phases.setdefault(name, Phase(name))
        if beat:
            phases[name] = Phase(name, phase.beats + 1, phase.lost)
        else:
            phase.lost[CAUSES[cause]] += 1
    return list(phases.values())


def fields(config: TileConfig, record: Bytes) -> dict[str, Numbers]:
    """Return the fields of the probe by name, int64 [cycles], those of structures by paths."""
    bits = np.unpackbits(record, axis=1, bitorder="little").astype(np.int64)
    return {
        name: bits[:, lsb : lsb + width] @ (1 << np.arange(width))
        for name, lsb, width in _flat(ProbeLayout(config))
    }


def _flat(layout: data.Layout, prefix: str = "", lsb: int = 0) -> list[tuple[str, int, int]]:
    """Return name, lowest bit and width of everything in a layout."""
    found = []
    for key, part in layout:
        name, start = f"{prefix}{key}", lsb + part.offset
        if isinstance(part.shape, data.Layout):
            found += _flat(part.shape, f"{name}.", start)
        else:
            found.append((name, start, part.width))
    return found


def _causes(shown: Mapping[str, Numbers]) -> Numbers:
    """Return the number of the cause for each cycle, were it lost."""
    asked = (shown["asked"] == 1) & (shown["waits"] == 0)
    working = shown["step"] == 1
    conditions = [asked, working, shown["vector"] == 1, shown["memory"] == 1]
    causes = [CAUSES.index(name) for name in ("memory", "array", "vector", "loads")]
    return np.select(conditions, causes, CAUSES.index("front end"))


def _phases(shown: Mapping[str, Numbers], names: Mapping[int, tuple[str, str]]) -> list[str]:
    """Return the phase of each cycle: that of the next product to end, or of what is oldest."""
    waiting: dict[int, int] = {}  # instructions in the window, in order: entry and address
    current, found = next(iter(names.values()))[0], []
    enters, done = shown["window.enter"], shown["window.done"]
    for cycle in range(len(enters)):
        if enters[cycle]:
            waiting[int(shown["window.tail"][cycle])] = int(shown["window.pc"][cycle])
        if done[cycle]:
            for engine in Engine:
                if done[cycle] >> engine & 1:
                    del waiting[int(shown[f"window.ended.{engine:d}"][cycle])]
        if waiting:
            products = (a for a in waiting.values() if names[a][1] == OPCODES["matrix"].name)
            current = names[next(products, next(iter(waiting.values())))][0]
        found.append(current)
    return found
