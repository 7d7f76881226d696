"""Run-time limits of a tile, chosen at random."""

from __future__ import annotations

import random
from typing import Any

from rtl.config import TileConfig
from rtl.hbm.timing import TIMINGS, Timing
from rtl.mac import MacGeometry


def slow(rng: random.Random) -> Timing:
    """Return a timing set with other latencies, none of them shorter than the real ones."""
    real = TIMINGS[rng.choice(["hbm3-6400", "hbm4-8000"])]
    more = {name: rng.randint(0, 12) for name in ("cl", "rcd_rd", "rp", "rrd", "wtr", "rtp")}
    return real.replace(
        cl=real.cl + more["cl"],
        rtw=real.rtw + more["cl"],
        rcd_rd=real.rcd_rd + more["rcd_rd"],
        rcd_wr=real.rcd_wr + more["rcd_rd"],
        ras=real.ras + more["rcd_rd"],
        rc=real.rc + more["rcd_rd"] + more["rp"],
        rp=real.rp + more["rp"],
        rtp=real.rtp + more["rtp"],
        wtr_s=real.wtr_s + more["wtr"],
        wtr_l=real.wtr_l + more["wtr"],
        rrd_s=real.rrd_s + more["rrd"],
        rrd_l=real.rrd_l + more["rrd"],
    )


def any_settings(config: TileConfig, rng: random.Random) -> dict[str, Any]:
    """Return run-time limits, none of which may show in a bit, for `TileTestbench.reset`."""
    rows = MacGeometry(config).buffer_rows
    return {
        "timing": slow(rng),
        "window": rng.randint(1, config.issue_window),
        "prefetch": rng.random() < 0.7,
        "pairing": rng.random() < 0.5,
        "stream_rows": rng.choice([2, 3, 1 + rng.randrange(rows), rows]),
        "ecc": rng.random() < 0.7,
    }
