"""What rows are reduced to."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from rtl.core.isa import Reduction
from rtl.vec.commands import ReduceLayout
from rtl.vec.compare import flush, maximum
from rtl.vec.geometry import VectorGeometry
from rtl.vec.maximum import Maximum
from rtl.vec.operation import SidedLayout, words
from rtl.vec.ports import LineWriteLayout, WordWriteLayout
from rtl.vec.queue import CommandQueue
from rtl.vec.sums import Sums

PENDING = 8
"""Rows whose last element is in, and whose result is not yet out."""


def put_transfer(
    g: VectorGeometry, write: Any, slot: Any, transfer: Any, value: Any, keep: Any
) -> list[Any]:
    """Write a transfer to its place in a line.

    Parameters
    ----------
    g
        Sizes.
    write
        A `LineWriteLayout`.
    slot, transfer
        Where: a slot, and a transfer from there on.
    value, keep
        Words, and which of them are written.
    """
    part_bits = exact_log2(g.line_transfers)
    lines = g.slot_transfers // g.line_transfers
    part = transfer[:part_bits]
    return [
        write.address.line.eq(slot * lines + transfer[part_bits:]),
        write.words.eq(value.as_value().replicate(g.line_transfers)),
        write.enable.eq(keep << (part * g.lanes) if part_bits else keep),
    ]


class Reduce(wiring.Component):
    """Reduce rows, and write what comes out.

    Parameters
    ----------
    geometry
        Sizes.
    depth
        Rows that may be on their way.

    Members
    -------
    commands : In
        What becomes of each row.
    x : In
        Transfers, with squares beside them.
    state : In
        What rows begin with that resume.
    state_sums : In
        It is that of a sum.
    total : Out
        Writes to row registers.
    partials : Out
        Writes to vector registers.
    done : Out
        An instruction has written everything, in order.
    """

    def __init__(self, geometry: VectorGeometry, depth: int) -> None:
        self.geometry, self.depth = geometry, depth
        super().__init__(
            {
                "commands": In(stream.Signature(ReduceLayout(geometry))),
                "x": In(stream.Signature(SidedLayout(geometry))),
                "state": In(stream.Signature(words(geometry.lanes))),
                "state_sums": In(1),
                "total": Out(stream.Signature(WordWriteLayout(geometry))),
                "partials": Out(stream.Signature(LineWriteLayout(geometry))),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the two ways to reduce, and what keeps results in order."""
        m = Module()
        g = self.geometry
        m.submodules.queue = queue = CommandQueue(ReduceLayout(g), self.depth)
        m.submodules.pending = pending = CommandQueue(ReduceLayout(g), PENDING)
        m.submodules.maximum = greatest = Maximum(g)
        m.submodules.sums = sums = Sums(g)
        connect(m, flipped(self.commands), queue.commands)
        row, x = queue.head.payload, self.x.payload

        # Elements go in.
        there, drops = Signal(), Signal()
        squares = row.reduction == Reduction.SQUARES
        m.d.comb += [
            there.eq(self.x.valid & queue.head.valid & pending.commands.ready),
            greatest.x.payload.words.eq(x.words),
            greatest.x.payload.mark.eq(x.mark),
            sums.x.payload.words.eq(Mux(squares, x.side.as_value(), x.words.as_value())),
            sums.x.payload.mark.eq(x.mark),
            sums.rows.payload.resume.eq(row.resume),
            sums.rows.payload.suspend.eq(row.suspend),
        ]
        with m.Switch(row.reduction):
            with m.Case(Reduction.NONE):
                m.d.comb += drops.eq(1)
            with m.Case(Reduction.MAXIMUM):
                m.d.comb += greatest.x.valid.eq(there)
            with m.Default():
                m.d.comb += [sums.x.valid.eq(there), sums.rows.valid.eq(there)]
        taken, ends = Signal(), Signal()
        m.d.comb += [
            taken.eq(
                there
                & (drops | (greatest.x.valid & greatest.x.ready) | (sums.x.valid & sums.x.ready))
            ),
            self.x.ready.eq(taken),
            ends.eq(taken & x.mark.row_last),
            queue.head.ready.eq(ends),
            pending.commands.payload.eq(row),
            pending.commands.valid.eq(ends & (~drops | row.last)),
        ]

        # Results come out, in the order of rows.
        result = pending.head.payload
        group = Signal(range(max(2, g.slot_transfers)))
        state = Signal(32)
        waits = result.resume & ~(self.state.valid & ~self.state_sums)
        m.d.comb += [
            state.eq(flush(self.state.payload[0])),
            self.total.payload.address.register.eq(result.total),
            self.total.payload.address.row.eq(result.row),
            self.partials.payload.address.register.eq(result.partials),
            *put_transfer(
                g,
                self.partials.payload,
                result.slot,
                group,
                sums.partials.payload,
                Const((1 << g.lanes) - 1, g.lanes),
            ),
        ]
        with m.If(pending.head.valid), m.Switch(result.reduction):
            with m.Case(Reduction.NONE):
                m.d.comb += pending.head.ready.eq(1)
            with m.Case(Reduction.MAXIMUM):
                m.d.comb += [
                    self.total.valid.eq(greatest.out.valid & ~waits),
                    self.total.payload.word.eq(
                        Mux(
                            result.resume,
                            maximum(greatest.out.payload, state),
                            greatest.out.payload,
                        )
                    ),
                    greatest.out.ready.eq(self.total.ready & ~waits),
                    pending.head.ready.eq(self.total.valid & self.total.ready),
                ]
            with m.Default():
                with m.If(result.suspend):
                    ends_state = group == g.slot_transfers - 1
                    m.d.comb += [
                        self.partials.valid.eq(sums.partials.valid),
                        sums.partials.ready.eq(self.partials.ready),
                        pending.head.ready.eq(
                            self.partials.valid & self.partials.ready & ends_state
                        ),
                    ]
                    with m.If(self.partials.valid & self.partials.ready):
                        m.d.sync += group.eq(Mux(ends_state, 0, group + 1))
                with m.Else():
                    m.d.comb += [
                        self.total.valid.eq(sums.totals.valid),
                        self.total.payload.word.eq(sums.totals.payload),
                        sums.totals.ready.eq(self.total.ready),
                        pending.head.ready.eq(self.total.valid & self.total.ready),
                    ]
        takes_state = (result.reduction == Reduction.MAXIMUM) & result.resume & pending.head.ready
        m.d.comb += [
            sums.state.payload.eq(self.state.payload),
            sums.state.valid.eq(self.state.valid & self.state_sums),
            self.state.ready.eq(
                Mux(self.state_sums, sums.state.ready, pending.head.valid & takes_state)
            ),
            self.done.eq(pending.head.valid & pending.head.ready & result.last),
        ]
        return m
