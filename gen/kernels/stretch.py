"""Which positions the tokens of a chunk see, and loops over them a stretch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gen.assembler import Assembler
from gen.kernels.plan import Heads
from gen.kernels.stored import UNLIMITED
from gen.kernels.values import Chunk
from rtl.core.fields import S


@dataclass(frozen=True)
class Visible:
    """What the tokens of a chunk see: ``lo <= position < hi`` of token 0, one more per token.

    Attributes
    ----------
    lo, hi
        Scalar registers; lo is a constant where there is no window.
    """

    lo: S | int
    hi: S

    def free(self, a: Assembler) -> None:
        """Give the registers back."""
        a.free(*(value for value in (self.lo, self.hi) if isinstance(value, S)))

    def fields(self) -> dict[str, S | int | bool]:
        """Return the fields of a range of positions."""
        return {"lo": self.lo, "hi": self.hi, "range_step": True}


@dataclass(frozen=True)
class Stretch:
    """Positions that some tokens see, or a part of them.

    Attributes
    ----------
    rows
        Tokens there are.
    lo, hi
        What token 0 sees; one more for each further token.
    start, span
        First position, a multiple of `Heads.step`, and how many.
    """

    rows: S
    lo: S | int
    hi: S
    start: S | int
    span: S

    def free(self, a: Assembler) -> None:
        """Give the registers back."""
        a.free(*(value for value in vars(self).values() if isinstance(value, S)))


def visible(a: Assembler, c: Chunk, window: S | None) -> Visible:
    """Write what the tokens of a chunk see.

    Parameters
    ----------
    a, c
        Where to write, and the chunk.
    window
        Scalar register with the window, which becomes that of lo.
    """
    hi = a.scalar()
    a.add(hi, c.position, 1)
    if window is None:
        return Visible(-UNLIMITED, hi)  # lo grows with the token, and must stay below 0
    a.emit("sub", to=window, a=hi, b=window)
    return Visible(window, hi)


def stretch_from(a: Assembler, c: Chunk, cut: Heads, seen: Visible, token: int) -> Stretch:
    """Write what a pass sees.

    Parameters
    ----------
    a, c, cut
        Where to write, the chunk, and how its heads are cut.
    seen
        What the chunk sees.
    token
        First token of the pass.
    """
    rows, hi, span = a.scalar(), a.scalar(), a.scalar()
    a.add(rows, c.rows, -token)
    with a.scalars(1) as (most,):
        a.constant(most, cut.pass_tokens)
        a.emit("min", to=rows, a=most, b=rows)
    a.add(hi, seen.hi, token)
    # The last token sees one position more than the one before it.
    a.emit("add", to=span, a=hi, b=rows)
    a.add(span, span, -1)
    if not isinstance(seen.lo, S):
        return Stretch(rows, seen.lo, hi, 0, span)
    lo, start = a.scalar(), a.scalar()
    a.add(lo, seen.lo, token)
    # A window of nothing is a stretch of one position that nobody sees.
    with a.scalars(1) as (last,):
        a.add(last, span, -1)
        a.emit("min", to=start, a=lo, b=last)
    a.emit("max", to=start, a=start, b=0)
    a.emit("and", to=start, a=start, b=-cut.step)
    a.emit("sub", to=span, a=span, b=start)
    return Stretch(rows, lo, hi, start, span)


def stretches(a: Assembler, whole: Stretch, size: int, name: str) -> Iterator[tuple[Stretch, bool]]:
    """Write a loop over parts of a stretch, its first turn apart.

    Parameters
    ----------
    a, whole
        Where to write, and all positions; more than `size`.
    size
        Positions of a part.
    name
        Of the label.

    Yields
    ------
    part : Stretch
        What the turn is about.
    first : bool
        Whether it is the first.
    """
    start, left = _begin(a, whole)
    with a.scalars(1) as (span,):
        part = replace(whole, start=start, span=span)
        a.constant(span, size)
        yield part, True
        _advance(a, start, left, size)
        loop = a.here(name)
        a.constant(span, size)
        a.emit("min", to=span, a=span, b=left)
        yield part, False
        _advance(a, start, left, size)
        with a.scalars(1) as (zero,):
            a.constant(zero, 0)
            a.emit("blt", a=zero, b=left, target=loop)
    a.free(start, left)


def chained(
    a: Assembler, whole: Stretch, size: int, name: str
) -> Iterator[tuple[Stretch, bool, bool]]:
    """Write the same loop with its last turn apart as well.

    Yields
    ------
    part : Stretch
        What the turn is about.
    first, last : bool
        Whether it is the first or the last.
    """
    start, left = _begin(a, whole)
    with a.scalars(2) as (span, most):
        part = replace(whole, start=start, span=span)
        a.constant(span, size)
        yield part, True, False
        _advance(a, start, left, size)
        loop, last = a.here(name), a.label(f"{name}.last")
        a.constant(most, size)
        a.emit("bge", a=most, b=left, target=last)
        yield part, False, False
        _advance(a, start, left, size)
        a.jump(loop)
        a.place(last)
        a.emit("add", to=span, a=left, b=0)
        yield part, False, True
    a.free(start, left)


def _begin(a: Assembler, whole: Stretch) -> tuple[S, S]:
    """Write the first position and how many are left."""
    start, left = a.scalar(), a.scalar()
    if isinstance(whole.start, S):
        a.emit("add", to=start, a=whole.start, b=0)
    else:
        a.constant(start, whole.start)
    a.emit("add", to=left, a=whole.span, b=0)
    return start, left


def _advance(a: Assembler, start: S, left: S, size: int) -> None:
    a.add(start, start, size)
    a.add(left, left, -size)
