"""The page about the instruction set: ``python -m gen.isa_page > docs/isa.md``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from rtl.config import PRESETS
from rtl.core import isa
from rtl.core.fields import OPCODE_BITS, Choice, Field, Kind, Opcode

_INTRODUCTION = f"""
# Instruction set

*Made from the table in [`rtl/core/isa.py`](../rtl/core/isa.py) by `python -m gen.isa_page`.*

A tile runs one program. The instructions that do the work, one operation on whole rows of data
each, are the memory, matrix, vector and network instructions; scalar ones compute their addresses
and lengths and go around in loops. The sequential interpreter in
[`sim/interpreter`](../sim/interpreter) is what this page means, to the bit: it executes one
instruction after the other, and a tile that overlaps and reorders them must end in the same state.
The arithmetic is that of [numerics](numerics.md).

## Registers

| register | how many | what it holds |
|---|---|---|
| `s0` … `s31` | {isa.SCALARS} | a 32-bit number; `s0` is 0, and what is written to it is lost |
| `r0` … `r31` | {isa.ROWS} | a 32-bit word, FP32 or an integer, for each of `row_length` rows |
| `v0` … `v23` | {isa.VECTORS} | `vector_length` 32-bit words, or MX blocks |

A vector register is a run of *slots* of {isa.SLOT} words, and in the same place a run of *blocks*
of {isa.BLOCK_WORDS} words: 32 codes of an MX block, element 0 in the lowest bits. MXINT8 codes are
bytes; MXFP4 codes are nibbles in the lower four words, and the upper four are 0. The scale byte of
a block is kept beside its words. There are {isa.PHYSICAL_VECTORS} physical vector registers, so
that destinations can be renamed. `pc` is the number of a program word.
"""

_ENCODING = f"""
## Encoding

An instruction is its opcode in bits 0 to {OPCODE_BITS - 1} of its first word, then its fields,
lowest bit first, in the order of its table and without gaps, over as many 32-bit words as that
takes; bit 32 is bit 0 of the second word. Bits behind the last field are 0. A program begins with
its word 0.

- A *number* is that number. A *target* is the number of the word that is executed next.
- A *value* is a number or a scalar register that holds it. If its lowest bit is 0, the bits above
  it are the number, two's complement where it is signed. If it is 1, the five bits above it are the
  number of the scalar register, and what is left is 0.
- A *register* is its number. Vector registers beyond `v{isa.VECTORS - 1}` do not exist. Where it
  may be a vector or a row register, another field says which.
