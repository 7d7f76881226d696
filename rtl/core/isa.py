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

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rtl.core.fields import Choice, Field, IllegalInstruction, Instruction, Kind, Opcode

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

MASK_SLOTS = 32
"""Slots a mask of `topk` has bits for."""

MESSAGES = 8
"""Messages of a tile that may be under way: sent, and not taken by whom they are for."""


class MatrixFormat(Choice):
    """Element format of a matrix operand."""

    MXFP4 = 0, "E2M1, one nibble plane"
    MXINT8 = 1, "INT8, two nibble planes"


class LoadKind(Choice):
    """What `load` finds in memory."""

    WORDS = 0, "FP32 or integers: 4 bytes each, copied as they are"
    BYTES = 1, "bytes; each becomes a word of that number, as step LDEXP wants its scale bytes"
    MXFP4 = 2, "blocks of 16 bytes and a scale byte each; they become FP32"
    MXINT8 = 3, "blocks of 16 bytes high plane, 16 bytes low plane, and a scale byte each; likewise"


class Step(Choice):
    """What a step of a vector instruction does with x and its operand y."""

    NONE = 0, "x, as it is"
    ADD = 1, "x + y"
    SUB = 2, "x - y"
    MUL = 3, "x * y"
    MINIMUM = 4, "the lesser of x and y: NaN if either is NaN, and -0 below +0"
    MAXIMUM = 5, "the greater of x and y: NaN if either is NaN, and -0 below +0"
    CLAMP = 6, "MINIMUM of y and (MAXIMUM of x and -y)"
    LDEXP_MXFP4 = 7, "x * 2^(y - 128); y is a scale byte, an integer 0 to 255, and 255 gives NaN"
    LDEXP_MXINT8 = 8, "x * 2^(y - 133); y likewise"
    ROTATE_ADJACENT = 9, "x * C + p * S, p being x in column ``j xor 1``; only step c, see `vector`"
    ROTATE_HALVES = 10, "the same, p being x in column ``(j + columns / 2) mod columns``"
    TAKE = 11, "y, flushed; as step b it makes that a is not read"


class Operand(Choice):
    """Where the operand of a step comes from, and which row of it a row sees."""

    CONSTANT = 0, "the 32 bits `value`"
    VECTOR = 1, "the vector register's row that begins at slot ``value + stride * row``"
    VECTOR_HEAD = 2, "at slot ``value + stride * head``"
    VECTOR_TOKEN = 3, "at slot ``value + stride * token``"
    VECTOR_ONE = 4, "at slot ``value``, for every row"
    ROW = 5, "the row register's word ``value + stride * token + head``, for every column"
    ROW_HEAD = 6, "its word ``value + head``"
    ROW_TOKEN = 7, "its word ``value + stride * token``"


class Function(Choice):
    """The function in the middle of a vector instruction."""

    NONE = 0, "x, as it is"
    EXP = 1, "exp2(x * log2 e)"
    EXP2 = 2, "exp2(x)"
    RECIPROCAL = 3, "reciprocal(x)"
    RSQRT = 4, "rsqrt(x)"
    SIGMOID = 5, "reciprocal(1 + exp2(x * -log2 e))"
    GATE = 6, "x * SIGMOID(function_value * x)"


class Select(Choice):
    """Which results stay; the others become +0."""

    ALL = 0, "all"
    ELEMENTS = 1, "column j if ``lo <= first + j < hi``, with the row's own lo and hi"
    ROWS = 2, "all of a row if its ``lo < hi``"


class Reduction(Choice):
    """What becomes of a row."""

    NONE = 0, "nothing"
    MAXIMUM = 1, "MAXIMUM of the elements that were selected, from -Inf (or `initial`) on"
    SUM = 2, "sum of all elements, the +0 of those that were not selected among them"
    SQUARES = 3, "the same of x * x"


