"""Measured figures: what a bench reports, as a table for people and as JSON for machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from rtl.config import TileConfig


@dataclass(frozen=True)
class Figure:
    """One measured value.

    Attributes
    ----------
    name
        Fixed name, such as ``mac.gemm``.
    value
        What was measured.
    unit
        Unit of value, bound and target; empty for a ratio.
    workload
        What ran, as a phrase.
    bound
        What no design could surpass, where that is known.
    target
        What the project promises, where it promises something.
    at_most
        Whether `target` is a ceiling; otherwise it is a floor.

    Raises
    ------
    ValueError
        A number is not finite.
    """

    name: str
    value: float
    unit: str
    workload: str
    bound: float | None = None
    target: float | None = None
    at_most: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        for number in (self.value, self.bound, self.target):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"figure {self.name} is {number}; it must be a finite number.")

    @property
    def met(self) -> bool:
        """Whether the target is reached; true where there is none."""
        if self.target is None:
            return True
        return self.value <= self.target if self.at_most else self.value >= self.target

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain JSON values."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "bound": self.bound,
            "target": self.target,
            "met": self.met,
            "workload": self.workload,
        }


@dataclass(frozen=True)
class Report:
    """The figures of one bench on one configuration.

    Attributes
    ----------
    bench
        Name of the bench.
    config
        Configuration it measured.
    figures
        What it found, in its own order.
    """

    bench: str
    config: TileConfig
    figures: tuple[Figure, ...]

    @property
    def met(self) -> bool:
        """Whether every target is reached."""
        return all(figure.met for figure in self.figures)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "bench": self.bench,
            "configuration": self.config.to_dict(),
            "hash": self.config.hash,
            "figures": [figure.to_dict() for figure in self.figures],
        }

    def to_table(self) -> Table:
        """Return the report as a table for `rich`."""
        table = Table(title=f"{self.bench}, configuration {self.config.hash}", title_justify="left")
        table.add_column("figure", no_wrap=True)
        for name in ("value", "unit", "target", "met", "bound"):
            table.add_column(name, justify="left" if name in ("unit", "met") else "right")
        table.add_column("workload")
        for figure in self.figures:
            sign = "≤" if figure.at_most else "≥"
            table.add_row(
                figure.name,
                format_number(figure.value),
                figure.unit,
                "" if figure.target is None else f"{sign} {format_number(figure.target)}",
                "" if figure.target is None else "yes" if figure.met else "[bold red]no[/]",
                "" if figure.bound is None else format_number(figure.bound),
                figure.workload,
            )
        return table


def report(bench: str, config: TileConfig, figures: Sequence[Figure]) -> Report:
    """Return the report of `figures`."""
    return Report(bench, config, tuple(figures))


def format_number(number: float) -> str:
    """Return a number with four digits that matter, or all of those before the point."""
    whole = float(number).is_integer() or abs(number) >= 1000
    return f"{number:,.0f}" if whole else f"{number:.4g}"
