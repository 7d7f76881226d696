"""Which registers an instruction touches: one table for whoever keeps instructions apart.

Conditions are made of comparisons, ``&`` and ``|`` only, so that they hold for numbers and for
hardware alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from rtl.core.isa import Collective, Operand, Output, Place, Reduction, Step


def _always(o: Any) -> Any:
    return 1


def _never(o: Any) -> Any:
    return 0


class Use(NamedTuple):
    """A register field of an instruction, and how it is used.

    Attributes
    ----------
    field
        Its name.
    writes
        Whether the register is written, or else read.
    when
        Whether it is used at all, given the fields.
    in_rows
        Whether it is a row register, or else a vector register.
    keeps
        Of a vector register that is written: what the instruction does not write stays, so that
        it is no new one.
    """

    field: str
    writes: bool = False
    when: Callable[[Any], Any] = _always
    in_rows: Callable[[Any], Any] = _never
    keeps: Callable[[Any], Any] = _always


def _reads(field: str, when: Callable[[Any], Any] = _always) -> Use:
    return Use(field, when=when)


def _reads_row(field: str, when: Callable[[Any], Any] = _always) -> Use:
    return Use(field, when=when, in_rows=_always)


def _writes(
    field: str,
    when: Callable[[Any], Any] = _always,
    keeps: Callable[[Any], Any] = lambda o: o.into == 1,
) -> Use:
    return Use(field, True, when, keeps=keeps)


def _writes_row(field: str, when: Callable[[Any], Any] = _always) -> Use:
    return Use(field, True, when, _always)


def _rotates(o: Any) -> Any:
    return (o.c_step == Step.ROTATE_ADJACENT) | (o.c_step == Step.ROTATE_HALVES)


def _sums(o: Any) -> Any:
    return (o.reduction == Reduction.SUM) | (o.reduction == Reduction.SQUARES)


def _suspends(o: Any) -> Any:
    return _sums(o) & (o.suspend == 1)


def _blocks(o: Any) -> Any:
    return (o.output == Output.MXFP4) | (o.output == Output.MXINT8)


def _operand(which: str) -> Use:
    """Return how the operand of a step is used; that of step d also by a rotation."""

    def when(o: Any) -> Any:
        used = getattr(o, f"{which}_step") != Step.NONE
        if which == "d":
            used = used | _rotates(o)
        return used & (getattr(o, f"{which}_operand") != Operand.CONSTANT)

    def in_rows(o: Any) -> Any:
        kind = getattr(o, f"{which}_operand")
        return (kind == Operand.ROW) | (kind == Operand.ROW_HEAD) | (kind == Operand.ROW_TOKEN)

    return Use(which, when=when, in_rows=in_rows)


def _moves(place: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda o: (o.kind != Collective.BARRIER) & place(o)


USES: Mapping[str, tuple[Use, ...]] = MappingProxyType(
    {
        "readv": (_reads("source"),),
        "readr": (_reads_row("source"),),
        "match": (_reads("source"),),
        "load": (_writes("to"),),
        "loadr": (_writes_row("to"),),
        "store": (_reads("source"),),
        "append": (_reads("source"),),
        "appendmax": (_reads_row("source"),),
        "matrix": (
            _reads("source"),
            _reads_row("maxima"),
            _reads_row("best", lambda o: (o.argmax == 1) & (o.argmax_resume == 1)),
            _reads_row("best_index", lambda o: (o.argmax == 1) & (o.argmax_resume == 1)),
            _writes("to", lambda o: (o.results == 1) & (o.drain == 1)),
            _writes_row("best", lambda o: (o.argmax == 1) & (o.drain == 1)),
            _writes_row("best_index", lambda o: (o.argmax == 1) & (o.drain == 1)),
        ),
        "vector": (
            Use("a", when=lambda o: o.b_step != Step.TAKE, in_rows=lambda o: o.a_row == 1),
            _operand("b"),
            _operand("c"),
            _operand("d"),
            _reads("partials", lambda o: _sums(o) & (o.resume == 1)),
            _reads_row("initial", lambda o: (o.reduction == Reduction.MAXIMUM) & (o.resume == 1)),
            _reads_row("maxima", lambda o: _blocks(o) & (o.maximal == 1) & (o.maxima_resume == 1)),
            _writes("partials", _suspends, keeps=lambda o: o.resume == 1),
            _writes_row("total", lambda o: (o.reduction != Reduction.NONE) & (_suspends(o) == 0)),
            _writes_row("maxima", lambda o: _blocks(o) & (o.maximal == 1)),
            _writes("to", lambda o: (o.output == Output.WORDS) | _blocks(o)),
            _writes_row("to", lambda o: o.output == Output.ROW),
        ),
        "topk": (
            _reads("a"),
            _reads("carried", lambda o: o.carry == 1),
            _writes("indices"),
            _writes("values"),
        ),
        "collective": (
            _reads("source", _moves(lambda o: o.place != Place.MEMORY)),
            _writes("to", _moves(lambda o: o.place != Place.MEMORY)),
        ),
        "send": (_reads("source"),),
        "receive": (
            _writes("to"),
            _writes_row("envelope", lambda o: (o.any_tile == 1) | (o.any_tag == 1)),
        ),
        "remote": (_writes("to"),),
    }
)
"""What instructions do with registers, by mnemonic; scalar registers apart."""
