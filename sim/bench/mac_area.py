"""Sizes of the matrix engine's parts, by the script ``gates`` of `sim.area`, flip-flops included.

The parts that have targets are compared with what the same script makes of others:

- 3,945 cells: ``dot_fp`` for 32 E2M1 elements, of ebby-s/MX-for-FPGA at commit afb8f78;
- 7,643 cells: 32 plain multipliers of 5 x 5 bits and their sum, which do all that a lane does;
- 1,769 cells and 32 flip-flops: an accumulator in FP32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from rtl.config import TileConfig
from rtl.mac.accumulate import AccumulatorLayout, WindowAdd
from rtl.mac.activations import ActivationLoader, ActivationStore
from rtl.mac.dot import NibbleDot, SignificandDot
from rtl.mac.drain import Drain
from rtl.mac.fetch import Fetch
from rtl.mac.geometry import MacGeometry
from rtl.mac.pair import PairColumn
from rtl.mac.sequence import Sequencer
from rtl.mac.to_float import WindowToFloat
from sim.area import area
from sim.figures import Figure
from sim.progress import ProgressReporter

DOT44_TARGET = 3944
DOT_TARGET = 6000
ACCUMULATOR_TARGET = 900


class Accumulator(wiring.Component):
    """One accumulator in a register, with all that adds to it.

    Members
    -------
    dot, distance, nan, clear : In
        See `rtl.mac.accumulate.WindowAdd`.
    value : Out
        The register.
    """

    def __init__(self, geometry: MacGeometry) -> None:
        self._add = WindowAdd(geometry)
        inputs = self._add.signature.members
        super().__init__(
            {name: inputs[name] for name in ("dot", "distance", "nan", "clear")}
            | {"value": Out(AccumulatorLayout(geometry))}
        )

    def elaborate(self, platform: Any) -> Module:
        """Return adder and register."""
        m = Module()
        m.submodules.add = add = self._add
        m.d.comb += [
            add.dot.eq(self.dot),
            add.distance.eq(self.distance),
            add.nan.eq(self.nan),
            add.clear.eq(self.clear),
            add.previous.eq(self.value),
        ]
        m.d.sync += self.value.eq(add.updated)
        return m


class Part(NamedTuple):
    """A part to measure.

    Attributes
    ----------
    figure
        Name of its figure.
    component
        Its hardware.
    what
        What it does, as a phrase.
    target
        Cells it must not exceed.
    """

    figure: str
    component: wiring.Component
    what: str
    target: int | None = None


def parts(config: TileConfig) -> list[Part]:
    """Return the parts of an engine; those with targets are the same for every configuration."""
    geometry = MacGeometry(config)
    cells = geometry.pairs * geometry.columns
    transposer = " and transposer" if config.transposer else ""
    compared = MacGeometry(config.replace(acc_bits=48, formats="mxfp4+mxint8"))
    return [
        Part("mac.dot44_cells", SignificandDot(), "32-wide dot product, MXFP4 only", DOT44_TARGET),
        Part("mac.dot_cells", NibbleDot(), "the same for 4x4, 8x4, 4x8 and 8x8", DOT_TARGET),
        Part(
            "mac.accumulator_cells",
            Accumulator(compared),
            "shift 21 bits, add to 48 bits in a register; NaN and overflow flags",
            ACCUMULATOR_TARGET,
        ),
        Part("mac.pair_cells", PairColumn(geometry), f"two lanes of a column; there are {cells}"),
        Part(
            "mac.store_cells",
            ActivationStore(geometry),
            f"activations of two lanes; there are {geometry.pairs}",
        ),
        Part("mac.fetch_cells", Fetch(config), f"beats to block rows{transposer}; once"),
        Part("mac.loader_cells", ActivationLoader(config), "activations to operands; once"),
        Part("mac.sequencer_cells", Sequencer(config), "control, weights to operands; once"),
        Part("mac.drain_cells", Drain(config), "accumulators to results; once"),
        Part(
            "mac.converter_cells",
            WindowToFloat(config.acc_bits),
            f"one of the drain's {config.vec_lanes} roundings to FP32",
        ),
    ]


def run(config: TileConfig, progress: ProgressReporter) -> list[Figure]:
    """Synthesise the parts; results are cached.

    Parameters
    ----------
    config
        Configuration of the engine.
    progress
        Where to show how far it is.

    Returns
    -------
    list of Figure
        Cells of every part, and the bits of its memories where it has any.

    Raises
    ------
    ToolError
        If Yosys failed.
    """
    todo = parts(config)
    figures = []
    with progress.task("synthesising parts", total=len(todo)) as advance:
        for part in todo:
            text = rtlil.convert(part.component, name="top", emit_src=False)
            # What is compared has no memory, and gets the plain script.
            size = area(text, "top", memory="flops" if part.target else "separate")
            figures.append(
                Figure(part.figure, size.total, "cells", part.what, None, part.target, at_most=True)
            )
            if size.memory_bits:
                name = part.figure.replace("_cells", "_bits")
                figures.append(Figure(name, size.memory_bits, "bits", f"memory of {part.figure}"))
            advance(1)
    return figures
