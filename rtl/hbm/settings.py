"""The registers of an HBM slice, and what they must hold for a timing set."""

from __future__ import annotations

from collections.abc import Mapping

from rtl.hbm.distances import TIMER_BITS
from rtl.hbm.interface import ROW_BITS
from rtl.hbm.place import WITHIN_BITS
from rtl.hbm.policy import BATCH, HIGH, PATIENCE, READ_BATCH, refresh_times
from rtl.hbm.refresh import PERIOD_BITS
from rtl.hbm.timing import FIELDS, Timing
from rtl.registers import Access, Field, Register

UNUSED = ("cl", "postpone", "rotation")
"""Fields of a timing set that the controller need not know: data comes with a valid bit, and every
bank is refreshed once in each period."""

TIMING_FIELDS = tuple(name for name in FIELDS if name not in UNUSED)

_BITS = {"banks": 5, "bank_groups": 3, "wl": 6, "refi": PERIOD_BITS}
_PLACE_BITS = 5 + 4 + ROW_BITS + 1


def registers(timing: Timing, channels: int, *, ecc: bool) -> tuple[Register, ...]:
    """Return the registers; after reset they hold `timing`."""
    unprotected = Field(
        "unprotected",
        1,
        Access.READ_WRITE,
        "neither notice errors nor keep check bits right; may change only while not enabled",
    )
    reset = values(timing)

    def setting(name: str, description: str, bits: int) -> Register:
        field = Field("value", bits, Access.READ_WRITE, description, reset=reset[name])
        return Register(name, description, (field,))

    assert WITHIN_BITS == 3
    return (
        Register(
            "control",
            "what the slice does; the other settings may change only while it is not enabled",
            (
                Field("enable", 1, Access.READ_WRITE, "accept descriptors, and refresh", reset=1),
                Field("refresh_together", 1, Access.READ_WRITE, "use REFab instead of REFpb"),
                *((unprotected,) if ecc else ()),
            ),
        ),
        setting("rows", "rows of each bank; what lies behind does not exist", ROW_BITS + 1),
        *(
            setting(f"timing_{name}", FIELDS[name], _BITS.get(name, TIMER_BITS))
            for name in TIMING_FIELDS
        ),
        setting("refresh_late", "cycles of a period after which any idle bank is refreshed", 16),
        setting("refresh_last", "cycles of a period after which refreshes no longer wait", 16),
        setting("write_high", "waiting writes that turn the data bus", 7),
        setting("read_batch", "reads after which writes may turn the data bus", 8),
        setting("write_batch", "writes after which waiting reads turn it back", 8),
        setting("patience", "cycles after which those who wait turn it in any case", 12),
        Register(
            "status",
            "what went wrong",
            (
                Field("corrected", 1, Access.STICKY, "a bit was wrong and was corrected"),
                Field("uncorrected", 1, Access.STICKY, "more than one was: data was lost"),
            ),
        ),
        Register(
            "uncorrected_place",
            "where the last error was that could not be corrected",
            (
                Field("half", 1, Access.READ, "beat of the access"),
                Field("column", 5, Access.READ, "column"),
                Field("bank", 4, Access.READ, "bank"),
                Field("row", ROW_BITS, Access.READ, "row"),
                Field("channel", 5, Access.READ, "pseudo-channel"),
            ),
        ),
    )


def values(timing: Timing) -> Mapping[str, int]:
    """Return what the registers that depend on the timing set, and the policy, should hold."""
    times = refresh_times(timing)
    return {
        "rows": timing.rows,
        **{f"timing_{name}": getattr(timing, name) for name in TIMING_FIELDS},
        "refresh_late": times["late"],
        "refresh_last": times["last"],
        "write_high": HIGH,
        "read_batch": READ_BATCH,
        "write_batch": BATCH,
        "patience": PATIENCE,
    }
