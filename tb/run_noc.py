"""Measures a mesh under load.

`sim.bench.noc` starts this module under the simulator and says through the environment what to do:

===================  ===========================================================================
``JALAPENO_CONFIG``  the configuration of the mesh, as JSON
``JALAPENO_REPORT``  where to write the report
===================  ===========================================================================

Every run begins with a reset, and has packets of one flit; sinks are always ready. All packets are
checked: that they are where they should be, and in their order.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from rtl.noc.geometry import hops
from sim.noc import CONTROLS, PATTERNS, RESULTS

CONFIG = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
REPORT = Path(os.environ["JALAPENO_REPORT"])
MESH = CONFIG.mesh

FULL = (5_000, 20_000)
LOADED = (3_000, 10_000)
"""Cycles before those that are measured, and these: at full load, and while looking for a load."""

STEPS = 50
"""Loads that are tried, up to one packet per cycle."""

IDLE = 0.01
"""A load at which packets do not meet."""

CURVES = ("uniform", "transpose", "complement", "hotspot_tenth")


class Traffic:
    """Runs patterns.

    Parameters
    ----------
    dut
        The harness.
    """

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        Clock(dut.clk, 10, unit="ns").start()
        self._edge = RisingEdge(dut.clk)

    async def run(
        self, pattern: str, load: float, cycles: tuple[int, int], **others: int
    ) -> dict[str, list[int]]:
        """Run a pattern at a load, and return the sums of every tile."""
        found = PATTERNS[pattern]
        values = dict.fromkeys(CONTROLS, 0) | {
            "seed": 1,
            "load": round(load * (1 << 32)),
            "pattern": found.code,
            "hot": round(found.hot * (1 << 32)),
            "warm_up": cycles[0],
            "measured": cycles[1],
            **others,
        }
        for name, value in values.items():
            getattr(self.dut, name).value = value
        self.dut.rst.value = 1
        await self._edge
        await self._edge
        self.dut.rst.value = 0
        await RisingEdge(self.dut.done)
        sums = {name: self._sums(name) for name in RESULTS}
        assert not any(sums["errors"]), f"{pattern} at {load}: wrong packets {sums['errors']}"
        return sums

    def _sums(self, name: str) -> list[int]:
        width, bits = RESULTS[name], getattr(self.dut, name).value.to_unsigned()
        return [bits >> width * tile & (1 << width) - 1 for tile in range(MESH.tiles)]

    async def latency(self, pattern: str, load: float) -> float:
        """Return the mean latency at a load, in cycles from when a packet could have entered."""
        sums = await self.run(pattern, load, LOADED)
        return sum(sums["latency"]) / sum(sums["ejected"])

    async def last_load(self, pattern: str) -> tuple[float, float]:
        """Return latency without load, and the last load at which it is no more than triple."""
        idle = await self.latency(pattern, IDLE)
        good, bad = 0, STEPS + 1
        while bad - good > 1:
            step = (good + bad) // 2
            if await self.latency(pattern, step / STEPS) <= 3 * idle:
                good = step
            else:
                bad = step
        return idle, good / STEPS


def patterns() -> list[str]:
    """Return the patterns that this mesh can have."""
    return [name for name in PATTERNS if name != "transpose" or MESH.x == MESH.y]


@cocotb.test()
async def single(dut: Any) -> None:
    """Measure what a packet takes that is alone, by how far it goes."""
    traffic = Traffic(dut)
    report: dict[str, list[int]] = {}
    for source, to in ((0, to) for to in range(MESH.tiles)):
        y, x = divmod(to, MESH.x)
        sums = await traffic.run("uniform", 0, (0, 100), single=1, from_tile=source, to_x=x, to_y=y)
        assert sum(sums["ejected"]) == sums["ejected"][to] == 1
        report.setdefault(str(hops(MESH, source, to)), []).append(sums["latency"][to])
    _write({"single": report})


@cocotb.test()
async def full(dut: Any) -> None:
    """Measure what is accepted when all would send all the time, and up to where latency is low."""
    traffic = Traffic(dut)
    report: dict[str, Any] = {}
    for pattern in patterns():
        sums = await traffic.run(pattern, 1.0, FULL)
        idle, last = await traffic.last_load(pattern)
        report[pattern] = {
            "injected": [count / FULL[1] for count in sums["injected"]],
            "accepted": sum(sums["ejected"]) / FULL[1] / MESH.tiles,
            "idle": idle,
            "last_load": last,
        }
    _write(report)


@cocotb.test()
async def curves(dut: Any) -> None:
    """Measure latency by load, until it is large."""
    traffic = Traffic(dut)
    report: dict[str, list[tuple[float, float]]] = {}
    for pattern in (name for name in CURVES if name in patterns()):
        report[pattern] = []
        for step in range(1, STEPS + 1):
            latency = await traffic.latency(pattern, step / STEPS)
            report[pattern].append((step / STEPS, latency))
            if latency > 100:
                break
    _write({"curves": report})


def _write(found: dict[str, Any]) -> None:
    """Add to the report."""
    REPORT.write_text(json.dumps(json.loads(REPORT.read_text()) | found))