class Output(Choice):
    """What becomes of the elements."""

    NONE = 0, "nothing"
    WORDS = (
        1,
        "`columns` words of each row from slot ``offset + stride * row`` of a vector register",
    )
    ROW = (
        2,
        "the only element of each row to word ``offset + stride * token + head`` of a row register",
    )
    MXFP4 = 3, "quantised, from block ``offset + stride * row`` of a vector register"
    MXINT8 = 4, "quantised, likewise"


class Rule(Choice):
    """Scale rule of the quantiser."""

    FLOOR = 0, "that of OCP: the greatest element may saturate"
    CEIL = 1, "the smallest scale at which nothing saturates"


class Collective(Choice):
    """What tiles do together."""

    ALL_GATHER = (
        0,
        "every tile gives its share, found at its place in the whole, and gets the whole",
    )
    BROADCAST = 1, "every tile, the root too, gets the whole that the root gives"
    REDUCE_SCATTER_SUM = 2, "every tile gives a whole and gets its share of the sum, at its place"
    REDUCE_SCATTER_MAXIMUM = 3, "the same with MAXIMUM"
    ALL_REDUCE_SUM = 4, "every tile gives a whole and gets all of the sum, the same bits everywhere"
    ALL_REDUCE_MAXIMUM = 5, "the same with MAXIMUM"
    BARRIER = 6, "nothing moves; nobody goes on before all are there"


class Place(Choice):
    """What a collective or a message moves."""

    WORDS = 0, "words of a vector register"
    BLOCKS = 1, "MX blocks of a vector register, with their scales"
    MEMORY = 2, "words of memory, through L1"


def _value(name: str, bits: int, description: str, default: Any = None, **more: Any) -> Field:
    return Field(name, Kind.VALUE, bits, description, default, **more)


def _number(name: str, bits: int, description: str, default: Any = None) -> Field:
    return Field(name, Kind.NUMBER, bits, description, default)


def _choice(name: str, choices: type[Choice], description: str, default: Any = None) -> Field:
    bits = max(1, max(choices).bit_length())
    return Field(name, Kind.CHOICE, bits, description, default, choices=choices)


def _flag(name: str, description: str, default: bool = False) -> Field:
    return Field(name, Kind.FLAG, 1, description, default)


def _scalar(name: str, description: str) -> Field:
    return Field(name, Kind.SCALAR, 5, description)


def _row(name: str, description: str, default: Any = None) -> Field:
    return Field(name, Kind.ROW, 5, description, default)


def _vector(name: str, description: str, default: Any = None) -> Field:
    return Field(name, Kind.VECTOR, 5, description, default, count=VECTORS)


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
        _choice(f"{prefix}_step", Step, f"{what}", Step.NONE),
        _choice(f"{prefix}_operand", Operand, "where its y comes from", Operand.CONSTANT),
        _register(prefix, "y's vector or row register", 0),
        _value(f"{prefix}_value", 32, "`value` of y: bits, a slot, or a row", 0),
        _number(f"{prefix}_stride", 8, "`stride` of y: slots or rows", 0),
    )


_TARGET = Field("target", Kind.TARGET, 20, "word address in the program")

_TAKING_PART = (
    _flag("masked", "only rows in `mask` take part; without it all do"),
    _value("mask", 32, "bit r is row r, of at most 32 `rows`; the others are as if absent", 0),
)

