"""Energy from counted events and a table of what each costs.

The table is data: a TOML file with one section per event. ``energy.toml`` beside this module is the
default, and says where its numbers come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gen.configuration import read_toml
from sim import cache

EVENTS = (
    "hbm_byte",
    "mac44",
    "window_add",
    "stream_byte",
    "vector_element",
    "l1_access",
    "instruction",
    "link_byte",
)
"""What is counted, by the names of the default table."""

DEFAULT = Path(__file__).with_name("energy.toml")


class EnergyError(ValueError):
    """A table was refused; the message is one sentence."""


@dataclass(frozen=True)
class EnergyTable:
    """Energies of events.

    Attributes
    ----------
    name
        What it is about.
    picojoules
        Energy by event.
    """

    name: str
    picojoules: Mapping[str, float]

    @property
    def hash(self) -> str:
        """Hash of its numbers."""
        return cache.content_key(dict(self.picojoules))[:12]

    def estimate(self, events: Mapping[str, float]) -> float | None:
        """Return the energy of events in pJ; `None` where nothing was counted."""
        if not events:
            return None
        return sum(count * self.picojoules[event] for event, count in events.items())


def default_table() -> EnergyTable:
    """Return the table that is used if no other is named."""
    return read_table(DEFAULT)


def read_table(path: Path) -> EnergyTable:
    """Return the table in a TOML file.

    Raises
    ------
    EnergyError
        An event is missing or unknown, or an energy is no number from 0.
    ConfigError
        The file cannot be read or is not TOML.
    """
    values = read_toml(path)
    name = str(values.pop("name", path.stem))
    for event in values.keys() - set(EVENTS):
        raise EnergyError(f"{path}: there is no event {event}; choose from {', '.join(EVENTS)}.")
    picojoules = {}
    for event in EVENTS:
        section: Any = values.get(event)
        pj = section.get("pj") if isinstance(section, dict) else None
        if not isinstance(pj, int | float) or isinstance(pj, bool) or not 0 <= pj < float("inf"):
            raise EnergyError(f"{path}: {event}.pj is {pj}; it must be a number of pJ from 0.")
        picojoules[event] = float(pj)
    return EnergyTable(name, picojoules)
