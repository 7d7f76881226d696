"""What the scalar unit computes: plain integers of 32 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

WORD = 0xFFFFFFFF


def signed(value: int) -> int:
    """Return a 32-bit number as a signed one."""
    return (value & WORD) - ((value & 0x80000000) << 1)


ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << (b & 31),
    "shr": lambda a, b: (a & WORD) >> (b & 31),
    "min": lambda a, b: min(signed(a), signed(b)),
    "max": lambda a, b: max(signed(a), signed(b)),
}
"""Results, to be taken modulo 2^32."""

BRANCHES: Mapping[str, Callable[[int, int], bool]] = {
    "beq": lambda a, b: a & WORD == b & WORD,
    "bne": lambda a, b: a & WORD != b & WORD,
    "blt": lambda a, b: signed(a) < signed(b),
    "bge": lambda a, b: signed(a) >= signed(b),
}
"""Conditions."""
