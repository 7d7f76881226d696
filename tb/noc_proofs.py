"""What is proved of the network on chip: nothing is lost or overtaken, and nobody starves.

Each proof is a part with anybody's inputs, as far as others promise something of them, beside
a model that shares nothing with it.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, ResetSignal, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from rtl.noc.allocator import Allocator
from rtl.noc.arbiter import ShareArbiter
from rtl.noc.endpoint import Ejector
from rtl.noc.geometry import ORDERS, PAIRS, Side, inputs_of, outputs_of
from rtl.noc.link import FlitLayout
from rtl.noc.shares import SharesLayout
from tb.noc_buffer_proof import FLIT_BYTES, BufferProof

BITS = 2


class ArbiterProof(wiring.Component):
    """Anybody asks an arbiter, with any shares.

    Then it chooses one who asks, and who asks on and has a share is chosen before everybody's turns
    were once over.

    Parameters
    ----------
    inputs
        How many ask.
    """

    def __init__(self, inputs: int = 4) -> None:
        self.inputs = inputs
        super().__init__(
            {
                "requests": In(inputs),
                "starts": In(data.ArrayLayout(BITS + 1, inputs - 1)),
                "advance": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the arbiter, and for each input how many turns it has waited."""
        m = Module()
        m.submodules.arbiter = arbiter = ShareArbiter(self.inputs, BITS)
        size = 1 << BITS
        started, shares = Signal(), Signal.like(Value.cast(self.starts))
        bounds = [Value.cast(0), *(self.starts[n] for n in range(self.inputs - 1))]
        m.d.sync += [started.eq(1), shares.eq(Value.cast(self.starts))]
        m.d.comb += [
            arbiter.requests.eq(self.requests),
            Value.cast(arbiter.starts).eq(Value.cast(self.starts)),
            arbiter.advance.eq(self.advance),
            Assume(~ResetSignal()),
            Assume(~started | (shares == Value.cast(self.starts))),
            Assert((arbiter.choice & ~self.requests) == 0, "NOBODY"),
            Assert((arbiter.choice & (arbiter.choice - 1)) == 0, "ONE"),
            Assert(~self.requests.any() | arbiter.choice.any(), "NONE"),
        ]
        for n, low in enumerate(bounds):
            high = bounds[n + 1] if n + 1 < self.inputs else Value.cast(size)
            waited = Signal(range(size + 1), name=f"waited_{n}")
            m.d.comb += [
                Assume((low <= high) & (high <= size)),
                Assert((waited < size) | (low == high), f"STARVES_{n}"),
                Cover(arbiter.choice[n] & (waited == size - 1), f"patience_of_{n}"),
            ]
            with m.If(~self.requests[n] | (self.advance & arbiter.choice[n])):
                m.d.sync += waited.eq(0)
            with m.Elif(self.advance & (waited < size)):
                m.d.sync += waited.eq(waited + 1)
        return m


