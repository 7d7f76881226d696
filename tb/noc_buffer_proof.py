"""What is proved of the buffer of an input: nothing is lost, changed or overtaken.

It gets anybody's inputs, as far as others promise something of them, and is compared with counts
and with one flit, whichever it is, that is followed from its arrival until it leaves.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Assume, Cover, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from rtl.noc.buffer import InputBuffer
from rtl.noc.geometry import ORDERS, Side, outputs_of
from rtl.noc.link import COORDINATE_BITS, FlitLayout

FLIT_BYTES = 2


class BufferProof(wiring.Component):
    """A buffer that gets any packets whose ways are possible, and lets flits go in any order.

    Parameters
    ----------
    side
        Its side.
    depth
        Its slots.
    """

    def __init__(self, side: Side = Side.WEST, depth: int = 2) -> None:
        self.side, self.depth = side, depth
        super().__init__(
            {
                "flit": In(FlitLayout(FLIT_BYTES)),
                "valid": In(1),
                "x": In(COORDINATE_BITS),
                "y": In(COORDINATE_BITS),
                "take": In(len(outputs_of(side))),
                "follow": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the buffer, and what it must do."""
        m = Module()
        m.submodules.buffer = buffer = InputBuffer(self.side, self.depth, FLIT_BYTES)
        outputs = buffer.outputs
        m.d.comb += [
            buffer.link.flit.eq(self.flit),
            buffer.link.valid.eq(self.valid),
            buffer.x.eq(self.x),
            buffer.y.eq(self.y),
            buffer.take.eq(self.take),
            Assume(~ResetSignal()),
            Assume(~self.valid | buffer.link.space),
            Assume((self.take & (self.take - 1)) == 0),
            Assume((self.take & ~buffer.requests) == 0),
        ]
        self._place_stays(m)
        way = self._way(m, outputs)
        counts = [Signal(range(self.depth + 1), name=f"count_{o.name}") for o in outputs]
        for n, count in enumerate(counts):
            m.d.sync += count.eq(count + (self.valid & way[n]) - self.take[n])
            m.d.comb += Assert(buffer.requests[n] == (count != 0), f"REQUEST_{n}")
        m.d.comb += Assert(buffer.link.space == (sum(counts, Value.cast(0)) < self.depth), "SPACE")

        # One flit is followed: how many are before it, of those that leave where it leaves, and of
        # those that leave elsewhere.
        following, done, where = Signal(), Signal(), Signal(len(outputs))
        content = Signal(FlitLayout(FLIT_BYTES))
        before = [Signal.like(count, name=f"before_{n}") for n, count in enumerate(counts)]
        starts = self.follow & self.valid & ~following & ~done
        ahead = sum((b * where[n] for n, b in enumerate(before)), Value.cast(0))
        leaves = following & (where & self.take).any() & (ahead == 0)
        with m.If(starts):
            m.d.sync += [following.eq(1), where.eq(way), Value.cast(content).eq(self.flit)]
            m.d.sync += [b.eq(counts[n] - self.take[n]) for n, b in enumerate(before)]
        with m.Elif(following):
            m.d.sync += [b.eq(b - (self.take[n] & (b != 0))) for n, b in enumerate(before)]
            with m.If(leaves):
                m.d.sync += [following.eq(0), done.eq(1)]
        m.d.comb += [
            Assert(~leaves | (Value.cast(buffer.flit) == Value.cast(content)), "CONTENT"),
            Cover(leaves, "leaves"),
        ]
        self._check_order(m, buffer, following & (ahead == 0), where, counts, before)
        return m

    def _place_stays(self, m: Module) -> None:
        """Assume that the router does not move."""
        started, x, y = Signal(), Signal.like(self.x), Signal.like(self.y)
        m.d.sync += [started.eq(1), x.eq(self.x), y.eq(self.y)]
        m.d.comb += Assume(~started | ((self.x == x) & (self.y == y)))

    def _way(self, m: Module, outputs: tuple[Side, ...]) -> Signal:
        """Return where the flit that comes leaves; assume that it can."""
        inside, first, way = Signal(), Signal(len(outputs)), Signal(len(outputs))
        x, y = self.flit.data[:COORDINATE_BITS], self.flit.data[COORDINATE_BITS:][:COORDINATE_BITS]
        for n, o in enumerate(outputs):
            with m.If((x == self.x) & (y == self.y)):
                m.d.comb += way[n].eq(o is Side.LOCAL)
            with m.Elif(x != self.x):
                m.d.comb += way[n].eq(
                    (x > self.x) if o is Side.EAST else (x < self.x) & (o is Side.WEST)
                )
            with m.Else():
                m.d.comb += way[n].eq(
                    (y > self.y) if o is Side.NORTH else (y < self.y) & (o is Side.SOUTH)
                )
        with m.If(inside):
            m.d.comb += way.eq(first)
        with m.If(self.valid):
            m.d.sync += [inside.eq(~self.flit.last), first.eq(way)]
        m.d.comb += Assume(~self.valid | way.any())
        return way

    def _check_order(
        self,
        m: Module,
        buffer: InputBuffer,
        is_next: Value,
        where: Signal,
        counts: list[Signal],
        before: list[Signal],
    ) -> None:
        """Demand that the followed flit, once it is next, came before the next for any other."""
        orders = [order for order in ORDERS if order[0] is self.side]
        for n, (_, one, other) in enumerate(orders):
            a, b = (buffer.outputs.index(o) for o in (one, other))
            m.d.comb += [
                Assert(
                    ~(is_next & where[a] & (counts[b] != 0))
                    | (buffer.before[n] == (before[b] == 0)),
                    f"BEFORE_{n}",
                ),
                Assert(
                    ~(is_next & where[b] & (counts[a] != 0))
                    | (buffer.before[n] == (before[a] != 0)),
                    f"AFTER_{n}",
                ),
            ]
