"""Timing sets of HBM, as plain data in cycles of the command clock CK.

A distance is counted from the cycle of one command to the cycle of another; an ACT, which occupies
the row bus for two cycles, counts from its first. Every set fits a register file of 16-bit fields
(`FIELDS`), so a controller, a device model and a checker can all be given one at run time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Self

BURST = 2
"""Cycles of data of one access."""

ACTIVATE_CYCLES = 2
"""Cycles for which an ACT occupies the row bus (1.5 CK, rounded up); all others take one."""

LATENCY_MAX = 62
"""CL and WL stay below this: device model and checker look that far ahead."""

FIELD_BITS = 16
"""Width of a run-time field."""


def _cycles(description: str) -> Any:
    """Declare a run-time field and what it means."""
    return field(metadata={"description": description})


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One timing set. ``docs/hbm.md`` has the table and where each number comes from.

    Raises
    ------
    ValueError
        A value does not fit its field, or is at odds with another.
    """

    name: str
    tck_ps: int
    """Picoseconds of a cycle."""
    rows: int
    """Rows of a bank."""

    banks: int = _cycles("banks of the pseudo-channel, a power of two")
    bank_groups: int = _cycles("bank groups; bank b is in group b mod bank_groups")
    cl: int = _cycles("RD to the first cycle of its data")
    wl: int = _cycles("WR to the first cycle of its data")
    rcd_rd: int = _cycles("ACT to RD, same bank")
    rcd_wr: int = _cycles("ACT to WR, same bank")
    rp: int = _cycles("PRE to ACT, REFpb or REFab, same bank")
    ras: int = _cycles("ACT to PRE, same bank")
    rc: int = _cycles("ACT to ACT, REFpb or REFab, same bank")
    rrd_s: int = _cycles("ACT to ACT or REFpb, other bank group")
    rrd_l: int = _cycles("ACT to ACT or REFpb, other bank of the same group")
    faw: int = _cycles("window in which at most four of ACT and REFpb may start")
    ccd_s: int = _cycles("RD to RD and WR to WR, other bank group")
    ccd_l: int = _cycles("RD to RD and WR to WR, same bank group")
    wtr_s: int = _cycles("last data of WR to RD, other bank group")
    wtr_l: int = _cycles("last data of WR to RD, same bank group")
    rtw: int = _cycles("RD to WR")
    wr: int = _cycles("last data of WR to PRE, same bank")
    rtp: int = _cycles("RD to PRE, same bank")
    rfc_ab: int = _cycles("REFab to any other row command")
    rfc_pb: int = _cycles("REFpb to the next row command for the bank, and to PREA and REFab")
    refi: int = _cycles("mean distance of the refreshes of a bank; 0 asks for none")
    rrefd: int = _cycles("REFpb to ACT or REFpb, other bank")
    ppd: int = _cycles("PRE or PREA to PRE or PREA")
    postpone: int = _cycles("refreshes by which a bank may be behind")
    rotation: int = _cycles("1: REFpb visits every bank before it visits one again")

    def __post_init__(self) -> None:
        for name in FIELDS:
            value = getattr(self, name)
            if not 0 <= value < 1 << FIELD_BITS:
                raise ValueError(
                    f"{name} is {value}; it must be from 0 to {(1 << FIELD_BITS) - 1}."
                )
        for name in ("banks", "bank_groups", "rows"):
            if getattr(self, name).bit_count() != 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a power of two.")
        for small, large in (
            ("bank_groups", "banks"),
            ("rrd_s", "rrd_l"),
            ("ccd_s", "ccd_l"),
            ("wtr_s", "wtr_l"),
            ("ras", "rc"),
        ):
            if getattr(self, small) > getattr(self, large):
                raise ValueError(
                    f"{small} is {getattr(self, small)}; "
                    f"it must be at most {large}, {getattr(self, large)}."
                )
        if self.ccd_s < BURST:
            raise ValueError(f"ccd_s is {self.ccd_s}; data takes {BURST} cycles.")
        if self.rtw < self.cl + BURST - self.wl:
            raise ValueError(f"rtw is {self.rtw}; the data of RD and WR would meet.")
        if self.rrd_s < ACTIVATE_CYCLES:
            raise ValueError(f"rrd_s is {self.rrd_s}; ACT takes {ACTIVATE_CYCLES} cycles.")
        if not 0 < min(self.cl, self.wl) <= max(self.cl, self.wl) < LATENCY_MAX:
            raise ValueError(f"cl and wl must be from 1 to {LATENCY_MAX - 1}.")

    def replace(self, **changes: Any) -> Self:
        """Return a copy with `changes` made."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, int]:
        """Return the run-time fields, in order."""
        return {name: getattr(self, name) for name in FIELDS}

    # --- distances from command to command that are sums ----------------------------------------

    @property
    def wr_to_pre(self) -> int:
        """Cycles from WR to PRE of the same bank."""
        return self.wl + BURST + self.wr

    @property
    def wr_to_rd_s(self) -> int:
        """Cycles from WR to RD of another bank group."""
        return self.wl + BURST + self.wtr_s

    @property
    def wr_to_rd_l(self) -> int:
        """Cycles from WR to RD of the same bank group."""
        return self.wl + BURST + self.wtr_l

    @property
    def refi_pb(self) -> int:
        """Mean distance of all REFpb that refresh every bank in time."""
        return self.refi // self.banks

    @property
    def read_hit(self) -> int:
        """Idle latency of an open row: RD to the cycle after the last data."""
        return self.cl + BURST

    @property
    def read_closed(self) -> int:
        """Idle latency of a closed bank: ACT to the cycle after the last data."""
        return self.rcd_rd + self.read_hit

    @property
    def read_conflict(self) -> int:
        """Idle latency where another row is open: PRE to the cycle after the last data."""
        return self.rp + self.read_closed


FIELDS: Mapping[str, str] = MappingProxyType(
    {f.name: f.metadata["description"] for f in fields(Timing) if "description" in f.metadata}
)
"""Run-time fields of a timing set and what they mean, in the order in which they are packed."""


def pack(values: Mapping[str, int]) -> int:
    """Return run-time fields as one number, the first field lowest."""
    return sum(values[name] << FIELD_BITS * i for i, name in enumerate(FIELDS))


TIMINGS: Mapping[str, Timing] = MappingProxyType(
    {
        timing.name: timing
        for timing in [
            Timing(
                name="hbm3-6400",
                tck_ps=625,
                rows=1 << 14,
                banks=16,
                bank_groups=4,
                cl=20,
                wl=10,
                rcd_rd=31,
                rcd_wr=15,
                rp=26,
                ras=45,
                rc=72,
                rrd_s=4,
                rrd_l=5,
                faw=24,
                ccd_s=2,
                ccd_l=4,
                wtr_s=7,
                wtr_l=10,
                rtw=20,
                wr=33,
                rtp=9,
                rfc_ab=416,  # 260 ns: 4 Gb per channel
                rfc_pb=320,
                refi=6240,
                rrefd=13,  # max(3 CK, 8 ns); the published preset keeps 8 by mistake
                ppd=2,
                postpone=1,
                rotation=1,
            ),
            Timing(
                name="hbm4-8000",
                tck_ps=500,
                rows=1 << 14,
                banks=16,
                bank_groups=2,
                cl=20,
                wl=10,
                rcd_rd=39,
                rcd_wr=19,
                rp=33,
                ras=57,
                rc=90,
                rrd_s=5,
                rrd_l=7,
                faw=30,
                ccd_s=2,
                ccd_l=4,
                wtr_s=9,
                wtr_l=13,
                rtw=25,
                wr=42,
                rtp=12,
                rfc_ab=800,  # 400 ns: up to 4 Gb per channel
                rfc_pb=560,
                refi=7800,
                rrefd=16,
                ppd=2,
                postpone=1,
                rotation=1,
            ),
            # Every distance is short, and each can be the one that decides.
            Timing(
                name="tiny",
                tck_ps=1000,
                rows=16,
                banks=4,
                bank_groups=2,
                cl=4,
                wl=2,
                rcd_rd=4,
                rcd_wr=3,
                rp=3,
                ras=6,
                rc=10,
                rrd_s=3,
                rrd_l=4,
                faw=14,
                ccd_s=2,
                ccd_l=3,
                wtr_s=2,
                wtr_l=3,
                rtw=6,
                wr=3,
                rtp=3,
                rfc_ab=16,
                rfc_pb=12,
                refi=200,
                rrefd=4,
                ppd=2,
                postpone=1,
                rotation=1,
            ),
        ]
    }
)
"""The timing sets by name."""
