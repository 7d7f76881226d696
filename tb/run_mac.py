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

QUIET = 500
"""Cycles without a beat taken after which the stream buffer counts as full: more than a refresh."""


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
    they offer anything; with `Product.prefetch`, since the first activation was.
    """
    await bench.reset()
    config, compared, prefetched = bench.config, bench.checked, 0
    fits = product.weights.blocks <= config.act_blocks
    jobs = [
        GivenJob(
            product.activations[rows],
            product.weights,
            pair=product.pair,
            chunk=None if fits else config.act_blocks,
            results=results[rows],
        )
        for rows in product.passes(config)
    ]
    for job in jobs:
        await bench.prepare(job)
    if product.prefetch:
        bench.activations.pauses = itertools.repeat(True)
        for job in jobs:
            bench.submit(job)
        prefetched = await fill_buffer(bench)
    old = await bench.registers.counters()
    start = time.perf_counter()
    if product.prefetch:
        bench.activations.pauses = never()
    else:
        for job in jobs:
            bench.submit(job)
    cycles = await bench.finish(10 * product.beats(config).total + 10_000)
    seconds = time.perf_counter() - start
    new = await bench.registers.counters()
    return {
        "compared": bench.checked - compared,
        "cycles": cycles,
        "prefetched": prefetched,
        "counters": {name: new[name] - old[name] for name in new},
        "seconds": seconds,
    }


async def fill_buffer(bench: MacTestbench) -> int:
    """Wait until no more beats are taken; return how many were."""
    before, taken = -1, 0
    while before != taken:
        for _ in range(QUIET):
            await RisingEdge(bench.dut.clk)
        before, taken = taken, await bench.taken()
    return taken
