"""What the parts of a tile did while programs ran: at work, waiting, or dark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rtl.config import ACCESS_BEATS, TileConfig

Counters = Mapping[str, Mapping[str, int]]
"""Values by window and name, see `sim.tile.RunningTile.counters`."""

WIDTH = 40
"""Characters of a strip."""


@dataclass(frozen=True)
class Activity:
    """What a part did.

    Attributes
    ----------
    part
        Which.
    work
        What counts as work, as a phrase.
    active, dark
        Fractions of the cycles: in which it did that, and in which it had no clock. In the rest it
        waited.
    """

    part: str
    work: str
    active: float
    dark: float

    @property
    def strip(self) -> str:
        """A line of `WIDTH` characters: full for work, shaded for waiting, dots for dark."""
        full = round(WIDTH * self.active)
        dots = min(round(WIDTH * self.dark), WIDTH - full)
        return "█" * full + "░" * (WIDTH - full - dots) + "·" * dots


def activities(config: TileConfig, counted: Counters) -> list[Activity]:
    """Return what each part did.

    Parameters
    ----------
    config
        Of the tile.
    counted
        How far the counters moved.
    """
    core, cycles = counted["core"], counted["core"]["cycles"]
    accesses = counted["hbm"]["reads"] + counted["hbm"]["writes"]
    memory = counted["memory"]
    parts = (
        ("memory bus", "data", ACCESS_BEATS * accesses / config.pseudo_channels, 0),
        ("matrix", "block rows", counted["mac"]["steps"], core["matrix_dark"]),
        ("vector", "transfers", counted["vec"]["transfers"], core["vector_dark"]),
        (
            "load/store",
            "beats",
            memory["beats"] + memory["stores"] + memory["appends"],
            core["memory_dark"],
        ),
        ("core", "instructions", core["instructions"], 0),
        (
            "ring",
            "flits",
            max(counted["ring"]["sent_up"], counted["ring"]["sent_down"]),
            core["collective_dark"],
        ),
        ("messages", "flits", counted["message"]["flits_sent"] / 2, core["message_dark"]),
    )
    return [
        Activity(part, work, min(1.0, active / cycles), dark / cycles)
        for part, work, active, dark in parts
    ]


def bytes_by_path(config: TileConfig, counted: Counters) -> dict[str, int]:
    """Return how many bytes went each way, by its name, those of whole beats, lines and flits.

    Parameters
    ----------
    config
        Of the tile.
    counted
        How far the counters moved.
    """
    core, l1, memory = counted["core"], counted["l1"], counted["memory"]
    ring, beat = counted["ring"], config.beat_bytes
    return {
        "streamed": beat * counted["operands"]["beats"],
        "appended": beat * memory["appends"],
        "l1": ACCESS_BEATS * beat * (l1["misses"] + l1["write_backs"]),
        "registers": beat * (memory["beats"] + memory["stores"]),
        "ring": config.ring_bytes * (ring["sent_up"] + ring["sent_down"]),
        "noc": config.flit_bytes * counted["message"]["flits_sent"],
        "host": beat * (core["host_reads"] + core["host_writes"]),
    }


PATHS: Mapping[str, str] = {
    "streamed": "of operands, from memory to the matrix engine",
    "appended": "to memory past L1",
    "l1": "between L1 and memory",
    "registers": "between L1 or memory and registers, by loads and stores",
    "ring": "to the neighbours in the ring",
    "noc": "to the networks of messages",
    "host": "between host and memory, requests and answers included",
}
"""What the names of `bytes_by_path` mean."""


def moved(before: Counters, after: Counters) -> dict[str, dict[str, int]]:
    """Return how far counters moved."""
    return {
        window: {name: value - before[window][name] for name, value in values.items()}
        for window, values in after.items()
    }
