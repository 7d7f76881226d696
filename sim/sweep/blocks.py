"""Benches of single blocks as workloads: one number of cycles each, every result compared."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gen.lookup import lookup
from gen.package import Package
from rtl.config import ACCESS_BEATS, TileConfig
from rtl.formats import BLOCK, Format
from sim import mac, verilator
from sim.bench.mac import random_product
from sim.bench.ring import bound, measure
from sim.hbm.harness import attach
from sim.mac import HardwareError, Measurement
from sim.products import Product, most_rows
from sim.progress import NoProgress
from sim.sweep.outcome import Outcome
from sim.sweep.packages import generated
from sim.sweep.workloads import Hbm, Mac, Ring, Vec

ROWS = 256
"""Rows of each bank of the HBM device."""

BUS = {"sequential": "matrix", "host": "host"}


def run_mac(config: TileConfig, workload: Mac) -> Outcome:
    """Run a product on the matrix engine; every bit is compared with golden.

    Raises
    ------
    HardwareError
        If a result has a wrong bit.
    """
    activation = Format(workload.activation)
    limits = workload.limits
    product = random_product(
        workload.name,
        workload.rows or most_rows(config, activation),
        activation,
        Format(workload.weight),
        shape=(workload.outputs, workload.inputs),
        prefetch=bool(limits.prefetch),
        pair=limits.pairing is not False,
    )
    return run_products(config, [product], product.activations.shape[0], "rows")


def run_products(
    config: TileConfig, products: list[Product], work: float, work_unit: str
) -> Outcome:
    """Run products one after the other, each on an engine fresh from reset.

    Raises
    ------
    HardwareError
        If a result has a wrong bit.
    """
    measured = mac.simulate(generated("mac", config)).run(products)
    beats = sum(found.beats.total for found in measured)
    ahead = any(product.prefetch for product in products)
    operations = sum(map(useful, products))
    return Outcome(
        cycles=sum(found.cycles for found in measured),
        least_cycles=sum(map(_least, measured)),
        limit="a beat per cycle, two from the buffer" if ahead else "a beat per cycle",
        work=work,
        work_unit=work_unit,
        compared=sum(found.compared for found in measured),
        operations=operations,
        needed_bytes=beats * config.beat_bytes,
        events={
            "stream_byte": beats * config.beat_bytes,
            "mac44": operations,
            "window_add": operations / BLOCK,
        },
        figures=_counted(measured),
    )


def useful(product: Product) -> int:
    """Return the useful multiply-accumulates of a product, times 4x4-bit planes."""
    rows = product.activations.shape[0]
    outputs, inputs = product.weights.shape
    planes = product.activations.format.planes * product.weights.format.planes
    return rows * outputs * inputs * planes


def _least(found: Measurement) -> float:
    """Return the cycles that beats take to come, or the array to take them, whichever are more."""
    return max(found.beats.total - found.prefetched, found.beats.element / 2)


def _counted(measured: list[Measurement]) -> dict[str, float]:
    names = ("steps", "paired_steps", "stalls_weights", "stalls_activations", "stalls_drain")
    return {name: sum(found.counters[name] for found in measured) for name in names}


def run_vec(config: TileConfig, workload: Vec) -> Outcome:
    """Run the tasks of the vector engine's bench, and report one; every result is compared.

    Raises
    ------
    HardwareError
        If a result has a wrong bit.
    UnknownName
        There is no such task.
    """
    package = generated("vec", config)
    ports = [port["name"] for port in package.manifest["ports"]]
    build = verilator.build([package.verilog], package.manifest["top"], ports)
    report = _report(package, build, "tb.run_vec", {})
    compared = int(report.pop("compared"))
    found = lookup("task", report, workload.task)
    elements, passes = int(found["elements"]), int(found["passes"])
    passes = 2 * passes if workload.task == "softmax" else passes  # maximum first, then the rest
    return Outcome(
        cycles=int(found["cycles"]),
        least_cycles=passes * elements / config.vec_lanes,
        limit="vector lanes",
        work=elements,
        work_unit="elements",
        compared=compared,
        events={"vector_element": passes * elements},
    )


def run_hbm(config: TileConfig, workload: Hbm) -> Outcome:
    """Run an access pattern on the HBM slice; every beat is compared, every timing rule checked.

    Raises
    ------
    HardwareError
        If a beat is wrong, or a timing rule broken.
    """
    package = generated("hbm", config)
    harness = attach(package.design, rows=ROWS)
    build = verilator.build(harness.sources, harness.top, harness.ports)
    report = _report(package, build, "tb.run_hbm", {"JALAPENO_HBM_ROWS": str(ROWS)})
    found = report[f"{workload.pattern}.{config.timing}"]
    beats, counters = int(found["beats"]), found["counters"]
    accesses = counters["reads"] + counters["writes"]
    return Outcome(
        cycles=int(found["cycles"]),
        least_cycles=beats,
        limit="a beat per cycle",
        work=beats,
        work_unit="beats",
        compared=int(found["compared"]),
        needed_bytes=beats * config.beat_bytes,
        events={"hbm_byte": accesses * ACCESS_BEATS * config.beat_bytes / config.pseudo_channels},
        figures={name: counters[name] for name in ("activations", "refreshes", "turns")},
    )


def run_ring(config: TileConfig, workload: Ring) -> Outcome:
    """Run an all-gather on the ring; every result is compared.

    Raises
    ------
    HardwareError
        If a result has a wrong bit.
    """
    tiles, size = workload.tiles, workload.gathered
    found = measure(config, NoProgress(), (tiles,))[tiles]
    return Outcome(
        cycles=int(found["allgather"][str(size)]),
        least_cycles=bound(tiles, size, config),
        limit="both links of a tile",
        work=size,
        work_unit="bytes",
        compared=tiles * size // 4,
        events={"link_byte": (tiles - 1) * size},
        figures={"barrier": max(found["barrier"].values())},
    )


def _report(
    package: Package, build: verilator.Build, testbench: str, env: Mapping[str, str]
) -> dict[str, Any]:
    """Run a measuring testbench, by name, and return what it reports."""
    work = Path(tempfile.mkdtemp(prefix="jalapeno-sweep-"))
    report = work / "report.json"
    report.write_text("{}")
    results = build.run(
        testbench,
        seed=0,
        work_dir=work,
        env={
            "JALAPENO_CONFIG": package.config.to_json(),
            "JALAPENO_REPORT": str(report),
            **env,
        },
    )
    for name, message in results.failed.items():
        reason = message.partition("\n")[0]
        raise HardwareError(f"The hardware failed in {name}: {reason}; log {results.log}")
    measured: dict[str, Any] = json.loads(report.read_text())
    shutil.rmtree(work)
    return measured
