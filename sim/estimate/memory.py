"""The tile's memory: one bus to the HBM slice, L1 in front of it, and the load/store unit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace

from rtl.config import TileConfig
from rtl.core.isa import LoadKind
from sim.estimate.latencies import Latencies
from sim.estimate.trace import Op

Arrived = Callable[[int], None]
"""Is told the cycle in which data is there."""


class Bus:
    """A beat per cycle, shared: first writes that are under way, then loads, then the stream.

    Attributes
    ----------
    loads
        Accesses that loads wait for: what to call with the cycle in which the data is there.
    writes
        Accesses that were accepted and not yet made.
    """

    def __init__(self, latencies: Latencies) -> None:
        self.t = latencies
        self.loads: deque[Arrived] = deque()
        self.writes = 0
        self._busy = 0
        self._why = ""

    def cycle(self, now: int, wanted: bool) -> str:
        """Return who has the bus in this cycle; ``stream`` only if it is `wanted`.

        Parameters
        ----------
        now
            The cycle.
        wanted
            Whether the stream has room for a beat.
        """
        t = self.t
        if now % t.hbm_lost == t.hbm_lost - 1:
            return "refresh"
        if now < self._busy:
            return self._why
        if self.loads:
            self.loads.popleft()(now + t.hbm + 1)
            self._busy, self._why = now + 2, "loads"
            return "loads"
        if self.writes and (not wanted or self.writes >= t.hbm_writes):
            self._busy, self._why = now + t.hbm_turnaround + t.hbm_write * self.writes, "writes"
            self.writes = 0
            return "writes"
        return "stream" if wanted else "idle"


class L1:
    """Which lines are there: sets of ways, the least recently used one goes."""

    def __init__(self, config: TileConfig) -> None:
        self.ways, self.line = config.l1_ways, config.line_bytes
        self.sets: list[list[int]] = [[] for _ in range(config.l1_sets)]

    def touch(self, line: int) -> bool:
        """Use a line; return whether it was there."""
        lines = self.sets[line % len(self.sets)]
        hit = line in lines
        if hit:
            lines.remove(line)
        elif len(lines) == self.ways:
            lines.pop(0)
        lines.append(line)
        return hit


class Memory:
    """Loads and stores: a line takes two cycles, misses go on in the background.

    Parameters
    ----------
    config, latencies
        Of the tile, and of the model.
    bus
        Where misses go.
    """

    def __init__(self, config: TileConfig, latencies: Latencies, bus: Bus) -> None:
        self.config, self.t, self.bus = config, latencies, bus
        self.l1 = L1(config)
        self.free = 0
        """First cycle in which it takes an instruction."""
        self._coming: dict[int, list[Arrived]] = {}

    def start(self, op: Op, now: int) -> None:
        """Take an instruction."""
        o, t, start = op.o, self.t, now + self.t.issue
        match op.name:
            case "append" | "appendmax":
                # A scale, and a block in one or two nibble planes.
                writes = 2 + int(o.format) if op.name == "append" else 1
                self.bus.writes += writes
                self.free = start + writes
                op.done = start + t.read + writes + t.accept
            case "store":
                lines = lines_of(o, self.config.line_bytes)
                for line in lines:
                    self.l1.touch(line)
                self.free = start + self._busy(o, lines)
                op.done = self.free + t.read + t.l1
            case _:
                self._load(op, start)

    def word(self, address: int, arrived: Arrived, now: int) -> None:
        """Load a word."""
        line = address // self.config.line_bytes
        if self._cached(line, lambda when: arrived(when + self.t.l1)):
            arrived(now + self.t.l1)

    def _busy(self, o: SimpleNamespace, lines: list[int]) -> int:
        words = o.rows * getattr(o, "columns", 1)
        return max(2 * len(lines), -(-words // self.config.vec_lanes))

    def _load(self, op: Op, start: int) -> None:
        o, behind = op.o, self.t.l1 + self.t.write
        lines = lines_of(o, self.config.line_bytes)
        self.free = start + self._busy(o, lines)
        ready, left = self.free, len(lines)

        def arrived(when: int) -> None:
            nonlocal left, ready
            left, ready = left - 1, max(ready, when)
            if not left:
                op.done = ready + behind

        for line in lines:
            if getattr(o, "streaming", False):
                self.bus.loads.append(arrived)
            elif self._cached(line, arrived):
                arrived(start)

    def _cached(self, line: int, arrived: Arrived) -> bool:
        """Return whether L1 has a line; if not, `arrived` is told when it does."""
        hit = self.l1.touch(line)
        if line in self._coming:
            self._coming[line].append(arrived)
            return False
        if not hit:
            waiting = self._coming[line] = [arrived]

            def fill(when: int) -> None:
                del self._coming[line]
                for tell in waiting:
                    tell(when)

            self.bus.loads.append(fill)
        return hit


_BITS = {LoadKind.WORDS: 32, LoadKind.BYTES: 8, LoadKind.MXFP4: 4, LoadKind.MXINT8: 8}


def lines_of(o: SimpleNamespace, line: int) -> list[int]:
    """Return the lines that a load or store touches, each once."""
    kind = getattr(o, "kind", LoadKind.WORDS)
    rows, columns, pitch = (o.rows, o.columns, o.pitch) if hasattr(o, "columns") else (1, o.rows, 0)
    found: dict[int, None] = {}
    for row in range(rows):
        first = o.address + o.address_offset + row * pitch
        last = first + max(1, columns * _BITS[kind] // 8) - 1
        found |= dict.fromkeys(range(first // line, last // line + 1))
        if kind in (LoadKind.MXFP4, LoadKind.MXINT8):
            found[(o.scales + o.scales_offset + row * pitch) // line] = None
    return list(found)
