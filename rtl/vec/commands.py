"""What the sequencer tells the parts of the unit about each row."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import unsigned
from amaranth.lib import data, enum
from amaranth.utils import bits_for, ceil_log2

from rtl.core.fields import Choice
from rtl.core.isa import Function, Output, Reduction, Rule, Step
from rtl.vec.geometry import REGISTER_BITS, VectorGeometry


def choice(choices: type[Choice]) -> Any:
    """Return the shape of a choice of the instruction set."""
    return unsigned(max(1, max(choices).bit_length()))


class Source(enum.Enum, shape=2):  # type: ignore[call-arg]
    """Where the words of an operand come from."""

    CONSTANT = 0
    VECTOR = 1
    ROW = 2


class OperandLayout(data.StructLayout):
    """The words of a row that a reader delivers.

    Members
    -------
    source : Source
        Where they come from; what is not a vector register is the same for all columns.
    constant : unsigned(32)
        The word, if it is a constant.
    register, place : unsigned
        Register, and the slot or row of the first word in there.
    transfers : unsigned
        Transfers of the row.
    side : unsigned(1)
        They are for the multiplier beside the function.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__(
            {
                "side": 1,
                "source": Source,
                "constant": 32,
                "register": REGISTER_BITS,
                "place": geometry.place_bits,
                "transfers": bits_for(geometry.transfers),
            }
        )


class PaceLayout(data.StructLayout):
    """The shape of a row.

    Members
    -------
    transfers : unsigned
        Transfers of the row, 1 or more.
    tail : unsigned
        Elements in the last one beside the first; 0 also where there is none.
    empty : unsigned(1)
        There are no columns.
    lo, hi : unsigned
        Columns ``lo <= j < hi`` are selected.
    reads : unsigned(1)
        Operand a is read.
    last : unsigned(1)
        It is the last row.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        column = bits_for(geometry.config.vector_length)
        super().__init__(
            {
                "transfers": bits_for(geometry.transfers),
                "tail": max(1, ceil_log2(geometry.lanes)),
                "empty": 1,
                "lo": column,
                "hi": column,
                "reads": 1,
                "last": 1,
            }
        )


class StepLayout(data.StructLayout):
    """What a step does, for all elements of an instruction.

    Members
    -------
    kind : Step
        What it is.
    side : unsigned(1)
        Its operand is the product that comes beside x.
    """

    def __init__(self) -> None:
        super().__init__({"kind": choice(Step), "side": 1})


class PartnerLayout(data.StructLayout):
    """Which column is the partner of another, for all elements of an instruction.

    Members
    -------
    rotates : unsigned(1)
        Partners are wanted.
    distance : unsigned
        Columns to the partner, forward in the first half of a run of twice as many, and back in
        the second one.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__({"rotates": 1, "distance": bits_for(geometry.config.vector_length // 2)})


class FunctionLayout(data.StructLayout):
    """What is between steps c and d, for all elements of an instruction.

    Members
    -------
    function : Function
        What it is.
    factor : unsigned(32)
        Factor of GATE.
    squares, rotates : unsigned(1)
        Beside x goes its square, or the product of its partner and the operand of step d.
    """

    def __init__(self) -> None:
        super().__init__({"function": choice(Function), "factor": 32, "squares": 1, "rotates": 1})


class ReduceLayout(data.StructLayout):
    """What becomes of the reduction of a row.

    Members
    -------
    reduction : Reduction
        What it is.
    resume, suspend : unsigned(1)
        It begins with a state, it ends with one.
    total, row : unsigned
        Row register and word for the result.
    partials, slot : unsigned
        Vector register and slot for the state of a sum.
    last : unsigned(1)
        It is the last row.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__(
            {
                "reduction": choice(Reduction),
                "resume": 1,
                "suspend": 1,
                "total": REGISTER_BITS,
                "row": geometry.row_bits,
                "partials": REGISTER_BITS,
                "slot": geometry.place_bits,
                "last": 1,
            }
        )


class OutputLayout(data.StructLayout):
    """What becomes of the elements of a row.

    Members
    -------
    output : Output
        What it is.
    rule : Rule
        Scale rule of the quantiser.
    register, place : unsigned
        Destination, and the slot, block or row in there.
    maximal : unsigned(1)
        The greatest scale is written.
    maxima, row : unsigned
        Row register and word for it.
    shared : unsigned(1)
        The word is that of the row before.
    resume : unsigned(1)
        The word that is there takes part.
    last : unsigned(1)
        It is the last row.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__(
            {
                "output": choice(Output),
                "rule": choice(Rule),
                "register": REGISTER_BITS,
                "place": geometry.place_bits,
                "maximal": 1,
                "maxima": REGISTER_BITS,
                "row": geometry.row_bits,
                "shared": 1,
                "resume": 1,
                "last": 1,
            }
        )
