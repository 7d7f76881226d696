"""What instructions are made of: fields, their encoding, and instructions as values.

This is plain Python, shared by hardware, assembler and interpreter. An instruction is its opcode in
the lowest eight bits, then its fields in the order of the table, each as wide as the table says, in
as many 32-bit words as that takes; bits behind the last field are 0. Most numbers are *values*: an
immediate, or a scalar register that holds it; one bit says which.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple, Self

WORD_BITS = 32
OPCODE_BITS = 8
REGISTER_BITS = 5


class IllegalInstruction(ValueError):
    """Words are no instruction, or a field has a value it cannot have; the message says which."""


class S(NamedTuple):
    """A scalar register, where a value or a scalar register is wanted."""

    number: int

    def __str__(self) -> str:
        return f"s{self.number}"


class Choice(enum.IntEnum):
    """A number with a name and, as a phrase, a meaning."""

    meaning: str

    def __new__(cls, number: int, meaning: str = "") -> Self:
        """Return a member."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.meaning = meaning
        return member


class Kind(enum.Enum):
    """What a field holds."""

    NUMBER = "number"
    VALUE = "value"
    CHOICE = "choice"
    FLAG = "flag"
    SCALAR = "scalar register"
    ROW = "row register"
    VECTOR = "vector register"
    REGISTER = "vector or row register"
    TARGET = "target"


_PREFIX = {Kind.SCALAR: "s", Kind.ROW: "r", Kind.VECTOR: "v"}


@dataclass(frozen=True)
class Field:
    """One field of an instruction.

    Attributes
    ----------
    name
        Name, unique within the instruction.
    kind
        What it holds.
    bits
        Width of the number; for a `Kind.VALUE` of the immediate.
    description
        What it means, as a phrase.
    default
        What it is if nothing is said; None if something must be.
    signed
        Whether the number is a two's complement one.
    choices
        Names of the numbers of a `Kind.CHOICE`.
    count
        How many numbers there are, from 0 on, if fewer than fit.
    """

    name: str
    kind: Kind
    bits: int
    description: str
    default: Any = None
    signed: bool = False
    choices: type[Choice] | None = None
    count: int | None = None

    @property
    def width(self) -> int:
        """Bits in the instruction."""
        if self.kind is Kind.VALUE:
            return 1 + max(self.bits, REGISTER_BITS)
        return self.bits

    @property
    def range(self) -> range:
        """Numbers that may stand here."""
        if self.signed:
            return range(-(1 << self.bits - 1), 1 << self.bits - 1)
        return range(self.count or 1 << self.bits)

    @property
    def numbers(self) -> str:
        """The same in words."""
        prefix = _PREFIX.get(self.kind, "")
        return f"{prefix}{self.range.start} to {prefix}{self.range.stop - 1}"

    @property
    def allowed(self) -> str:
        """What may stand here, as the end of the sentence "it must be ..."."""
        if self.choices is not None:
            return " or ".join(choice.name.lower() for choice in self.choices)
        return self.numbers + (" or a scalar register" if self.kind is Kind.VALUE else "")

    def check(self, value: Any) -> None:
        """Raise `IllegalInstruction` unless `value` can stand here."""
        if isinstance(value, S):
            legal = self.kind in (Kind.VALUE, Kind.SCALAR)
            legal &= value.number in range(1 << REGISTER_BITS)
        elif not isinstance(value, Integral):
            legal = False
        elif self.choices is not None:
            legal = value in set(self.choices)
        else:
            legal = self.kind is not Kind.SCALAR and int(value) in self.range
        if not legal:
            raise IllegalInstruction(f"{self.name} is {value}; it must be {self.allowed}.")

    def pack(self, value: Any) -> int:
        """Return the bits of a value."""
        if isinstance(value, S):
            return value.number << 1 | 1 if self.kind is Kind.VALUE else value.number
        bits = int(value) & (1 << self.bits) - 1
        return bits << 1 if self.kind is Kind.VALUE else bits

    def unpack(self, bits: int) -> Any:
        """Return the value of some bits; the inverse of `pack`.

        Raises
        ------
        IllegalInstruction
            If they are no value that can stand here.
        """
        value: Any = bits
        if self.kind is Kind.SCALAR:
            value = S(bits)
        elif self.kind is Kind.VALUE:
            value = S(bits >> 1) if bits & 1 else bits >> 1
        if self.signed and not isinstance(value, S) and value >> self.bits - 1:
            value -= 1 << self.bits
        self.check(value)
        if self.choices is not None:
            return self.choices(value)
        return bool(value) if self.kind is Kind.FLAG else value

    def text(self, value: Any) -> str:
        """Return a value for people."""
        if isinstance(value, S):
            return str(value)
        if isinstance(value, Choice):
            return value.name.lower()
        if self.kind is Kind.FLAG:
            return str(int(value))
        if self.kind in _PREFIX:
            return f"{_PREFIX[self.kind]}{value}"
        return hex(value) if self.bits == WORD_BITS and value >= 1 << 12 else str(value)


