"""Run matrix products on a simulated matrix engine: check every result, and count cycles.

>>> engine = simulate(generate("mac", config))                              # doctest: +SKIP
>>> (measured,) = engine.run([Product("example", x, w)])                    # doctest: +SKIP
>>> measured.beats_per_cycle                                                # doctest: +SKIP
0.998
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gen.layout import Beats
from gen.package import Package
from sim import verilator
from sim.golden import fp32
from sim.products import Product, save

__all__ = ["HardwareError", "Measurement", "Simulation", "measure", "simulate"]


class HardwareError(Exception):
    """The simulated hardware did something wrong; the message is one sentence that says what."""


@dataclass(frozen=True)
class Measurement:
    """What one product gave and took.

    Attributes
    ----------
    values : float32 [rows, N]
        The results, on which engine and golden model agree to the bit.
    compared : int
        How many of them were compared: all.
    cycles : int
        Clock cycles from the first beat and activation offered until the last result was taken;
        with `Product.prefetch`, from the first activation offered.
    beats : Beats
        Beats of the operand, by kind, over all passes.
    prefetched : int
        Beats the engine had taken before `cycles` began.
    counters : dict of str to int
        How far the engine's own counters moved in `cycles`.
    seconds : float
        Wall-clock time of `cycles`, with the testbench that feeds and checks the engine.
    """

    values: fp32.Floats
    compared: int
    cycles: int
    beats: Beats
    prefetched: int
    counters: dict[str, int]
    seconds: float

    @property
    def beats_per_cycle(self) -> float:
        """All beats over all cycles: the fraction of the roofline, a beat per cycle.

        Above 1 where the engine caught up on beats that it had prefetched.
        """
        return self.beats.total / self.cycles

    @property
    def elements_per_cycle(self) -> float:
        """Element beats over all cycles; the array takes up to two in a cycle."""
        return self.beats.element / self.cycles


M = TypeVar("M", bound=Measurement)


def measure(
    package: Package,
    build: verilator.Build,
    products: Sequence[Product],
    testbench: str,
    env: Mapping[str, str],
    measurement: type[M],
) -> list[M]:
    """Run products on a testbench, and return what it reports of each.

    Parameters
    ----------
    package, build
        The design, and its simulation.
    products
        What to run.
    testbench
        Name of the module: testbenches import this package, not the other way round.
    env
        Environment variables for it, beside those of `tb.run_mac`.
    measurement
        Class of what is returned; the report has its fields, `values` and `beats` apart.

    Raises
    ------
    HardwareError, ToolError
        See `Simulation.run`.
    """
    config = package.config
    values = [product.golden(config) for product in products]
    work = Path(tempfile.mkdtemp(prefix="run-", dir=package.directory)).absolute()
    jobs, report = work / "jobs.npz", work / "report.json"
    save(jobs, products, values)
    report.write_text("[]")
    results = build.run(
        testbench,
        seed=0,
        work_dir=work,
        env={
            "JALAPENO_CONFIG": config.to_json(),
            "JALAPENO_JOBS": str(jobs),
            "JALAPENO_REPORT": str(report),
            **env,
        },
    )
    measured = json.loads(report.read_text())
    for message in results.failed.values():
        name = products[len(measured)].name  # those before it are in the report
        reason = message.partition("\n")[0]
        raise HardwareError(f"The hardware failed in {name}: {reason}; log {results.log}")
    shutil.rmtree(work)
    return [
        measurement(value, beats=product.beats(config), **fields)
        for product, value, fields in zip(products, values, measured, strict=True)
    ]


@dataclass(frozen=True)
class Simulation:
    """A matrix engine that can be run.

    Attributes
    ----------
    package : Package
        What was compiled. Runs that fail leave a directory with their log in its directory.
    build : verilator.Build
        The compiled simulation.
    """

    package: Package
    build: verilator.Build

    def run(self, products: Sequence[Product]) -> list[Measurement]:
        """Run products, each on an engine fresh from reset.

        Parameters
        ----------
        products : sequence of Product
            What to run.

        Returns
        -------
        list of Measurement
            One per product.

        Raises
        ------
        HardwareError
            If a result has a wrong bit, is missing or comes twice, or an assertion of the design
            fails.
        ToolError
            If the simulation crashed.
        """
        return measure(self.package, self.build, products, "tb.run_mac", {}, Measurement)


def simulate(package: Package) -> Simulation:
    """Compile a generated matrix engine; compiled ones are cached.

    Raises
    ------
    ToolError
        If a tool is missing or failed.
    """
    ports = [port["name"] for port in package.manifest["ports"]]
    build = verilator.build([package.verilog], package.manifest["top"], ports)
    return Simulation(package, build)
