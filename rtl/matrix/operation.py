"""What the instruction `matrix` asks of the matrix engine, and of what is around it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, Value
from amaranth.lib import data

from rtl.config import TileConfig
from rtl.core.layout import InstructionLayout
from rtl.mac.operation import FetchLayout, OperationLayout

MATRIX = InstructionLayout("matrix")


def taking_part(config: TileConfig, o: Any) -> Value:
    """Return one bit per row: whether an instruction works on it."""
    rows = Cat(o.rows > i for i in range(config.lanes))
    return (rows & (o.mask | (~o.masked).replicate(config.lanes)))[: config.lanes]


def engine_operation(config: TileConfig, o: Any) -> dict[str, Value]:
    """Return the fields of the engine's operation, see `rtl.mac.OperationLayout`.

    Where activations are is not the engine's business; where results go is a *column*: it adds what
    belongs to token and head.
    """
    same = (
        "outputs",
        "blocks",
        "last",
        "last_step",
        "activation",
        "weight",
        "transpose",
        "tile_row",
        "clear",
        "drain",
        "pair",
        "rows",
        "heads",
        "result_stride",
        "result_pitch",
    )
    return {name: o[name] for name in same} | {
        "mask": taking_part(config, o),
        "lo": Mux(o.ranged, o.lo, 0),
        "hi": Mux(o.ranged, o.hi, o.outputs),
        "range_step": o.ranged & o.range_step,
        "result_column": o.result_offset,
    }


def engine_fetch(config: TileConfig, o: Any) -> dict[str, Value]:
    """Return the fields of the engine's fetch side, see `rtl.mac.FetchLayout`."""
    return {name: o[name] for name in FetchLayout.NAMES}


class ReadLayout(data.StructLayout):
    """The activations of an instruction: those fields of `matrix` that say where they are.

    Members
    -------
    mask : unsigned(lanes)
        Rows that take part.
    """

    def __init__(self, config: TileConfig) -> None:
        engine = OperationLayout(config)
        names = ("source", "offset", "stride", "pitch", "maxima", "maxima_offset", "maxima_pitch")
        super().__init__(
            {name: MATRIX[name].shape for name in names}
            | {
                "blocks": engine["blocks"].shape,
                "heads": engine["heads"].shape,
                "mask": config.lanes,
                "drain": 1,
            }
        )


class ResultsLayout(data.StructLayout):
    """The results of an instruction: those fields of `matrix` that say what becomes of them.

    Members
    -------
    mask : unsigned(lanes)
        Rows that take part.
    """

    def __init__(self, config: TileConfig) -> None:
        names = (
            "results",
            "to",
            "argmax",
            "argmax_resume",
            "argmax_base",
            "best",
            "best_index",
        )
        super().__init__({name: MATRIX[name].shape for name in names} | {"mask": config.lanes})


def fields(layout: data.StructLayout, config: TileConfig, o: Any) -> dict[str, Value]:
    """Return the fields of a layout that an instruction has, and which rows take part."""
    return {name: o[name] for name, _ in layout if name != "mask"} | {
        "mask": taking_part(config, o)
    }
