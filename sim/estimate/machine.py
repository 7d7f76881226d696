"""The tile: fetch, scalar unit, issue window, and the engines, cycle by cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rtl.config import TileConfig
from rtl.core.isa import PHYSICAL_VECTORS, SCALARS, VECTORS
from sim.estimate import vector
from sim.estimate.latencies import Latencies, Options
from sim.estimate.matrix import MatrixEngine
from sim.estimate.memory import Bus, Memory
from sim.estimate.trace import Op

NEVER = 1 << 60

HANGING = 100_000
"""Cycles without an instruction or a step of the array after which nothing will happen."""


@dataclass
class Result:
    """What a replay found.

    Attributes
    ----------
    cycles
        From the first word fetched until everything has ended.
    bus
        Cycles by who had the bus; ``stream`` is the operands of the matrix engine.
    lost
        All other cycles by phase and cause: what the stream, or the array before a full buffer,
        waited for.
    steps, paired
        Cycles in which the array took a beat, and in which it took two.
    passes
        Vector passes by phase.
    """

    cycles: int = 0
    bus: Counter[str] = field(default_factory=Counter)
    lost: Counter[tuple[str, str]] = field(default_factory=Counter)
    steps: int = 0
    paired: int = 0
    passes: Counter[str] = field(default_factory=Counter)


def replay(
    ops: Sequence[Op],
    config: TileConfig,
    latencies: Latencies | None = None,
    options: Options | None = None,
) -> Result:
    """Return how long a trace takes.

    Parameters
    ----------
    ops
        From `sim.estimate.trace.record`; their times are set.
    config
        Of the tile.
    latencies, options
        Of the model.

    Raises
    ------
    RuntimeError
        If nothing happens any more: the trace waits for itself.
    """
    for op in ops:
        op.issued = op.begun = op.done = -1
        op.part = 0.0
    return _Machine(ops, config, latencies or Latencies(), options or Options()).run()


class _Machine:
    """State of a replay."""

    def __init__(
        self, ops: Sequence[Op], config: TileConfig, latencies: Latencies, options: Options
    ) -> None:
        self.ops, self.config, self.t, self.options = ops, config, latencies, options
        self.bus = Bus(latencies)
        self.memory = Memory(config, latencies, self.bus)
        self.matrix = MatrixEngine(config, latencies, options)
        self.unit = vector.VectorUnit(config, latencies)
        self.window: list[Op] = []
        self.renamed: list[Op] = []
        """What may still have a vector register beside those that programs see."""
        self.next = 0
        self.words = 0
        self.decode = 0
        """First cycle in which the next instruction can be decoded."""
        self.scalars = [0] * SCALARS
        """When scalar registers are there."""
        self.result = Result()

    def run(self) -> Result:
        """Return the result."""
        now, result, before, since = 0, self.result, (0, 0), 0
        while self.next < len(self.ops):
            who = self.bus.cycle(now, self.matrix.wanted(now))
            result.bus[who] += 1
            if who == "stream":
                self.matrix.request(now)
            else:
                result.lost[self._blame(who, now)] += 1
            self.matrix.cycle(now)
            self.unit.cycle(now)
            self._issue(now)
            self._front(now)
            now += 1
            progress = self.next, self.matrix.steps
            if progress != before:
                before, since = progress, now
            elif now - since > HANGING:
                raise RuntimeError(f"Nothing happens at instruction {self.next} any more.")
        result.cycles = now
        result.steps, result.paired = self.matrix.steps, self.matrix.paired
        return result

    # --- front end ---

    def _front(self, now: int) -> None:
        """Decode one instruction, if it is there and can go on."""
        if self.decode > now:
            return
        self.words = min(self.t.fetch_buffer, self.words + self.t.fetch_words)
        op = self.ops[self.next]
        if self.words < op.words or any(self.scalars[s] > now for s in op.scalars):
            return
        if not (self._scalar(op, now) if op.engine == "scalar" else self._enter(op, now)):
            return
        self.words -= op.words
        self.next += 1
        if op.taken:
            self.words, self.decode = 0, now + self.t.branch

    def _enter(self, op: Op, now: int) -> bool:
        """Put an instruction into the window, if there is room and a register to rename to."""
        if len(self.window) >= self.config.issue_window:
            return False
        if op.renames:
            self.renamed = [other for other in self.renamed if not other.ended(now)]
            if len(self.renamed) >= PHYSICAL_VECTORS - VECTORS:
                return False
            self.renamed.append(op)
        self.window.append(op)
        if op.engine == "matrix":
            self.matrix.enter(op)
        return True

    def _scalar(self, op: Op, now: int) -> bool:
        """Execute a scalar instruction, if it can be."""
        ready = now + 1
        match op.name:
            case "stop":
                if not all(other.ended(now) for other in self.ops[: self.next]):
                    return False
            case "readv" | "readr" | "match":
                if not all(source.ended(now) for source in op.sources):
                    return False
                ready = now + self.t.scalar_read
            case "lw" | "sw":
                if any(other.issued < 0 for other in op.after):
                    return False
        op.issued = now
        if op.name == "lw":
            self.scalars[op.result] = NEVER

            def arrived(when: int) -> None:
                self.scalars[op.result] = op.done = when

            self.memory.word(op.o.address + op.o.address_offset, arrived, now)
            return True
        op.done = ready
        if op.result:
            self.scalars[op.result] = ready
        return True

    # --- window ---

    def _issue(self, now: int) -> None:
        """Give each engine the oldest instruction that is ready, if it takes one."""
        used = set()
        for op in list(self.window):
            engine = op.engine
            if engine in used or not self._takes(engine, now):
                continue
            if not self._ready(op, now):
                if engine == "matrix":
                    used.add(engine)  # in order among themselves
                continue
            if op.name == "fence":
                op.done = now
            elif engine == "vector":
                self.result.passes[op.phase] += self.unit.start(op, now)
            elif engine == "memory":
                self.memory.start(op, now)
            else:
                self.matrix.issue(op, now)
            op.issued = now
            used.add(engine)
            self.window.remove(op)

    def _takes(self, engine: str, now: int) -> bool:
        if engine == "vector":
            return self.unit.free
        return engine != "memory" or self.memory.free <= now

    def _ready(self, op: Op, now: int) -> bool:
        if any(other.issued < 0 for other in op.after):
            return False
        complete = now - self.t.complete
        for source in op.sources:
            if not source.ended(complete) and not self._follows(op, source, now):
                return False
        return op.engine != "memory" or op.fence is None or op.fence.ended(now)

    def _follows(self, op: Op, source: Op, now: int) -> bool:
        """Return whether an instruction that begins now would meet a source's last elements."""
        if not self.options.chain or source not in op.chained or source.issued < 0:
            return False
        count = vector.passes(op.name, op.o, self.config, self.t)
        if source.engine == "matrix":
            return self.matrix.ends_within(source, count, self.t.issue)
        return 0 <= source.done <= now + self.t.issue + count - 1

    # --- what is lost to what ---

    def _blame(self, who: str, now: int) -> tuple[str, str]:
        """Return phase and cause of a cycle that brings no operand."""
        first = self.matrix.first
        if who != "idle":
            return first.phase if first else self._upcoming.phase, who
        stream = self.matrix.streaming
        if stream is not None and stream.fence is not None and not stream.fence.ended(now):
            return self._cause(stream.fence, now)
        if stream is not None and first is not None:
            return self._cause(first, now)
        full = len(self.window) >= self.config.issue_window
        return self._cause(self.window[0] if full else self._upcoming, now)

    @property
    def _upcoming(self) -> Op:
        return self.ops[self.next]

    def _cause(self, op: Op, now: int) -> tuple[str, str]:
        """Follow what is waited for to what is under way."""
        while op.issued < 0:
            waits = [source for source in op.sources if not source.ended(now)]
            waits += [other for other in op.after if other.issued < 0]
            if not waits:
                return op.phase, "issue" if op in self.window else "front end"
            op = waits[0]
        return op.phase, op.engine
