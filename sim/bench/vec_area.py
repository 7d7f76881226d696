"""Sizes and depths of the vector unit's arithmetic, by the script ``gates`` of `sim.area`.

Cells include flip-flops. A depth is that of the longest path between flip-flops and ports; gates
are mapped for area, so that it is for comparison only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amaranth.back import rtlil
from amaranth.lib import wiring

from rtl.config import TileConfig
from rtl.vec.add import Adder
from rtl.vec.code import Quantiser
from rtl.vec.elementary import Exp2, Root
from rtl.vec.function import LOG2E, FunctionLane
from rtl.vec.ldexp import Ldexp
from rtl.vec.multiply import ConstantMultiplier, Multiplier
from rtl.vec.step import Step
from sim.area import area
from sim.figures import Figure
from sim.progress import ProgressReporter


class Part(NamedTuple):
    """A part to measure.

    Attributes
    ----------
    name
        Name of its figures: ``vec.<name>_cells`` and ``vec.<name>_depth``.
    make
        Returns its hardware.
    what
        What it does, as a phrase.
    """

    name: str
    make: Callable[[], wiring.Component]
    what: str


PARTS = (
    Part("adder", Adder, "FP32 addition, 2 steps"),
    Part("multiplier", Multiplier, "FP32 multiplication, 2 steps"),
    Part("log2e", lambda: ConstantMultiplier(LOG2E), "multiplication by log2 e, 2 steps"),
    Part("ldexp", Ldexp, "multiplication by the scale of a block, combinational"),
    Part("exp2", Exp2, "2^x, 3 steps"),
    Part("root", Root, "reciprocal and rsqrt, 2 steps"),
    Part("quantiser", Quantiser, "FP32 to MXFP4 or MXINT8 under a given scale, combinational"),
    Part("step", Step, "one lane of a step: adder, multiplier and the rest"),
    Part("function", FunctionLane, "one lane of the functions: GATE and what it is made of"),
)
"""Parts, none of which depends on the configuration."""


def run(config: TileConfig, progress: ProgressReporter) -> list[Figure]:
    """Synthesise the parts; results are cached.

    Parameters
    ----------
    config
        Configuration of the tile: how many lanes there are.
    progress
        Where to show how far it is.

    Returns
    -------
    list of Figure
        Cells and depth of every part.

    Raises
    ------
    ToolError
        If Yosys failed.
    """
    figures = []
    with progress.task("synthesising arithmetic", total=len(PARTS)) as advance:
        for part in PARTS:
            size = area(rtlil.convert(part.make(), name="top", emit_src=False), "top")
            assert size.depth is not None
            figures += [
                Figure(f"vec.{part.name}_cells", size.total, "cells", part.what),
                Figure(f"vec.{part.name}_depth", size.depth, "gates", "its longest path"),
            ]
            advance(1)
    return figures
