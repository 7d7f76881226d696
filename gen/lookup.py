"""Finding things by name, with a hint where there is no such thing."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

Thing = TypeVar("Thing")


class UnknownName(ValueError):
    """There is nothing of that name; the message is one sentence that says what there is."""


def lookup(kind: str, things: Mapping[str, Thing], name: str) -> Thing:
    """Return the thing called `name`.

    Parameters
    ----------
    kind
        What the things are, for the message.
    things
        What there is, by name.
    name
        What is wanted.

    Raises
    ------
    UnknownName
        There is none.
    """
    if name not in things:
        near = difflib.get_close_matches(name, things, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(things)}."
        raise UnknownName(f"There is no {kind} {name}; {hint}")
    return things[name]
