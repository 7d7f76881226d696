"""The operands of `matrix`, told to memory before the instructions are issued."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.config import TileConfig
from rtl.core.fields import WORD_BITS
from rtl.core.isa import OPCODES
from rtl.core.layout import InstructionLayout
from rtl.mac.operand_stream import OperandLayout
from rtl.mac.operation import FetchLayout, fetched
from rtl.vec.queue import CommandQueue

MATRIX_BITS = WORD_BITS * OPCODES["matrix"].words


class OperandsAhead(wiring.Component):
    """Ask for the operand of a `matrix` when it enters the window, if no fence is in the way.

    Weights depend on no other instruction, so memory can bring them while the activations are still
    computed. What was appended is there for a stream only behind a fence: the operand of a `matrix`
    behind a fence waits until that has completed.

    Parameters
    ----------
    config
        The configuration of the tile.
    entries
        Instructions that can be in the window.

    Members
    -------
    enters : In
        An instruction enters the window; `words` is its encoding.
    matrix, fence : In
        It is one of these.
    fenced : In
        The oldest fence has completed.
    issued : In
        The oldest `matrix` that has not been issued is.
    ahead : In
        Do not wait until it is.
    operands : Out
        Where the operands are, in the order of the program.
    fetches : Out
        What they look like, see `rtl.mac.FetchLayout`.
    """

    def __init__(self, config: TileConfig, entries: int) -> None:
        self.config, self.entries = config, entries
        super().__init__(
            {
                "enters": In(1),
                "words": In(MATRIX_BITS),
                "matrix": In(1),
                "fence": In(1),
                "fenced": In(1),
                "issued": In(1),
                "ahead": In(1),
                "operands": Out(stream.Signature(OperandLayout())),
                "fetches": Out(stream.Signature(FetchLayout(config))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return a queue, and counts of fences and of instructions."""
        m = Module()
        o = data.View(InstructionLayout("matrix"), self.words)
        # Numbers of fences wrap around. No more fences can lie between two of the same window than
        # it has entries, so one bit more tells what comes first.
        bits = ceil_log2(self.entries) + 1
        layout = data.StructLayout(
            {
                "operand": OperandLayout(),
                "fetch": FetchLayout(self.config),
                "behind": bits,
                "serial": bits,
            }
        )
        m.submodules.queue = queue = CommandQueue(layout, self.entries)
        entered, completed = Signal(bits), Signal(bits)  # fences
        taken, released = Signal(bits), Signal(bits)  # matrix instructions: entered, issued
        coming, head = queue.commands.payload, queue.head.payload
        m.d.comb += [
            coming.operand.address.eq(
                (o.address + o.address_offset)[:WORD_BITS] >> exact_log2(self.config.beat_stride)
            ),
            coming.operand.beats.eq(o.beats),
            coming.behind.eq(entered),
            coming.serial.eq(taken),
            *fetched(coming.fetch, o),
            queue.commands.valid.eq(self.enters & self.matrix),
        ]
        m.d.sync += [
            entered.eq(entered + (self.enters & self.fence)),
            completed.eq(completed + self.fenced),
            taken.eq(taken + (self.enters & self.matrix)),
            released.eq(released + self.issued),
        ]
        fences_left, issue_left = Signal(bits), Signal(bits)
        free = Signal()
        m.d.comb += [
            fences_left.eq(head.behind - completed),
            issue_left.eq(released - head.serial - 1),
            # The difference is negative where more than those have completed.
            free.eq(((fences_left == 0) | fences_left[-1]) & (self.ahead | ~issue_left[-1])),
            self.operands.payload.eq(head.operand),
            self.fetches.payload.eq(head.fetch),
            self.operands.valid.eq(queue.head.valid & free & self.fetches.ready),
            self.fetches.valid.eq(queue.head.valid & free & self.operands.ready),
            queue.head.ready.eq(free & self.operands.ready & self.fetches.ready),
        ]
        return m
