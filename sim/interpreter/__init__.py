"""The sequential interpreter: what a program does to registers and memory, exactly.

It is the golden model's third layer: it knows instructions, and computes with `sim.golden`. The
hardware, which does many things at once and out of order, must end in the same state.
"""

from sim.interpreter.errors import ProgramError
from sim.interpreter.machine import Machine, run
from sim.interpreter.memory import Memory
from sim.interpreter.tile import Tile

__all__ = ["Machine", "Memory", "ProgramError", "Tile", "run"]
