"""How the controller decides where the timing leaves a choice."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.lib import data

from rtl.hbm.refresh import PERIOD_BITS
from rtl.hbm.timing import Timing

HIGH = 80
BATCH = 128
READ_BATCH = 32
PATIENCE = 1024

REFRESH_SLACK = 8
"""Cycles for which others may hold up each command of a refresh."""


class PolicyLayout(data.StructLayout):
    """What can be set.

    Fields
    ------
    high, read_batch, batch, patience
        See `rtl.hbm.columns.Columns`; `high` is how many writes are many.
    period, late, last, together
        See `rtl.hbm.refresh.Refresher`.
    unprotected
        Check bits are not looked at, and words may be written in part.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "high": 7,
                "read_batch": 8,
                "batch": 8,
                "patience": 12,
                "period": PERIOD_BITS,
                "late": PERIOD_BITS,
                "last": PERIOD_BITS,
                "together": 1,
                "unprotected": 1,
            }
        )


def refresh_times(timing: Timing) -> Mapping[str, int]:
    """Return `late` and `last` for a timing set.

    At the end there is time to refresh every bank, one after the other, each from the middle of a
    write.
    """
    each = timing.wr_to_pre + timing.rp + timing.rrefd + REFRESH_SLACK
    return {
        "late": timing.refi * 6 // 10,
        "last": max(0, timing.refi - timing.banks * each),
    }
