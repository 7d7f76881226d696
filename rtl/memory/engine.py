"""The memory engine: loads, stores and appends."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.counters import Counter
from rtl.hbm.ports import ClientSignature, find_client
from rtl.l1.share import L1Share, L1UserSignature
from rtl.memory.append import Append
from rtl.memory.assemble import Assemble
from rtl.memory.commands import ComingLayout, PieceLayout, RunLayout
from rtl.memory.geometry import MemoryGeometry
from rtl.memory.lines import LineFetcher
from rtl.memory.scalar import WordAccess, WordAccessLayout
from rtl.memory.sequence import OPERATION_BITS, Sequencer
from rtl.memory.unpack import Unpack
from rtl.memory.walk import Walk
from rtl.registers import Access, Field, Register, RegisterBlock, RegisterBus, RegisterMap
from rtl.vec.ports import (
    LineReadSignature,
    LineWriteLayout,
    WordReadSignature,
    WordWriteLayout,
)
from rtl.vec.queue import CommandQueue

INSTRUCTIONS = 8
"""Instructions that may be under way."""

RUNS = 16
"""Rows that may be under way to registers."""

PIECES = 64
"""Beats that may be under way, as many as L1 has under way, and the memory past it."""

REGISTERS = (
    Register(
        "status",
        "what went wrong",
        (
            Field("load_error", 1, Access.STICKY, "a beat could not be read"),
            Field("append_error", 1, Access.STICKY, "something was appended beyond the memory"),
        ),
    ),
)

COUNTERS = (
    Counter("cycles", "clock cycles since reset"),
    Counter("instructions", "instructions done"),
    Counter("active", "cycles in which there was one"),
    Counter("beats", "beats that were taken apart, of loads"),
    Counter("stores", "requests to L1 that write"),
    Counter("appends", "beats written past L1"),
    Counter("stalled_l1", "cycles in which L1 did not take a request"),
    Counter("stalled_memory", "cycles in which a beat of a load had not come"),
    Counter("stalled_registers", "cycles in which a line waited to be written to its register"),
    Counter("stalled_fence", "cycles in which a fence waited"),
)
"""What the engine counts."""


class MemoryEngine(wiring.Component):
    """Execute `load`, `loadr`, `store`, `append`, `appendmax` and `fence`, and `lw` and `sw`.

    Instructions are taken up in their order and may overlap, loads with what follows them. What
    goes through L1 goes in program order. They end in their order. The words of the scalar unit
    come in between: who sends them waits, where that matters, for instructions to be done.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operations : In
        Instructions, see `rtl.core.layout.InstructionLayout`, as many bits as the longest has.
    done : Out
        The oldest of them has ended: registers that it reads may be written, and what it loads is
        in its register.
    access, answers : In, Out
        Words of the scalar unit, see `rtl.memory.scalar.WordAccess`.
    failed : Out
        Something could not be read or written.
    idle : Out
        The memory has accepted everything that was written past L1.
    lines_read, lines_write, words_read, words_write : Out
        Ports of the registers.
    cache : Out
        To L1, see `rtl.l1.share.L1UserSignature`.
    loads, stores : Out
        To the HBM slice, past L1.
    bus : In
        Registers and counters, see `register_map`.

    Attributes
    ----------
    register_map
        Status and counters.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = MemoryGeometry(config)
        self.register_map = RegisterMap(config, REGISTERS, COUNTERS)
        channels = config.pseudo_channels
        super().__init__(
            {
                "operations": In(stream.Signature(OPERATION_BITS)),
                "done": Out(1),
                "access": In(stream.Signature(WordAccessLayout())),
                "answers": Out(stream.Signature(32)),
                "failed": Out(1),
                "idle": Out(1),
                "lines_read": Out(LineReadSignature(g.vectors)),
                "lines_write": Out(stream.Signature(LineWriteLayout(g.vectors))),
                "words_read": Out(WordReadSignature(g.vectors)),
                "words_write": Out(stream.Signature(WordWriteLayout(g.vectors))),
                "cache": Out(L1UserSignature(g.cache)),
                "loads": Out(ClientSignature(find_client(config, "loads"), channels)),
                "stores": Out(ClientSignature(find_client(config, "stores"), channels)),
                "bus": In(RegisterBus(self.register_map.words)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the parts, connected."""
        m = Module()
        g = self.geometry
        m.submodules.sequencer = sequencer = Sequencer(g)
        m.submodules.runs = runs = CommandQueue(RunLayout(g))
        m.submodules.walk = walk = Walk(g)
        m.submodules.lines = lines = LineFetcher(g)
        m.submodules.coming = coming = CommandQueue(ComingLayout(g), RUNS)
        m.submodules.pieces = pieces = CommandQueue(PieceLayout(g), PIECES)
        m.submodules.unpack = unpack = Unpack(g)
        m.submodules.assemble = assemble = Assemble(g)
        m.submodules.append = append = Append(g)
        m.submodules.words = words = WordAccess(g.cache)
        m.submodules.share = share = L1Share(g.cache, ("words", "walk"))

        connect(m, flipped(self.operations), sequencer.operations)
        connect(m, sequencer.runs, runs.commands)
        connect(m, runs.head, walk.runs)
        connect(m, sequencer.fetches, lines.fetches)
        connect(m, lines.registers, flipped(self.lines_read))
        connect(m, sequencer.appends, append.appends)
        connect(m, append.rows, flipped(self.words_read))
        connect(m, append.client, flipped(self.stores))
        # Lines come in order: each of both waits for its own.
        m.d.comb += [
            walk.lines.payload.eq(lines.lines.payload),
            walk.lines.valid.eq(lines.lines.valid),
            append.lines.payload.eq(lines.lines.payload),
            append.lines.valid.eq(lines.lines.valid),
            lines.lines.ready.eq(
                Mux(lines.lines.payload.append, append.lines.ready, walk.lines.ready)
            ),
        ]

        connect(m, walk.requests, share.walk.requests)
        connect(m, share.walk.answers, unpack.answers)
        connect(m, words.cache, share.words)
        connect(m, share.cache, flipped(self.cache))
        connect(m, flipped(self.access), words.access)
        connect(m, words.answers, flipped(self.answers))
        connect(m, walk.descriptors, flipped(self.loads.descriptors))
        connect(m, flipped(self.loads.reads), unpack.reads)

        connect(m, walk.coming, coming.commands)
        connect(m, coming.head, unpack.coming)
        connect(m, walk.pieces, pieces.commands)
        connect(m, pieces.head, unpack.pieces)
        connect(m, unpack.chunks, assemble.chunks)
        connect(m, assemble.registers, flipped(self.lines_write))
        connect(m, assemble.rows, flipped(self.words_write))
        m.d.comb += [
            assemble.block.eq(unpack.block),
            unpack.scale.eq(assemble.scale),
            unpack.quiet.eq(assemble.quiet),
        ]

        # Loads end in their order, and the others in theirs; together they end in that of the
        # program.
        m.submodules.order = order = CommandQueue(data.StructLayout({"loads": 1}), INSTRUCTIONS)
        ended = {}
        for name, event in (
            ("loads", assemble.loaded),
            ("others", walk.stored + append.appended + sequencer.fenced),
        ):
            count = Signal(range(INSTRUCTIONS + 2), name=f"ended_{name}")
            leaves = self.done & (order.head.payload.loads == (name == "loads"))
            m.d.sync += count.eq(count + event - leaves)
            ended[name] = count != 0
        m.d.comb += [
            sequencer.room.eq(order.commands.ready),
            order.commands.valid.eq(sequencer.begins),
            order.commands.payload.loads.eq(sequencer.loads),
            self.done.eq(
                order.head.valid & Mux(order.head.payload.loads, ended["loads"], ended["others"])
            ),
            order.head.ready.eq(self.done),
            sequencer.quiet.eq(append.idle & walk.idle & ~runs.head.valid),
        ]

        m.submodules.registers = block = RegisterBlock(self.register_map)
        connect(m, flipped(self.bus), block.bus)
        load_failed = unpack.failed | words.failed
        m.d.comb += [
            self.failed.eq(load_failed | append.failed),
            self.idle.eq(~order.head.valid & append.idle),
            block.status.load_error.eq(load_failed),
            block.status.append_error.eq(append.failed),
            block.step.cycles.eq(1),
            block.step.instructions.eq(self.done),
            block.step.active.eq(order.head.valid),
            block.step.beats.eq(unpack.pieces.ready),
            block.step.stores.eq(
                self.cache.requests.valid
                & self.cache.requests.ready
                & self.cache.requests.payload.write
            ),
            block.step.appends.eq(self.stores.writes.valid & self.stores.writes.ready),
            block.step.stalled_l1.eq(walk.requests.valid & ~walk.requests.ready),
            block.step.stalled_memory.eq(
                pieces.head.valid
                & Mux(coming.head.payload.streaming, ~unpack.reads.valid, ~unpack.answers.valid)
            ),
            block.step.stalled_registers.eq(self.lines_write.valid & ~self.lines_write.ready),
            block.step.stalled_fence.eq(sequencer.fencing & ~sequencer.fenced),
        ]
        return m