- A *flag* is 1 for yes.
- A *choice* is the number of one of the names that are listed at the [end](#choices).

What a value gets from a scalar register must be in the range of the field, read as signed where the
field is; only arithmetic and branches take all 32 bits. A *default* is what the assembler writes if
nothing is said; fields without one must be given.

An address is a pair of fields, a base and an `_offset`, which are added. Addresses are 32 bits, and
all sums that give one are modulo 2^32.
"""

_ROWS = f"""
## Rows

Instructions on vector registers work on `rows` rows. A row is a pair of a token and a head, `row =
token * heads + head`, `heads` being 1 where there is none such; `rows` must be a multiple of
`heads`. With `masked` only the rows take part whose bit in `mask` is set, and the others are as if
absent: nothing of them is read or written. A mask goes with at most {isa.MASK_ROWS} rows.

Where a row is depends on the operand:

- slots and blocks: `offset + stride * row`; words or blocks of a row are neighbours from there on;
- in `matrix`: `offset + pitch * token + stride * head`;
- words of a row register: `offset + pitch * token + head`, one word per row.

A range of positions `lo <= j < hi` is that of token 0; with `range_step` both are one more for each
further token.

## What is written

An instruction reads everything it reads before it writes anything, so a destination may be one of
its sources; if it is, and `into` is set, at the same place (a shift within one register is
unspecified). Several destinations are different registers. Registers must be written before they
are read, as what they are read: words, or blocks of a format. `into` decides about the words of a
destination vector register that the instruction does not write: with it they stay, without it they
become undefined. That is what lets a destination be renamed, so `into` costs a wait for whoever
still uses the register. The words of row registers that are not written always stay. Zero rows and
zero columns are legal except where a field says otherwise, and then nothing is read or written
there; a sum of nothing is +0. A program must not rely on what registers other than `s0` hold when
it starts.
"""

_MEMORY = """
## Memory

A beat, 16·P bytes, is what the memory brings in a cycle, P being `pseudo_channels`. In addresses it
takes the next power of two; what is left (with P = 6: the upper 32 of 128 bytes) is a *hole*, where
no address may point. A run of bytes goes on behind holes, while a `pitch` counts addresses. A pair
of beats from an even one on is a *line*. Numbers are little-endian.

There are two ways to memory, and the hardware does not keep what they see in step:

| way | who takes it |
|---|---|
| through L1 | `lw`, `sw`, `load`, `loadr`, `store`, `collective` on memory; `remote` (its L1) |
| written past L1 | `append`, `appendmax` |
| read past L1 (*streamed*) | `matrix`, `load` with `streaming` |

So a program must keep to these rules, counted from its start and by lines:

1. what was read or written through L1 is not written past it;
2. what was written past L1 is not read or written through it;
3. what was written through L1 is not streamed, not even behind a fence;
4. what was written past L1 is streamed only behind a `fence`.

An `append` does not wait for streams before it. A stream that reads a line to which a later
instruction appends may see it before or after, so what it makes of those bytes must not count:
positions behind the range of `matrix`, or activations that are zero.

Through L1, what instructions read and write is in program order, those of the scalar unit, of
`load` and `store` and of `collective` alike. When a program starts, L1 is empty and everything that
was stored before is in memory.

## Operands of `matrix`

[`gen/layout.py`](../gen/layout.py) packs operands and says where each byte is. Weights, and keys
whose positions are the neurons, come in groups of acc_depth·P neurons; the last group is what is
left, rounded up to P. A group is the greatest scale of each of its neurons, one byte each, padded
to whole beats (left out if a row is one block), then its *block rows*, one block of each of P
neurons: through the neurons first, and along K last. A beat with their scales stands before every
16 block rows. A block row is one beat of nibbles for MXFP4, and for MXINT8 the high nibbles in one
beat and the low ones in the next. V comes bare, in groups of 32 positions, P positions to a beat,
32 outputs each.
"""

_FAULTS = """
## Faults

An instruction that breaks a rule on this page is faulty. The interpreter then leaves registers and
memory as they were before it, and stops with the cause, the tile, the `pc` and the instruction. It
checks all that is said here, and

- that words are an instruction, that registers and rows are long enough, that addresses are in
  memory and words aligned;
- that nothing undefined is read;
- that memory is touched in ways that go together;
- that scales are bytes, that maxima are not less than their scales, and that a product has as many
  beats as its operand;
- that a chain is one, and is drained before the program stops;
- that tiles agree about a collective, that a message is what is expected, that every message has
  been taken when all have stopped, and that not all tiles wait for each other.

What the hardware does with a faulty program is not specified.
"""

_TILES = f"""
## Several tiles

A machine of N tiles runs N programs, one on each, every tile with its own registers, `pc` and
memory. All start together; the machine has stopped when every tile has met its `stop`. Tiles are
numbered from 0, and their numbers are their places on the ring. They meet in four instructions:

- `collective`: all tiles together, none left out, in the same order on every tile. A tile goes on
  when it has its result. Only a barrier, or a result that depends on all tiles, tells that the
  others have come as far.
- `send` and `receive`: from one tile to another, or to itself. Messages between the same two tiles
  arrive in the order they were sent; messages from different tiles in any order. A `receive` that
  names tile or tag passes over messages that do not fit. Of a tile's messages, at most
  {isa.MESSAGES} can wait to be taken; a `send` beyond them waits, so tiles that all send more
  before they receive wait for each other.
- `remote`: reads another tile's memory, which must have been stored, and fenced, before something
  that this tile has seen of that one: a message or a collective.

With that, what N programs compute, and whether they come to their end, does not depend on how fast
each of them is, except that a `receive` from any tile takes what comes first. If such a program is
to give the same bits every time, it must not matter to it whose message that was; and if it is to
end every time, neither may the room that the others still have.

Collectives and messages of a tile are executed in the order of its program, and so is a `fence`
among them. If no tile can go on, the interpreter stops and says what each of them waits for.
"""


def page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION, _sizes(), _ENCODING, _ROWS, _MEMORY, _FAULTS, _TILES, _overview()]
    for engine in dict.fromkeys(opcode.engine for opcode in isa.OPCODES.values()):
        parts.append(f"\n## {engine.capitalize()} instructions\n")
        parts += [_instruction(o) for o in isa.OPCODES.values() if o.engine == engine]
    parts.append("\n## Choices\n")
    parts += [_choice(choices) for choices in _choices()]
    return "".join(parts).strip("\n") + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _sizes() -> str:
    head = ["", *(f"`{name}`" for name in PRESETS)]
    configs = PRESETS.values()
    rows = [
        ["`row_length`: rows of a row register", *(c.row_length for c in configs)],
        ["`vector_length`: words of a vector register", *(c.vector_length for c in configs)],
        ["slots of a vector register", *(c.vector_length // isa.SLOT for c in configs)],
        ["blocks of a vector register", *(c.vector_length // isa.BLOCK_WORDS for c in configs)],
    ]
    return "\n" + _table(head, rows)


def _overview() -> str:
    rows = [
        [f"0x{o.number:02x}", f"[`{o.name}`](#{o.name})", o.engine, o.words]
        for o in isa.OPCODES.values()
    ]
    return "\n## All instructions\n\n" + _table(["opcode", "name", "engine", "words"], rows)


def _instruction(opcode: Opcode) -> str:
    words = "1 word" if opcode.words == 1 else f"{opcode.words} words"
    text = f"\n### {opcode.name}\n\nOpcode 0x{opcode.number:02x}, {words}.\n\n"
    text += _filled(_code(opcode.description)) + "\n"
    if opcode.fields:
        head = ["field", "bits", "kind", "range", "default", "meaning"]
        text += "\n" + _table(head, _fields(opcode))
    return text


def _fields(opcode: Opcode) -> Iterator[list[str]]:
    low = OPCODE_BITS
    for field in opcode.fields:
        high = low + field.width - 1
        bits = str(low) if high == low else f"{high}:{low}"
        default = "" if field.default is None else field.text(field.default)
        kind, numbers = _kind(field)
        yield [f"`{field.name}`", bits, kind, numbers, default, _code(field.description)]
        low = high + 1


def _kind(field: Field) -> tuple[str, str]:
    """Return what kind a field is, and what numbers it holds."""
    if field.choices is not None:
        name = field.choices.__name__
        return f"[{name}](#choices-of-{name.lower()})", ""
    if field.kind is Kind.FLAG:
        return "flag", ""
    kind = f"signed {field.kind.value}" if field.signed else field.kind.value
    return kind, field.numbers


def _choices() -> list[type[Choice]]:
    """Return every choice there is, in the order of first use."""
    fields = (field for opcode in isa.OPCODES.values() for field in opcode.fields)
    return list(dict.fromkeys(f.choices for f in fields if f.choices is not None))


def _choice(choices: type[Choice]) -> str:
    rows = [[int(c), c.name, _code(c.meaning)] for c in choices]
    return f"\n### Choices of {choices.__name__}\n\n{choices.__doc__}\n\n" + _table(
        ["number", "name", "meaning"], rows
    )


def _filled(text: str) -> str:
    """Return a paragraph in lines; what is code stays together."""
    text = re.sub("`.*?`", lambda code: code[0].replace(" ", "\0"), text)
    lines = textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False)
    return lines.replace("\0", " ")


def _code(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    print(page(), end="")
