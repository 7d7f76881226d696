"""Distances of commands as the schedulers count them."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data

from rtl.hbm.timing import BURST

TIMER_BITS = 10
"""Every distance but that of refreshes fits."""

PLAIN = (
    *("rcd_rd", "rcd_wr", "rp", "ras", "rc", "rrd_s", "rrd_l", "faw", "ccd_s", "ccd_l"),
    *("rtw", "rtp", "rfc_ab", "rfc_pb", "rrefd", "ppd"),
)
"""Distances that are fields of the timing set."""

SUMS = {"wr_pre": "wr", "wr_rd_s": "wtr_s", "wr_rd_l": "wtr_l"}
"""Distances from a WR, which count from its last data."""


class DistanceLayout(data.StructLayout):
    """Every distance, less one, in cycles."""

    def __init__(self) -> None:
        super().__init__({name: TIMER_BITS for name in (*PLAIN, *SUMS)})


def distances(m: Module, timing: Mapping[str, Value]) -> data.View:
    """Return the distances of a timing set, a cycle later."""
    found = Signal(DistanceLayout())

    def store(name: str, value: Value) -> None:
        total = Signal(TIMER_BITS + 1, name=f"total_{name}")
        m.d.comb += total.eq(value)
        m.d.sync += found[name].eq(Mux(total == 0, 0, total - 1))

    for name in PLAIN:
        store(name, timing[name])
    for name, field in SUMS.items():
        store(name, timing["wl"] + BURST + timing[field])
    return found