@dataclass(frozen=True)
class Opcode:
    """One row of the table.

    Attributes
    ----------
    name
        Mnemonic.
    number
        What stands in the lowest eight bits.
    engine
        Who executes it.
    description
        What it does; a sentence or more.
    fields
        In the order of their bits.
    """

    name: str
    number: int
    engine: str
    description: str
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        assert len(self.names) == len(self.fields), f"{self.name} has two fields of one name"

    @cached_property
    def words(self) -> int:
        """Words of the instruction."""
        bits = OPCODE_BITS + sum(field.width for field in self.fields)
        return -(-bits // WORD_BITS)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the fields."""
        return frozenset(field.name for field in self.fields)

    def __call__(self, **values: Any) -> Instruction:
        """Return an instruction; fields left out have their defaults.

        Raises
        ------
        IllegalInstruction
            If a field is unknown, missing or has a value it cannot have.
        """
        for name in values:
            if name not in self.names:
                raise IllegalInstruction(f"{self.name} has no field {name}.")
        complete = {}
        for field in self.fields:
            value = values.get(field.name, field.default)
            if value is None:
                raise IllegalInstruction(f"{self.name} needs a {field.name}.")
            try:
                field.check(value)
            except IllegalInstruction as error:
                raise IllegalInstruction(f"In {self.name}, {error}") from None
            complete[field.name] = field.unpack(field.pack(value))
        return Instruction(self, complete)

    def encode(self, values: Mapping[str, Any]) -> list[int]:
        """Return the words of an instruction."""
        bits, at = self.number, OPCODE_BITS
        for field in self.fields:
            bits |= field.pack(values[field.name]) << at
            at += field.width
        mask = (1 << WORD_BITS) - 1
        return [bits >> WORD_BITS * word & mask for word in range(self.words)]

    def decode(self, words: Sequence[int]) -> Instruction:
        """Return the instruction of some words, the inverse of `encode`.

        Raises
        ------
        IllegalInstruction
            If there are too few words, or a field holds what it cannot hold.
        """
        if len(words) < self.words:
            raise IllegalInstruction(
                f"{self.name} takes {self.words} words; the program ends after {len(words)}."
            )
        bits = sum(word << WORD_BITS * i for i, word in enumerate(words[: self.words]))
        bits >>= OPCODE_BITS
        values = {}
        for field in self.fields:
            try:
                values[field.name] = field.unpack(bits & (1 << field.width) - 1)
            except IllegalInstruction as error:
                raise IllegalInstruction(f"In {self.name}, {error}") from None
            bits >>= field.width
        if bits:
            raise IllegalInstruction(f"In {self.name}, bits behind the last field are not 0.")
        return Instruction(self, values)


@dataclass(frozen=True)
class Instruction:
    """An instruction with all its fields.

    Attributes
    ----------
    opcode
        Row of the table.
    values
        Every field by name.
    """

    opcode: Opcode
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Mnemonic."""
        return self.opcode.name

    @property
    def words(self) -> list[int]:
        """The encoding, 32-bit words."""
        return self.opcode.encode(self.values)

    def __str__(self) -> str:
        """Return mnemonic and fields; those that have their default are left out."""
        shown = [
            f"{field.name}={field.text(self.values[field.name])}"
            for field in self.opcode.fields
            if field.default is None or self.values[field.name] != field.default
        ]
        return " ".join([self.name, *shown])
