"""Matrix products for the simulated matrix engine, and the file that hands them over.

The file carries the results that the golden model expects beside the operands: what the engine
delivers is compared with what was computed before anything reached the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gen.layout import Beats, WeightLayout
from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.formats import Format
from sim.golden import fp32, window_matmul

__all__ = ["Product", "load", "most_rows", "save"]

_TENSORS = ("activations", "weights")


@dataclass(frozen=True)
class Product:
    """One matrix product, ``activations @ weights.T``.

    Attributes
    ----------
    name : str
        What it is, for people.
    activations : MXTensor [rows, K]
        A row per token, any number; where there are more than the engine takes at a time, the
        weights pass several times.
    weights : MXTensor [N, K]
        A row per output neuron.
    prefetch : bool
        Let the engine take weights until its buffer is full, and only then offer activations.
    pair : bool
        Let spare lanes take a second block row.
    """

    name: str
    activations: MXTensor
    weights: MXTensor
    prefetch: bool = False
    pair: bool = True

    def passes(self, config: TileConfig) -> Iterator[slice]:
        """Yield the rows of each pass of the weights."""
        size = most_rows(config, self.activations.format)
        for start in range(0, self.activations.shape[0], size):
            yield slice(start, start + size)

    def beats(self, config: TileConfig) -> Beats:
        """Return the beats of all passes, by kind."""
        outputs, length = self.weights.shape
        layout = WeightLayout(
            outputs, length, self.weights.format, config.pseudo_channels, config.acc_depth
        )
        passes = sum(1 for _ in self.passes(config))
        return Beats(*(passes * beats for beats in layout.beats))

    def golden(self, config: TileConfig) -> fp32.Floats:
        """Return the results that the golden model expects, float32 [rows, N]."""
        return window_matmul(self.activations, self.weights, config.acc_bits)


def most_rows(config: TileConfig, activation: Format) -> int:
    """Return the rows of activations that the engine takes at a time."""
    return config.lanes // activation.planes


def save(path: Path, products: Sequence[Product], results: Sequence[fp32.Floats]) -> None:
    """Write products, and what is expected of them, to a file.

    Parameters
    ----------
    path
        The file, in numpy's npz format.
    products
        What to run, in this order.
    results : sequence of float32 [rows, N]
        What each must deliver, to the bit.
    """
    arrays: dict[str, Any] = {}
    options = []
    for number, (product, result) in enumerate(zip(products, results, strict=True)):
        option: dict[str, Any] = {
            name: getattr(product, name) for name in ("name", "prefetch", "pair")
        }
        for name in _TENSORS:
            tensor: MXTensor = getattr(product, name)
            option[name] = {"fmt": tensor.format, "length": tensor.length}
            arrays[f"{number}.{name}.codes"] = tensor.codes
            arrays[f"{number}.{name}.scales"] = tensor.scales
        arrays[f"{number}.results"] = result
        options.append(option)
    np.savez(path, options=json.dumps(options), **arrays)


def load(path: Path) -> list[tuple[Product, fp32.Floats]]:
    """Return what `save` wrote: every product, with the results expected of it."""
    with np.load(path) as arrays:
        loaded = []
        for number, option in enumerate(json.loads(str(arrays["options"]))):
            for name in _TENSORS:
                codes, scales = (arrays[f"{number}.{name}.{part}"] for part in ("codes", "scales"))
                fmt, length = Format(option[name]["fmt"]), option[name]["length"]
                option[name] = MXTensor(codes, scales, fmt, length)
            loaded.append((Product(**option), arrays[f"{number}.results"]))
    return loaded
