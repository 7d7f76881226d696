"""What an instruction has overwritten: a faulty one leaves everything as it was."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


class Journal:
    """Writes to arrays and remembers what was there, until it is told to forget."""

    def __init__(self) -> None:
        self._old: list[tuple[NDArray[Any], Any, NDArray[Any]]] = []

    def write(self, array: NDArray[Any], where: Any, values: Any) -> None:
        """Do ``array[where] = values``."""
        self._old.append((array, where, array[where].copy()))
        array[where] = values

    def forget(self) -> None:
        """Let everything that was written stay."""
        self._old.clear()

    def undo(self) -> None:
        """Put back everything that was overwritten."""
        for array, where, old in reversed(self._old):
            array[where] = old
        self.forget()
