"""Which flits leave a router together: one from each input, one to each output."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.hbm.arbiter import lowest
from rtl.noc.arbiter import ShareArbiter
from rtl.noc.geometry import ORDERS, PAIRS, Side, inputs_of, outputs_of
from rtl.noc.shares import SharesLayout

__all__ = ["Allocator"]

Ways = dict[tuple[Side, Side], Value]
"""A bit for each of `PAIRS`."""


class Allocator(wiring.Component):
    """Match inputs and outputs, in the same cycle, in two rounds.

    In the first, every output with space offers itself to the input that its arbiter chooses, and
    an input that is offered several takes the one for its oldest flit. In the second, outputs that
    were turned down offer themselves to inputs that were offered nothing. An output that has sent a
    part of a packet belongs to its input until the last flit.

    Nobody starves. The oldest flit of an input takes every offer, and an output makes it one when
    its turn comes: after at most ``2 ** bits`` packets, each of which was offered the output again
    and again until all older flits of its input were gone.

    Parameters
    ----------
    bits
        Width of the counts of turns.

    Members
    -------
    requests : In
        Which of `PAIRS` have flits.
    before : In
        Which of `ORDERS` hold: the flit for the first output is older than that for the second.
    space : In
        Which outputs can send.
    last : In
        Of each output, whether what it sends in this cycle is the last of its packet.
    shares : In
        Shares of the inputs.
    grants : Out
        Which of `PAIRS` send their flits in this cycle.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        super().__init__(
            {
                "requests": In(len(PAIRS)),
                "before": In(len(ORDERS)),
                "space": In(len(Side)),
                "last": In(len(Side)),
                "shares": In(SharesLayout(bits)),
                "grants": Out(len(PAIRS)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return arbiters, both rounds, and who holds each output."""
        m = Module()
        held = Signal(len(PAIRS))
        able, offers, taken, left, second, late = (
            Signal(len(PAIRS), name=name)
            for name in ("able", "offers", "taken", "left", "second_offers", "taken_late")
        )
        idle = {o: ~Cat(_to(held, o)).any() for o in Side}
        m.d.comb += able.eq(
            Cat(
                self.requests[n] & self.space[o] & (held[n] | idle[o])
                for n, (_, o) in enumerate(PAIRS)
            )
        )
        chosen: Ways = {}
        for o in Side:
            arbiter = ShareArbiter(len(inputs_of(o)), self.bits)
            m.submodules[f"arbiter_{o.name.lower()}"] = arbiter
            granted = Cat(_to(self.grants, o))
            m.d.comb += [
                arbiter.requests.eq(Cat(_to(able, o))),
                arbiter.starts.eq(self.shares[o.name.lower()]),
                arbiter.advance.eq(granted.any() & self.last[o]),
            ]
            chosen |= {(i, o): arbiter.choice[n] for n, i in enumerate(inputs_of(o))}
            with m.If(granted.any()):
                m.d.sync += Cat(_to(held, o)).eq(Mux(self.last[o], 0, granted))
        m.d.comb += [offers.eq(Cat(chosen[pair] for pair in PAIRS)), taken.eq(self._take(offers))]

        served = {i: Cat(_from(offers, i)).any() for i in Side}
        sends = {o: Cat(_to(taken, o)).any() for o in Side}
        m.d.comb += left.eq(Cat(able[n] & ~served[i] & ~sends[o] for n, (i, o) in enumerate(PAIRS)))
        again = {o: lowest(Cat(_to(left, o))) for o in Side}
        m.d.comb += [
            second.eq(Cat(again[o][inputs_of(o).index(i)] for i, o in PAIRS)),
            late.eq(self._take(second)),
            self.grants.eq(taken | late),
        ]
        self._check(m, held)
        return m

    def _take(self, offers: Signal) -> Value:
        """Return the offers that the inputs take: of several, that for the oldest flit."""
        older = {order: self.before[n] for n, order in enumerate(ORDERS)}
        taken = []
        for n, (i, o) in enumerate(PAIRS):
            better = [
                offers[PAIRS.index((i, p))] & (~older[i, o, p] if o < p else older[i, p, o])
                for p in outputs_of(i)
                if p is not o
            ]
            taken.append(offers[n] & ~Cat(better).any())
        return Cat(taken)

    def _check(self, m: Module, held: Signal) -> None:
        grants = self.grants
        m.d.comb += Assert((grants & ~self.requests) == 0, "GRANT_NOTHING")
        for side in Side:
            name = side.name
            leaving, coming = Cat(_to(grants, side)), Cat(_from(grants, side))
            holder = Cat(_to(held, side))
            m.d.comb += [
                Assert((leaving & (leaving - 1)) == 0, f"ONE_TO_{name}"),
                Assert((coming & (coming - 1)) == 0, f"ONE_FROM_{name}"),
                Assert(~leaving.any() | self.space[side], f"NO_SPACE_{name}"),
                Assert(~holder.any() | ((leaving & ~holder) == 0), f"WHOLE_{name}"),
            ]


def _to(ways: Signal, side: Side) -> list[Value]:
    """Return the bits of the ways that leave at a side."""
    return [ways[n] for n, (_, o) in enumerate(PAIRS) if o is side]


def _from(ways: Signal, side: Side) -> list[Value]:
    """Return the bits of the ways that come in at a side."""
    return [ways[n] for n, (i, _) in enumerate(PAIRS) if i is side]
