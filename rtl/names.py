"""Rules for the names of registers, fields and counters, which end up in Verilog and in C."""

from __future__ import annotations

import re
from collections.abc import Iterable


def check_name(name: str, kind: str) -> None:
    """Refuse a name that is not lower-case words joined by single underscores.

    Two underscores separate the levels of a path in Verilog.

    Raises
    ------
    ValueError
        `name` is no such name; the sentence says what `kind` of thing it names.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise ValueError(
            f'{kind} "{name}" must be named by lower-case words joined by single underscores.'
        )


def check_unique(names: Iterable[str], kind: str) -> None:
    """Refuse a name that occurs twice.

    Raises
    ------
    ValueError
        It does; the sentence says among which `kind` of things.
    """
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"two {kind} are called {name}.")
        seen.add(name)
