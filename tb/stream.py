"""Drivers and monitors for Amaranth streams, with generated pauses.

A stream is three ports, ``<name>__valid``, ``<name>__ready`` and ``<name>__payload``. After a
rising edge, cocotb reads the values from before that edge, as a register does: that is when a
transfer is seen. (`tests/sim/test_verilator.py` pins this down.)
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import cocotb
from cocotb.triggers import Event, RisingEdge

Pauses = Iterator[bool]
"""Each cycle: whether to pause."""


def never() -> Pauses:
    """Never pause."""
    while True:
        yield False


def sometimes(rng: random.Random, probability: float) -> Pauses:
    """Pause in every cycle with the same probability."""
    while True:
        yield rng.random() < probability


def in_bursts(rng: random.Random, mean: int) -> Pauses:
    """Alternate between pauses and none, for `mean` cycles each on average."""
    while True:
        for pause in (False, True):
            for _ in range(rng.randint(1, 2 * mean - 1)):
                yield pause


def any_pauses(rng: random.Random) -> Pauses:
    """Return one of the kinds of pauses, chosen at random."""
    return rng.choice(
        [
            never(),
            sometimes(rng, 0.1),
            sometimes(rng, 0.5),
            sometimes(rng, 0.9),
            in_bursts(rng, 4),
            in_bursts(rng, 40),
        ]
    )


class StreamSource:
    """Drive a stream that enters the design.

    Parameters
    ----------
    dut
        The design.
    name
        Name of the stream.

    Attributes
    ----------
    pauses
        When not to offer the next payload.
    sent
        Transfers so far.
    """

    def __init__(self, dut: Any, name: str) -> None:
        self._clock = dut.clk
        self._valid, self._ready, self._payload = _ports(dut, name)
        self._queue: deque[int] = deque()
        self._filled = Event()
        self.pauses: Pauses = never()
        self.sent = 0
        self._offering = False
        self._valid.value = 0
        self._task = cocotb.start_soon(self._run())

    def send(self, *payloads: int) -> None:
        """Queue payloads."""
        self._queue.extend(payloads)
        self._filled.set()

    def reset(self) -> None:
        """Forget everything queued and stop offering, as a reset of the whole system would."""
        self._task.cancel()
        self._queue.clear()
        self._offering = False
        self._valid.value = 0
        self._task = cocotb.start_soon(self._run())

    @property
    def idle(self) -> bool:
        """Whether everything was taken."""
        return not self._queue and not self._offering

    async def _run(self) -> None:
        edge = RisingEdge(self._clock)
        while True:
            if not self._queue:
                self._filled.clear()
                await self._filled.wait()
                await edge
            if self._queue and not next(self.pauses):
                self._payload.value = self._queue.popleft()
                self._valid.value = 1
                self._offering = True
                await edge
                while not self._ready.value:
                    await edge
                self._offering = False
                self.sent += 1
                self._valid.value = 0
            else:
                await edge


class StreamSink:
    """Take what leaves the design on a stream, and check the stream's rules.

    Once valid, a payload must stay, valid and unchanged, until it is taken.

    Parameters
    ----------
    dut
        The design.
    name
        Name of the stream.
    take
        Called with each payload.

    Attributes
    ----------
    pauses
        When not to be ready.
    taken
        Transfers so far.
    """

    def __init__(self, dut: Any, name: str, take: Callable[[int], None]) -> None:
        self._name = name
        self._clock = dut.clk
        self._reset = dut.rst
        self._valid, self._ready, self._payload = _ports(dut, name)
        self._take = take
        self.pauses: Pauses = never()
        self.taken = 0
        self._ready.value = 0
        self._task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        edge = RisingEdge(self._clock)
        ready = False
        offered: int | None = None
        while True:
            await edge
            if self._reset.value:
                offered = None
            elif self._valid.value:
                payload = int(self._payload.value.to_unsigned())
                if offered is not None:
                    assert payload == offered, f"{self._name} changed while it waited"
                if ready:
                    self._take(payload)
                    self.taken += 1
                offered = None if ready else payload
            else:
                assert offered is None, f"{self._name} withdrew a payload"
            wanted = not next(self.pauses)
            if wanted != ready:
                self._ready.value = ready = wanted


def _ports(dut: Any, name: str) -> tuple[Any, Any, Any]:
    return tuple(getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload"))
