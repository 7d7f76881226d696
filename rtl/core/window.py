"""The issue window: instructions wait for those before them, and for their engine.

Entries are a ring, in the order of the program. An entry knows the registers that its instruction
reads and writes, and which older entries it must wait for: those that write what it reads or
writes, and those that read what it writes. Such a bit goes when that instruction has completed. Of
the entries that wait for nothing, the oldest whose engine takes it is issued, one per cycle.
Entries are given back in order; then the physical registers that their destinations had before are
free, since whoever read those came earlier.
"""

from __future__ import annotations

import enum
from typing import Any

from amaranth.hdl import Array, Assert, Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from rtl.config import TileConfig
from rtl.core.fields import WORD_BITS
from rtl.core.isa import PHYSICAL_VECTORS, ROWS
from rtl.core.program import MOST_WORDS, PC_BITS
from rtl.vec.queue import CommandQueue

IN_FLIGHT = 8
"""Instructions that may be in an engine at a time, and entries beside those that wait."""


class Engine(enum.IntEnum):
    """Who executes an instruction."""

    MEMORY = 0
    MATRIX = 1
    VECTOR = 2
    COLLECTIVE = 3
    MESSAGE = 4


IN_ORDER = (Engine.MEMORY, Engine.MATRIX, Engine.COLLECTIVE, Engine.MESSAGE)
"""Engines that get their instructions in the order of the program."""


class TouchedLayout(data.StructLayout):
    """Registers of an instruction, a bit each.

    Members
    -------
    reads, writes : unsigned
        Physical vector registers.
    row_reads, row_writes : unsigned
        Row registers.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "reads": PHYSICAL_VECTORS,
                "writes": PHYSICAL_VECTORS,
                "row_reads": ROWS,
                "row_writes": ROWS,
            }
        )


class MacroLayout(data.StructLayout):
    """An instruction for an engine.

    Members
    -------
    words : unsigned
        Its encoding, with numbers for values and physical vector registers.
    engine : Engine
        Who executes it.
    touched : TouchedLayout
        Its registers.
    frees : unsigned
        Physical registers that its destinations had before.
    stores, loads : unsigned(1)
        It writes memory through L1, or reads it; those of other engines wait for it, or it for
        them. A collective may do both.
    streams : unsigned(1)
        It reads memory past L1, and waits for the fences before it.
    fence : unsigned(1)
        It is a fence.
    pc : unsigned
        Where it is.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "words": WORD_BITS * MOST_WORDS,
                "engine": Engine,
                "touched": TouchedLayout(),
                "frees": PHYSICAL_VECTORS,
                "stores": 1,
                "loads": 1,
                "streams": 1,
                "fence": 1,
                "pc": PC_BITS,
            }
        )


def entries(config: TileConfig) -> int:
    """Return how many instructions a window holds, those in engines included."""
    return 1 << ceil_log2(config.issue_window + IN_FLIGHT)


class WindowProbeLayout(data.StructLayout):
    """What happens in a window in a cycle, for whoever wants to know where time goes.

    Fields
    ------
    enter, tail, pc
        An instruction enters, into this entry; where it is in the program.
    issue, chosen
        The one of this entry is issued.
    done, ended
        For each engine: the one of this entry has completed.
    """

    def __init__(self, config: TileConfig) -> None:
        index_bits = ceil_log2(entries(config))
        super().__init__(
            {
                "enter": 1,
                "tail": index_bits,
                "pc": PC_BITS,
                "issue": 1,
                "chosen": index_bits,
                "done": len(Engine),
                "ended": data.ArrayLayout(index_bits, len(Engine)),
            }
        )


