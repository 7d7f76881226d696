"""The vector unit: passes of `vec_lanes` elements, and how long a result takes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, SLOT, Function, Output, Reduction, Step
from sim.estimate.latencies import Latencies
from sim.estimate.trace import Op

QUEUE = 2
"""Instructions in the unit: one makes its passes, the next one gets ready."""


@dataclass(eq=False)
class _Running:
    """An instruction in the unit: from when it may begin, passes made, passes in all."""

    op: Op
    begin: int
    made: int
    count: int


class VectorUnit:
    """Makes a pass per cycle, instruction by instruction, unless elements are not there yet."""

    def __init__(self, config: TileConfig, latencies: Latencies) -> None:
        self.config, self.t = config, latencies
        self._queue: deque[_Running] = deque()

    @property
    def free(self) -> bool:
        """Whether it takes an instruction."""
        return len(self._queue) < QUEUE

    def start(self, op: Op, now: int) -> int:
        """Take an instruction; return its passes."""
        count = passes(op.name, op.o, self.config, self.t)
        self._queue.append(_Running(op, now + self.t.issue, 0, count))
        return count

    def cycle(self, now: int) -> None:
        """Make a pass, if its elements are there."""
        if not self._queue:
            return
        head = self._queue[0]
        op = head.op
        if now < head.begin or not all(_there(s, head, now) for s in op.chained):
            return
        if op.begun < 0:
            op.begun = now
        head.made += 1
        if head.made == head.count:
            op.done = now + latency(op.name, op.o, self.config, self.t)
            self._queue.popleft()
            if self._queue:
                self._queue[0].begin = max(self._queue[0].begin, now + 1 + self.t.vector_start)


def _there(source: Op, head: _Running, now: int) -> bool:
    """Return whether a source has the elements of the next pass."""
    if source.done >= 0:
        return source.done - now <= head.count - head.made - 1
    return head.made < source.part * head.count


def passes(name: str, o: SimpleNamespace, config: TileConfig, t: Latencies) -> int:
    """Return the cycles for which an instruction has the lanes."""
    if name == "topk":
        lines = -(-o.columns // max(BLOCK_WORDS, config.vec_lanes))
        return max(1, o.rows * o.k * (lines + t.sweep))
    rows = o.mask.bit_count() if o.masked else o.rows
    return max(1, rows * max(1, -(-o.columns // config.vec_lanes)))


def latency(name: str, o: SimpleNamespace, config: TileConfig, t: Latencies) -> int:
    """Return the cycles from the last pass to the last word in its register."""
    if name == "topk":
        return t.read + t.write
    before = sum(_STEPS[getattr(o, f"{which}_step")](t) for which in "bc")
    before += _FUNCTIONS[o.function](t)
    written = _STEPS[o.d_step](t) + _write(o, config, t)
    return t.read + before + max(_reduce(o, config, t), written)


def _reduce(o: SimpleNamespace, config: TileConfig, t: Latencies) -> int:
    lanes = config.vec_lanes
    if o.reduction is Reduction.NONE:
        return 0
    if o.reduction is Reduction.MAXIMUM:
        return t.maximum + t.write
    total = t.add + (t.multiply if o.reduction is Reduction.SQUARES else 0)
    if o.suspend:
        return total + t.write
    half = SLOT // 2
    while half:
        total += -(-half // lanes) - 1 + t.add
        half //= 2
    return total + t.write


def _write(o: SimpleNamespace, config: TileConfig, t: Latencies) -> int:
    if o.output in (Output.MXFP4, Output.MXINT8):
        # A block is gathered for its scale: its last lanes come `SLOT / lanes - 1` passes late
        # only to the first ones, so the delay behind the last pass is that of rereading them.
        return t.quantise + SLOT // config.vec_lanes + t.write
    return t.write


_STEPS = {
    Step.NONE: lambda t: 0,
    Step.ADD: lambda t: t.add,
    Step.SUB: lambda t: t.add,
    Step.MUL: lambda t: t.multiply,
    Step.MINIMUM: lambda t: t.compare,
    Step.MAXIMUM: lambda t: t.compare,
    Step.CLAMP: lambda t: t.compare,
    Step.LDEXP_MXFP4: lambda t: t.ldexp,
    Step.LDEXP_MXINT8: lambda t: t.ldexp,
    Step.ROTATE_ADJACENT: lambda t: t.multiply + t.add,
    Step.ROTATE_HALVES: lambda t: t.multiply + t.add,
    Step.TAKE: lambda t: 0,
}

_SIGMOID = lambda t: t.multiply + t.exp2 + t.add + t.reciprocal  # noqa: E731

_FUNCTIONS = {
    Function.NONE: lambda t: 0,
    Function.EXP: lambda t: t.multiply + t.exp2,
    Function.EXP2: lambda t: t.exp2,
    Function.RECIPROCAL: lambda t: t.reciprocal,
    Function.RSQRT: lambda t: t.rsqrt,
    Function.SIGMOID: _SIGMOID,
    Function.GATE: lambda t: 2 * t.multiply + _SIGMOID(t),
}
