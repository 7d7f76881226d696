"""The matrix engine's way into memory: from operands to the beats that the engine takes."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.counters import Counter
from rtl.hbm.ports import ADDRESS_BITS, LENGTH_BITS, ClientSignature, find_client
from rtl.registers import Access, Field, Register, RegisterBlock, RegisterBus, RegisterMap

OPERAND_BITS = 32
"""Bits of the number of beats of an operand."""

MOST_BEATS = 1 << (LENGTH_BITS - 1)
"""Beats of a descriptor, at most: an even number, so that all begin at even beats."""

REGISTERS = (
    Register(
        "status",
        "what went wrong",
        (Field("error", 1, Access.STICKY, "a beat could not be read; results are worth nothing"),),
    ),
)

COUNTERS = (
    Counter("cycles", "clock cycles since reset"),
    Counter("operands", "operands asked for, those without beats included"),
    Counter("beats", "beats delivered"),
    Counter("active", "cycles in which beats were under way, from request to delivery"),
    Counter("waits_for_memory", "of these, cycles in which none had come"),
    Counter("waits_for_engine", "of these, cycles in which one was there and was not taken"),
    Counter("errors", "beats that could not be read"),
)
"""What the stream counts: `active` is the sum of `beats` and both waits."""


class OperandLayout(data.StructLayout):
    """Where the beats of a matrix operation are.

    Fields
    ------
    address
        Number of the first beat, an even one.
    beats
        How many; there may be none.
    """

    def __init__(self) -> None:
        super().__init__({"address": ADDRESS_BITS, "beats": OPERAND_BITS})


class OperandStream(wiring.Component):
    """Ask the HBM slice for operands, as far ahead as it lets, and hand their beats to the engine.

    Operands do not wait for the operations that they belong to: memory runs ahead until the
    slice's reorder buffer and the engine's stream buffer are full.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operands : In
        What to read, in the order of the engine's operations. See `OperandLayout`.
    client : Out
        To the HBM slice, see `rtl.hbm.ports.ClientSignature`.
    beats : Out
        To the engine.
    failed : Out
        A beat could not be read.
    active : Out
        Beats are under way.
    bus : In
        Registers and counters, see `register_map`.

    Attributes
    ----------
    register_map
        Status and counters.
    """

    def __init__(self, config: TileConfig) -> None:
        self.register_map = RegisterMap(config, REGISTERS, COUNTERS)
        client = find_client(config, "matrix")
        super().__init__(
            {
                "operands": In(stream.Signature(OperandLayout())),
                "client": Out(ClientSignature(client, config.pseudo_channels)),
                "beats": Out(stream.Signature(config.beat_bits)),
                "failed": Out(1),
                "active": Out(1),
                "bus": In(RegisterBus(self.register_map.words)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the split into descriptors, and the counters."""
        m = Module()
        m.submodules.registers = block = RegisterBlock(self.register_map)
        connect(m, flipped(self.bus), block.bus)
        operand, descriptors, reads = self.operands, self.client.descriptors, self.client.reads

        asked = Signal(OPERAND_BITS)  # beats of the operand that were asked for already
        left = Signal(OPERAND_BITS)
        final = Signal()
        m.d.comb += [
            left.eq(operand.payload.beats - asked),
            final.eq(left <= MOST_BEATS),
            descriptors.valid.eq(operand.valid & (left != 0)),
            descriptors.payload.address.eq(operand.payload.address + asked),
            descriptors.payload.beats.eq(Mux(final, left, MOST_BEATS)),
            operand.ready.eq((final & descriptors.ready) | (left == 0)),
        ]
        request, deliver = Signal(), Signal()
        m.d.comb += [
            request.eq(descriptors.valid & descriptors.ready),
            deliver.eq(reads.valid & reads.ready),
        ]
        with m.If(request):
            m.d.sync += asked.eq(Mux(final, 0, asked + MOST_BEATS))

        m.d.comb += [
            self.beats.payload.eq(reads.payload.data),
            self.beats.valid.eq(reads.valid),
            reads.ready.eq(self.beats.ready),
        ]

        under_way = Signal(OPERAND_BITS)
        active, wrong = under_way != 0, deliver & reads.payload.error
        m.d.sync += under_way.eq(
            under_way + Mux(request, descriptors.payload.beats, 0) - deliver,
        )
        with m.If(deliver):
            m.d.sync += Assert(active)
        m.d.comb += [
            self.failed.eq(wrong),
            self.active.eq(active),
            block.status.error.eq(wrong),
            block.step.cycles.eq(1),
            block.step.operands.eq(operand.valid & operand.ready),
            block.step.beats.eq(deliver),
            block.step.active.eq(active),
            block.step.waits_for_memory.eq(active & ~reads.valid),
            block.step.waits_for_engine.eq(reads.valid & ~reads.ready),
            block.step.errors.eq(wrong),
        ]
        return m