class Window(wiring.Component):
    """Issue instructions out of order.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    macros : In
        Instructions, in the order of the program.
    limit : In
        How many may wait; 1 is in order.
    issued : array of Out
        Instructions for each engine.
    done : In
        For each engine: the oldest of its instructions has completed.
    issues : Out
        For each engine: an instruction is on its way to it.
    fenced : Out
        A fence has completed.
    oldest : Out
        Where the oldest instruction is that has not completed, in the program; of no meaning if
        there is none.
    collective, message : Out
        Where the oldest instructions are that these engines have, likewise.
    release : Out
        Physical registers that are free from now on.
    touched : Out
        All registers of instructions that have not completed.
    stores, loads : Out
        One of those writes, or reads, memory through L1.
    idle : Out
        All have completed.
    probe : Out
        What happens, see `WindowProbeLayout`.
    """

    def __init__(self, config: TileConfig) -> None:
        self.waiting = config.issue_window
        self.entries = entries(config)
        words = WORD_BITS * MOST_WORDS
        super().__init__(
            {
                "macros": In(stream.Signature(MacroLayout())),
                "limit": In(range(self.waiting + 1)),
                "issued": Out(stream.Signature(words)).array(len(Engine)),
                "done": In(len(Engine)),
                "issues": Out(len(Engine)),
                "fenced": Out(1),
                "oldest": Out(PC_BITS),
                "collective": Out(PC_BITS),
                "message": Out(PC_BITS),
                "release": Out(PHYSICAL_VECTORS),
                "touched": Out(TouchedLayout()),
                "stores": Out(1),
                "loads": Out(1),
                "idle": Out(1),
                "probe": Out(WindowProbeLayout(config)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return entries, who waits for whom, and the choice."""
        m = Module()
        n = self.entries
        index_bits = ceil_log2(n)
        macro = self.macros.payload

        m.submodules.words = words = Memory(shape=WORD_BITS * MOST_WORDS, depth=n, init=[])
        put, get = words.write_port(), words.read_port(domain="comb")
        m.submodules.pcs = pcs = Memory(shape=PC_BITS, depth=n, init=[])
        put_pc, get_pc = pcs.write_port(), pcs.read_port(domain="comb")
        get_collective, get_message = (pcs.read_port(domain="comb") for _ in range(2))
        busy, waits, complete = Signal(n), Signal(n), Signal(n)  # complete: or not in use
        stores, loads, fences = Signal(n), Signal(n), Signal(n)
        engine = Array(Signal(Engine, name=f"engine{i}") for i in range(n))
        touched = Array(Signal(TouchedLayout(), name=f"touched{i}") for i in range(n))
        frees = Array(Signal(PHYSICAL_VECTORS, name=f"frees{i}") for i in range(n))
        needs = Array(Signal(n, name=f"needs{i}") for i in range(n))
        head, tail = Signal(index_bits), Signal(index_bits)
        waiting = Signal(range(self.waiting + 1))

        # --- completion: an engine completes its instructions in the order it got them ---
        ends = Signal(n)
        flights = {}
        ended: Value = Const(0, n)
        for e in Engine:
            flights[e] = flight = SyncFIFO(width=index_bits, depth=IN_FLIGHT)
            m.submodules[f"flight_{e.name.lower()}"] = flight
            m.d.comb += flight.r_en.eq(self.done[e])
            m.d.sync += Assert(~self.done[e] | flight.r_rdy)
            ended = ended | (self.done[e] << flight.r_data)
        m.d.comb += ends.eq(ended)

        # --- entry ---
        conflicts = Signal(n)
        for i in range(n):
            t, new = touched[i], macro.touched
            clash = ((new.reads & t.writes) | (new.writes & (t.writes | t.reads))).any() | (
                (new.row_reads & t.row_writes) | (new.row_writes & (t.row_writes | t.row_reads))
            ).any()
            clash = clash | (macro.streams & fences[i])
            # What goes through L1 is in program order; an engine keeps that of its own.
            through = (macro.stores & (stores[i] | loads[i])) | (macro.loads & stores[i])
            clash = clash | (through & (macro.engine != engine[i]))
            # What other tiles see of this one is in program order, fences included.
            others = _seen(engine[i]) & (macro.engine != engine[i])
            clash = clash | (_seen(macro.engine) & (others | fences[i]))
            clash = clash | (macro.fence & _seen(engine[i]))
            m.d.comb += conflicts[i].eq(busy[i] & ~complete[i] & ~ends[i] & clash)
        enter = Signal()
        m.d.comb += [
            self.macros.ready.eq(~busy.bit_select(tail, 1) & (waiting < self.limit)),
            enter.eq(self.macros.valid & self.macros.ready),
            put.en.eq(enter),
            put.addr.eq(tail),
            put.data.eq(macro.words),
            put_pc.en.eq(enter),
            put_pc.addr.eq(tail),
            put_pc.data.eq(macro.pc),
            get_pc.addr.eq(head),
            self.oldest.eq(get_pc.data),
            get_collective.addr.eq(flights[Engine.COLLECTIVE].r_data),
            self.collective.eq(get_collective.data),
            get_message.addr.eq(flights[Engine.MESSAGE].r_data),
            self.message.eq(get_message.data),
        ]

        # --- choice: in the order of age ---
        ready = Signal(n)
        for i in range(n):
            m.d.comb += ready[i].eq(busy[i] & waits[i] & ~needs[i].any())
        queues = {}
        engine_ready = Signal(len(Engine))
        for e in Engine:
            m.submodules[f"issued_{e.name.lower()}"] = queue = CommandQueue(WORD_BITS * MOST_WORDS)
            connect(m, queue.head, flipped(self.issued[e]))
            queues[e] = queue.commands
            m.d.comb += engine_ready[e].eq(queue.commands.ready & flights[e].w_rdy)
        chosen, some = Signal(index_bits), Signal()
        blocked: dict[Engine, Value] = {e: Const(0) for e in IN_ORDER}
        found: Value = Const(0)
        for age in range(n):
            at = Signal(index_bits, name=f"at{age}")
            m.d.comb += at.eq(head + age)
            mine, can = Signal(Engine, name=f"mine{age}"), Signal(name=f"can{age}")
            present = Signal(name=f"present{age}")
            m.d.comb += [
                mine.eq(engine[at]),
                present.eq(busy.bit_select(at, 1) & waits.bit_select(at, 1)),
            ]
            stopped: Value = Const(0)
            for e, before in blocked.items():
                stopped = stopped | ((mine == e) & before)
            m.d.comb += can.eq(
                ready.bit_select(at, 1) & engine_ready.bit_select(mine, 1) & ~stopped
            )
            with m.If(can & ~found):
                m.d.comb += [chosen.eq(at), some.eq(1)]
            found = found | can
            for e in blocked:
                blocked[e] = blocked[e] | (present & (mine == e))
        m.d.comb += get.addr.eq(chosen)
        for e in Engine:
            mine_now = some & (engine[chosen] == e)
            m.d.comb += [
                queues[e].payload.eq(get.data),
                queues[e].valid.eq(mine_now),
                flights[e].w_data.eq(chosen),
                flights[e].w_en.eq(mine_now),
                self.issues[e].eq(mine_now),
            ]

        # --- going on ---
        m.d.sync += waiting.eq(waiting + enter - some)
        with m.If(some):
            m.d.sync += waits.bit_select(chosen, 1).eq(0)
        with m.If(enter):
            m.d.sync += tail.eq(tail + 1)
        for i in range(n):
            with m.If(ends[i]):
                m.d.sync += complete[i].eq(1)
            with m.If(enter & (tail == i)):
                m.d.sync += [
                    busy[i].eq(1),
                    waits[i].eq(1),
                    complete[i].eq(0),
                    stores[i].eq(macro.stores),
                    loads[i].eq(macro.loads),
                    fences[i].eq(macro.fence),
                    engine[i].eq(macro.engine),
                    touched[i].eq(macro.touched),
                    frees[i].eq(macro.frees),
                    needs[i].eq(conflicts),
                ]
            with m.Else():
                m.d.sync += needs[i].eq(needs[i] & ~ends)
        leaves = Signal()
        m.d.comb += leaves.eq(busy.bit_select(head, 1) & complete.bit_select(head, 1))
        with m.If(leaves):
            m.d.comb += self.release.eq(frees[head])
            m.d.sync += [head.eq(head + 1), busy.bit_select(head, 1).eq(0)]
        m.d.comb += [
            self.probe.enter.eq(enter),
            self.probe.tail.eq(tail),
            self.probe.pc.eq(macro.pc),
            self.probe.issue.eq(some),
            self.probe.chosen.eq(chosen),
            self.probe.done.eq(self.done),
            *(self.probe.ended[e].eq(flights[e].r_data) for e in Engine),
        ]
        live = busy & ~complete
        merged: Value = Const(0, TouchedLayout().size)
        for i in range(n):
            merged = merged | (touched[i].as_value() & live[i].replicate(len(merged)))
        m.d.comb += [
            self.touched.eq(merged),
            self.stores.eq((live & stores).any()),
            self.loads.eq((live & loads).any()),
            self.idle.eq(~live.any()),
            self.fenced.eq((ends & fences).any()),
        ]
        return m


def _seen(engine: Value) -> Value:
    """Return whether an engine's instructions have to do with other tiles."""
    return (engine == Engine.COLLECTIVE) | (engine == Engine.MESSAGE)
