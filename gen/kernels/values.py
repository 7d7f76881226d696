"""What kernels hand to each other: rows spread over registers, and the chunk they belong to."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from gen.assembler import Assembler
from gen.kernels.plan import Plan
from gen.kernels.stored import Stored
from rtl.core.fields import S
from rtl.core.isa import SLOT, MatrixFormat, Output, Rule, Step
from rtl.formats import Format, ScaleRule

Phases = Generator[None, None, Any]
"""A kernel: it writes instructions and yields where those of another chunk may come between."""

MATRIX = {Format.MXFP4: MatrixFormat.MXFP4, Format.MXINT8: MatrixFormat.MXINT8}
OUTPUT = {Format.MXFP4: Output.MXFP4, Format.MXINT8: Output.MXINT8}
LDEXP = {Format.MXFP4: Step.LDEXP_MXFP4, Format.MXINT8: Step.LDEXP_MXINT8}
RULE = {ScaleRule.FLOOR: Rule.FLOOR, ScaleRule.CEIL: Rule.CEIL}


def slots(columns: int) -> int:
    """Return the slots that hold so many words."""
    return -(-columns // SLOT)


@dataclass(frozen=True)
class Part:
    """Some columns of a value, in one vector register.

    Attributes
    ----------
    register
        Vector register.
    start, columns
        Which columns.
    """

    register: int
    start: int
    columns: int

    @property
    def stride(self) -> int:
        """Slots from one row to the next."""
        return slots(self.columns)


@dataclass(frozen=True)
class Columns:
    """FP32 rows [tokens, width], their columns spread over registers."""

    parts: tuple[Part, ...]

    def free(self, a: Assembler) -> None:
        """Give the registers back."""
        a.vectors.give(*(part.register for part in self.parts))


@dataclass(frozen=True)
class BlockPart:
    """Some blocks of a quantised value, in one vector register.

    Attributes
    ----------
    register
        Vector register.
    start, blocks
        Which blocks.
    """

    register: int
    start: int
    blocks: int


@dataclass(frozen=True)
class Blocks:
    """Quantised rows [tokens, blocks], spread over registers.

    Attributes
    ----------
    parts
        Where the blocks are; rows of a part are `blocks` apart.
    maxima
        Row register with the greatest scale of each token.
    format
        Element format.
    """

    parts: tuple[BlockPart, ...]
    maxima: int
    format: Format

    def find(self, block: int) -> tuple[BlockPart, int]:
        """Return the part that has a block, and the block's place in there."""
        part = next(p for p in self.parts if p.start <= block < p.start + p.blocks)
        return part, block - part.start

    def free(self, a: Assembler) -> None:
        """Give the registers back."""
        a.vectors.give(*(part.register for part in self.parts))
        a.rows.give(self.maxima)


@dataclass
class Chunk:
    """Tokens that go through the model together.

    Attributes
    ----------
    rows
        How many there are, at most `Plan.tokens`.
    position
        Position of the first.
    index
        Index of the first among the tokens of the request.
    x
        Residual stream.
    squares
        Row register with the sum of its squares.
    cos, sin
        Vector registers with what heads are rotated with, a row per token; two, so that both can
        be read at once.
    """

    rows: S
    position: S
    index: S
    x: Columns
    squares: int
    cos: int
    sin: int


@dataclass(frozen=True)
class Kernel:
    """What every kernel needs.

    Attributes
    ----------
    a
        Where instructions go.
    plan
        Sizes.
    stored
        Where everything is.
    weights, cache
        Scalar registers with the first bytes of the layer's weights and KV cache.
    partials
        Vector register for sums that go through several instructions.
    """

    a: Assembler
    plan: Plan
    stored: Stored
    weights: S
    cache: S
    partials: int

    def take_columns(self, width: int) -> Columns:
        """Take registers for FP32 rows."""
        parts = self.plan.parts(width)
        return Columns(tuple(Part(self.a.vectors.take(), *part) for part in parts))

    def take_blocks(self, blocks: int, unit: int, fmt: Format) -> Blocks:
        """Take registers for quantised rows."""
        parts = self.plan.block_parts(blocks, unit)
        taken = tuple(BlockPart(self.a.vectors.take(), *part) for part in parts)
        return Blocks(taken, self.a.rows.take(), fmt)
