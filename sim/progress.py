"""Progress that long work reports and the command line shows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Advance = Callable[[float], None]
"""Report that so many more steps are done."""


class ProgressReporter(Protocol):
    """Where long work says how far it is."""

    def task(
        self, description: str, total: float | None = None
    ) -> contextlib.AbstractContextManager[Advance]:
        """Begin a task of `total` steps, or of unknown length, that ends with the context."""


class NoProgress:
    """Shows nothing."""

    @contextlib.contextmanager
    def task(self, description: str, total: float | None = None) -> Iterator[Advance]:
        """Begin a task."""
        yield lambda steps: None


class BarProgress:
    """Shows a bar per running task, which vanishes when it ends; nothing outside a terminal.

    Parameters
    ----------
    console
        Where to show them: standard error, so that they never mix with results.
    """

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._running = 0

    @contextlib.contextmanager
    def task(self, description: str, total: float | None = None) -> Iterator[Advance]:
        """Begin a task."""
        if self._running == 0:
            self._bars.start()
        self._running += 1
        identifier = self._bars.add_task(description, total=total)
        try:
            yield lambda steps: self._bars.advance(identifier, steps)
        finally:
            self._bars.remove_task(identifier)
            self._running -= 1
            if self._running == 0:
                self._bars.stop()
