"""A manager of AXI4 and checkers of its protocol, for the ports `rtl.host.axi.axi_ports`.

The manager here sends any burst there is, also such as no manager should; cocotbext-axi's sends
bursts that others consider right. `Burst.places` says what a burst means, in the words of the AXI
specification.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import cocotb
from cocotb.triggers import Event, RisingEdge

from rtl.host.burst import Kind
from tb.stream import Pauses, any_pauses, never

ADDRESS = ("id", "addr", "len", "size", "burst")
CHANNELS = {
    "aw": ADDRESS,
    "w": ("data", "strb", "last"),
    "b": ("id", "resp"),
    "ar": ADDRESS,
    "r": ("id", "data", "resp", "last"),
}
"""Fields of each channel of AXI4."""

LITE_CHANNELS = {
    "aw": ("addr",),
    "w": ("data", "strb"),
    "b": ("resp",),
    "ar": ("addr",),
    "r": ("data", "resp"),
}
"""The same for AXI4-Lite."""

ANSWERS = ("b", "r")
"""Channels that a subordinate drives."""

PREFIX = "s_axi"


@dataclass
class Burst:
    """A burst, and what came of it.

    Attributes
    ----------
    write, address, length, size, kind, id
        What is asked for: `length` transfers of ``1 << size`` bytes.
    data
        What to write: the bus and its strobes, for each transfer.
    resp
        Responses: one to a write, one to each transfer of a read.
    read
        What was on the bus with each transfer.
    last
        Transfers that are called the last one, other than by the rules.
    done
        Set with the last response.
    """

    write: bool
    address: int
    length: int
    size: int
    kind: int = Kind.INCR
    id: int = 0
    data: list[tuple[int, int]] = field(default_factory=list)
    resp: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    last: set[int] | None = None
    done: Event = field(default_factory=Event)

    def places(self) -> list[range]:
        """Return the addresses of the bytes of each transfer."""
        size = 1 << self.size
        container = size * self.length
        lower = self.address // container * container
        aligned = self.address // size * size
        places = []
        for n in range(self.length):
            start = aligned + n * size if n and self.kind != Kind.FIXED else self.address
            if self.kind == Kind.WRAP and start >= lower + container:
                start -= container
            places.append(range(start, start // size * size + size))
        return places


class _Source:
    """Drive a channel."""

    def __init__(self, dut: Any, channel: str) -> None:
        self._dut = dut
        self._valid, self._ready = (
            getattr(dut, f"{PREFIX}_{channel}{name}") for name in ("valid", "ready")
        )
        self._fields = [getattr(dut, f"{PREFIX}_{channel}{name}") for name in CHANNELS[channel]]
        self.pauses: Pauses = never()
        self.queue: deque[tuple[int, ...]] = deque()
        self._valid.value = 0
        self._task = cocotb.start_soon(self._run())

    def restart(self) -> None:
        """Forget everything."""
        self._task.cancel()
        self.queue.clear()
        self._valid.value = 0
        self._task = cocotb.start_soon(self._run())

    async def _run(self) -> None:
        edge = RisingEdge(self._dut.clk)
        while True:
            await edge
            while self.queue and not next(self.pauses):
                for handle, value in zip(self._fields, self.queue.popleft(), strict=True):
                    handle.value = value
                self._valid.value = 1
                await edge
                while not self._ready.value:
                    await edge
                self._valid.value = 0


class AxiManager:
    """Send bursts.

    Parameters
    ----------
    dut
        The design.

    Attributes
    ----------
    pauses
        When to pause, by the name of the channel.
    """

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self._sources = {name: _Source(dut, name) for name in CHANNELS if name not in ANSWERS}
        self._pauses: dict[str, Pauses] = {name: never() for name in ANSWERS}
        self._waiting: dict[tuple[str, int], deque[Burst]] = defaultdict(deque)
        for name in ANSWERS:
            cocotb.start_soon(self._take(name))

    def pause(self, **pauses: Pauses) -> None:
        """Set when the channels with these names pause."""
        for name, value in pauses.items():
            if name in self._sources:
                self._sources[name].pauses = value
            else:
                self._pauses[name] = value

    def pause_at_random(self, rng: random.Random) -> None:
        """Choose pauses for all channels."""
        self.pause(**{name: any_pauses(rng) for name in CHANNELS})

    def send(self, burst: Burst) -> Burst:
        """Queue a burst and return it."""
        request = (burst.id, burst.address, burst.length - 1, burst.size, burst.kind)
        self._sources["aw" if burst.write else "ar"].queue.append(request)
        if burst.write:
            last = {burst.length - 1} if burst.last is None else burst.last
            for n, (value, strobe) in enumerate(burst.data):
                self.send_data(value, strobe, n in last)
        self._waiting["b" if burst.write else "r", burst.id].append(burst)
        return burst

    def send_data(self, value: int, strobe: int, last: bool) -> None:
        """Queue a transfer of W."""
        self._sources["w"].queue.append((value, strobe, int(last)))

    @property
    def data_waiting(self) -> int:
        """Transfers of W that are queued."""
        return len(self._sources["w"].queue)

    async def run(self, burst: Burst) -> Burst:
        """Send a burst and wait for its last response."""
        self.send(burst)
        await burst.done.wait()
        return burst

    def reset(self) -> None:
        """Forget everything, as in reset."""
        for source in self._sources.values():
            source.restart()
        self._waiting.clear()

    async def _take(self, name: str) -> None:
        dut = self._dut
        valid = getattr(dut, f"{PREFIX}_{name}valid")
        ready = getattr(dut, f"{PREFIX}_{name}ready")
        fields = {field: getattr(dut, f"{PREFIX}_{name}{field}") for field in CHANNELS[name]}
        edge, now = RisingEdge(dut.clk), False
        ready.value = 0
        while True:
            await edge
            if now and valid.value and not dut.rst.value:
                values = {field: _number(handle) for field, handle in fields.items()}
                waiting = self._waiting[name, values["id"]]
                assert waiting, f"a transfer on {name} for ID {values['id']}, which has no burst"
                burst = waiting[0]
                burst.resp.append(values["resp"])
                burst.read.append(values.get("data", 0))
                if len(burst.resp) == (1 if burst.write else burst.length):
                    waiting.popleft().done.set()
            wanted = not next(self._pauses[name])
            if wanted != now:
                ready.value = now = wanted


class HandshakeChecker:
    """Watch the handshakes of a subordinate.

    - Once valid, what it sends stays until it is taken.
    - In reset, from the second cycle on, it neither offers nor accepts anything.

    Parameters
    ----------
    dut
        The design.
    prefix
        How the names of its ports begin.
    channels
        Fields of each channel.
    """

    def __init__(self, dut: Any, prefix: str, channels: Mapping[str, tuple[str, ...]]) -> None:
        self._dut, self._fields = dut, channels
        self._handles = {
            name: {
                field: getattr(dut, f"{prefix}_{name}{field}")
                for field in ("valid", "ready", *fields)
            }
            for name, fields in channels.items()
        }
        self.clear()
        cocotb.start_soon(self._run())

    def clear(self) -> None:
        """Forget everything, as in reset."""
        self._offered: dict[str, dict[str, int]] = {}

    def see(self, channel: str, values: dict[str, int]) -> None:
        """Judge a transfer."""

    async def _run(self) -> None:
        edge, in_reset = RisingEdge(self._dut.clk), False
        while True:
            await edge
            if self._dut.rst.value:
                for name, handles in self._handles.items() if in_reset else ():
                    drives = "valid" if name in ANSWERS else "ready"
                    assert not handles[drives].value, f"{name}{drives} in reset"
                in_reset = True
                self.clear()
                continue
            in_reset = False
            for name in self._handles:
                self._channel(name)

    def _channel(self, name: str) -> None:
        handles = self._handles[name]
        before = self._offered.pop(name, None)
        if not handles["valid"].value:
            assert before is None or name not in ANSWERS, f"{name} was withdrawn"
            return
        values = {field: _number(handles[field]) for field in self._fields[name]}
        assert before in (None, values), f"{name} changed while it waited"
        if handles["ready"].value:
            self.see(name, values)
        else:
            self._offered[name] = values


class AxiChecker(HandshakeChecker):
    """Watch everything that an AXI4 subordinate does.

    Beyond the handshakes,

    - every burst gets its responses, no more, bursts of an ID in order, RLAST with the last one;
    - a write is answered after its last transfer.

    Attributes
    ----------
    watch
        Called with channel and fields of every transfer.
    """

    def __init__(self, dut: Any) -> None:
        self.watch: Callable[[str, dict[str, int]], None] = lambda channel, values: None
        super().__init__(dut, PREFIX, CHANNELS)

    @property
    def idle(self) -> bool:
        """Whether every burst got its responses."""
        return not any(self._reads.values()) and not any(self._writes.values())

    def clear(self) -> None:
        super().clear()
        self._reads: dict[int, deque[int]] = defaultdict(deque)  # transfers that are missing
        self._writes: dict[int, deque[int]] = defaultdict(deque)  # after so many W transfers
        self._promised = self._written = 0

    def see(self, channel: str, values: dict[str, int]) -> None:
        match channel:
            case "ar":
                self._reads[values["id"]].append(values["len"] + 1)
            case "aw":
                self._promised += values["len"] + 1
                self._writes[values["id"]].append(self._promised)
            case "w":
                self._written += 1
            case "r":
                missing = self._reads[values["id"]]
                assert missing, f"R of ID {values['id']}, which reads nothing"
                missing[0] -= 1
                assert values["last"] == (missing[0] == 0), "RLAST is wrong"
                if not missing[0]:
                    missing.popleft()
            case "b":
                writes = self._writes[values["id"]]
                assert writes, f"B of ID {values['id']}, which writes nothing"
                assert self._written >= writes.popleft(), "B before the last W"
        assert values.get("resp") != 1, "EXOKAY"
        self.watch(channel, values)


def _number(handle: Any) -> int:
    return int(handle.value.to_unsigned()) if len(handle) > 1 else int(handle.value)
