"""Program memory and fetch: from an address to instructions."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.config import TileConfig
from rtl.core.fields import OPCODE_BITS, WORD_BITS
from rtl.core.isa import OPCODES

LINE_WORDS = 4
"""Words that are fetched in a cycle."""

MOST_WORDS = max(opcode.words for opcode in OPCODES.values())
"""Words of the longest instruction."""

PC_BITS = 20
"""Bits of a word address of a program, as branches have them."""

_LINES = 4
"""Lines that wait for the decoder."""


class InstructionWordsLayout(data.StructLayout):
    """An instruction as it is in the program.

    Members
    -------
    words : unsigned
        Its words, and anything behind them.
    pc : unsigned
        Where it is.
    size : unsigned
        How many words it has; 0 if its opcode is none.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "words": WORD_BITS * MOST_WORDS,
                "pc": PC_BITS,
                "size": range(MOST_WORDS + 1),
            }
        )


class Fetch(wiring.Component):
    """Give the instructions of a program, one after the other from an address on.

    Lines come from memory ahead of the instructions. An instruction takes a cycle for every four
    words.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    write, write_address, write_data : In
        Store a line of the program.
    jump, target : In
        Go on at another word address, or begin there.
    run : In
        Instructions are wanted.
    instructions : Out
        They are; after a jump, those from its target.
    """

    def __init__(self, config: TileConfig) -> None:
        self.words = config.program_bytes // 4
        self.address_bits = exact_log2(self.words // LINE_WORDS)
        super().__init__(
            {
                "write": In(1),
                "write_address": In(self.address_bits),
                "write_data": In(WORD_BITS * LINE_WORDS),
                "jump": In(1),
                "target": In(PC_BITS),
                "run": In(1),
                "instructions": Out(stream.Signature(InstructionWordsLayout())),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return memory, a queue of lines, and what puts instructions together."""
        m = Module()
        line_bits = WORD_BITS * LINE_WORDS
        m.submodules.program = memory = Memory(
            shape=line_bits, depth=self.words // LINE_WORDS, init=[]
        )
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
        ]

        # --- lines: a ring of them, filled ahead ---
        lines = Array(Signal(line_bits, name=f"line{i}") for i in range(_LINES))
        head, tail = Signal(range(_LINES)), Signal(range(_LINES))
        level = Signal(range(_LINES + 1))  # lines that are there
        asked = Signal()  # one is on its way
        next_line = Signal(self.address_bits)
        ask, arrives, drop = Signal(), Signal(), Signal()
        m.d.comb += [
            ask.eq(self.run & ~self.jump & (level + asked < _LINES)),
            arrives.eq(asked & ~self.jump),
            read.addr.eq(next_line),
            read.en.eq(ask),
        ]
        m.d.sync += [asked.eq(ask), level.eq(level + arrives - drop)]
        with m.If(ask):
            m.d.sync += next_line.eq(next_line + 1)
        with m.If(arrives):
            m.d.sync += [lines[tail].eq(read.data), tail.eq(tail + 1)]
        with m.If(drop):
            m.d.sync += head.eq(head + 1)

        # --- chunks: up to four words from the next one on, which may be in two lines ---
        offset = Signal(exact_log2(LINE_WORDS))
        chunk = Signal(line_bits)
        following = (head + 1)[: len(head)]
        m.d.comb += chunk.eq(Cat(lines[head], lines[following]) >> (offset * WORD_BITS))
        available = Signal(range(2 * LINE_WORDS + 1))
        m.d.comb += available.eq(
            Mux(level > 1, 2 * LINE_WORDS - offset, Mux(level == 1, LINE_WORDS - offset, 0))
        )

        # --- an instruction, chunk by chunk ---
        instruction = self.instructions.payload
        have = Signal(range(MOST_WORDS + 1))
        size, wanted, taken = (
            Signal(range(MOST_WORDS + 1), name=n) for n in ("size", "wanted", "taken")
        )
        pc = Signal(PC_BITS)
        collecting = ~self.instructions.valid | self.instructions.ready
        begins = have == 0
        m.d.comb += [
            size.eq(Mux(begins, size_of(m, chunk[:OPCODE_BITS]), instruction.size)),
            wanted.eq(size - have),
            taken.eq(Mux(wanted > LINE_WORDS, LINE_WORDS, Mux(size == 0, 1, wanted))),
        ]
        take = Signal()
        m.d.comb += [
            take.eq(collecting & (available >= taken) & (level != 0) & ~self.jump),
            drop.eq(take & (offset + taken >= LINE_WORDS)),
        ]
        with m.If(self.instructions.ready):
            m.d.sync += self.instructions.valid.eq(0)
        with m.If(take):
            complete = taken >= wanted
            m.d.sync += [
                offset.eq(offset + taken),
                instruction.size.eq(size),
                pc.eq(pc + taken),
                have.eq(Mux(complete, 0, have + taken)),
                self.instructions.valid.eq(complete),
            ]
            with m.If(begins):
                m.d.sync += instruction.pc.eq(pc)
            for i in range(MOST_WORDS // LINE_WORDS):
                with m.If(have == LINE_WORDS * i):
                    m.d.sync += instruction.words[line_bits * i : line_bits * (i + 1)].eq(chunk)
        with m.If(self.jump):
            m.d.sync += [
                next_line.eq(self.target >> exact_log2(LINE_WORDS)),
                offset.eq(self.target),
                pc.eq(self.target),
                have.eq(0),
                level.eq(0),
                head.eq(0),
                tail.eq(0),
                self.instructions.valid.eq(0),
            ]
        return m


def size_of(m: Module, opcode: Value) -> Signal:
    """Return the words of an instruction, 0 if there is none of that opcode."""
    size = Signal(range(MOST_WORDS + 1), name="size_of_opcode")
    with m.Switch(opcode):
        for row in OPCODES.values():
            with m.Case(row.number):
                m.d.comb += size.eq(row.words)
    return size


assert MOST_WORDS % LINE_WORDS == 0
assert ceil_log2(MOST_WORDS) <= OPCODE_BITS
