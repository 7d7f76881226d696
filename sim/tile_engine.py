"""The tile's RTL as an engine: a model on generated hardware, under Verilator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from gen.kernels.program import build
from gen.models.model import Model
from gen.package import generate
from rtl.config import TileConfig
from sim.activity import PATHS, Activity, activities, bytes_by_path, moved
from sim.figures import Figure
from sim.golden.fp32 import Floats
from sim.tile import TileSession, simulate
from sim.traffic import DecodeTraffic


class TileEngine:
    """The model as a program for one tile, executed by its hardware.

    Parameters
    ----------
    model
        Quantised.
    config
        Of the tile.
    positions
        Tokens that will be appended at most; memory is made for so many. By default as many as the
        model takes.
    out_dir
        Directory for the package of the tile.

    Raises
    ------
    DoesNotFit
        The model does not fit the tile.
    ToolError
        If a tool is missing or failed.
    """

    def __init__(
        self,
        model: Model,
        config: TileConfig,
        positions: int | None = None,
        out_dir: Path = Path("build"),
    ) -> None:
        program = build(model, config, capacity=positions, logits=True)
        simulation = simulate(generate("tile", config, out_dir), program.stored.map.end)
        self._model, self._config = model, config
        self._tile = simulation.start()
        try:
            self._session = TileSession(program, self._tile)
            self._begin = self._tile.counters()
        except BaseException:
            self.close()
            raise
        self._seconds = 0.0
        self._needed: list[float] = []  # beats that must move, of each request of one token

    def prefill(self, tokens: Sequence[int]) -> Floats:
        """Append tokens and return the logits after the last."""
        start = time.perf_counter()
        self._session.advance(tokens)
        self._seconds += time.perf_counter() - start
        return self._session.last_logits

    def decode(self, token: int) -> Floats:
        """Append a token and return the logits after it."""
        logits = self.prefill([token])
        traffic = DecodeTraffic(self._model, self._session.length)
        self._needed.append(traffic.bytes / self._config.beat_bytes)
        return logits

    def figures(self) -> list[Figure]:
        """Return cycles, the fraction of the roofline, and the speed of the simulation."""
        cycles = self._session.cycles
        found = [
            Figure("run.prefill_cycles", cycles[0], "cycles", "the prompt, logits of every token")
        ]
        if self._needed:
            spent = cycles[-len(self._needed) :]
            found += [
                Figure(
                    "run.token_cycles", sum(spent) / len(spent), "cycles", "a token, on average"
                ),
                Figure(
                    "run.roofline",
                    sum(self._needed) / sum(spent),
                    "",
                    "bytes that tokens need / (their cycles x peak bytes per cycle)",
                    bound=1,
                ),
            ]
        counted = moved(self._begin, self._tile.counters())
        for path, count in bytes_by_path(self._config, counted).items():
            found.append(Figure(f"run.bytes.{path}", count, "bytes", PATHS[path]))
        speed = sum(cycles) / self._seconds
        return [*found, Figure("run.speed", speed, "cycles/s", "simulated, on this machine")]

    def activity(self) -> list[Activity]:
        """Return what each part of the tile did while programs ran."""
        return activities(self._config, moved(self._begin, self._tile.counters()))

    def close(self) -> None:
        """End the simulation."""
        self._tile.close()