class AllocatorProof(wiring.Component):
    """Anybody asks the allocator, as long as flits that were in a buffer stay there until they go.

    Then the oldest flit of an input takes what it is offered; and an output that could send, but
    sends nothing, was turned down for an older flit, which leaves: that cannot go on for longer
    than there are older flits. With the proof of the arbiter, nobody starves.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "requests": In(len(PAIRS)),
                "before": In(len(ORDERS)),
                "space": In(len(Side)),
                "last": In(len(Side)),
                "shares": In(SharesLayout(BITS)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the allocator, and what it must do."""
        m = Module()
        m.submodules.allocator = allocator = Allocator(BITS)
        for name in ("requests", "before", "space", "last", "shares"):
            m.d.comb += Value.cast(getattr(allocator, name)).eq(Value.cast(getattr(self, name)))
        m.d.comb += Assume(~ResetSignal())
        requests = {pair: self.requests[n] for n, pair in enumerate(PAIRS)}
        grants = {pair: allocator.grants[n] for n, pair in enumerate(PAIRS)}
        older = {order: self.before[n] for n, order in enumerate(ORDERS)}

        def is_older(i: Side, o: Side, p: Side) -> Value:
            return older[i, o, p] if o < p else ~older[i, p, o]

        for o in Side:  # ranges follow each other
            starts = self.shares[o.name.lower()]
            for n in range(len(inputs_of(o)) - 2):
                m.d.comb += Assume(starts[n] <= starts[n + 1])
        for i, o, p in ORDERS:  # it is an order: nothing goes round in a circle
            for q in outputs_of(i):
                if q not in (o, p):
                    ring = is_older(i, o, p) & is_older(i, p, q) & is_older(i, q, o)
                    m.d.comb += Assume(~ring)
        for o in Side:
            holder, holds = Signal(len(inputs_of(o)), name=f"holder_{o.name}"), Signal()
            sent = Cat(grants[i, o] for i in inputs_of(o))
            m.d.comb += holds.eq(holder.any())
            with m.If(sent.any()):
                m.d.sync += holder.eq(sent & ~self.last[o].replicate(len(sent)))
            able, refused = [], []
            for n, i in enumerate(inputs_of(o)):
                way = f"{i.name}_{o.name}"
                others = [p for p in outputs_of(i) if p is not o]
                rivals = Cat(requests[j, o] for j in inputs_of(o) if j is not i)
                oldest = ~Cat(requests[i, p] & is_older(i, p, o) for p in others).any()
                able.append(requests[i, o] & self.space[o] & (holder[n] | ~holds))
                refused.append(
                    able[n] & Cat(grants[i, p] & is_older(i, p, o) for p in others).any()
                )
                m.d.comb += [
                    Assert(~(able[n] & oldest) | rivals.any() | grants[i, o], f"AT_ONCE_{way}"),
                    Assert(~grants[i, o] | able[n], f"ABLE_{way}"),
                ]
                if len(others) > 1:
                    m.d.comb += Cover(grants[i, o] & ~oldest, f"younger_{way}")
            idle = Cat(able).any() & ~sent.any()
            m.d.comb += Assert(~idle | Cat(refused).any(), f"IN_VAIN_{o.name}")
        return m


class EjectorProof(wiring.Component):
    """A router sends whenever there is space, and the tile takes when it likes."""

    def __init__(self) -> None:
        super().__init__(
            {
                "flit": In(FlitLayout(FLIT_BYTES)),
                "valid": In(1),
                "ready": In(1),
                "follow": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the ejector; what is offered stays, and what came is offered, once, in order."""
        m = Module()
        m.submodules.ejector = ejector = Ejector(FLIT_BYTES)
        out = ejector.flits
        waiting, offered = Signal(), Signal(FlitLayout(FLIT_BYTES))
        kept = Signal()  # a flit came and was not taken: a model of what is in there
        m.d.sync += [
            waiting.eq(out.valid & ~self.ready),
            Value.cast(offered).eq(Value.cast(out.payload)),
            kept.eq((kept | self.valid) & ~self.ready),
        ]
        m.d.comb += [
            Value.cast(ejector.link.flit).eq(Value.cast(self.flit)),
            ejector.link.valid.eq(self.valid),
            out.ready.eq(self.ready),
            Assume(~ResetSignal()),
            Assume(~self.valid | ejector.link.space),
            Assert(out.valid == (kept | self.valid), "LOST"),
            Assert(ejector.link.space == ~kept, "SPACE"),
            Assert(
                ~waiting | (out.valid & (Value.cast(out.payload) == Value.cast(offered))), "CHANGED"
            ),
            Assert(
                ~(self.valid & ~kept) | (Value.cast(out.payload) == Value.cast(self.flit)), "OTHER"
            ),
            Cover(waiting & self.ready, "late"),
        ]
        return m


PROOFS = {
    "buffer": BufferProof,
    "arbiter": ArbiterProof,
    "allocator": AllocatorProof,
    "ejector": EjectorProof,
}
"""What is proved."""
