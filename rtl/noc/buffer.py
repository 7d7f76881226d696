"""The buffer of an input: slots that all outputs share, each output's flits in their order."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import lowest
from rtl.noc.geometry import ORDERS, Side, outputs_of
from rtl.noc.link import FlitLayout, HeaderLayout, LinkSignature, pick

__all__ = ["InputBuffer"]


class InputBuffer(wiring.Component):
    """Flits that came in from a side, until they leave.

    A queue would hold up everything behind a flit whose output is busy. Here a flit waits only for
    those before it that leave at the same output: they stay in order, so packets stay whole, and
    so do all packets between two tiles.

    Packets cannot lock each other out. Once a packet's first flit has a slot, all that comes in
    until its last one is its own, so one slot at least is for what it sends or waits for.

    Parameters
    ----------
    side
        Where it is.
    depth
        Its slots.
    flit_bytes
        Bytes of a flit.

    Members
    -------
    link : In
        What comes in.
    x, y : In
        The tile of the router.
    requests : Out
        For which outputs there are flits, one bit for each of `rtl.noc.geometry.outputs_of`.
    before : Out
        For every two outputs, as `rtl.noc.geometry.ORDERS` has them: of the flits that are next
        for them, that for the first came before the other.
    take : In
        Let the next flit for an output go. At most one bit, and only where there is a request.
    flit : Out
        That flit.
    """

    def __init__(self, side: Side, depth: int, flit_bytes: int) -> None:
        self.side, self.depth, self.flit_bytes = side, depth, flit_bytes
        self.outputs = outputs_of(side)
        coordinate = HeaderLayout()["x"].shape
        super().__init__(
            {
                "link": In(LinkSignature(flit_bytes)),
                "x": In(coordinate),
                "y": In(coordinate),
                "requests": Out(len(self.outputs)),
                "before": Out(sum(i is side for i, _, _ in ORDERS)),
                "take": In(len(self.outputs)),
                "flit": Out(FlitLayout(flit_bytes)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the slots, and what is known of their order."""
        m = Module()
        slots, outputs = range(self.depth), range(len(self.outputs))
        link = self.link
        # Where the flit in a slot leaves, one bit for each output; none where the slot is free.
        routes = [Signal(len(outputs), name=f"route_{s}") for s in slots]
        contents = [Signal(8 * self.flit_bytes, name=f"data_{s}") for s in slots]
        ends = [Signal(name=f"last_{s}") for s in slots]

        free, write, taken = (Signal(self.depth, name=n) for n in ("free", "write", "taken"))
        m.d.comb += [
            free.eq(Cat(~route.any() for route in routes)),
            link.space.eq(free.any()),
            write.eq(Mux(link.valid, lowest(free), 0)),
        ]
        route = self._route(m)
        for s in slots:
            with m.If(write[s]):
                m.d.sync += [
                    routes[s].eq(route),
                    contents[s].eq(link.flit.data),
                    ends[s].eq(link.flit.last),
                ]
            with m.Elif(taken[s]):
                m.d.sync += routes[s].eq(0)

        older = self._ages(m, write)
        following = [Signal(self.depth, name=f"next_{o}") for o in outputs]
        for o in outputs:
            for s in slots:
                rivals = Cat(routes[t][o] & older[t][s] for t in slots if t != s)
                m.d.comb += following[o][s].eq(routes[s][o] & ~rivals.any())
        m.d.comb += [
            self.requests.eq(reduce(or_, routes)),
            taken.eq(pick(self.take, following)),
            self.flit.data.eq(pick(taken, contents)),
            self.flit.last.eq(pick(taken, ends)),
        ]

        orders = [(self.outputs.index(o), self.outputs.index(p)) for i, o, p in ORDERS
                  if i is self.side]  # fmt: skip
        beaten = {}  # of each slot, whether it came before what is next for an output
        for p in {p for _, p in orders}:
            beaten[p] = Signal(self.depth, name=f"before_next_{p}")
            for s in slots:
                others = Cat(following[p][t] & older[s][t] for t in slots if t != s)
                m.d.comb += beaten[p][s].eq(others.any())
        m.d.comb += self.before.eq(Cat((following[o] & beaten[p]).any() for o, p in orders))

        m.d.comb += [
            Assert(~link.valid | link.space, "OVERFLOW"),
            Assert(~link.valid | _is_one(route), "ROUTE"),
            Assert(~self.take.any() | _is_one(self.take), "TAKE_ONE"),
            Assert((self.take & ~self.requests) == 0, "TAKE_NOTHING"),
        ]
        return m

    def _route(self, m: Module) -> Signal:
        """Return where the flit on the link leaves: where its header says, then as the first."""
        header = HeaderLayout()(self.link.flit.data[: HeaderLayout().size])
        at_x = Signal()
        m.d.comb += at_x.eq(header.x == self.x)
        at_y, beyond = Signal(), Signal()
        m.d.comb += [at_y.eq(header.y == self.y), beyond.eq(header.y > self.y)]
        ways = {
            Side.LOCAL: at_x & at_y,
            Side.EAST: header.x > self.x,
            Side.WEST: header.x < self.x,
            Side.NORTH: at_x & ~at_y & beyond,
            Side.SOUTH: at_x & ~at_y & ~beyond,
        }
        route, kept = (Signal(len(self.outputs), name=n) for n in ("route", "kept_route"))
        inside = Signal()  # a packet has begun
        m.d.comb += route.eq(Mux(inside, kept, Cat(ways[o] for o in self.outputs)))
        with m.If(self.link.valid):
            m.d.sync += [inside.eq(~self.link.flit.last), kept.eq(route)]
        return route

    def _ages(self, m: Module, write: Signal) -> list[list[Value]]:
        """Return for every two slots whether the flit in the first is the older one."""
        older: list[list[Value]] = [[write[0]] * self.depth for _ in range(self.depth)]
        for s in range(self.depth):
            for t in range(s + 1, self.depth):
                older[s][t] = first = Signal(name=f"older_{s}_{t}")
                older[t][s] = ~first
                with m.If(write[t]):
                    m.d.sync += first.eq(1)
                with m.Elif(write[s]):
                    m.d.sync += first.eq(0)
        return older


def _is_one(value: Value) -> Value:
    """Return whether exactly one bit is set."""
    return value.any() & ((value & (value - 1)) == 0)
