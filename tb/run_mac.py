"""Runs given matrix products on the engine, checks every result and reports what it took.

`sim.mac` starts this module under the simulator and says through the environment what to do:

===================  ==========================================================
``JALAPENO_CONFIG``  the configuration of the engine, as JSON
``JALAPENO_JOBS``    the products, a file of `sim.products`
``JALAPENO_REPORT``  where to write the report: for every product that is done,
                     the fields of its `sim.mac.Measurement` that are measured
===================  ==========================================================
"""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from rtl.config import TileConfig
from sim.golden import fp32
from sim.products import Product, load
from tb.mac import Job, MacTestbench
from tb.stream import never

QUIET = 16
"""Cycles without a beat taken after which the stream buffer counts as full."""


@dataclass(kw_only=True)
class GivenJob(Job):
    """A job whose results are known already.

    Parameters
    ----------
    results : float32 [rows, N]
        The results.
    """

    results: fp32.Floats

    def expected(self, config: TileConfig) -> dict[tuple[int, int], int]:
        """Return the bits of every result, by token and column."""
        bits = self.results.view(np.uint32)
        return {place: int(bits[place]) for place in np.ndindex(bits.shape)}


@cocotb.test()
async def run(dut: Any) -> None:
    """Run every product, and write the report after each."""
    config = TileConfig.from_dict(json.loads(os.environ["JALAPENO_CONFIG"]))
    report_file = Path(os.environ["JALAPENO_REPORT"])
    report = []
    bench = MacTestbench(dut, config)
    await check_hash(bench)
    for product, results in load(Path(os.environ["JALAPENO_JOBS"])):
        report.append(await measure(bench, product, results))
        report_file.write_text(json.dumps(report))


async def check_hash(bench: MacTestbench) -> None:
    """Refuse an engine of another configuration."""
    await bench.reset()
    low = await bench.registers.read("config_hash_low")
    high = await bench.registers.read("config_hash_high")
    built, wanted = f"{high << 32 | low:012x}", bench.config.hash
    assert built == wanted, f"the engine has configuration {built}, not {wanted}"


async def measure(bench: MacTestbench, product: Product, results: fp32.Floats) -> dict[str, Any]:
    """Run a product on an engine fresh from reset, and return what was measured.

    The cycles are those since the product was handed to the drivers, which is a cycle or two before
    they offer anything.
    """
    await bench.reset()
    config, compared, taken = bench.config, bench.checked, bench.beats.sent
    fits = product.weights.blocks <= config.act_blocks
    for rows in product.passes(config):
        bench.submit(
            GivenJob(
                product.activations[rows],
                product.weights,
                pair=product.pair,
                chunk=None if fits else config.act_blocks,
                results=results[rows],
            )
        )
    if product.prefetch:
        await fill_buffer(bench)
    prefetched = bench.beats.sent - taken
    before = cocotb.start_soon(bench.registers.counters())  # their snapshot is taken at once
    start = time.perf_counter()
    cycles = await bench.finish(10 * product.beats(config).total + 10_000)
    seconds = time.perf_counter() - start
    old, new = await before, await bench.registers.counters()
    return {
        "compared": bench.checked - compared,
        "cycles": cycles,
        "prefetched": prefetched,
        "counters": {name: new[name] - old[name] for name in new},
        "seconds": seconds,
    }


async def fill_buffer(bench: MacTestbench) -> None:
    """Withhold the activations until no more beats are taken."""
    bench.activations.pauses = itertools.repeat(True)
    taken = -1
    while taken != bench.beats.sent:
        taken = bench.beats.sent
        for _ in range(QUIET):
            await RisingEdge(bench.dut.clk)
    bench.activations.pauses = never()
