"""A report on results of sweeps: a page, pictures and a table."""

from __future__ import annotations

from sim.report.write import write

__all__ = ["write"]
