"""The matrix engine: a stream that runs ahead, an array that follows, a drain behind it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache

from gen.layout import WeightLayout
from rtl.config import TileConfig
from rtl.core.isa import MatrixFormat
from rtl.formats import BLOCK, Format
from sim.estimate.latencies import Latencies, Options
from sim.estimate.trace import Op

_PLANES = {MatrixFormat.MXFP4: Format.MXFP4.planes, MatrixFormat.MXINT8: Format.MXINT8.planes}


@dataclass(frozen=True)
class Group:
    """Outputs that are in flight together.

    Attributes
    ----------
    elements
        Beats the array takes.
    block
        Those of the last block along K, in which results become final.
    results
        Outputs.
    """

    elements: int
    block: int
    results: int


@lru_cache(maxsize=1024)
def operand(
    outputs: int, blocks: int, planes: int, transpose: bool, channels: int, depth: int
) -> tuple[bytes, tuple[Group, ...]]:
    """Return the beats of an operand, 1 where the array takes it, and its groups."""
    if transpose:
        rows = -(-outputs // channels)
        taken = blocks * rows * planes
        whole = blocks * -(-BLOCK // channels) * planes
        return bytes([1]) * whole, (Group(taken, rows * planes, outputs),)
    fmt = Format.MXINT8 if planes == 2 else Format.MXFP4
    layout = WeightLayout(outputs, BLOCK * blocks, fmt, channels, depth)
    beats, groups = bytearray(), []
    for first in range(0, layout.padded_neurons, layout.group_neurons):
        size = min(layout.group_neurons, layout.padded_neurons - first)
        part = layout.group_beats(size)
        beats += bytes(part.maximum)
        left = part.element
        while left:
            run = min(left, 16 * planes)
            beats += b"\0" + b"\1" * run
            left -= run
        groups.append(Group(part.element, size // channels * planes, min(size, outputs - first)))
    return bytes(beats), tuple(groups)


@dataclass(eq=False)
class Product:
    """A matrix instruction under way.

    Attributes
    ----------
    op
        The instruction.
    beats, groups
        Its operand.
    pair
        Whether the array may take two beats per cycle.
    rows
        Rows of activations.
    tile
        Beats that the transposer gathers before any leave it; 0 without.
    asked, arrived, taken
        Beats that were requested; element beats that are there; those the array took.
    loaded
        Cycle from which the array may begin; -1 while its activations are not under way.
    group, step
        Where the array is: the group, and the beats of it that were taken.
    last_begun
        When it began the last block of the group.
    elements, cost
        Beats the array takes in all, and how many in the buffer each frees.
    """

    op: Op
    beats: bytes
    groups: tuple[Group, ...]
    pair: bool
    rows: int
    tile: int
    asked: int = 0
    arrived: int = 0
    taken: int = 0
    loaded: int = -1
    group: int = 0
    step: int = 0
    last_begun: int = 0
    elements: int = field(init=False)
    cost: int = field(init=False)

    def __post_init__(self) -> None:
        self.elements = sum(group.elements for group in self.groups)
        self.cost = sum(self.beats) // max(1, self.elements)


class MatrixEngine:
    """Products in order: `waiting` for beats, then for the array.

    Attributes
    ----------
    products
        Instructions whose array work is not done.
    stream
        Those whose beats were not all requested, a part of `products`.
    held
        Element beats requested that the array has not taken.
    steps, paired
        Cycles in which the array took beats, and in which it took two.
    """

    def __init__(self, config: TileConfig, latencies: Latencies, options: Options) -> None:
        self.config, self.t, self.options = config, latencies, options
        # Without a buffer there is what is under way for the product that is being made.
        self.capacity = config.stream_beats if options.prefetch else 0
        self.capacity = max(self.capacity, latencies.hbm + latencies.array_fill + 2)
        self.products: deque[Product] = deque()
        self.stream: deque[Product] = deque()
        self.held = 0
        self.steps = self.paired = 0
        self._loader = 0
        self._arriving: deque[tuple[int, Product]] = deque()
        self._drain = 0
        self._banks = [0, 0]
        self._bank = 0
        self._draining: deque[tuple[int, Op, float]] = deque()

    @property
    def first(self) -> Op | None:
        """What the array works on, or waits for."""
        return self.products[0].op if self.products else None

    @property
    def streaming(self) -> Op | None:
        """Whose beats are requested next."""
        return self.stream[0].op if self.stream else None

    def ends_within(self, op: Op, passes: int, delay: int) -> bool:
        """Return whether so many vector passes, begun after a delay, would meet the last results.

        All groups but the last must be there: as many passes as they have results are made while
        the array and the drain do the rest.
        """
        product = next((p for p in self.products if p.op is op), None)
        if product is None:
            return True
        done = product.group / len(product.groups)
        if product.group + 1 < len(product.groups):
            return False
        steps = -(-(product.elements - product.taken) // (1 + product.pair))
        return steps + self.t.array + self.t.drain - delay <= done * passes

    def enter(self, op: Op) -> None:
        """Take the descriptor of an instruction that has entered the window."""
        o, config = op.o, self.config
        planes = _PLANES[o.weight]
        transpose = bool(o.transpose)
        if o.beats:
            beats, groups = operand(
                o.outputs, o.blocks, planes, transpose, config.pseudo_channels, config.acc_depth
            )
            if len(beats) != o.beats:  # a chain whose beats all come with its first instruction
                beats, groups = bytes([1]) * o.beats, (Group(o.beats, 1, o.outputs),)
        else:
            beats, groups = b"", (Group(0, 0, o.outputs),)
        rows = o.mask.bit_count() if o.masked else o.rows
        pair = (
            o.pair
            and self.options.pair
            and 2 * rows * _PLANES[o.activation] <= config.lanes
            and len(beats) > 1
        )
        tile = -(-BLOCK // config.pseudo_channels) * planes if transpose else 0
        product = Product(op, beats, groups, pair, max(rows, 1), tile)
        self.products.append(product)
        if beats:
            self.stream.append(product)

    def issue(self, op: Op, now: int) -> None:
        """Load the activations of an instruction, whose registers are ready."""
        product = next(p for p in self.products if p.op is op)
        first = max(now + self.t.issue, self._loader) + product.rows
        self._loader = first + product.rows * (op.o.blocks - 1)
        product.loaded = first + self.t.load_blocks

    def wanted(self, now: int) -> bool:
        """Return whether a beat can be requested."""
        if not self.stream:
            return False
        product = self.stream[0]
        if product.op.fence is not None and not 0 <= product.op.fence.done <= now:
            return False
        if not self.options.prefetch and (product.loaded < 0 or product is not self.products[0]):
            return False
        return self.held < self.capacity + product.tile or not product.beats[product.asked]

    def request(self, now: int) -> None:
        """Request the next beat."""
        product = self.stream[0]
        if product.beats[product.asked]:
            self.held += 1
            self._arriving.append((now + self.t.hbm + self.t.array_fill, product))
        product.asked += 1
        if product.asked == len(product.beats):
            self.stream.popleft()

    def cycle(self, now: int) -> bool:
        """Advance array and drain; return whether the array did something."""
        arriving = self._arriving
        while arriving and arriving[0][0] <= now:
            arriving.popleft()[1].arrived += 1
        while self._draining and self._draining[0][0] <= now:
            when, op, part = self._draining.popleft()
            op.part = part
            if part == 1:
                op.done = when
        if not self.products:
            return False
        product = self.products[0]
        if product.loaded < 0 or product.loaded > now:
            return False
        group = product.groups[product.group]
        if group.elements == 0:
            self._finish_group(product, group, now)
            return False
        if product.step == 0 and self._banks[self._bank] > now:
            return False
        there = product.arrived
        if product.tile and there < len(product.beats):
            there = there // product.tile * product.tile
        there -= product.taken
        if there <= 0:
            return False
        if product.op.begun < 0:
            product.op.begun = now
        count = min(there, 2 if product.pair else 1, group.elements - product.step)
        product.step += count
        product.taken += count
        self.held -= count * product.cost
        self.steps += 1
        self.paired += count == 2
        if product.step - count <= group.elements - group.block < product.step:
            product.last_begun = now
        if product.step == group.elements:
            self._finish_group(product, group, now)
        return True

    def _finish_group(self, product: Product, group: Group, now: int) -> None:
        op, t, lanes = product.op, self.t, self.config.vec_lanes
        product.step = 0
        product.group += 1
        whole = product.group == len(product.groups)
        if op.o.drain:
            moved = product.rows * -(-group.results // lanes)
            begun = max(product.last_begun + t.array, self._drain)
            end = max(now + t.array, begun + moved)
            self._drain = end
            self._banks[self._bank] = end - t.array
            self._bank ^= 1
            self._draining.append((end + t.drain, op, product.group / len(product.groups)))
        elif whole:
            self._draining.append((now + t.array, op, 1.0))
        if whole:
            self.products.popleft()
