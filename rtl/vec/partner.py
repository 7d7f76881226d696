"""Partners: for a rotation, every element beside the one that it turns with.

Columns come in runs of twice the distance; the partner of a column is that much further in the
first half of a run, and that much before in the second one. There are three ways to get them
together:

- A distance that is a power of two and less than the lanes stays within a transfer.
- A distance of whole transfers: the first half of a run waits in one memory until the second half
  comes by, and goes out beside it; then the second half goes out of another memory, while the next
  run's first half takes the places that become free. So the order of columns stays, and the lanes
  are busy in every cycle.
- Any other distance is half of a row: all of it is collected in both memories, and its partners are
  picked one by one.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import ceil_log2, exact_log2

from rtl.config import TileConfig
from rtl.vec.commands import PartnerLayout
from rtl.vec.geometry import VectorGeometry
from rtl.vec.operation import SidedLayout, TransferLayout, words
from rtl.vec.queue import CommandQueue


class Partner(wiring.Component):
    """Put the partner of every element beside it.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    commands : In
        Where partners are, for each instruction.
    x : In
        Transfers.
    out : Out
        The same, with partners.
    """

    def __init__(self, config: TileConfig) -> None:
        self.geometry = g = VectorGeometry(config)
        super().__init__(
            {
                "commands": In(stream.Signature(PartnerLayout(g))),
                "x": In(stream.Signature(TransferLayout(g))),
                "out": Out(stream.Signature(SidedLayout(g))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the two memories, and what exchanges lanes."""
        m = Module()
        g = self.geometry
        m.submodules.queue = queue = CommandQueue(PartnerLayout(g))
        connect(m, wiring.flipped(self.commands), queue.commands)
        command = queue.head.payload
        lane_bits = exact_log2(g.lanes)
        depth = max(2, g.transfers // 2)
        index_bits = ceil_log2(depth)

        # The two memories: halves of runs, or a row that goes from the first into the second.
        half, whole, slow = Signal(index_bits + 1), Signal(), Signal()
        within = command.distance[:lane_bits]
        m.d.comb += [
            half.eq(command.distance >> lane_bits),
            whole.eq(command.rotates & (half != 0) & (within == 0)),
            slow.eq(command.rotates & (within != 0) & ((half != 0) | ((within & within - 1) != 0))),
        ]
        place, second = Signal(index_bits), Signal()  # where the next transfer goes
        pending, pair, pairs = Signal(), Signal(index_bits), Signal(index_bits + 1)
        at = Signal(index_bits + 1)
        memories = []
        for name in ("first", "second"):
            m.submodules[name] = memory = Memory(shape=TransferLayout(g), depth=depth, init=[])
            memories.append((memory.write_port(), memory.read_port(domain="comb")))
        (first_in, first_out), (second_in, second_out) = memories
        m.d.comb += [
            first_in.addr.eq(place),
            second_in.addr.eq(place),
            first_in.data.eq(self.x.payload),
            second_in.data.eq(self.x.payload),
            first_out.addr.eq(at),
            second_out.addr.eq(at),
            at.eq(Mux(pending, pair, place)),
        ]
        out = self.out.payload
        there = Signal()
        m.d.comb += there.eq(self.x.valid & queue.head.valid)

        # Of a collected row: the transfer that goes out next, and the lanes whose partner is known.
        collected, transfer = Signal(), Signal(index_bits + 1)
        known, side = Signal(range(g.lanes + 1)), Signal(words(g.lanes))
        distance, column, partner = (
            Signal.like(command.distance, name=name)
            for name in ("held_distance", "column", "partner")
        )
        entry = Mux(at[-1], second_out.data.as_value(), first_out.data.as_value())
        with m.If(collected):
            ready = known == g.lanes
            m.d.comb += [
                column.eq((transfer << lane_bits) + known),
                partner.eq(Mux(column < distance, column + distance, column - distance)),
                at.eq(Mux(ready, transfer, partner >> lane_bits)),
                self.out.valid.eq(ready),
                out.words.eq(entry),
                out.mark.eq(entry[32 * g.lanes :]),
                out.side.eq(side),
            ]
            with m.If(~ready):
                m.d.sync += [
                    known.eq(known + 1),
                    side.as_value()
                    .word_select(known[:lane_bits], 32)
                    .eq(entry.word_select(partner[:lane_bits], 32)),
                ]
            with m.Elif(self.out.ready):
                m.d.sync += [
                    known.eq(0),
                    transfer.eq(transfer + 1),
                    collected.eq(~out.mark.row_last),
                ]
        with m.Elif(pending):
            m.d.comb += [
                self.out.valid.eq(1),
                out.words.eq(second_out.data.words),
                out.mark.eq(second_out.data.mark),
                out.side.eq(first_out.data.words),
                self.x.ready.eq(
                    queue.head.valid
                    & whole
                    & ~second
                    & ((place < pair) | ((place == pair) & self.out.ready))
                ),
            ]
            with m.If(self.out.ready):
                m.d.sync += [pair.eq(pair + 1), pending.eq(pair + 1 != pairs)]
        with m.Elif(slow):
            m.d.comb += self.x.ready.eq(queue.head.valid)
        with m.Elif(~whole):
            m.d.comb += [
                self.out.valid.eq(there),
                self.x.ready.eq(queue.head.valid & self.out.ready),
                out.words.eq(self.x.payload.words),
                out.mark.eq(self.x.payload.mark),
            ]
            for lane in range(g.lanes):
                found = [
                    self.x.payload.words[lane ^ (1 << i)]
                    & (command.rotates & command.distance[i]).replicate(32)
                    for i in range(lane_bits)
                ]
                if found:
                    m.d.comb += out.side[lane].eq(reduce(or_, found))
        with m.Elif(second):
            m.d.comb += [
                self.out.valid.eq(there),
                self.x.ready.eq(queue.head.valid & self.out.ready),
                out.words.eq(first_out.data.words),
                out.mark.eq(first_out.data.mark),
                out.side.eq(self.x.payload.words),
            ]
        with m.Else():
            m.d.comb += self.x.ready.eq(queue.head.valid)
        taken = Signal()
        m.d.comb += [
            taken.eq(self.x.valid & self.x.ready),
            queue.head.ready.eq(taken & self.x.payload.mark.last),
            first_in.en.eq(taken & (whole | slow) & ~second),
            second_in.en.eq(taken & (whole | slow) & second),
        ]
        with m.If(taken & whole):
            m.d.sync += place.eq(place + 1)
            with m.If(place + 1 == half):
                m.d.sync += [place.eq(0), second.eq(~second)]
                with m.If(second):
                    m.d.sync += [pending.eq(1), pair.eq(0), pairs.eq(half)]
        with m.If(taken & slow):
            m.d.sync += Cat(place, second).eq(Cat(place, second) + 1)
            with m.If(self.x.payload.mark.row_last):
                m.d.sync += [
                    Cat(place, second).eq(0),
                    collected.eq(1),
                    transfer.eq(0),
                    distance.eq(command.distance),
                ]
        return m
