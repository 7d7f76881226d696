"""The core: it fetches a program, does what is scalar, and issues the rest to the engines."""

from __future__ import annotations

import enum
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import TileConfig
from rtl.core.fields import OPCODE_BITS, REGISTER_BITS, WORD_BITS, Kind
from rtl.core.isa import OPCODES, PHYSICAL_VECTORS, ROWS, Place
from rtl.core.layout import InstructionLayout, placed
from rtl.core.operands import MATRIX_BITS, OperandsAhead
from rtl.core.program import LINE_WORDS, MOST_WORDS, PC_BITS, Fetch
from rtl.core.registers_access import RegisterAccess
from rtl.core.rename import Rename, one_hot
from rtl.core.scalar import ARITHMETIC, BRANCHES, Arithmetic, ScalarRegisters
from rtl.core.touch import USES
from rtl.core.window import Engine, MacroLayout, Window, WindowProbeLayout
from rtl.counters import Counter, step_signature
from rtl.mac.operand_stream import OperandLayout
from rtl.mac.operation import FetchLayout
from rtl.memory.scalar import WordAccessLayout
from rtl.vec.geometry import VectorGeometry
from rtl.vec.ports import LineReadSignature, WordReadSignature

ENGINES = {
    opcode.name: Engine[opcode.engine.upper()]
    for opcode in OPCODES.values()
    if opcode.engine != "scalar"
}
"""Who executes an instruction, of those that go to an engine."""

STORES = ("store",)
LOADS = ("load", "loadr", "remote")
"""Instructions that touch memory through L1, beside a collective on memory."""


COUNTERS = (
    Counter("running", "cycles in which a program ran"),
    Counter("instructions", "instructions taken from the program"),
    *(
        Counter(f"{e.name.lower()}_instructions", "instructions issued to this engine")
        for e in Engine
    ),
    Counter("stalled_fetch", "cycles in which the next instruction had not been fetched"),
    Counter("resolving", "cycles that went into values and names of registers"),
    Counter("stalled_registers", "of these, cycles in which no physical register was free"),
    Counter("stalled_window", "cycles in which an instruction waited for room in the window"),
    Counter("stalled_scalar", "cycles in which the scalar unit waited for registers or memory"),
    Counter("stalled_end", "cycles in which the end of the program waited for what was before"),
)
"""What the core counts."""


class Cause(enum.IntEnum):
    """Why a tile stopped."""

    NONE = 0
    OPCODE = 1
    """There is no such instruction."""
    VALUE = 2
    """A scalar register holds what the field cannot."""
    MEMORY = 3
    """A load or a store failed, or the operand of a product could not be read."""
    COLLECTIVE = 4
    """Tiles do not agree about a collective, or no engine can do it."""
    MESSAGE = 5
    """A message is another than expected, or a message or a remote read cannot be done."""


