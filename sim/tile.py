"""A simulated tile, and a model on it.

>>> tile = simulate(generate("tile", config))                               # doctest: +SKIP
>>> with tile.start() as running:                                           # doctest: +SKIP
...     session = TileSession(build(model, config, logits=True), running)
...     session.append([5, 17, 300])
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from gen.kernels.program import TileProgram
from gen.memory_map import DoesNotFit
from gen.mx import Bytes
from gen.package import Package
from rtl.config import KIB, TileConfig
from rtl.hbm.interface import BEAT_BYTES
from rtl.registers import WORD_BYTES
from sim import verilator
from sim.hbm.harness import attach
from sim.mac import HardwareError
from sim.session import HostSession

__all__ = ["HardwareError", "RunningTile", "TileSession", "TileSimulation", "simulate"]

ROWS = 256
"""Rows of each bank of the device, at least: 4 MiB per pseudo-channel."""

BANKS_BYTES = 16 * KIB
"""Bytes of a row of all banks of a pseudo-channel."""


class RunningTile:
    """A tile in a simulator that waits for what its host says.

    Parameters
    ----------
    package, build
        The design, and its simulation.
    rows
        Rows of each bank of its memory.
    settings
        Run-time limits, see `tb.tile.TileTestbench.reset`.
    """

    def __init__(
        self,
        package: Package,
        build: verilator.Build,
        rows: int,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.config: TileConfig = package.config
        self._build = build
        self._work = Path(tempfile.mkdtemp(prefix="run-", dir=package.directory)).absolute()
        self._channel, other = Pipe()
        self._results: verilator.Results | BaseException | None = None
        self._keep = False  # something failed: the log may be wanted
        env = {
            "JALAPENO_CONFIG": self.config.to_json(),
            "JALAPENO_HBM_ROWS": str(rows),
            "JALAPENO_CHANNEL": str(other.fileno()),
        }

        def simulate() -> None:
            try:
                self._results = build.run(
                    "tb.run_tile",
                    seed=0,
                    work_dir=self._work,
                    env=env,
                    pass_fds=[other.fileno()],
                )
            except BaseException as error:
                self._results = error
            other.close()

        self._thread = threading.Thread(target=simulate, daemon=True)
        self._thread.start()
        self.reset(settings)

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
        """End the simulation."""
        self._channel.close()
        self._thread.join()
        if isinstance(self._results, verilator.Results) and not self._keep:
            shutil.rmtree(self._work, ignore_errors=True)

    def reset(self, settings: Mapping[str, Any] | None = None) -> None:
        """Reset the tile, but not its memory, and set run-time limits."""
        self._do("reset", settings)

    def load(self, address: int, data: Bytes) -> None:
        """Put whole beats into memory, past the tile."""
        self._do("load", address, data)

    def flip(self, address: int, *bits: int) -> None:
        """Flip bits of a beat in memory, in its first pseudo-channel."""
        self._do("flip", address, *bits)

    def clear(self) -> None:
        """Make all memory unwritten."""
        self._do("clear")

    def dump(self, size: int) -> Bytes:
        """Return the first bytes of memory, past the tile; whole beats."""
        return self._do("dump", size)

    def program(self, words: Sequence[int]) -> None:
        """Store a program, through the register port."""
        self._do("program", list(words))

    def write(self, address: int, data: Any) -> None:
        """Write an array to memory, through the host port."""
        self._do("write", address, np.ascontiguousarray(data).reshape(-1).view(np.uint8))

    def read(self, address: int, size: int) -> Bytes:
        """Read memory, through the host port."""
        return self._do("read", address, size)

    def run(self, traffic: int | None = None) -> int:
        """Run the program; return the cycles that took.

        Parameters
        ----------
        traffic
            Meanwhile the host reads at random places, as this seed has it.

        Raises
        ------
        HardwareError
            It did not reach its `stop`, or a rule of the memory was broken.
        """
        return self._do("run", traffic)

    def record(self) -> Bytes:
        """Run the program, and return what the probe showed in every cycle.

        Returns
        -------
        uint8 [cycles, bytes]
            Bits of `rtl.tile.ProbeLayout`, lowest first.
        """
        return self._do("record")

    def counters(self) -> dict[str, dict[str, int]]:
        """Return all counters, by the window of the registers that they are in."""
        return self._do("counters")

    def _do(self, method: str, *arguments: Any) -> Any:
        try:
            self._channel.send((method, arguments))
            done, answer = self._channel.recv()
        except (EOFError, OSError):
            raise self._end() from None
        if not done:
            self._keep = True
            raise HardwareError(f"The hardware failed: {answer}; log {self._work}.")
        return answer

    def _end(self) -> Exception:
        """Return why the simulation ended."""
        self._keep = True
        self._thread.join()
        if isinstance(self._results, verilator.Results):
            reason = "; ".join(self._results.failed.values()) or "it was told to"
            return HardwareError(f"The simulation ended: {reason}; log {self._results.log}.")
        if isinstance(self._results, Exception):
            return self._results
        return HardwareError("The simulation ended.")


@dataclass(frozen=True)
class TileSimulation:
    """A tile that can be run.

    Attributes
    ----------
    package : Package
        What was compiled. Runs that fail leave a directory with their log in its directory.
    build : verilator.Build
        The compiled simulation, devices and timing checkers included.
    rows : int
        Rows of each bank of its memory.
    """

    package: Package
    build: verilator.Build
    rows: int

    def start(self, settings: Mapping[str, Any] | None = None) -> RunningTile:
        """Start a simulation.

        Parameters
        ----------
        settings : mapping, optional
            Run-time limits, see `tb.tile.TileTestbench.reset`.
        """
        return RunningTile(self.package, self.build, self.rows, settings)


def simulate(package: Package, memory: int = 0) -> TileSimulation:
    """Compile a generated tile with HBM devices and timing checkers; compiled ones are cached.

    Parameters
    ----------
    package
        The tile.
    memory
        Bytes of address space that its memory must have.

    Raises
    ------
    ToolError
        If a tool is missing or failed.
    """
    rows = ROWS
    while rows * BANKS_BYTES // BEAT_BYTES * package.config.beat_stride < memory:
        rows *= 2
    harness = attach(package.design, rows=rows)
    build = verilator.build(harness.sources, harness.top, harness.ports)
    return TileSimulation(package, build, rows)


class TileSession(HostSession):
    """One sequence of tokens on a simulated tile.

    Parameters
    ----------
    tile_program
        From `gen.kernels.program.build`.
    tile
        The tile; its memory and its program are overwritten.

    Attributes
    ----------
    cycles : list of int
        What each request took, from start to stop.

    Raises
    ------
    DoesNotFit
        The program is longer than the tile's memory for it.
    """

    def __init__(self, tile_program: TileProgram, tile: RunningTile) -> None:
        super().__init__(tile_program)
        self.tile = tile
        self.cycles: list[int] = []
        size, room = WORD_BYTES * len(self.words), tile.config.program_bytes
        if size > room:
            raise DoesNotFit(
                f"The program has {size:,} bytes, {size - room:,} more than program_bytes, "
                f"{room:,}."
            )
        for name, data in self.stored.contents.items():
            tile.load(self.stored.map[name].address, data)
        tile.program(self.words)

    def poke(self, address: int, data: Any) -> None:
        """Write an array to memory."""
        self.tile.write(address, data)

    def peek(self, address: int, size: int) -> Bytes:
        """Read bytes of memory."""
        return self.tile.read(address, size)

    def execute(self) -> None:
        """Run the program.

        Raises
        ------
        HardwareError
            It did not end as it should.
        """
        self.cycles.append(self.tile.run())

    def record(self, tokens: Sequence[int]) -> Bytes:
        """Run the program over tokens; see `RunningTile.record`."""
        self._request(tokens)
        record = self.tile.record()
        self.cycles.append(len(record))
        self._length += self._count
        return record
