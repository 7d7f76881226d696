"""The instruction set: one table, from which everything that knows instructions is made.

Encoder and decoder (`rtl.core.fields`), assembler, disassembler, interpreter, hardware decoder and
``docs/isa.md`` all read `OPCODES`. It is plain data and imports no hardware.

A tile has three kinds of registers beside memory:

- 32 scalar registers ``s0`` to ``s31`` of 32 bits; ``s0`` is always 0;
- 32 row registers ``r0`` to ``r31``: one 32-bit word for each of `TileConfig.row_length` rows, for
  what there is one of per row: maxima, sums, reciprocals, scales;
- 24 vector registers ``v0`` to ``v23`` of `TileConfig.vector_length` FP32 words each. A register is
  a run of *slots* of 32 words. It may hold MX blocks instead, a block taking 8 words (32 codes;
  MXFP4 codes use the lower half) and a scale byte that is kept beside.

Row r of an operand begins at ``offset + stride * r``, in slots, or in blocks where it is MX. Rows
are pairs of a token and a head, ``row = token * heads + head``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rtl.core.fields import Field, IllegalInstruction, Instruction, Kind, Opcode

SCALARS = 32
ROWS = 32
VECTORS = 24
PHYSICAL_VECTORS = 32
"""Vector registers there are, eight of them to rename with."""

SLOT = 32
"""Words of a slot."""

BLOCK_WORDS = 8
"""Words of an MX block in a vector register."""

MASK_ROWS = 32
"""Rows a mask has bits for."""


class MatrixFormat(enum.IntEnum):
    """Element format of a matrix operand."""

    MXFP4 = 0
    MXINT8 = 1


class LoadKind(enum.IntEnum):
    """What `load` finds in memory."""

    WORDS = 0
    BYTES = 1
    MXFP4 = 2
    MXINT8 = 3


class Step(enum.IntEnum):
    """What a step of a vector instruction does with x and its operand y."""

    NONE = 0
    ADD = 1
    SUB = 2
    MUL = 3
    MINIMUM = 4
    MAXIMUM = 5
    CLAMP = 6
    LDEXP_MXFP4 = 7
    LDEXP_MXINT8 = 8
    ROTATE_ADJACENT = 9
    ROTATE_HALVES = 10
    TAKE = 11


class Operand(enum.IntEnum):
    """Where the operand of a step comes from, and which row of it a row sees."""

    CONSTANT = 0
    VECTOR = 1
    VECTOR_HEAD = 2
    VECTOR_TOKEN = 3
    VECTOR_ONE = 4
    ROW = 5
    ROW_HEAD = 6
    ROW_TOKEN = 7


class Function(enum.IntEnum):
    """The function in the middle of a vector instruction."""

    NONE = 0
    EXP = 1
    EXP2 = 2
    RECIPROCAL = 3
    RSQRT = 4
    SIGMOID = 5
    GATE = 6


class Select(enum.IntEnum):
    """Which results a range of positions replaces by +0."""

    ALL = 0
    ELEMENTS = 1
    ROWS = 2


class Reduction(enum.IntEnum):
    """What becomes of a row."""

    NONE = 0
    MAXIMUM = 1
    SUM = 2
    SQUARES = 3


class Output(enum.IntEnum):
    """What becomes of the elements."""

    NONE = 0
    WORDS = 1
    ROW = 2
    MXFP4 = 3
    MXINT8 = 4


class Rule(enum.IntEnum):
    """Scale rule of the quantiser."""

    FLOOR = 0
    CEIL = 1


class Collective(enum.IntEnum):
    """What tiles do together."""

    ALL_GATHER = 0
    BROADCAST = 1
    REDUCE_SCATTER_SUM = 2
    REDUCE_SCATTER_MAXIMUM = 3
    ALL_REDUCE_SUM = 4
    ALL_REDUCE_MAXIMUM = 5
    BARRIER = 6


class Place(enum.IntEnum):
    """What a collective or a message moves."""

    WORDS = 0
    BLOCKS = 1
    MEMORY = 2


def _value(name: str, bits: int, description: str, default: Any = None, **more: Any) -> Field:
    return Field(name, Kind.VALUE, bits, description, default, **more)


def _number(name: str, bits: int, description: str, default: Any = None) -> Field:
    return Field(name, Kind.NUMBER, bits, description, default)


def _choice(name: str, choices: type[enum.IntEnum], description: str, default: Any = None) -> Field:
    bits = max(1, max(choices).bit_length())
    return Field(name, Kind.CHOICE, bits, description, default, choices=choices)


def _flag(name: str, description: str, default: bool = False) -> Field:
    return Field(name, Kind.FLAG, 1, description, default)


def _scalar(name: str, description: str) -> Field:
    return Field(name, Kind.SCALAR, 5, description)


def _row(name: str, description: str, default: Any = None) -> Field:
    return Field(name, Kind.ROW, 5, description, default)


def _vector(name: str, description: str, default: Any = None) -> Field:
    return Field(name, Kind.VECTOR, 5, description, default)


def _register(name: str, description: str, default: Any = None) -> Field:
    return Field(name, Kind.REGISTER, 5, description, default)


def _address(name: str, what: str, default: Any = None) -> tuple[Field, Field]:
    """Declare an address: a base, which moves with the layer, and an offset, which does not."""
    return (
        _value(name, 32, f"byte address of {what}", default),
        _value(f"{name}_offset", 32, f"added to `{name}`", 0),
    )


def _operand(prefix: str, what: str) -> tuple[Field, ...]:
    """Fields of a step of a vector instruction."""
    return (
        _choice(f"{prefix}_step", Step, f"{what}: x becomes x step y", Step.NONE),
        _choice(f"{prefix}_operand", Operand, "where its y comes from", Operand.CONSTANT),
        _register(prefix, "number of y's register", 0),
        _value(
            f"{prefix}_value",
            32,
            "a constant: its FP32 bits; a vector register: offset in slots; a row register: row "
            "of token 0, head 0",
            0,
        ),
        _number(f"{prefix}_stride", 8, "slots (a row register: rows) from one to the next", 0),
    )


_TARGET = Field("target", Kind.TARGET, 20, "word address in the program")

_TAKING_PART = (
    _flag("masked", "whether `mask` counts"),
    _value("mask", 32, "rows that take part, one bit each, of up to 32 rows", 0),
)

_RANGE = (
    _value("lo", 21, "first position that is visible to token 0", 0, signed=True),
    _value("hi", 21, "first position that is not, to token 0", 0, signed=True),
    _flag("range_step", "`lo` and `hi` grow by one per token"),
)


def _arithmetic(name: str, number: int, description: str) -> Opcode:
    return Opcode(
        name,
        number,
        "scalar",
        description,
        (
            _scalar("to", "result"),
            _scalar("a", "first operand"),
            _value("b", 13, "second operand", signed=True),
        ),
    )


def _branch(name: str, number: int, condition: str) -> Opcode:
    return Opcode(
        name,
        number,
        "scalar",
        f"Goes to `target` if {condition}.",
        (
            _scalar("a", "first operand"),
            _value("b", 13, "second operand", signed=True),
            _TARGET,
        ),
    )


_TABLE = (
    # --- scalar ---
    Opcode("stop", 0x00, "scalar", "Ends the program when everything before it has ended.", ()),
    Opcode(
        "const",
        0x01,
        "scalar",
        "Puts a constant into a scalar register.",
        (_scalar("to", "result"), Field("value", Kind.NUMBER, 32, "the constant")),
    ),
    _arithmetic("add", 0x02, "``a + b`` modulo 2^32."),
    _arithmetic("sub", 0x03, "``a - b`` modulo 2^32."),
    _arithmetic("mul", 0x04, "``a * b`` modulo 2^32."),
    _arithmetic("and", 0x05, "Bitwise and."),
    _arithmetic("or", 0x06, "Bitwise or."),
    _arithmetic("xor", 0x07, "Bitwise exclusive or."),
    _arithmetic("shl", 0x08, "``a`` shifted left by ``b mod 32``."),
    _arithmetic("shr", 0x09, "``a`` shifted right by ``b mod 32``, zeros coming in."),
    _arithmetic("min", 0x0A, "The lesser of ``a`` and ``b``, both signed."),
    _arithmetic("max", 0x0B, "The greater of ``a`` and ``b``, both signed."),
    _branch("beq", 0x10, "``a = b``"),
    _branch("bne", 0x11, "``a ≠ b``"),
    _branch("blt", 0x12, "``a < b``, both signed"),
    _branch("bge", 0x13, "``a ≥ b``, both signed"),
    Opcode(
        "loop",
        0x14,
        "scalar",
        "Counts `counter` down by one and goes to `target` unless it is 0 then.",
        (Field("counter", Kind.SCALAR, 5, "what is counted"), _TARGET),
    ),
    Opcode(
        "lw",
        0x18,
        "scalar",
        "Loads a word through L1.",
        (_scalar("to", "result"), *_address("address", "the word, a multiple of 4")),
    ),
    Opcode(
        "sw",
        0x19,
        "scalar",
        "Stores a word through L1.",
        (
            _scalar("value", "what is stored"),
            *_address("address", "the word, a multiple of 4"),
        ),
    ),
    Opcode(
        "readv",
        0x1A,
        "scalar",
        "Waits for a vector register and reads one word of it, such as an index that `topk` found.",
        (
            _scalar("to", "result"),
            _vector("source", "register"),
            _value("slot", 8, "slot", 0),
            _value("word", 8, "word from the start of the slot", 0),
        ),
    ),
    Opcode(
        "readr",
        0x1B,
        "scalar",
        "Waits for a row register and reads one row of it.",
        (_scalar("to", "result"), _row("source", "register"), _value("row", 10, "row", 0)),
    ),
    Opcode(
        "match",
        0x1C,
        "scalar",
        "Compares one word of every row with a number and gives the rows where it is equal, a bit "
        "each. Of the indices that `topk` found, these are the tokens that chose an expert.",
        (
            _scalar("to", "result"),
            _vector("source", "register"),
            _value("offset", 8, "slot of row 0", 0),
            _number("stride", 8, "slots from one row to the next", 1),
            _value("word", 8, "word from the start of the row", 0),
            _value("rows", 10, "rows, at most 32"),
            _value("equal", 32, "what to compare with"),
        ),
    ),
    # --- memory ---
    Opcode(
        "load",
        0x20,
        "memory",
        "Loads rows into a vector register. WORDS are FP32 or integers. BYTES become words, and "
        "are how scale bytes get into a register. MXFP4 and MXINT8 are dequantised: 16 bytes per "
        "block and nibble plane, high plane first, from `address` on, their scale bytes from "
        "`scales` on.",
        (
            _vector("to", "destination"),
            _flag("into", "keep the rest of the destination; without it the rest is undefined"),
            _value("offset", 8, "slot of row 0", 0),
            _number("stride", 8, "slots from one row to the next", 0),
            _value("rows", 10, "rows"),
            _value("columns", 20, "elements of a row"),
            *_address("address", "row 0"),
            *_address("scales", "the scale bytes of row 0", 0),
            _value("pitch", 32, "bytes from one row to the next, of both", 0),
            _choice("kind", LoadKind, "what is in memory", LoadKind.WORDS),
            _flag("streaming", "past L1, which must not hold what is loaded"),
        ),
    ),
    Opcode(
        "loadr",
        0x25,
        "memory",
        "Loads words into a row register through L1; its other rows stay.",
        (
            _row("to", "destination"),
            _value("row", 10, "first row", 0),
            _value("rows", 10, "words"),
            *_address("address", "the first word, a multiple of 4"),
        ),
    ),
    Opcode(
        "store",
        0x21,
        "memory",
        "Stores rows of words from a vector register through L1.",
        (
            _vector("source", "source"),
            _value("offset", 8, "slot of row 0", 0),
            _number("stride", 8, "slots from one row to the next", 0),
            _value("rows", 10, "rows"),
            _value("columns", 20, "words of a row"),
            *_address("address", "row 0"),
            _value("pitch", 32, "bytes from one row to the next", 0),
            *_TAKING_PART,
        ),
    ),
    Opcode(
        "append",
        0x22,
        "memory",
        "Stores one MX block past L1: 16 bytes per nibble plane, in neighbouring beats, and its "
        "scale byte. Every other byte stays what it is.",
        (
            _vector("source", "source"),
            _value("block", 10, "block in the register"),
            _choice("format", MatrixFormat, "element format"),
            *_address("elements", "the 16 bytes of the high plane"),
            *_address("scale", "the scale byte"),
        ),
    ),
    Opcode(
        "appendmax",
        0x23,
        "memory",
        "Stores the low byte of one row of a row register past L1: the greatest scale of a row.",
        (
            _row("source", "source"),
            _value("row", 10, "row"),
            *_address("address", "the byte"),
        ),
    ),
    Opcode(
        "fence",
        0x24,
        "memory",
        "What follows sees what `append`, `appendmax`, `store` and `sw` before it have stored, "
        "also where it goes past L1.",
        (),
    ),
    # --- matrix ---
    Opcode(
        "matrix",
        0x30,
        "matrix",
        "Streams an operand past activations: ``result[row, j] = sum over k of "
        "activation[row, k] * operand[j, k]``, exact in the window and rounded once. The operand "
        "is `beats` beats from `address`, as `gen.layout` packs them; the beats of a chain (K in "
        "chunks: `clear` in the first, `drain` in the last) are those of its instructions one "
        "after the other. See `rtl.mac.OperationLayout` for what the fields mean to the engine.",
        (
            *_address("address", "the first beat, at an even beat"),
            _value("beats", 32, "beats", 0),
            _value("outputs", 20, "output neurons N; with `transpose` at most 32"),
            _value("blocks", 12, "blocks along K in this instruction"),
            _value("last", 24, "index of token 0's last element along K, over the whole chain"),
            _flag("last_step", "`last` grows by one per token"),
            _choice("activation", MatrixFormat, "format of the activations"),
            _choice("weight", MatrixFormat, "format of the operand"),
            _flag("transpose", "the operand is V: position-major, without scales"),
            _value("tile_row", 8, "with `transpose`: first output, in units of P", 0),
            _flag("clear", "start at zero", True),
            _flag("drain", "deliver the results", True),
            _flag("pair", "let spare lanes take the next block row", True),
            _value("rows", 10, "rows, a multiple of `heads`"),
            _number("heads", 10, "rows that share a token", 1),
            *_TAKING_PART,
            _vector("source", "activations, MX blocks"),
            _value("offset", 10, "block of token 0, head 0", 0),
            _number("stride", 10, "blocks from one head to the next", 0),
            _number("pitch", 10, "blocks from one token to the next", 0),
            _row("maxima", "greatest scale of each row, over all its blocks"),
            _value("maxima_offset", 10, "row of token 0, head 0 in there", 0),
            _number("maxima_pitch", 10, "rows from one token to the next", 0),
            _flag("ranged", "outputs outside of the range deliver +0, whatever they are"),
            *_RANGE,
            _flag("results", "write the results to `to`", True),
            _vector("to", "destination", 0),
            _flag("into", "keep the rest of the destination"),
            _value("result_offset", 16, "word of token 0, head 0", 0),
            _number("result_stride", 16, "words from one head to the next", 0),
            _number("result_pitch", 16, "words from one token to the next", 0),
            _flag("argmax", "keep the greatest result of each row and its index"),
            _flag("argmax_resume", "go on from what `best` and `best_index` hold"),
            _value("argmax_base", 32, "index of output 0", 0),
            _row("best", "greatest result of each row", 0),
            _row("best_index", "its index", 0),
        ),
    ),
    # --- vector ---
    Opcode(
        "vector",
        0x40,
        "vector",
        "One pass over rows: x = a; steps b and c; the function; step d; results outside of the "
        "range become +0; what is left is reduced and written. ADD, SUB, MUL, MINIMUM, MAXIMUM: x "
        "and y. CLAMP: between -y and y. TAKE: y, and a is not read. LDEXP: x times the unit of a "
        "block whose scale byte is y. ROTATE (only as step c): x times C plus its partner times S, "
        "where y is, for a token, the run of all C and, from the next slot on, of all S. EXP: "
        "exp2(x * log2 e). SIGMOID: reciprocal(1 + exp2(x * -log2 e)). GATE: x * "
        "SIGMOID(function_value * x). Every operation rounds once.",
        (
            _flag("a_row", "a is a row register and rows have one element"),
            _register("a", "number of the first operand's register"),
            _value("a_offset", 10, "slot of row 0; a row register: row of token 0, head 0", 0),
            _number("a_stride", 8, "slots between rows; a row register: rows between tokens", 0),
            _value("rows", 10, "rows"),
            _number("heads", 10, "rows that share a token", 1),
            _value("columns", 20, "elements of a row", 1),
            *_TAKING_PART,
            *_operand("b", "first step"),
            *_operand("c", "second step"),
            _choice("function", Function, "what follows", Function.NONE),
            _value("function_value", 32, "FP32 bits of the factor of GATE", 0x3F800000),
            *_operand("d", "last step"),
            _choice("select", Select, "what the range selects", Select.ALL),
            *_RANGE,
            _value("first", 20, "position of column 0, a multiple of 32", 0),
            _choice(
                "reduction",
                Reduction,
                "of the elements in range: MAXIMUM; SUM or sum of SQUARES by absolute position",
                Reduction.NONE,
            ),
            _row("total", "result of the reduction", 0),
            _value("total_offset", 10, "row of token 0, head 0 in there", 0),
            _number("total_pitch", 8, "rows from one token to the next", 0),
            _flag("resume", "MAXIMUM starts from `initial`, a sum from `partials`"),
            _row("initial", "where a maximum starts", 0),
            _value("initial_offset", 10, "row of token 0, head 0 in there", 0),
            _number("initial_pitch", 8, "rows from one token to the next; 0: the same for all", 0),
            _flag("suspend", "write `partials` and no `total`"),
            _vector("partials", "32 partial sums per row", 0),
            _value("partials_offset", 8, "slot of row 0", 0),
            _choice("output", Output, "what becomes of the elements", Output.NONE),
            _choice("rule", Rule, "scale rule of the quantiser", Rule.FLOOR),
            _register("to", "number of the destination: a vector register; ROW: a row register", 0),
            _flag("into", "keep the rest of the destination"),
            _value("offset", 10, "slot or block of row 0; ROW: row of token 0, head 0", 0),
            _number("stride", 10, "slots or blocks between rows; ROW: rows between tokens", 0),
            _flag("maximal", "write the greatest scale of each quantised row to `maxima`"),
            _row("maxima", "greatest scales", 0),
            _value("maxima_offset", 10, "row of token 0, head 0 in there", 0),
            _number("maxima_pitch", 8, "rows from one token to the next", 0),
            _flag("maxima_token", "one for all heads of a token"),
            _flag("maxima_resume", "go on from what is there"),
        ),
    ),
    Opcode(
        "topk",
        0x41,
        "vector",
        "Finds the `k` greatest of every row: -0 equals +0, NaN is below -Inf, among equals the "
        "lowest index comes first. Writes indices and values in descending order.",
        (
            _vector("a", "what is compared"),
            _value("a_offset", 8, "slot of row 0", 0),
            _number("a_stride", 8, "slots from one row to the next", 0),
            _value("rows", 10, "rows"),
            _value("columns", 20, "elements of a row, gaps included"),
            _number("segment", 6, "elements of each slot that count; the others are gaps", 32),
            _flag("slots_masked", "whether `slot_mask` counts"),
            _value("slot_mask", 32, "slots of every row that count, of up to 32", 0),
            _value("k", 10, "how many"),
            _flag("carry", "values are those of `carried` at the indices, not those compared"),
            _vector("carried", "same shape and place as a", 0),
            _vector("indices", "destination of the indices"),
            _vector("values", "destination of the values"),
            _flag("into", "keep the rest of the destinations"),
            _value("offset", 8, "slot of row 0 in both", 0),
            _number("stride", 8, "slots between rows in both", 1),
        ),
    ),
    # --- other tiles ---
    Opcode(
        "collective",
        0x50,
        "collective",
        "All tiles do the same thing together, matched by order; it is an error of all of them if "
        "kind, place, count or root differ. `count` units (words, blocks with their scales, or "
        "words of memory) are the whole; tile i of N has the share of ``count // N`` units, one "
        "more if ``i < count mod N``, shares in the order of tiles. ALL_GATHER: every tile gives "
        "its share, found at its place in the whole, and gets the whole. BROADCAST: the root's "
        "whole. REDUCE_SCATTER: every tile gives a whole, and gets its share of the sum or "
        "maximum, at its place. ALL_REDUCE: every tile gets all of it. A sum goes around the "
        "ring: of share s of m words, the first ``ceil(m / 2)`` start with tile s + 1, to which "
        "tiles s + 2, s + 3, ... are added and s last; the others start with tile s - 1, to which "
        "s - 2, s - 3, ... are added and s last. BARRIER: nobody goes on before all are there.",
        (
            _choice("kind", Collective, "what is done"),
            _choice("place", Place, "where it is", Place.WORDS),
            _value("count", 20, "units of the whole", 0),
            _value("root", 8, "root of a broadcast", 0),
            _vector("source", "register that is read", 0),
            _value("offset", 10, "its first slot or block", 0),
            _vector("to", "register that is written", 0),
            _flag("into", "keep the rest of the destination"),
            _value("result_slot", 10, "its first slot or block", 0),
            *_address("address", "what is read", 0),
            *_address("result", "what is written", 0),
        ),
    ),
    Opcode(
        "send",
        0x58,
        "message",
        "Sends words or blocks to a tile, which may be this one. Messages of a tile to another "
        "arrive in order.",
        (
            _value("tile", 8, "who gets it"),
            _value("tag", 16, "what it is about", 0),
            _choice("place", Place, "WORDS or BLOCKS", Place.WORDS),
            _value("count", 20, "units"),
            _vector("source", "register that is sent"),
            _value("offset", 10, "its first slot or block", 0),
        ),
    ),
    Opcode(
        "receive",
        0x59,
        "message",
        "Waits for a message and takes it: the first one that fits, by arrival. Its unit and count "
        "must be those that are expected.",
        (
            _flag("any_tile", "take it from any tile"),
            _value("tile", 8, "who sent it", 0),
            _flag("any_tag", "take any tag"),
            _value("tag", 16, "what it is about", 0),
            _choice("place", Place, "WORDS or BLOCKS", Place.WORDS),
            _value("count", 20, "units"),
            _vector("to", "destination"),
            _flag("into", "keep the rest of the destination"),
            _value("offset", 10, "its first slot or block", 0),
            _row("envelope", "with `any_tile` or `any_tag`: rows 0 and 1 get sender and tag", 0),
        ),
    ),
    Opcode(
        "remote",
        0x5A,
        "message",
        "Reads words from another tile's memory. It sees what that tile stored before a fence "
        "that came before a collective or message which this tile has seen.",
        (
            _value("tile", 8, "whose memory"),
            *_address("address", "the first word, a multiple of 4"),
            _value("count", 20, "words"),
            _vector("to", "destination"),
            _flag("into", "keep the rest of the destination"),
            _value("offset", 10, "its first slot", 0),
        ),
    ),
)

OPCODES: Mapping[str, Opcode] = MappingProxyType(
    {opcode.name: opcode for opcode in sorted(_TABLE, key=lambda opcode: opcode.number)}
)
"""Every instruction by mnemonic."""

BY_NUMBER: Mapping[int, Opcode] = MappingProxyType({opcode.number: opcode for opcode in _TABLE})
"""Every instruction by opcode."""


def decode(words: Sequence[int], pc: int = 0) -> Instruction:
    """Return the instruction at a word address of a program.

    Parameters
    ----------
    words
        The program, 32-bit words.
    pc
        Where the instruction begins.

    Raises
    ------
    IllegalInstruction
        If there is none.
    """
    if not 0 <= pc < len(words):
        raise IllegalInstruction(f"pc is {pc}; the program has words 0 to {len(words) - 1}.")
    number = words[pc] & 0xFF
    opcode = BY_NUMBER.get(number)
    if opcode is None:
        raise IllegalInstruction(f"{number:#04x} is no opcode.")
    return opcode.decode(words[pc : pc + opcode.words])


def disassemble(words: Sequence[int]) -> list[tuple[int, Instruction]]:
    """Return every instruction of a program with its word address.

    Raises
    ------
    IllegalInstruction
        If a word is no instruction.
    """
    listing = []
    pc = 0
    while pc < len(words):
        instruction = decode(words, pc)
        listing.append((pc, instruction))
        pc += instruction.opcode.words
    return listing
