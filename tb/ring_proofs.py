"""A small ring without end, for proofs: it never comes to rest, and nothing gets lost.

The parts on which that rests are those of the nodes: buffer, `Receive`, `Combine`, `Send`. What
goes around is the same in every round: the block of each tile is empty, or one flit, or several, as
the solver likes. It also chooses when tiles begin, and when links and registers are busy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS
from rtl.ring.buffer import LinkBuffer
from rtl.ring.combine import Combine
from rtl.ring.geometry import WORD_BYTES, RingGeometry
from rtl.ring.layouts import LinkLayout
from rtl.ring.receive import Receive
from rtl.ring.send import Send

EMPTY, SHORT = 0, 1
"""What the block of a tile may be: no flit, or one; all others are whole."""


class RingProof(wiring.Component):
    """One direction of a ring.

    In every cycle in which nothing is busy, somebody goes on; what a link offers stays until it is
    taken; and each flit comes where and when it is expected, as which it carries a number.

    Parameters
    ----------
    tiles
        How many there are.
    reach
        How many hops a block goes.
    flits
        How many flits a block is.
    reduces
        Whether it meets others on its way, which takes it longer.

    Members
    -------
    shapes : In
        What the block of each tile is; constant.
    begin, stall, busy : In
        Tiles that begin, links that carry nothing, registers that are busy, in a cycle.
    """

    def __init__(self, tiles: int, reach: int, *, flits: int = 2, reduces: bool = False) -> None:
        self.tiles, self.reach, self.reduces = tiles, reach, reduces
        width = BLOCK_WORDS * WORD_BYTES // flits
        self.geometry = RingGeometry(TileConfig(vector_bytes=4096, ring_bytes=width))
        super().__init__(
            {
                "shapes": In(2).array(tiles),
                "begin": In(tiles),
                "stall": In(tiles),
                "busy": In(tiles),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return nodes, links and properties."""
        m = Module()
        g, tiles = self.geometry, self.tiles
        links = [Signal(LinkLayout(g), name=f"link{i}") for i in range(tiles)]
        valid, ready = Signal(tiles), Signal(tiles)
        begun, moves, fresh = Signal(tiles), Signal(tiles), Signal(tiles)
        m.d.sync += begun.eq(begun | self.begin)
        for shape in self.shapes:
            before, later = Signal(2), Signal()
            m.d.sync += [before.eq(shape), later.eq(1)]
            m.d.comb += Assume(~later | (shape == before))
        m.d.comb += [
            Assume(~ResetSignal()),
            Assume(Cat(shape != EMPTY for shape in self.shapes).any()),
        ]
        for i in range(tiles):
            m.submodules[f"buffer{i}"] = buffer = LinkBuffer(LinkLayout(g), g.buffer_flits)
            m.submodules[f"receive{i}"] = receive = Receive(g)
            m.submodules[f"combine{i}"] = combine = Combine(g)
            m.submodules[f"send{i}"] = send = Send(g)
            before = (i - 1) % tiles
            m.d.comb += [
                buffer.link.payload.eq(links[before]),
                buffer.link.valid.eq(valid[before] & ~self.stall[before]),
                ready[before].eq(buffer.link.ready & ~self.stall[before]),
                links[i].eq(send.link.payload),
                valid[i].eq(send.link.valid),
                send.link.ready.eq(ready[i]),
            ]
            # Blocks that are sent are the own one and those that go on; the last one only comes.
            steps = []
            for name, first, port in (("sent", 0, send.groups), ("came", 1, receive.groups)):
                hop = Signal(range(tiles + 1), init=first, name=f"{name}{i}")
                owners = [(i - h) % tiles for h in range(tiles + 1)]
                shape, owner = (
                    Signal(2, name=f"{name}_shape{i}"),
                    Signal(2, name=f"{name}_owner{i}"),
                )
                step = Signal(name=f"{name}_step{i}")
                m.d.comb += [
                    owner.eq(Array(owners)[hop]),
                    shape.eq(Array(self.shapes[o] for o in owners)[hop]),
                    port.valid.eq(begun[i] & (shape != EMPTY)),
                    port.payload.own.eq(hop == 0),
                    port.payload.send.eq(hop != self.reach),
                    port.payload.run.high.eq(Mux(shape == SHORT, 0, BLOCK_WORDS - 1)),
                    step.eq(begun[i] & ((shape == EMPTY) | port.ready)),
                ]
                with m.If(step):
                    last = hop == first + self.reach - 1
                    m.d.sync += hop.eq(Mux(last, first, hop + 1))
                steps.append(step)
            own = send.blocks.payload
            m.d.comb += [
                send.blocks.valid.eq(~self.busy[i]),
                own.run.high.eq(send.groups.payload.run.high),
                *(word.eq(i) for word in own.block.words),
                receive.reduces.eq(self.reduces),
                receive.paired.eq(~self.busy[i]),
                receive.flits.payload.eq(buffer.flits.payload),
                receive.flits.valid.eq(buffer.flits.valid),
                buffer.flits.ready.eq(receive.flits.ready),
                combine.combines.eq(self.reduces),
                # The greater of a number and nothing, so that it stays the number.
                combine.maximum.eq(1),
            ]
            wiring.connect(m, receive.arrivals, combine.arrivals)
            out = combine.out
            free = ~out.payload.write | ~self.busy[i]
            m.d.comb += [
                out.ready.eq((~out.payload.send | send.passing.ready) & free),
                send.passing.payload.eq(out.payload.flit),
                send.passing.valid.eq(out.valid & out.payload.send & free),
                send.passing_last.eq(out.payload.last),
            ]

            goes = receive.arrivals.valid & receive.arrivals.ready
            flows = combine.busy & (~out.valid | out.ready)
            waited, held = Signal(name=f"waited{i}"), Signal(2, name=f"held{i}")
            number = links[i].part.words[0][:2]
            m.d.sync += [waited.eq(valid[i] & ~ready[i]), held.eq(number)]
            m.d.comb += [
                moves[i].eq(Cat(*steps, goes, flows).any()),
                fresh[i].eq(valid[i] & ~waited),
                Assert(~waited | (valid[i] & (number == held)), f"STABLE_{i}"),
                Assert(~goes | (receive.flits.payload.part.words[0][:2] == owner), f"ORDER_{i}"),
            ]
        calm = begun.all() & ~self.stall.any() & ~self.busy.any()
        # That a flit was put into a link's register is seen in the cycle behind.
        rested = Signal()
        m.d.sync += rested.eq(calm & ~moves.any())
        m.d.comb += [
            Assert(~rested | fresh.any(), "DEADLOCK"),
            Cover(calm & ready.any() & ~ready.all(), "a_buffer_is_full"),
        ]
        return m


PROOFS: Mapping[str, dict[str, Any]] = {
    "two tiles": {"tiles": 2, "reach": 1},
    "all around": {"tiles": 3, "reach": 2},
    "all around, single flits": {"tiles": 3, "reach": 2, "flits": 1},
    "a sum": {"tiles": 3, "reach": 2, "flits": 1, "reduces": True},
}
"""What is proved: arguments of `RingProof` by name."""