class Core(wiring.Component):
    """Execute a program.

    Instructions are taken one at a time and in order. A scalar one is executed at once. For any
    other, values are read from scalar registers and vector registers are renamed, one of each per
    cycle; then it enters the issue window. Instructions of the scalar unit that read a vector or
    row register or memory wait for those that write them.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    program_write, program_address, program_data : In
        Store a line of the program.
    start : In
        Begin at word 0, while not running.
    running : Out
        There is a program, which has not ended.
    cause, pc : Out
        Why it stopped, and at which instruction; `Cause.NONE` at its `stop`. With `Cause.MEMORY`
        the oldest that has not completed: all before it have. With `Cause.COLLECTIVE` or
        `Cause.MESSAGE` that one.
    limit : In
        How many instructions may wait in the window.
    ahead : In
        Ask for the operands of `matrix` before it is issued.
    memory_error : In
        Something could not be read or written.
    collective_error : In
        The oldest collective could not be done; together with its `done`.
    message_error : In
        Likewise the oldest of the message engine.
    finish, finished : Out, In
        All instructions have completed and the program is to end; what it wrote is in memory.
    issued : array of Out
        Instructions for each `Engine`.
    done : In
        For each engine: the oldest of its instructions has completed.
    operands : Out
        Where the operands of `matrix` are, see `rtl.core.operands.OperandsAhead`.
    fetches : Out
        What they look like.
    access : Out
        Words of memory that the scalar unit wants, see `rtl.memory.scalar.WordAccessLayout`.
    answers : In
        What they hold; something also of those that are written.
    lines, rows : Out
        Ports of the registers.
    events : Out
        Steps of `COUNTERS`.
    probe : Out
        What happens in the window, see `rtl.core.window.WindowProbeLayout`.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = g = VectorGeometry(config)
        self.fetch = Fetch(config)
        self.window = Window(config)
        words = WORD_BITS * MOST_WORDS
        super().__init__(
            {
                "program_write": In(1),
                "program_address": In(self.fetch.address_bits),
                "program_data": In(WORD_BITS * LINE_WORDS),
                "start": In(1),
                "running": Out(1),
                "cause": Out(Cause),
                "pc": Out(PC_BITS),
                "limit": In(range(config.issue_window + 1)),
                "ahead": In(1, init=1),
                "memory_error": In(1),
                "collective_error": In(1),
                "message_error": In(1),
                "finish": Out(1),
                "finished": In(1),
                "issued": Out(stream.Signature(words)).array(len(Engine)),
                "done": In(len(Engine)),
                "operands": Out(stream.Signature(OperandLayout())),
                "fetches": Out(stream.Signature(FetchLayout(config))),
                "access": Out(stream.Signature(WordAccessLayout())),
                "answers": In(stream.Signature(WORD_BITS)),
                "lines": Out(LineReadSignature(g)),
                "rows": Out(WordReadSignature(g)),
                "events": Out(step_signature(COUNTERS)),
                "probe": Out(WindowProbeLayout(config)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the front end and the window."""
        m = Module()
        m.submodules.fetch = fetch = self.fetch
        m.submodules.window = window = self.window
        m.submodules.scalars = scalars = ScalarRegisters()
        m.submodules.arithmetic = arithmetic = Arithmetic()
        m.submodules.rename = rename = Rename()
        m.submodules.read = read = RegisterAccess(self.config)
        m.submodules.operands_ahead = ahead = OperandsAhead(self.config, window.entries)
        connect(m, read.lines, flipped(self.lines))
        connect(m, read.rows, flipped(self.rows))
        for e in Engine:
            connect(m, window.issued[e], flipped(self.issued[e]))
        m.d.comb += [
            window.done.eq(self.done),
            window.limit.eq(self.limit),
            rename.release.eq(window.release),
            fetch.write.eq(self.program_write),
            fetch.write_address.eq(self.program_address),
            fetch.write_data.eq(self.program_data),
            fetch.run.eq(self.running),
        ]
        coming = fetch.instructions.payload
        words = coming.words
        opcode = words[:OPCODE_BITS]
        macro = Signal(MacroLayout())  # the instruction that is resolved
        self._todo = Signal(max(map(len, USES.values())))  # its registers that are not renamed
        enters = window.macros.valid & window.macros.ready
        connect(m, ahead.operands, flipped(self.operands))
        connect(m, ahead.fetches, flipped(self.fetches))
        m.d.comb += [
            window.macros.payload.eq(macro),
            ahead.enters.eq(enters),
            ahead.words.eq(macro.words[:MATRIX_BITS]),
            ahead.matrix.eq(macro.engine == Engine.MATRIX),
            ahead.fence.eq(macro.fence),
            ahead.fenced.eq(window.fenced),
            ahead.issued.eq(window.issues[Engine.MATRIX]),
            ahead.ahead.eq(self.ahead),
            self.probe.eq(window.probe),
        ]
        self._views = {
            name: data.View(InstructionLayout(name), macro.words[: WORD_BITS * row.words])
            for name, row in OPCODES.items()
        }
        here = macro.words[:OPCODE_BITS]

        with m.If(self.start & ~self.running & (self.cause == Cause.NONE)):
            m.d.comb += [fetch.jump.eq(1), fetch.target.eq(0)]
            m.d.sync += self.running.eq(1)

        def stop(cause: Any, pc: Any) -> list[Any]:
            return [self.running.eq(0), self.cause.eq(cause), self.pc.eq(pc)]

        events = self.events
        with m.FSM() as fsm:
            taking = fsm.ongoing("next")
            with m.State("next"), m.If(self.running & fetch.instructions.valid):
                self._scalar(m, fetch, scalars, arithmetic)
                with m.If(coming.size == 0):
                    m.d.comb += fetch.instructions.ready.eq(1)
                    m.d.sync += stop(Cause.OPCODE, coming.pc)
                with m.Switch(opcode):
                    with m.Case(OPCODES["stop"].number):
                        m.d.comb += [
                            self.finish.eq(window.idle),
                            events.stalled_end.eq(~self.finished),
                        ]
                        with m.If(self.finish & self.finished):
                            m.d.comb += fetch.instructions.ready.eq(1)
                            m.d.sync += stop(Cause.NONE, coming.pc)
                    for name in OPCODES:
                        if name in ENGINES or name in ("lw", "sw", "readv", "readr", "match"):
                            with m.Case(OPCODES[name].number):
                                m.d.comb += fetch.instructions.ready.eq(1)
                                m.d.sync += [macro.words.eq(words), macro.pc.eq(coming.pc)]
                                m.d.sync += self._begin(macro, name, words)
                                m.next = "resolve"
            with m.State("resolve"):
                m.d.comb += events.resolving.eq(1)
                values_left = self._values(m, here, macro, scalars, stop)
                registers_left = self._registers(m, here, macro, rename)
                with m.If(~values_left & ~registers_left):
                    m.next = "dispatch"
            with m.State("dispatch"), m.Switch(here):
                for name in ENGINES:
                    with m.Case(OPCODES[name].number):
                        m.d.comb += window.macros.valid.eq(1)
                        with m.If(window.macros.ready):
                            m.next = "next"
                for name in ("readv", "readr", "match"):
                    with m.Case(OPCODES[name].number):
                        m.next = "read"
                with m.Case(OPCODES["lw"].number), m.If(~window.stores):
                    m.next = "access"
                with m.Case(OPCODES["sw"].number), m.If(~window.stores & ~window.loads):
                    m.next = "access"
            with m.State("read"):
                m.d.comb += events.stalled_scalar.eq(1)
                # What is read must have been written.
                free = ~(
                    (window.touched.writes & macro.touched.reads)
                    | (window.touched.row_writes & macro.touched.row_reads)
                ).any()
                m.d.comb += [
                    read.words.eq(macro.words),
                    read.start.eq(free),
                    scalars.to.eq(self._views["readv"].to),
                    scalars.value.eq(read.value),
                    scalars.write.eq(read.done),
                ]
                with m.If(read.done):
                    m.next = "next"
            with m.State("access"):
                m.d.comb += events.stalled_scalar.eq(1)
                lw, sw = self._views["lw"], self._views["sw"]
                is_store = here == OPCODES["sw"].number
                m.d.comb += [
                    scalars.a.eq(sw.value),
                    self.access.valid.eq(1),
                    self.access.payload.store.eq(is_store),
                    self.access.payload.address.eq(
                        Mux(
                            is_store,
                            sw.address + sw.address_offset,
                            lw.address + lw.address_offset,
                        )
                    ),
                    self.access.payload.value.eq(scalars.a_value),
                ]
                with m.If(self.access.ready):
                    m.next = "answer"
            with m.State("answer"):
                m.d.comb += [
                    events.stalled_scalar.eq(1),
                    self.answers.ready.eq(1),
                    scalars.to.eq(self._views["lw"].to),
                    scalars.value.eq(self.answers.payload),
                    scalars.write.eq(self.answers.valid & (here == OPCODES["lw"].number)),
                ]
                with m.If(self.answers.valid):
                    m.next = "next"
        m.d.comb += [
            events.running.eq(self.running),
            events.instructions.eq(fetch.instructions.valid & fetch.instructions.ready),
            events.stalled_fetch.eq(self.running & ~fetch.instructions.valid & taking),
            events.stalled_window.eq(window.macros.valid & ~window.macros.ready),
            *(
                getattr(events, f"{e.name.lower()}_instructions").eq(window.issues[e])
                for e in Engine
            ),
        ]
        with m.If(self.collective_error & self.running):
            m.d.sync += stop(Cause.COLLECTIVE, window.collective)
        with m.If(self.message_error & self.running):
            m.d.sync += stop(Cause.MESSAGE, window.message)
        with m.If(self.memory_error & self.running):
            m.d.sync += stop(Cause.MEMORY, Mux(window.idle, macro.pc, window.oldest))
        return m

    def _scalar(self, m: Module, fetch: Any, scalars: Any, arithmetic: Any) -> None:
        """Execute what needs nothing but scalar registers, in the cycle in which it comes."""
        words = fetch.instructions.payload.words
        opcode = words[:OPCODE_BITS]
        m.d.comb += arithmetic.opcode.eq(opcode)
        with m.Switch(opcode):
            for name in (*ARITHMETIC, *BRANCHES):
                view = data.View(InstructionLayout(name), words[: WORD_BITS * OPCODES[name].words])
                at = dict((field.name, at) for field, at in placed(name))["b"]
                with m.Case(OPCODES[name].number):
                    m.d.comb += [
                        fetch.instructions.ready.eq(1),
                        scalars.a.eq(view.a),
                        scalars.b.eq(words[at + 1 : at + 1 + REGISTER_BITS]),
                        arithmetic.a.eq(scalars.a_value),
                        arithmetic.b.eq(Mux(words[at], scalars.b_value, view.b)),
                    ]
                    if name in ARITHMETIC:
                        m.d.comb += [
                            scalars.to.eq(view.to),
                            scalars.value.eq(arithmetic.value),
                            scalars.write.eq(1),
                        ]
                    else:
                        m.d.comb += [
                            fetch.jump.eq(arithmetic.taken),
                            fetch.target.eq(view.target),
                        ]
            view = data.View(InstructionLayout("const"), words[: WORD_BITS * 2])
            with m.Case(OPCODES["const"].number):
                m.d.comb += [
                    fetch.instructions.ready.eq(1),
                    scalars.to.eq(view.to),
                    scalars.value.eq(view.value),
                    scalars.write.eq(1),
                ]
            view = data.View(InstructionLayout("loop"), words[: WORD_BITS * 2])
            with m.Case(OPCODES["loop"].number):
                m.d.comb += [
                    fetch.instructions.ready.eq(1),
                    scalars.a.eq(view.counter),
                    scalars.to.eq(view.counter),
                    scalars.value.eq(scalars.a_value - 1),
                    scalars.write.eq(1),
                    fetch.jump.eq(scalars.a_value != 1),
                    fetch.target.eq(view.target),
                ]

    def _begin(self, macro: Any, name: str, words: Value) -> list[Any]:
        """Say what is known of an instruction before anything is resolved."""
        o = data.View(InstructionLayout(name), words[: WORD_BITS * OPCODES[name].words])
        rows = {False: Const(0, ROWS), True: Const(0, ROWS)}
        todo = []
        for use in USES.get(name, ()):
            used = Value.cast(use.when(o)).any()
            in_rows = Value.cast(use.in_rows(o)).any()
            mask = one_hot(ROWS, o[use.field]) & (used & in_rows).replicate(ROWS)
            rows[use.writes] = rows[use.writes] | mask
            todo.append(used & ~in_rows)
        in_memory = o.place == Place.MEMORY.value if name == "collective" else Const(0)
        return [
            macro.touched.reads.eq(0),
            macro.touched.writes.eq(0),
            macro.touched.row_reads.eq(rows[False]),
            macro.touched.row_writes.eq(rows[True]),
            macro.frees.eq(0),
            macro.stores.eq((name in STORES) | in_memory),
            macro.loads.eq((name in LOADS) | in_memory),
            macro.streams.eq(o.streaming if name == "load" else name == "matrix"),
            macro.fence.eq(name == "fence"),
            macro.engine.eq(ENGINES.get(name, Engine.MEMORY)),
            self._todo.eq(Cat(todo) if todo else 0),
        ]

    def _values(self, m: Module, here: Any, macro: Any, scalars: Any, stop: Any) -> Value:
        """Put the number of a scalar register into a field; return whether there is one."""
        left = Signal(name="values_left")
        with m.Switch(here):
            for name in OPCODES:
                values = [(f, at) for f, at in placed(name) if f.kind is Kind.VALUE]
                if not values or not (name in USES or name in ENGINES or name in ("lw", "sw")):
                    continue
                with m.Case(OPCODES[name].number):
                    flags = Cat(macro.words[at] for _, at in values)
                    m.d.comb += left.eq(flags.any())
                    for i, (field, at) in enumerate(values):
                        first = flags[i] & ~flags[:i].any() if i else flags[0]
                        with m.If(first):
                            bits = field.bits
                            value = scalars.a_value
                            m.d.comb += scalars.a.eq(macro.words[at + 1 : at + 1 + REGISTER_BITS])
                            m.d.sync += [
                                macro.words[at].eq(0),
                                macro.words[at + 1 : at + 1 + bits].eq(value),
                            ]
                            if bits < WORD_BITS:
                                above = value[bits - field.signed :]
                                fits = above == 0
                                if field.signed:
                                    fits = fits | above.all()
                                with m.If(~fits):
                                    m.d.sync += stop(Cause.VALUE, macro.pc)
        return left

    def _registers(self, m: Module, here: Any, macro: Any, rename: Any) -> Value:
        """Rename a vector register; return whether there is one."""
        left = Signal(name="registers_left")
        waits = Signal(name="waits_for_register")
        m.d.comb += left.eq(self._todo.any())
        with m.Switch(here):
            for name, uses in USES.items():
                o = self._views[name]
                with m.Case(OPCODES[name].number):
                    for i, use in enumerate(uses):
                        at = dict((field.name, at) for field, at in placed(name))[use.field]
                        first = self._todo[i] & ~self._todo[:i].any() if i else self._todo[0]
                        # A field that was read before it is written is renamed already.
                        earlier = [u for u in uses[:i] if u.field == use.field]
                        again: Value = Const(0)
                        for before in earlier:
                            again = again | (
                                Value.cast(before.when(o)).any()
                                & ~Value.cast(before.in_rows(o)).any()
                            )
                        with m.If(first):
                            field = macro.words[at : at + REGISTER_BITS]
                            m.d.comb += rename.register.eq(field)
                            now = Mux(again, field, rename.physical)
                            if use.writes:
                                stays = Value.cast(use.keeps(o)).any() | again
                                new = Mux(stays, now, rename.fresh)
                                m.d.comb += [
                                    waits.eq(~stays & ~rename.available),
                                    rename.allocate.eq(~stays & rename.available),
                                ]
                                with m.If(~waits):
                                    m.d.sync += [
                                        macro.touched.writes.eq(
                                            macro.touched.writes | one_hot(PHYSICAL_VECTORS, new)
                                        ),
                                        macro.frees.eq(
                                            macro.frees
                                            | Mux(stays, 0, one_hot(PHYSICAL_VECTORS, now))
                                        ),
                                        field.eq(new),
                                    ]
                            else:
                                m.d.sync += [
                                    macro.touched.reads.eq(
                                        macro.touched.reads | one_hot(PHYSICAL_VECTORS, now)
                                    ),
                                    field.eq(now),
                                ]
                            m.d.comb += self.events.stalled_registers.eq(waits)
                            with m.If(~waits):
                                m.d.sync += self._todo[i].eq(0)
        return left
