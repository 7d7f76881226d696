"""What can go wrong in a program."""

from __future__ import annotations


class Fault(ValueError):
    """An instruction cannot be executed; the message says why, without saying where."""


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
        super().__init__(f"{cause.rstrip('.')} ({where}).")
        self.cause, self.tile, self.pc, self.instruction = cause, tile, pc, instruction
