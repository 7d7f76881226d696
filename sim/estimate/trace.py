"""What a program does, instruction by instruction, and what each waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace

from gen.kernels.program import TileProgram
from rtl.core.fields import Instruction, S
from rtl.core.isa import OPCODES, Operand, Output, Reduction, Step
from sim.session import Session

Register = tuple[str, int]
"""Kind, ``v`` or ``r``, and number."""

_WRITERS = {
    name for name, opcode in OPCODES.items() if opcode.engine == "scalar" and "to" in opcode.names
}

Seen = tuple[int, Instruction, SimpleNamespace]
"""Address of an instruction, itself, and its fields as numbers."""


@dataclass(eq=False)
class Op:
    """One executed instruction.

    Attributes
    ----------
    name, engine, phase, words
        Mnemonic, who executes it, what it is part of, words of its encoding.
    o
        All fields as numbers.
    taken
        Whether it is a branch that was taken.
    scalars, result
        Scalar registers that are read, and the one that is written (0: none).
    sources
        Instructions that write what it reads.
    chained
        Those of them whose elements it reads in order, one by one.
    after
        Instructions that must have been issued before: they use what it writes, or memory.
    fence
        What its stream waits for.
    issued, begun, done
        When it leaves the window, works on its first element, and has written everything; -1
        while unknown.
    part
        Share of its elements that can be read, for what is chained to it.
    """

    name: str
    engine: str
    phase: str
    words: int
    o: SimpleNamespace
    taken: bool = False
    scalars: tuple[int, ...] = ()
    result: int = 0
    sources: tuple[Op, ...] = ()
    chained: tuple[Op, ...] = ()
    after: tuple[Op, ...] = ()
    fence: Op | None = None
    issued: int = -1
    begun: int = -1
    done: int = -1
    part: float = 0.0

    def ended(self, now: int) -> bool:
        """Return whether everything it writes is there."""
        return 0 <= self.done <= now

    @property
    def renames(self) -> bool:
        """Whether it takes a new vector register."""
        o = self.o
        match self.name:
            case "vector":
                return o.output in (Output.WORDS, Output.MXFP4, Output.MXINT8) and not o.into
            case "matrix":
                return bool(o.results and o.drain and not o.into)
            case "load" | "topk":
                return not o.into
        return False


@dataclass
class _State:
    """Who wrote a register last, and who has read it since; the same for memory."""

    writer: dict[Register, Op] = field(default_factory=dict)
    readers: defaultdict[Register, list[Op]] = field(default_factory=lambda: defaultdict(list))
    loads: list[Op] = field(default_factory=list)
    store: Op | None = None
    unfenced: list[Op] = field(default_factory=list)
    fence: Op | None = None


def record(session: Session, tokens: list[int], program: TileProgram) -> list[Op]:
    """Run tokens and return what was executed.

    Parameters
    ----------
    session
        Where the sequence is.
    tokens
        Tokens that follow.
    program
        What the session runs.
    """
    seen: list[Seen] = []
    session.tile.observe = lambda pc, instruction, o: seen.append((pc, instruction, o))
    try:
        session.append(tokens)
    finally:
        session.tile.observe = None
    return follow(seen, {line.address: line.phase for line in program.program.lines})


def follow(seen: Sequence[Seen], phases: Mapping[int, str] = MappingProxyType({})) -> list[Op]:
    """Return instructions with what each waits for, and the `stop` behind them.

    Parameters
    ----------
    seen
        What was executed, in order.
    phases
        What instructions are part of, by address.
    """
    state = _State()
    ops = []
    behind = [pc for pc, _, _ in seen[1:]]
    for index, (pc, instruction, o) in enumerate(seen):
        words = instruction.opcode.words
        writes = instruction.name in _WRITERS
        op = Op(
            name=instruction.name,
            engine=instruction.opcode.engine,
            phase=phases.get(pc, ""),
            words=words,
            o=o,
            taken=index < len(behind) and behind[index] != pc + words,
            scalars=tuple(_scalars(instruction)),
            result=instruction.values["to"].number if writes else 0,
        )
        link(op, state)
        ops.append(op)
    return [*ops, Op("stop", "scalar", ops[-1].phase, OPCODES["stop"].words, SimpleNamespace())]


def _scalars(instruction: Instruction) -> Iterator[int]:
    for part in instruction.opcode.fields:
        value = instruction.values[part.name]
        if isinstance(value, S) and value.number and part.name != "to":
            yield value.number


def link(op: Op, state: _State) -> None:
    """Find what an instruction waits for, and enter what it writes."""
    reads, streams, writes, keeps = registers_of(op)
    before = state.writer
    op.sources = tuple({before[r]: None for r in reads if r in before})
    op.chained = tuple({before[r]: None for r in streams if r in before})
    # What is written in part goes to the same place as what was there; units write in order.
    after = [before[r] for r in keeps if r in before]
    for register in keeps:
        after += state.readers[register]
    after += _ordered(op, state)
    op.after = tuple({other: None for other in after if other is not op})
    for register in reads:
        state.readers[register].append(op)
    for register in writes:
        before[register] = op
        state.readers[register] = []


def _ordered(op: Op, state: _State) -> list[Op]:
    """Return the accesses to memory that an instruction must not pass; a load passes loads."""
    before: list[Op] = []
    match op.name:
        case "fence":
            op.sources = tuple(state.unfenced)
            state.unfenced, state.fence = [], op
        case "matrix":
            op.fence = state.fence
        case "load" | "loadr" | "lw":
            op.fence = state.fence if getattr(op.o, "streaming", False) else None
            before = [state.store] if state.store else []
            state.loads.append(op)
        case "store" | "append" | "appendmax" | "sw":
            before = state.loads + ([state.store] if state.store else [])
            state.loads, state.store = [], op
            state.unfenced.append(op)
    return before


def registers_of(op: Op) -> tuple[list[Register], list[Register], list[Register], list[Register]]:
    """Return what is read, and of that element by element; what is written, and of that in part.

    What is written in part keeps its register: it is not renamed.
    """
    o = op.o
    reads: list[Register] = []
    streams: list[Register] = []
    writes: list[Register] = []
    keeps: list[Register] = []

    def put(register: int, into: bool) -> None:
        writes.append(("v", register))
        if into:
            keeps.append(("v", register))

    def row(register: int) -> None:
        writes.append(("r", register))
        keeps.append(("r", register))

    match op.name:
        case "vector":
            _vector(o, reads, streams)
            if o.reduction is not Reduction.NONE:
                if o.suspend:
                    put(o.partials, o.resume)
                else:
                    row(o.total)
            if o.output is Output.ROW:
                row(o.to)
            elif o.output is not Output.NONE:
                put(o.to, o.into)
            if o.maximal:
                row(o.maxima)
        case "topk":
            reads += [("v", o.a)] + ([("v", o.carried)] if o.carry else [])
            put(o.indices, o.into)
            put(o.values, o.into)
        case "matrix":
            reads += [("v", o.source), ("r", o.maxima)]
            if o.argmax:
                if o.argmax_resume:
                    reads += [("r", o.best), ("r", o.best_index)]
                row(o.best)
                row(o.best_index)
            if o.results and o.drain:
                put(o.to, o.into)
        case "load":
            put(o.to, o.into)
        case "loadr":
            row(o.to)
        case "store" | "append":
            reads.append(("v", o.source))
        case "appendmax" | "readr":
            reads.append(("r", o.source))
        case "readv" | "match":
            reads.append(("v", o.source))
    return reads, streams, writes, keeps


def _vector(o: SimpleNamespace, reads: list[Register], streams: list[Register]) -> None:
    if o.b_step is not Step.TAKE:
        reads.append(("r" if o.a_row else "v", o.a))
        if not o.a_row and o.c_step is not Step.ROTATE_HALVES:
            streams.append(("v", o.a))
    rotates = o.c_step in (Step.ROTATE_ADJACENT, Step.ROTATE_HALVES)
    for which in "bcd":
        if getattr(o, f"{which}_step") is Step.NONE and not (which == "d" and rotates):
            continue
        operand, register = getattr(o, f"{which}_operand"), getattr(o, which)
        if operand in (Operand.ROW, Operand.ROW_HEAD, Operand.ROW_TOKEN):
            reads.append(("r", register))
        elif operand is not Operand.CONSTANT:
            reads.append(("v", register))
            if operand is Operand.VECTOR:
                streams.append(("v", register))
    if o.resume:
        maximum = o.reduction is Reduction.MAXIMUM
        reads.append(("r", o.initial) if maximum else ("v", o.partials))
    if o.maximal and o.maxima_resume:
        reads.append(("r", o.maxima))
