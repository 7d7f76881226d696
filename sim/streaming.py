"""Run matrix products whose operands stream from simulated HBM: check every bit, count cycles.

>>> streaming = simulate(generate("streaming", config))                     # doctest: +SKIP
>>> (measured,) = streaming.run([Product("example", x, w)])                 # doctest: +SKIP
>>> measured.delivered                                                      # doctest: +SKIP
0.994
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gen.package import Package
from sim import verilator
from sim.hbm.harness import attach
from sim.mac import HardwareError, Measurement, measure
from sim.products import Product

__all__ = ["HardwareError", "StreamedMeasurement", "StreamingSimulation", "simulate"]

ROWS = 256
"""Rows of each bank of the device: 4 MiB per pseudo-channel."""


@dataclass(frozen=True)
class StreamedMeasurement(Measurement):
    """What one product gave and took, its operand in HBM.

    Attributes
    ----------
    operands : dict of str to int
        Counters of the operand stream, see `rtl.mac.operand_stream.COUNTERS`.
    memory : dict of str to int
        Counters of the HBM slice, see `rtl.hbm.counters`.
    commands : int
        Commands to HBM, all of which kept its timing rules.
    """

    operands: dict[str, int]
    memory: dict[str, int]
    commands: int

    @property
    def delivered(self) -> float:
        """Beats over the cycles from the first request to the last beat; 1 is memory's peak."""
        return self.operands["beats"] / self.operands["active"]


@dataclass(frozen=True)
class StreamingSimulation:
    """A matrix engine with its HBM slice that can be run.

    Attributes
    ----------
    package : Package
        What was compiled. Runs that fail leave a directory with their log in its directory.
    build : verilator.Build
        The compiled simulation, devices and timing checkers included.
    """

    package: Package
    build: verilator.Build

    def run(
        self, products: Sequence[Product], timing: str | None = None, piece: int = 0
    ) -> list[StreamedMeasurement]:
        """Run products, each on an engine fresh from reset, its operand in memory.

        Parameters
        ----------
        products : sequence of Product
            What to run.
        timing : str, optional
            Name of the HBM timing set, by default that of the configuration.
        piece : int
            Cut operands into pieces of so many beats, an even number, that are scattered over the
            memory and asked for one by one; 0 leaves them whole.

        Returns
        -------
        list of StreamedMeasurement
            One per product.

        Raises
        ------
        HardwareError
            If a result has a wrong bit, is missing or comes twice, a beat of memory could not be
            read, a timing rule of HBM is broken, or an assertion of the design fails.
        ToolError
            If the simulation crashed.
        """
        env = {
            "JALAPENO_TIMING": timing or self.package.config.timing,
            "JALAPENO_HBM_ROWS": str(ROWS),
            "JALAPENO_PIECE": str(piece),
        }
        return measure(
            self.package, self.build, products, "tb.run_streaming", env, StreamedMeasurement
        )


def simulate(package: Package) -> StreamingSimulation:
    """Compile a generated engine with HBM devices and timing checkers; compiled ones are cached.

    Raises
    ------
    ToolError
        If a tool is missing or failed.
    """
    harness = attach(package.design, rows=ROWS)
    build = verilator.build(harness.sources, harness.top, harness.ports)
    return StreamingSimulation(package, build)
