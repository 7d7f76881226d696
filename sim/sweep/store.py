"""The table of results: one SQLite file, written by any number of sweeps at once.

The file is in write-ahead mode: a process that is killed loses what it was writing and nothing
else, and readers never wait. It must lie on a local disk, as SQLite's locks need one.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sim.sweep.energy import EnergyTable
from sim.sweep.metrics import METRICS
from sim.sweep.points import Key

VERSION = 1
"""Version of the table."""

_FACTS = ("sweep", "label", "status", "reason", "work_unit", "least_is", "energy_table", "finished")
_OBJECTS = ("configuration", "workload", "measured", "tools", "varied", "events", "figures")

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS points (
    config_hash TEXT NOT NULL,
    workload_hash TEXT NOT NULL,
    tools_hash TEXT NOT NULL,
    {", ".join(f"{name} TEXT NOT NULL" for name in (*_FACTS, *_OBJECTS))},
    {", ".join(f"{name} REAL" for name in METRICS)},
    PRIMARY KEY (config_hash, workload_hash, tools_hash)
) STRICT
"""


class StoreError(Exception):
    """A file cannot be used as a store; the message is one sentence that says why."""


@dataclass(frozen=True)
class Row:
    """The result of a point.

    Attributes
    ----------
    key
        Hashes of configuration, workload and tools.
    sweep, label
        Name of the sweep that measured it, and of the workload there.
    status, reason
        ``"ok"``; or ``"failed"`` and a sentence.
    configuration, workload, measured, tools
        What the key stands for.
    varied
        Axes of that sweep and their values here.
    metrics
        Numbers by name, see `sim.sweep.metrics`; what was not measured is not there.
    work_unit, least_is
        Of what ``work`` counts, and what ``least_cycles`` is limited by.
    events, figures
        Counted events for the estimate of energy, and other counts.
    energy_table
        Hash of the table of energies.
    finished
        When, as ISO 8601.
    """

    key: Key
    sweep: str
    label: str
    status: str
    reason: str
    configuration: Mapping[str, Any]
    workload: Mapping[str, Any]
    measured: Mapping[str, Any]
    tools: Mapping[str, str]
    varied: Mapping[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)
    work_unit: str = ""
    least_is: str = ""
    events: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    energy_table: str = ""
    finished: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was measured, checks included."""
        return self.status == "ok"

    def priced(self, table: EnergyTable) -> Row:
        """Return the row with the energy that a table gives."""
        energy = table.estimate(self.events)
        metrics = {name: value for name, value in self.metrics.items() if name != "energy_pj"}
        if energy is not None:
            metrics["energy_pj"] = energy
        return Row(**{**vars(self), "metrics": metrics, "energy_table": table.hash})

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain JSON values."""
        config_hash, workload_hash, tools_hash = self.key
        rest = {name: value for name, value in vars(self).items() if name != "key"}
        hashes = {
            "config_hash": config_hash,
            "workload_hash": workload_hash,
            "tools_hash": tools_hash,
        }
        return hashes | rest


class Store:
    """Results in a file.

    Parameters
    ----------
    path
        The file; it is made if it is not there, unless `existing`.
    existing
        Whether it must be there.

    Raises
    ------
    StoreError
        It is not there, no store, or one of another version.
    """

    def __init__(self, path: Path | str, *, existing: bool = False) -> None:
        self.path = Path(path)
        if existing and not self.path.is_file():
            raise StoreError(f"{self.path} does not exist; it must be a file that a sweep made.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Each statement is a transaction of its own.
            self._database = sqlite3.connect(self.path, timeout=120, isolation_level=None)
            self._database.execute("PRAGMA busy_timeout = 120000")
            self._prepare(existing)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self.path} cannot be used as a store: {error}.") from None

    def _prepare(self, existing: bool) -> None:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise StoreError(
                f"{self.path} is of version {version}; this release reads and writes {VERSION}."
            )
        if version == 0:
            if existing:
                raise StoreError(f"{self.path} holds no results of a sweep.")
            self._wal()
            self._database.execute(_SCHEMA)
            self._database.execute(f"PRAGMA user_version = {VERSION}")
        self._database.execute("PRAGMA synchronous = FULL")

    def _wal(self) -> None:
        """Switch to write-ahead mode, which SQLite refuses while another process does it."""
        for attempt in range(100):
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if attempt == 99:
                    raise
                time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def put(self, row: Row) -> None:
        """Store a result; what succeeded is never replaced by what failed."""
        names = ["config_hash", "workload_hash", "tools_hash", *_FACTS, *_OBJECTS, *METRICS]
        values = [
            *row.key,
            *(getattr(row, name) for name in _FACTS),
            *(json.dumps(dict(getattr(row, name)), sort_keys=True) for name in _OBJECTS),
            *(row.metrics.get(name) for name in METRICS),
        ]
        marks = ", ".join("?" * len(names))
        updates = ", ".join(f"{name} = excluded.{name}" for name in names[3:])
        self._database.execute(
            f"INSERT INTO points ({', '.join(names)}) VALUES ({marks}) "
            f"ON CONFLICT DO UPDATE SET {updates} "
            "WHERE excluded.status = 'ok' OR points.status = 'failed'",
            values,
        )

    def get(self, key: Key) -> Row | None:
        """Return the result of a point, if there is one."""
        found = self._rows("WHERE config_hash = ? AND workload_hash = ? AND tools_hash = ?", key)
        return found[0] if found else None

    def rows(self) -> list[Row]:
        """Return all results, in the order in which they were finished."""
        return self._rows("ORDER BY finished, rowid")

    def _rows(self, condition: str, values: Iterable[Any] = ()) -> list[Row]:
        names = ["config_hash", "workload_hash", "tools_hash", *_FACTS, *_OBJECTS, *METRICS]
        query = f"SELECT {', '.join(names)} FROM points {condition}"
        return [
            _row(dict(zip(names, record, strict=True)))
            for record in self._database.execute(query, tuple(values))
        ]


def _row(record: dict[str, Any]) -> Row:
    metrics = {name: record.pop(name) for name in METRICS}
    key = tuple(record.pop(name) for name in ("config_hash", "workload_hash", "tools_hash"))
    objects = {name: json.loads(record.pop(name)) for name in _OBJECTS}
    known = {name: value for name, value in metrics.items() if value is not None}
    return Row(key=key, metrics=known, **objects, **record)
