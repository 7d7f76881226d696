"""What running a workload gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outcome:
    """A workload that ran and gave what it should.

    Attributes
    ----------
    cycles
        Clock cycles that it took.
    least_cycles
        What the configuration's memory, array or links allow at best; 0 where that is not known.
    limit
        Which of these it is.
    work, work_unit
        How much was processed, and of what.
    compared
        Values that were compared with what is expected.
    operations
        Useful multiply-accumulates, times 4x4-bit planes; 0 where there is no array.
    needed_bytes
        What must move from memory at least; 0 where there is none.
    events
        Counted events, by the names of `sim.sweep.energy.EVENTS`.
    figures
        Whatever else was counted, by name.
    """

    cycles: int
    least_cycles: float
    limit: str
    work: float
    work_unit: str
    compared: int
    operations: int = 0
    needed_bytes: float = 0
    events: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
