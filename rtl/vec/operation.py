"""The instructions of the vector unit as they reach it, and what flows through it."""

from __future__ import annotations

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.core.fields import OPCODE_BITS
from rtl.core.layout import InstructionLayout
from rtl.vec.geometry import VectorGeometry

VECTOR = InstructionLayout("vector")
TOPK = InstructionLayout("topk")


class VectorOperationLayout(data.UnionLayout):
    """One instruction for the vector unit: `vector` or `topk`, as `opcode` says."""

    def __init__(self) -> None:
        super().__init__({"opcode": OPCODE_BITS, "vector": VECTOR, "topk": TOPK})


class MarkLayout(data.StructLayout):
    """What a transfer is, beside its words.

    Members
    -------
    keep : unsigned(lanes)
        Lanes that have an element; the others are beyond the last column.
    inside : unsigned(lanes)
        Lanes that the range selects.
    row_last, last : unsigned(1)
        The transfer is the last of its row, of its instruction.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__(
            {"keep": geometry.lanes, "inside": geometry.lanes, "row_last": 1, "last": 1}
        )


class PacedLayout(data.StructLayout):
    """A transfer before its words are there.

    Members
    -------
    mark : MarkLayout
        What it is.
    reads : unsigned(1)
        Its words come from operand a; otherwise they do not matter.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__({"mark": MarkLayout(geometry), "reads": 1})


def words(lanes: int) -> data.ArrayLayout:
    """Return the layout of so many words."""
    return data.ArrayLayout(unsigned(32), lanes)


class TransferLayout(data.StructLayout):
    """A transfer: elements of a row, one per lane.

    Members
    -------
    words : array of unsigned(32)
        The elements.
    mark : MarkLayout
        What they are.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__({"words": words(geometry.lanes), "mark": MarkLayout(geometry)})


class SidedLayout(data.StructLayout):
    """A transfer with a second word in every lane.

    Members
    -------
    words, side : array of unsigned(32)
        The elements, and what goes with them: partners to rotate with, or a product.
    mark : MarkLayout
        What they are.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__(
            {
                "words": words(geometry.lanes),
                "side": words(geometry.lanes),
                "mark": MarkLayout(geometry),
            }
        )
