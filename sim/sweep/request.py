"""A request to a tile, what is in memory before it, and what must be there afterwards.

In decoding only the last two tokens run on the hardware: what the others leave in memory comes
from the interpreter, whose bytes are those of the hardware (`tests.tb.test_tile`). The last but
one fills L1 and opens rows as any token does; the last is counted. At the end the whole memory must
be the interpreter's, to the byte, and the next token the golden model's.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel

from gen.kernels.program import TileProgram, build
from gen.models.library import open_model
from gen.models.model import Model
from gen.mx import Bytes
from rtl.config import TileConfig
from sim.activity import Counters, moved
from sim.estimate.workloads import WORKLOADS, gptoss
from sim.golden.transformer import Cache, forward
from sim.mac import HardwareError
from sim.session import Session
from sim.sweep.packages import generated
from sim.tile import RunningTile, TileSession, TileSimulation, simulate


@dataclass(frozen=True)
class Request:
    """A request, what is in memory before it, and what must be there after it.

    Attributes
    ----------
    program
        The program.
    before
        Memory before the first request on the hardware.
    after
        Memory after the last one.
    length
        Tokens that `before` holds.
    requests
        Tokens of each request; the last is counted.
    next_token
        What golden says that comes next.
    """

    program: TileProgram
    before: Bytes
    after: Bytes
    length: int
    requests: tuple[tuple[int, ...], ...]
    next_token: int

    def run(self, tile: RunningTile) -> tuple[int, Counters]:
        """Return the cycles of the last request, and how far counters moved in it.

        Raises
        ------
        HardwareError
            If a byte of memory or the next token is wrong.
        """
        session = _Resumed(self.program, tile, self.before, self.length)
        for request in self.requests[:-1]:
            session.advance(request)
        start = tile.counters()
        session.advance(self.requests[-1])
        counted = moved(start, tile.counters())
        if session.next_token != self.next_token:
            raise HardwareError(
                f"The next token is {session.next_token}, golden says {self.next_token}."
            )
        found = tile.dump(self.after.size)
        for byte in np.flatnonzero(found != self.after)[:1]:
            raise HardwareError(f"Byte {byte:,} of memory is not what the interpreter left there.")
        return session.cycles[-1], counted


class _Resumed(TileSession):
    """A sequence that goes on from what is in memory.

    Parameters
    ----------
    tile_program, tile
        See `TileSession`.
    memory
        All of it.
    length
        Tokens that it holds.
    """

    def __init__(
        self, tile_program: TileProgram, tile: RunningTile, memory: Bytes, length: int
    ) -> None:
        super().__init__(tile_program, tile)
        tile.load(0, memory)
        self._length = length


_kept = threading.local()


@contextlib.contextmanager
def running(simulation: TileSimulation, limits: Mapping[str, Any]) -> Iterator[RunningTile]:
    """Start a tile, or reset the one of the point before, which takes a tenth of that.

    One that failed is not used again.
    """
    last: tuple[TileSimulation, RunningTile] | None = getattr(_kept, "tile", None)
    _kept.tile = None
    if last is not None and last[0] == simulation:
        tile, reset = last[1], True
    else:
        if last is not None:
            last[1].close()
        tile, reset = simulation.start(limits), False
    try:
        if reset:
            tile.reset(limits)
        yield tile
    except BaseException:
        tile.close()
        raise
    _kept.tile = simulation, tile


@functools.lru_cache(maxsize=8)
def request(identity: str, phase: str, context: int, config_json: str) -> Request:
    """Interpret a request; limits do not matter to any byte, so points share this.

    Parameters
    ----------
    identity
        Of the model, see `model_of`.
    phase
        ``"decode"`` or ``"prefill"``.
    context
        Tokens.
    config_json
        Configuration of the tile.

    Raises
    ------
    DoesNotFit
        If the model does not fit the tile.
    """
    config = TileConfig.from_dict(json.loads(config_json))
    model = model_of(identity)
    program = build(model, config)
    tokens = [1 + i % (model.vocabulary - 1) for i in range(context)]
    session = Session(program)
    requests: tuple[tuple[int, ...], ...] = (tuple(tokens),)
    if phase == "decode":
        if tokens[:-2]:
            session.append(tokens[:-2])
        requests = tuple((token,) for token in tokens[-2:])
    before, length = session.memory.bytes.copy(), session.length
    for request in requests:
        session.append(request)
    logits = forward(model, tokens, Cache(model), config.acc_bits)[-1]
    return Request(
        program, before, session.memory.bytes.copy(), length, requests, int(np.argmax(logits))
    )


@functools.lru_cache(maxsize=4)
def simulation_of(config_json: str, memory: int) -> TileSimulation:
    """Return the simulation of a configuration, whose memory has so many bytes at least."""
    return simulate(generated("tile", TileConfig.from_dict(json.loads(config_json))), memory)


def identity_of(workload: BaseModel) -> str:
    """Return what names the model of a workload."""
    names = {"kind", "width", "layers", "model", "formats"}
    return json.dumps(workload.model_dump(include=names), sort_keys=True)


@functools.lru_cache(maxsize=4)
def model_of(identity: str) -> Model:
    """Return the model that `identity_of` names."""
    named = json.loads(identity)
    if named["kind"] == "layer":
        return gptoss(named["width"], named["layers"])
    if named["model"] in WORKLOADS and not named["formats"]:
        return WORKLOADS[named["model"]]()
    return open_model(named["model"], named["formats"]).model
