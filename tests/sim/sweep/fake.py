"""What measures points in the tests: no hardware, but a line in a log for each one.

``python -m tests.sim.sweep.fake SPEC STORE`` runs a sweep with it. `$FAKE_LOG` names the log,
`$FAKE_SECONDS` says how long a point takes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from sim.sweep.energy import EnergyTable
from sim.sweep.measure import failure
from sim.sweep.points import Point
from sim.sweep.read import spec_from_dict, spec_from_file
from sim.sweep.run import sweep
from sim.sweep.store import Row, Store
from sim.sweep.versions import tools

SPEC = {
    "name": "fake",
    "preset": "nano",
    "grid": {"lanes": [2, 4, 6, 8], "vec_lanes": [1, 2, 4, 8]},
    "workload": [{"name": "gemv", "kind": "mac"}],
}
"""Sixteen points."""


def spec(**changes):
    return spec_from_dict(SPEC | changes)


def row(point: Point, sweep: str = "fake", tools_hash: str = "0" * 12, **metrics: float) -> Row:
    return Row(
        key=point.key(tools_hash),
        sweep=sweep,
        label=point.workload.name,
        status="ok",
        reason="",
        configuration=point.fields,
        workload=point.workload.content,
        measured=point.measure.content,
        tools=tools(),
        varied=point.varied,
        metrics=metrics,
        work_unit="rows",
        least_is="a beat per cycle",
        events={"mac44": 1000.0, "hbm_byte": metrics.get("cycles", 0)},
        finished=f"2026-01-01T00:00:{time.monotonic() % 60:06.3f}",
    )


def measure(point: Point, sweep: str, table: EnergyTable, tools_hash: str) -> Row:
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write(f"{point.config_hash}\n")
    if point.refusal:
        return replace(failure(point, sweep, point.refusal), key=point.key(tools_hash))
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    lanes, vec_lanes = int(point.fields["lanes"]), int(point.fields["vec_lanes"])
    cycles = 4800 / lanes + 100 / vec_lanes
    metrics = {
        "cycles": cycles,
        "throughput": 1e6 / cycles,
        "least_cycles": 500,
        "roofline": 500 / cycles,
        "cells": 1000 * lanes + 3000 * vec_lanes,
        "operations": 64_000,
        "needed_bytes": 8_000,
        "peak_operations": 32 * lanes,
        "peak_bytes": 16,
    }
    return row(point, sweep, tools_hash, **metrics).priced(table)


def deadly(point: Point, sweep: str, table: EnergyTable, tools_hash: str) -> Row:
    if point.fields["lanes"] == 4 and point.fields["vec_lanes"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return measure(point, sweep, table, tools_hash)


def main(file: str, path: str, workers: str = "2") -> None:
    with Store(path) as store:
        sweep(spec_from_file(Path(file)), store, workers=int(workers), with_measure=measure)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
