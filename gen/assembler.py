"""Writing programs: instructions, labels, registers to take and give back, a listing to read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtl.core.fields import Instruction, S
from rtl.core.isa import OPCODES, ROWS, SCALARS, VECTORS


class RegistersExhausted(ValueError):
    """A program needs more registers of a kind than there are."""


@dataclass(eq=False)
class Label:
    """A place in a program, known when it is placed.

    Attributes
    ----------
    name
        For the listing.
    address
        Word address; None before it is placed.
    """

    name: str
    address: int | None = None


@dataclass(frozen=True)
class Line:
    """One instruction of a program.

    Attributes
    ----------
    address
        Its word address.
    instruction
        What it is.
    phase
        What it is part of.
    """

    address: int
    instruction: Instruction
    phase: str


@dataclass(frozen=True)
class Program:
    """A finished program.

    Attributes
    ----------
    lines
        Its instructions, in order.
    labels
        Names of word addresses.
    """

    lines: tuple[Line, ...]
    labels: dict[int, str]

    @property
    def words(self) -> list[int]:
        """The encoding, 32-bit words."""
        return [word for line in self.lines for word in line.instruction.words]

    def listing(self) -> str:
        """Return the program for people: addresses, labels, phases, instructions."""
        text = []
        phase = ""
        for line in self.lines:
            if line.address in self.labels:
                text.append(f"{self.labels[line.address]}:")
            if line.phase != phase:
                phase = line.phase
                text.append(f"        ; {phase}")
            target = line.instruction.values.get("target")
            note = f"  ; to {self.labels[target]}" if target in self.labels else ""
            text.append(f"{line.address:6}  {line.instruction}{note}")
        return "\n".join(text) + "\n"


class Pool:
    """Registers of one kind that can be taken and given back.

    Parameters
    ----------
    kind
        What they are called in messages.
    numbers
        Which there are.
    """

    def __init__(self, kind: str, numbers: range) -> None:
        self.kind, self.count = kind, len(numbers)
        self._free = list(numbers)
        self.least = len(numbers)
        """Fewest that were free."""

    def take(self) -> int:
        """Return a register that nobody has.

        Raises
        ------
        RegistersExhausted
            If there is none.
        """
        if not self._free:
            raise RegistersExhausted(
                f"The program needs more than the {self.count} {self.kind} registers there are."
            )
        number = self._free.pop(0)
        self.least = min(self.least, len(self._free))
        return number

    def give(self, *numbers: int) -> None:
        """Give registers back."""
        for number in numbers:
            assert number not in self._free, f"{self.kind} {number} is given back twice"
            # The one that was free longest is taken next: the hardware renames, but a listing in
            # which every register means one thing for long is easier to read.
            self._free.append(number)


class Assembler:
    """Collects instructions.

    Attributes
    ----------
    vectors, rows
        Pools of vector and row registers.
    phase
        What the instructions that follow are part of.
    """

    def __init__(self) -> None:
        self.vectors = Pool("vector", range(VECTORS))
        self.rows = Pool("row", range(ROWS))
        self.phase = ""
        self._scalars = Pool("scalar", range(1, SCALARS))
        self._instructions: list[tuple[str, dict[str, Any], str]] = []
        self._labels: list[Label] = []
        self._address = 0

    def emit(self, name: str, **values: Any) -> None:
        """Add an instruction; fields left out have their defaults.

        Parameters
        ----------
        name
            Mnemonic.
        **values
            Fields: numbers, scalar registers (`S`), choices, labels, and FP32 constants as numpy
            float32, which become their bits.

        Raises
        ------
        IllegalInstruction
            If a field is unknown, missing or has a value it cannot have.
        """
        values = {
            key: int(value.view(np.uint32)) if isinstance(value, np.float32) else value
            for key, value in values.items()
        }
        opcode = OPCODES[name]
        # Targets are known later; everything else is checked now, where the mistake is.
        opcode(**{key: 0 if isinstance(value, Label) else value for key, value in values.items()})
        self._instructions.append((name, values, self.phase))
        self._address += opcode.words

    def label(self, name: str) -> Label:
        """Return a label that is not placed yet."""
        return Label(name)

    def place(self, label: Label) -> None:
        """Let a label mean the instruction that follows."""
        assert label.address is None, f"{label.name} is placed twice"
        label.address = self._address
        self._labels.append(label)

    def here(self, name: str) -> Label:
        """Return a label that means the instruction that follows."""
        label = self.label(name)
        self.place(label)
        return label

    def scalar(self) -> S:
        """Take a scalar register."""
        return S(self._scalars.take())

    def free(self, *registers: S) -> None:
        """Give scalar registers back."""
        self._scalars.give(*(register.number for register in registers))

    @contextmanager
    def scalars(self, count: int) -> Iterator[list[S]]:
        """Take scalar registers for a while."""
        taken = [self.scalar() for _ in range(count)]
        yield taken
        self.free(*taken)

    def constant(self, to: S, value: int) -> None:
        """Put a constant, signed or not, into a scalar register."""
        if -4096 <= value < 4096:
            self.emit("add", to=to, a=S(0), b=value)
        else:
            negative = -(1 << 31) <= value < 0
            self.emit("const", to=to, value=value + (1 << 32 if negative else 0))

    def add(self, to: S, a: S, b: S | int) -> None:
        """``to = a + b`` for any constant b."""
        if isinstance(b, S) or -4096 <= b < 4096:
            self.emit("add", to=to, a=a, b=b)
        else:
            with self.scalars(1) as (constant,):
                self.emit("const", to=constant, value=b & 0xFFFFFFFF)
                self.emit("add", to=to, a=a, b=constant)

    def multiply(self, to: S, a: S, b: int) -> None:
        """``to = a * b`` for any constant b, as a shift where that is enough."""
        if b > 0 and b & b - 1 == 0:
            self.emit("shl", to=to, a=a, b=b.bit_length() - 1)
        elif -4096 <= b < 4096:
            self.emit("mul", to=to, a=a, b=b)
        else:
            with self.scalars(1) as (constant,):
                self.emit("const", to=constant, value=b & 0xFFFFFFFF)
                self.emit("mul", to=to, a=a, b=constant)

    def jump(self, target: Label) -> None:
        """Go to a label."""
        self.emit("beq", a=S(0), b=0, target=target)

    def finish(self) -> Program:
        """Return the program.

        Raises
        ------
        ValueError
            If a label is used and not placed.
        """
        lines = []
        address = 0
        for name, values, phase in self._instructions:
            resolved = {
                key: _resolved(value) if isinstance(value, Label) else value
                for key, value in values.items()
            }
            instruction = OPCODES[name](**resolved)
            lines.append(Line(address, instruction, phase))
            address += instruction.opcode.words
        labels = {label.address: label.name for label in self._labels if label.address is not None}
        return Program(tuple(lines), labels)


def _resolved(label: Label) -> int:
    if label.address is None:
        raise ValueError(f"The label {label.name} is not placed.")
    return label.address