_RANGE = (
    _value("lo", 21, "first position in the range of token 0", 0, signed=True),
    _value("hi", 21, "first position behind the range of token 0", 0, signed=True),
    _flag("range_step", "`lo` and `hi` are one more for each further token"),
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
        "Subtracts 1 from `counter`, modulo 2^32, and goes to `target` unless it is 0 then.",
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
        "Reads one word of a vector register, such as an index that `topk` found.",
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
        "Reads one row of a row register.",
        (_scalar("to", "result"), _row("source", "register"), _value("row", 10, "row", 0)),
    ),
    Opcode(
        "match",
        0x1C,
        "scalar",
        "Compares one word of every row with a number, all bits of it, and gives the rows where "
        "it is equal, a bit each, row 0 lowest. Of the indices that `topk` found, these are the "
        "tokens that chose an expert.",
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
        "Loads rows into a vector register: row r from ``address + pitch * r`` on, to slot "
        "``offset + stride * r`` and those behind it. Of MXFP4 and MXINT8 these are the row's "
        "blocks, and its scale bytes are at ``scales + pitch * r``; the last block is loaded as "
        "far as `columns` goes. They are dequantised, rounded once.",
        (
            _vector("to", "destination"),
            _flag("into", "the rest of the destination stays; without it it is undefined"),
            _value("offset", 8, "slot of row 0", 0),
            _number("stride", 8, "slots from one row to the next", 0),
            _value("rows", 10, "rows"),
            _value("columns", 20, "elements of a row; of MX kinds at least 1"),
            *_address("address", "row 0, a multiple of 4 (WORDS) or 16 (MX)"),
            *_address("scales", "the scale bytes of row 0", 0),
            _value("pitch", 32, "bytes of address from one row to the next, modulo 2^32", 0),
            _choice("kind", LoadKind, "what is in memory", LoadKind.WORDS),
            _flag("streaming", "past L1; what was stored through L1 must not be loaded so"),
        ),
    ),
    Opcode(
        "loadr",
        0x25,
        "memory",
        "Loads words that are neighbours in memory into rows of a row register, through L1; its "
        "other rows stay.",
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
        "Stores rows of words from a vector register through L1: row r, from slot ``offset + "
        "stride * r`` on, to ``address + pitch * r``, in ascending order of rows.",
        (
            _vector("source", "source"),
            _value("offset", 8, "slot of row 0", 0),
            _number("stride", 8, "slots from one row to the next", 0),
            _value("rows", 10, "rows"),
            _value("columns", 20, "words of a row"),
            *_address("address", "row 0, a multiple of 4"),
            _value("pitch", 32, "bytes of address from one row to the next, modulo 2^32", 0),
            *_TAKING_PART,
        ),
    ),
    Opcode(
        "append",
        0x22,
        "memory",
        "Stores one MX block past L1: 16 bytes per nibble plane, the low plane one beat behind "
        "the high one, at the same place in it, and the scale byte. Every other byte stays what "
        "it is.",
        (
            _vector("source", "source"),
            _value("block", 10, "block in the register"),
            _choice("format", MatrixFormat, "element format"),
            *_address("elements", "the high, or only, plane, a multiple of 16"),
            *_address("scale", "the scale byte"),
        ),
    ),
    Opcode(
        "appendmax",
        0x23,
        "memory",
        "Stores the low byte of one row of a row register past L1, such as the greatest scale of "
        "a key. Every other byte stays what it is.",
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
        "Nothing behind it reads memory before everything that was stored before it is there: "
        "then `matrix` and streaming loads see what `append` and `appendmax` stored, and `remote` "
        "of another tile sees what `store` and `sw` stored. It does not empty L1.",
        (),
    ),
    # --- matrix ---
    Opcode(
        "matrix",
        0x30,
        "matrix",
        "Streams an operand past activations: ``result[row, j] = sum over k of activation[row, "
        "k] * operand[j, k]``, exact in the window and rounded once. The operand is `beats` "
        "beats from `address` on, as `gen.layout` packs them. `blocks` blocks of a row begin at "
        "block ``offset + pitch * token + stride * head`` of `source`; its results go to word "
        "``result_offset + result_pitch * token + result_stride * head`` of `to` and those "
        "behind it. A chain takes K in chunks, one instruction each, no other `matrix` between "
        "them: `clear` in the first, `drain` in the last. They differ in nothing but `address`, "
        "`beats`, `blocks`, `clear`, `drain`, `source`, `offset`, `pitch` and `result_offset`, "
        "`outputs` is at most acc_depth·P, and their beats, one after the other, are the "
        "operand; which of them brings which beats does not matter. All of them read `maxima`, "
        "which must not change on the way; only the last one delivers. ``(last + token * "
        "last_step) // 32 + 1`` is the number n of blocks that a row's window is made for: "
        "without `transpose` that of the whole chain, with it that of the row's own position, "
        "and a block of activations beyond it must be zeros. The greatest scales in `maxima`, "
        "and those that are stored with the operand, must not be less than any scale of the row "
        "or neuron that is not 255.",
        (
            *_address("address", "the first beat, an even one; without beats it does not matter"),
            _value("beats", 32, "beats that this instruction brings", 0),
            _value(
                "outputs",
                20,
                "output neurons N, 1 or more; with `transpose` at most 32 and acc_depth·P",
            ),
            _value("blocks", 12, "blocks along K in this instruction, 1 to act_blocks"),
            _value("last", 24, "index of token 0's last element along K, over the whole chain"),
            _flag("last_step", "with `transpose`: `last` is one more for each further token"),
            _choice("activation", MatrixFormat, "format of the activations"),
            _choice("weight", MatrixFormat, "format of the operand"),
            _flag("transpose", "the operand is V: position-major, 32 outputs, without scales"),
            _value(
                "tile_row", 8, "with `transpose`: which of the 32 is output 0, in units of P", 0
            ),
            _flag("clear", "start at zero: first of its chain", True),
            _flag("drain", "deliver the results: last of its chain", True),
            _flag("pair", "let spare lanes take the next block row; no result depends on it", True),
            _value(
                "rows",
                10,
                "rows, a multiple of `heads`; 1 to `lanes`, half of them for MXINT8 activations",
            ),
            _number("heads", 10, "rows that share a token", 1),
            *_TAKING_PART,
            _vector("source", "activations, MX blocks"),
            _value("offset", 10, "block of token 0, head 0", 0),
            _number("stride", 10, "blocks from one head to the next", 0),
            _number("pitch", 10, "blocks from one token to the next", 0),
            _row("maxima", "greatest scale of each row, over all blocks of the chain, 0 to 255"),
            _value("maxima_offset", 10, "row of token 0, head 0 in there; heads are neighbours", 0),
            _number("maxima_pitch", 10, "rows from one token to the next", 0),
            _flag("ranged", "output j is +0 unless ``lo <= j < hi``, whatever the operand holds"),
            *_RANGE,
            _flag("results", "write the results to `to`", True),
            _vector("to", "destination", 0),
            _flag("into", "the rest of the destination stays"),
            _value("result_offset", 16, "word of token 0, head 0", 0),
            _number("result_stride", 16, "words from one head to the next", 0),
            _number("result_pitch", 16, "words from one token to the next", 0),
            _flag(
                "argmax",
                "find the greatest result of each row (+0 outside of the range among them): -0 "
                "equals +0, NaN is below -Inf, the lowest index among equals",
            ),
            _flag("argmax_resume", "go on from `best` and `best_index`, which win among equals"),
            _value("argmax_base", 32, "index of output 0", 0),
            _row("best", "word ``row`` gets the greatest result", 0),
            _row("best_index", "word ``row`` gets its index", 0),
        ),
    ),
    # --- vector ---
    Opcode(
        "vector",
        0x40,
        "vector",
        "One pass over rows. x is a; steps b and c, the function and step d change it, and it is "
        "written. What is reduced is x before step d. In both, what the range does not select is "
        "+0. Every operation flushes and rounds once; words that meet none are copied as they "
        "are. Everything is read before anything is written. ROTATE: C is y of step c, and S is "
        "what would be y of step d, which is NONE; both are in vector registers, there is no "
        "function and no reduction, and `columns` is even. SQUARES goes without a function. A sum "
        "adds column j to partial sum ``j mod 32`` in the order of columns, from +0 or `partials` "
        "on, which are flushed.",
        (
            _flag("a_row", "a is a row register and rows have one element"),
            _register("a", "number of the first operand's register"),
            _value("a_offset", 10, "slot of row 0; a row register: word of token 0, head 0", 0),
            _number("a_stride", 8, "slots between rows; a row register: words between tokens", 0),
            _value("rows", 10, "rows, a multiple of `heads`"),
            _number("heads", 10, "rows that share a token", 1),
            _value(
                "columns",
                20,
                "elements of a row; with a row register 1, to be quantised 1 or more",
                1,
            ),
            *_TAKING_PART,
            *_operand("b", "first step"),
            *_operand("c", "second step"),
            _choice("function", Function, "what follows steps b and c", Function.NONE),
            _value("function_value", 32, "FP32 bits of the factor of GATE", 0x3F800000),
            *_operand("d", "last step"),
            _choice("select", Select, "what the range selects", Select.ALL),
            *_RANGE,
            _value("first", 20, "position of column 0, a multiple of 32", 0),
            _choice("reduction", Reduction, "what each row is reduced to", Reduction.NONE),
            _row("total", "result of the reduction", 0),
            _value("total_offset", 10, "row of token 0, head 0 in there", 0),
            _number("total_pitch", 8, "rows from one token to the next", 0),
            _flag("resume", "MAXIMUM starts from `initial`, a sum from `partials`"),
            _row("initial", "where a maximum starts", 0),
            _value("initial_offset", 10, "row of token 0, head 0 in there", 0),
            _number("initial_pitch", 8, "rows from one token to the next; 0: the same for all", 0),
            _flag("suspend", "a sum writes `partials` and no `total`"),
            _vector(
                "partials", "32 partial sums per row; without `resume` the rest is undefined", 0
            ),
            _value("partials_offset", 8, "slot of row 0; the other rows follow slot by slot", 0),
            _choice("output", Output, "what becomes of the elements", Output.NONE),
            _choice("rule", Rule, "scale rule of the quantiser", Rule.FLOOR),
            _register("to", "destination: a vector register; ROW: a row register", 0),
            _flag(
                "into", "the rest of a vector register stays; that of a row register always does"
            ),
            _value("offset", 10, "slot or block of row 0; ROW: word of token 0, head 0", 0),
            _number("stride", 10, "slots or blocks between rows; ROW: words between tokens", 0),
            _flag("maximal", "write the greatest scale of each quantised row, 255 left out"),
            _row("maxima", "greatest scales; 0 where all are 255", 0),
            _value("maxima_offset", 10, "row of token 0, head 0 in there", 0),
            _number("maxima_pitch", 8, "rows from one token to the next", 0),
            _flag("maxima_token", "one for all heads of a token, at its head 0"),
            _flag("maxima_resume", "go on from what is there, 0 to 255"),
        ),
    ),
    Opcode(
        "topk",
        0x41,
        "vector",
        "Finds the `k` greatest of every row: -0 equals +0, NaN is below -Inf, among equals the "
        "lowest index comes first. Writes indices, which count gaps too, and values, copied as "
        "they are, in descending order.",
        (
            _vector("a", "what is compared"),
            _value("a_offset", 8, "slot of row 0", 0),
            _number("a_stride", 8, "slots from one row to the next", 0),
            _value("rows", 10, "rows"),
            _value("columns", 20, "elements of a row, gaps included"),
            _number("segment", 6, "elements of each slot that count; the others are gaps", 32),
            _flag("slots_masked", "only slots in `slot_mask` count; rows have at most 32 slots"),
            _value("slot_mask", 32, "bit i is slot i of every row; the others are gaps", 0),
            _value("k", 10, "how many: 1 to the elements that count"),
            _flag("carry", "values are those of `carried` at the indices, not those compared"),
            _vector("carried", "same shape and place as a", 0),
            _vector("indices", "destination of the indices"),
            _vector("values", "destination of the values, another register"),
            _flag("into", "the rest of the destinations stays"),
            _value("offset", 8, "slot of row 0 in both", 0),
            _number("stride", 8, "slots between rows in both", 1),
        ),
    ),
    # --- other tiles ---
    Opcode(
        "collective",
        0x50,
        "collective",
        "All tiles do the same thing together: the first `collective` of each, then the second of "
        "each, and so on. It is an error of all of them if `kind`, `place`, `count` or `root` "
        "differ. `count` units are the whole; tile i of N has the share of ``count // N`` units, "
        "one more if ``i < count mod N``, shares in the order of tiles. Unit u is at ``offset`` "
        "of `source` plus u units, and comes to ``result_slot`` of `to` plus u units; in memory "
        "from `address` and to `result`. What does not come stays, or without `into` is "
        "undefined. A whole that is read and written at one place may be changed there; otherwise "
        "the one that a tile reads from and the one that it writes to do not overlap, unless `to` "
        "is a register without `into`. Sums and maxima take FP32 words and flush them, also of one "
        "tile alone. A sum goes around the ring: of share s of m words, the first ``ceil(m / 2)`` "
        "start with tile s + 1, to which tiles s + 2, s + 3, ... are added and s last; the others "
        "start with tile s - 1, to which s - 2, s - 3, ... are added and s last.",
        (
            _choice("kind", Collective, "what is done"),
            _choice("place", Place, "where units are; sums and maxima: not BLOCKS", Place.WORDS),
            _value("count", 20, "units of the whole", 0),
            _value("root", 8, "root of a broadcast", 0),
            _vector("source", "register that is read", 0),
            _value("offset", 10, "slot of its first word, or its first block", 0),
            _vector("to", "register that is written", 0),
            _flag("into", "the rest of the destination stays"),
            _value("result_slot", 10, "slot of its first word, or its first block", 0),
            *_address("address", "the first word of the whole that is read, a multiple of 16", 0),
            *_address("result", "that of the one that is written, a multiple of 16", 0),
        ),
    ),
    Opcode(
        "send",
        0x58,
        "message",
        "Sends words or blocks to a tile, which may be this one, and does not wait for it to take "
        f"them, unless {MESSAGES} messages of this tile, whoever they are for, were not taken yet: "
        "then it waits until one is. Messages of a tile to another arrive in order.",
        (
            _value("tile", 8, "who gets it"),
            _value("tag", 16, "what it is about", 0),
            _choice("place", Place, "WORDS or BLOCKS", Place.WORDS),
            _value("count", 20, "units"),
            _vector("source", "register that is sent"),
            _value("offset", 10, "slot of its first word, or its first block", 0),
        ),
    ),
    Opcode(
        "receive",
        0x59,
        "message",
        "Waits for a message and takes it: of those that fit, the one that arrived first. Of the "
        "messages of one tile, that is the one it sent first; which of two tiles comes first is a "
        "matter of time. Its unit and count must be those that are expected.",
        (
            _flag("any_tile", "take it from any tile"),
            _value("tile", 8, "who sent it", 0),
            _flag("any_tag", "take any tag"),
            _value("tag", 16, "what it is about", 0),
            _choice("place", Place, "WORDS or BLOCKS", Place.WORDS),
            _value("count", 20, "units"),
            _vector("to", "destination"),
            _flag("into", "the rest of the destination stays"),
            _value("offset", 10, "slot of its first word, or its first block", 0),
            _row("envelope", "with `any_tile` or `any_tag`: rows 0 and 1 get sender and tag", 0),
        ),
    ),
    Opcode(
        "remote",
        0x5A,
        "message",
        "Reads words of another tile's memory, through that tile's L1. It sees what that tile "
        "stored with `store` and `sw` before a fence that came before a collective or message "
        "which this tile has seen; that tile must not stop before it knows that it was read, and "
        "not store there again before a fence behind that. It is answered whatever that tile does.",
        (
            _value("tile", 8, "whose memory"),
            *_address("address", "the first word, a multiple of 4"),
            _value("count", 20, "words"),
            _vector("to", "destination"),
            _flag("into", "the rest of the destination stays"),
            _value("offset", 10, "slot of its first word", 0),
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
        there = f"words 0 to {len(words) - 1}" if words else "no words"
        raise IllegalInstruction(f"pc is {pc}; the program has {there}.")
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
