"""How pytest runs the cocotb tests of a block, and for which configurations."""

import functools
import json
import os
from pathlib import Path

from gen.blocks import BLOCKS
from gen.verilog import VerilogDesign, emit
from rtl.config import PRESETS, TileConfig
from sim import verilator

SEED = int(os.environ.get("JALAPENO_SEED", "1"))
WAVES = os.environ.get("JALAPENO_WAVES", "") not in ("", "0")

CONFIGURATIONS = {
    "nano": PRESETS["nano"],
    "small": PRESETS["small"],
    # Nothing is a power of two, and 3 does not divide 32.
    "odd": TileConfig(
        pseudo_channels=3,
        lanes=6,
        acc_depth=5,
        acc_bits=40,
        vec_lanes=8,
        act_blocks=7,
        stream_bytes=1024,
    ),
    # Whatever can be left out is.
    "bare": TileConfig(
        pseudo_channels=2,
        acc_depth=1,
        formats="mxfp4",
        vec_lanes=1,
        stream_bytes=0,
        transposer=False,
    ),
}
"""What the blocks are verified for; each is a build of its own."""

if CHOSEN := os.environ.get("JALAPENO_CONFIG"):
    CONFIGURATIONS = {"chosen": TileConfig.from_dict(json.loads(CHOSEN))}


@functools.cache
def emitted(block: str, config: TileConfig) -> VerilogDesign:
    """Return the Verilog of a block."""
    return emit(BLOCKS[block].build(config), block, config, fields=WAVES)


def build(block: str, config: TileConfig) -> verilator.Build:
    """Return the simulation of a block."""
    design = emitted(block, config)
    ports = [port.name for port in design.ports]
    return verilator.build({f"{design.top}.sv": design.text}, design.top, ports, waves=WAVES)


def run(
    block: str,
    config: TileConfig,
    work_dir: Path,
    *,
    seed: int = SEED,
    testcases: list[str] | None = None,
) -> verilator.Results:
    """Run the cocotb tests of a block, by default all of them, and return what came of it."""
    print(f"seed {seed}; again with JALAPENO_SEED={seed}")
    return build(block, config).run(
        f"tb.test_{block}",
        seed=seed,
        work_dir=work_dir,
        testcases=testcases,
        env={"JALAPENO_CONFIG": config.to_json()},
        waves=WAVES,
        timeout=1200,
    )
