"""What an HBM slice counts."""

from __future__ import annotations

from rtl.counters import Counter

EVENTS = (
    Counter("reads", "RD commands, of two beats each"),
    Counter("writes", "WR commands, of two beats each"),
    Counter("row_hits", "RD and WR after another access to the row since it was opened"),
    Counter("activations", "ACT commands"),
    Counter("conflicts", "rows closed because another row of the bank was needed"),
    Counter("refreshes", "REFpb and REFab commands"),
    Counter("turns", "changes of direction of the data bus"),
    Counter("waits_for_row", "cycles in which accesses waited, all of them for their rows"),
    Counter("waits_for_bus", "cycles in which rows were open and only the column timing forbade"),
    Counter("waits_for_access", "cycles in which an access waited for another to the same place"),
    Counter("waits_for_room", "cycles in which an access waited for room in a queue"),
    Counter("partial_writes", "accesses that were read first because a word is written in part"),
    Counter("combined", "accesses that joined a write to the same place that waited"),
    Counter("out_of_range", "accesses that do not exist"),
    Counter("corrected", "beats with a corrected error"),
    Counter("uncorrected", "beats with an error that could not be corrected"),
)
"""Events of a pseudo-channel; those of all channels are added up."""


def counters(channels: int) -> tuple[Counter, ...]:
    """Return the counters of a slice."""
    summed = (
        Counter(event.name, event.description, step_bits=channels.bit_length()) for event in EVENTS
    )
    return (Counter("cycles", "clock cycles since reset"), *summed)
