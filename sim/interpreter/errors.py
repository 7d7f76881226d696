"""What can go wrong in a program."""

from __future__ import annotations

import itertools


class Fault(ValueError):
    """An instruction cannot be executed; the message says why, without saying where."""


def check_apart(prefix: str, **registers: int) -> None:
    """Raise `Fault` if two destinations are the same register."""
    for first, second in itertools.combinations(registers, 2):
        if registers[first] == registers[second]:
            raise Fault(f"{first} and {second} are both {prefix}{registers[first]}")


class ProgramError(ValueError):
    """A program was stopped; the message says why and where.

    Attributes
    ----------
    cause
        Why, as a sentence.
    tile
        Number of the tile.
    pc
        Word address of the instruction.
    instruction
        The instruction as text; empty where there is none.
    """

    def __init__(self, cause: str, tile: int, pc: int, instruction: str = "") -> None:
        where = f"tile {tile}, pc {pc}" + (f", {instruction}" if instruction else "")
        cause = cause.rstrip(".")
        super().__init__(f"{cause} ({where}).")
        self.cause, self.tile, self.pc, self.instruction = f"{cause}.", tile, pc, instruction
