"""The other end of a client port of the HBM slice: a memory that keeps the port's promises, only.

Descriptors are carried out strictly in order, and as late as the pauses want: one that reads holds
up the next while its beats do not fit into the reorder buffer, one that writes while its beats do
not come.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import Any

import cocotb
from amaranth.lib import data
from cocotb.triggers import RisingEdge

from rtl.hbm.ports import POISON, Client, DescriptorLayout
from tb.stream import Pauses, any_pauses, never

UNWRITTEN = 0xDB
"""Every byte that was never written."""

STREAMS = ("descriptors", "writes", "reads", "answers")


def unpack(layout: data.Layout, value: int) -> dict[str, int]:
    """Return the fields of a structure."""
    return {str(key): value >> field.offset & ((1 << field.width) - 1) for key, field in layout}


class MemoryClient:
    """A memory.

    Parameters
    ----------
    dut
        The design, with the port ``client``.
    client
        Which one it is.
    beat_bytes
        Bytes of a beat.

    Attributes
    ----------
    beats
        The memory: beats as numbers, by number.
    bad
        Beats that cannot be read.
    size
        Beats from here on are out of range.
    latency
        Cycles from a descriptor's last beat to its answer, and from a read to its beat: at least
        the first, at most the second number.
    descriptors
        How many came.
    """

    def __init__(self, dut: Any, client: Client, beat_bytes: int) -> None:
        self._dut = dut
        self._rng = random.Random(random.getrandbits(32))
        self._capacity = client.reads
        self._beat_bytes = beat_bytes
        unwritten = int.from_bytes([UNWRITTEN] * beat_bytes, "little")
        self._poison = int.from_bytes([POISON] * beat_bytes, "little")
        self.beats: dict[int, int] = defaultdict(lambda: unwritten)
        self.bad: set[int] = set()
        self.size = 1 << 28
        self.latency = (1, 1)
        self.descriptors = 0
        self.pauses: dict[str, Pauses] = {name: never() for name in STREAMS}
        self._ports = {
            name: [
                getattr(dut, f"client__{name}__{part}") for part in ("valid", "ready", "payload")
            ]
            for name in STREAMS
        }
        cocotb.start_soon(self._run())

    def pause_at_random(self) -> None:
        """Choose pauses and latencies."""
        self.pauses = {name: any_pauses(self._rng) for name in STREAMS}
        self.latency = self._rng.choice([(1, 1), (1, 10), (20, 60)])

    def bytes_at(self, beat: int) -> bytes:
        """Return what is in memory there."""
        return self.beats[beat].to_bytes(self._beat_bytes, "little")

    def _clear(self) -> None:
        self._queue: deque[dict[str, int]] = deque()
        self._written = 0
        self._error = 0
        # What is to be sent: not before this cycle, and what.
        self._reads: deque[tuple[int, int]] = deque()
        self._answers: deque[tuple[int, int]] = deque()
        self._offered: dict[str, int] = {}
        for name in STREAMS:
            self._ports[name][1 if name in ("descriptors", "writes") else 0].value = 0

    async def _run(self) -> None:
        self._clear()
        edge, cycle, in_reset = RisingEdge(self._dut.clk), 0, False
        ready = dict.fromkeys(STREAMS, False)  # or valid: what this side drives
        while True:
            await edge
            cycle += 1
            if self._dut.rst.value:
                if not in_reset:
                    self._clear()
                    ready = dict.fromkeys(STREAMS, False)
                in_reset = True
                continue
            in_reset = False
            if (value := self._came("descriptors", ready["descriptors"])) is not None:
                self._queue.append(unpack(DescriptorLayout(), value))
                assert self._queue[-1]["beats"] > 0, "a descriptor of no beats"
                self.descriptors += 1
            if (value := self._came("writes", ready["writes"])) is not None:
                self._write(value)
            for name, queue in (("reads", self._reads), ("answers", self._answers)):
                if ready[name] and self._ports[name][1].value:
                    queue.popleft()
                    ready[name] = False
            self._proceed(cycle)

            writing = bool(self._queue) and self._queue[0]["write"] == 1
            for name, possible in (
                ("descriptors", len(self._queue) < 2),
                ("writes", writing and self._written < self._queue[0]["beats"]),
            ):
                wanted = possible and not next(self.pauses[name])
                if wanted != ready[name]:
                    self._ports[name][1].value = ready[name] = wanted
            for name, queue in (("reads", self._reads), ("answers", self._answers)):
                valid, _, payload = self._ports[name]
                if not ready[name]:
                    send = bool(queue) and queue[0][0] <= cycle and not next(self.pauses[name])
                    valid.value = ready[name] = send
                    if send:
                        payload.value = queue[0][1]

    def _came(self, name: str, ready: bool) -> int | None:
        """Return what was taken from a stream, and check that it stays until then."""
        valid, _, payload = self._ports[name]
        before = self._offered.pop(name, None)
        if not valid.value:
            assert before is None, f"{name} was withdrawn"
            return None
        value = int(payload.value.to_unsigned())
        assert before in (None, value), f"{name} changed while it waited"
        if not ready:
            self._offered[name] = value
            return None
        return value

    def _write(self, value: int) -> None:
        descriptor, size = self._queue[0], self._beat_bytes
        beat = descriptor["address"] + self._written
        self._written += 1
        if beat >= self.size:
            self._error = 1
            return
        enable = value >> 8 * size
        mask = int.from_bytes([255 * (enable >> i & 1) for i in range(size)], "little")
        self.beats[beat] = (self.beats[beat] & ~mask) | (value & mask)

    def _proceed(self, cycle: int) -> None:
        """Do what can be done for the first descriptor in a cycle."""
        if not self._queue:
            return
        descriptor = self._queue[0]
        due = cycle + self._rng.randint(*self.latency) - 1
        if descriptor["write"]:
            if self._written < descriptor["beats"]:
                return
            self._answers.append((due, self._error))
            self._written = self._error = 0
            self._queue.popleft()
        elif len(self._reads) <= self._capacity - 2:
            beat = descriptor["address"]
            error = beat in self.bad or beat >= self.size
            value = self._poison if error else self.beats[beat]
            self._reads.append((due, value | int(error) << 8 * self._beat_bytes))
            descriptor["address"] += 1
            descriptor["beats"] -= 1
            if not descriptor["beats"]:
                self._queue.popleft()
