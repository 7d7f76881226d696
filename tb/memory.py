"""The other end of client ports of the HBM slice, as hostile as their contract allows.

Several clients share a memory. What a client writes is there when it is told so, and no sooner: a
read whose descriptor was accepted before finds, at random, what was there before or what is there
when it is delivered. (`tb.memory_client` is a friendlier one.)
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from rtl.hbm.ports import POISON, Client, DescriptorLayout
from tb.memory_client import UNWRITTEN, unpack
from tb.stream import Pauses, any_pauses, never

MOST_DESCRIPTORS = 8
"""Descriptors that a port takes before the first of them is carried out."""


class Memory:
    """Beats.

    Parameters
    ----------
    beat_bytes
        Bytes of a beat.

    Attributes
    ----------
    beats
        Beats as numbers, by number.
    bad
        Beats that cannot be read.
    size
        Beats from here on are out of range.
    """

    def __init__(self, beat_bytes: int) -> None:
        self.beat_bytes = beat_bytes
        unwritten = int.from_bytes([UNWRITTEN] * beat_bytes, "little")
        self.poison = int.from_bytes([POISON] * beat_bytes, "little")
        self.beats: dict[int, int] = defaultdict(lambda: unwritten)
        self.bad: set[int] = set()
        self.size = 1 << 28

    def read(self, beat: int) -> int:
        """Return what a client gets: a beat, and an error bit above it."""
        if beat in self.bad or beat >= self.size:
            return self.poison | 1 << 8 * self.beat_bytes
        return self.beats[beat]

    def write(self, beat: int, data: int, enable: int) -> None:
        """Write some bytes of a beat."""
        mask = sum(255 << 8 * i for i in range(self.beat_bytes) if enable >> i & 1)
        self.beats[beat] = (self.beats[beat] & ~mask) | (data & mask)


@dataclass
class _Task:
    """A descriptor that was accepted."""

    address: int
    beats: int
    write: bool
    early: list[int | None]
    written: list[int] = field(default_factory=list)


class ClientPort:
    """A client's port to a memory.

    Parameters
    ----------
    dut
        The design.
    name
        Name of its port.
    client
        Which client it is.
    memory
        What is behind.

    Attributes
    ----------
    latency
        Cycles from the turn of a descriptor to its beats or its answer: at least, at most.
    descriptors
        How many came.
    """

    def __init__(self, dut: Any, name: str, client: Client, memory: Memory) -> None:
        self._dut, self._memory = dut, memory
        self._rng = random.Random(random.getrandbits(32))
        self._client = client
        self.latency = (1, 1)
        self.descriptors = 0
        self.inputs = ["descriptors"] + ["writes"] * client.writes
        self.outputs = ["reads"] * (client.reads > 0) + ["answers"] * client.writes
        self.pauses: dict[str, Pauses] = {n: never() for n in self.inputs + self.outputs}
        self._ports = {
            n: [getattr(dut, f"{name}__{n}__{part}") for part in ("valid", "ready", "payload")]
            for n in self.inputs + self.outputs
        }
        cocotb.start_soon(self._run())

    def pause_at_random(self) -> None:
        """Choose pauses and latencies."""
        self.pauses = {name: any_pauses(self._rng) for name in self._ports}
        self.latency = self._rng.choice([(1, 1), (1, 10), (20, 60)])

    def _clear(self) -> None:
        self._tasks: deque[_Task] = deque()
        # What is to be sent: not before which cycle, and what.
        self._sent: dict[str, deque[tuple[int, Any]]] = {n: deque() for n in self.outputs}
        self._offered: dict[str, int] = {}
        self._driven = dict.fromkeys(self._ports, False)
        for name, (valid, ready, _) in self._ports.items():
            (ready if name in self.inputs else valid).value = 0

    async def _run(self) -> None:
        self._clear()
        edge, cycle, in_reset = RisingEdge(self._dut.clk), 0, False
        while True:
            await edge
            cycle += 1
            if self._dut.rst.value:
                if not in_reset:
                    self._clear()
                in_reset = True
                continue
            in_reset = False
            for name in self.outputs:
                if self._driven[name] and self._ports[name][1].value:
                    _, what = self._sent[name].popleft()
                    self._driven[name] = False
                    if name == "answers":
                        for beat, data, enable in what[1]:
                            self._memory.write(beat, data, enable)
            if (value := self._came("descriptors")) is not None:
                self._accept(unpack(DescriptorLayout(), value))
            if self._client.writes and (value := self._came("writes")) is not None:
                next(t for t in self._tasks if t.write).written.append(value)
            self._proceed(cycle)
            self._drive(cycle)

    def _drive(self, cycle: int) -> None:
        writing = next((t for t in self._tasks if t.write), None)
        first = bool(self._tasks) and self._tasks[0] is writing
        possible = {
            "descriptors": len(self._tasks) < MOST_DESCRIPTORS,
            "writes": first and writing is not None and len(writing.written) < writing.beats,
        }
        for name in self.inputs:
            wanted = possible[name] and not next(self.pauses[name])
            if wanted != self._driven[name]:
                self._ports[name][1].value = self._driven[name] = wanted
        for name in self.outputs:
            valid, _, payload = self._ports[name]
            if not self._driven[name]:
                queue = self._sent[name]
                send = bool(queue) and queue[0][0] <= cycle and not next(self.pauses[name])
                valid.value = self._driven[name] = send
                if send:
                    what = queue[0][1]
                    payload.value = what[0] if name == "answers" else self._late(what)

    def _late(self, what: tuple[int, int | None]) -> int:
        beat, early = what
        return self._memory.read(beat) if early is None else early

    def _came(self, name: str) -> int | None:
        """Return what was taken from a stream, and check that it stays until then."""
        valid, _, payload = self._ports[name]
        before = self._offered.pop(name, None)
        if not valid.value:
            assert before is None, f"{name} was withdrawn"
            return None
        value = int(payload.value.to_unsigned())
        assert before in (None, value), f"{name} changed while it waited"
        if not self._driven[name]:
            self._offered[name] = value
            return None
        return value

    def _accept(self, descriptor: dict[str, int]) -> None:
        address, beats = descriptor["address"], descriptor["beats"]
        assert beats > 0, "a descriptor of no beats"
        write = bool(descriptor["write"])
        assert self._client.writes if write else self._client.reads, "not what this client does"
        early: list[int | None] = [None] * beats
        if not write and self._rng.random() < 0.7:
            early = [self._memory.read(address + i) for i in range(beats)]
        self._tasks.append(_Task(address, beats, write, early))
        self.descriptors += 1

    def _proceed(self, cycle: int) -> None:
        """Do what can be done for the first descriptor in a cycle."""
        if not self._tasks:
            return
        task, due = self._tasks[0], cycle + self._rng.randint(*self.latency) - 1
        if task.write:
            if len(task.written) < task.beats:
                return
            size, puts, error = self._memory.beat_bytes, [], 0
            for i, value in enumerate(task.written):
                if task.address + i < self._memory.size:
                    data, enable = value & (1 << 8 * size) - 1, value >> 8 * size
                    puts.append((task.address + i, data, enable))
                else:
                    error = 1
            self._sent["answers"].append((due, (error, puts)))
            self._tasks.popleft()
        elif len(self._sent["reads"]) <= self._client.reads - 2:
            self._sent["reads"].append((due, (task.address, task.early.pop(0))))
            task.address += 1
            task.beats -= 1
            if not task.beats:
                self._tasks.popleft()
