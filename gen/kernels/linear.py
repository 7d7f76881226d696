"""Matrix products, norms, and the residual stream between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gen.kernels.stored import Piece, StoredLinear
from gen.kernels.values import MATRIX, OUTPUT, RULE, Blocks, Chunk, Columns, Kernel, Part
from gen.models.model import Precision
from rtl.core.fields import S
from rtl.core.isa import Function, Operand, Output, Reduction, Step
from rtl.formats import BLOCK

Rows = dict[str, Any]
"""Which rows take part: `rows`, and with `masked` a `mask`."""


def product(
    k: Kernel,
    rows: Rows,
    x: Blocks,
    linear: StoredLinear,
    piece: Piece,
    base: S,
    **destination: Any,
) -> None:
    """Multiply quantised rows with one piece of a matrix.

    Parameters
    ----------
    k
        Kernel.
    rows
        Rows that take part, one per token.
    x
        Input, whole rows.
    linear, piece
        The matrix, and which of its outputs.
    base
        What the piece's offset counts from.
    **destination
        Fields of `matrix` that say where the results go.
    """
    assert x.format is linear.activation.format
    last = len(x.parts) - 1
    for index, part in enumerate(x.parts):
        k.a.emit(
            "matrix",
            address=base,
            address_offset=piece.offset,
            beats=0 if index else piece.beats,
            outputs=piece.outputs,
            blocks=part.blocks,
            last=linear.length - 1,
            activation=MATRIX[x.format],
            weight=MATRIX[linear.weight],
            clear=index == 0,
            drain=index == last,
            **rows,
            source=part.register,
            pitch=part.blocks,
            maxima=x.maxima,
            maxima_pitch=1,
            **destination,
        )


def multiply(k: Kernel, rows: Rows, x: Blocks, linear: StoredLinear, base: S, part: Part) -> None:
    """Compute the outputs of one register's columns, without bias."""
    inside = range(part.start, part.start + part.columns)
    for piece in linear.pieces:
        if piece.start in inside:
            product(
                k,
                rows,
                x,
                linear,
                piece,
                base,
                to=part.register,
                into=piece.start > part.start,
                result_offset=piece.start - part.start,
                result_pitch=BLOCK * part.stride,
            )


def load_row(k: Kernel, base: S, offset: int, columns: int) -> int:
    """Load one row of FP32 numbers, such as a bias, into a register of its own."""
    register = k.a.vectors.take()
    k.a.emit("load", to=register, rows=1, columns=columns, address=base, address_offset=offset)
    return register


def add_to_stream(
    k: Kernel, c: Chunk, y: Columns, bias: int | None, base: S, *, squares: bool = True
) -> None:
    """Add rows, with a bias of their own first, to the residual stream; also sum its squares.

    Parameters
    ----------
    k, c
        Kernel and chunk.
    y
        What is added.
    bias
        Where the bias is, from `base`.
    squares
        Whether `Chunk.squares` is wanted.
    """
    for x, part in zip(c.x.parts, y.parts, strict=True):
        add_rows(k, c, part, x, bias, base, **(_squares(k, c, x) if squares else {}))


def add_rows(
    k: Kernel, c: Chunk, y: Part, to: Part, bias: int | None, base: S, **reduction: Any
) -> None:
    """Add one register's columns, with a bias of their own first, to others.

    Parameters
    ----------
    k, c
        Kernel and chunk.
    y, to
        What is added, and what it is added to.
    bias
        Where the bias is, from `base`.
    base
        What its offset counts from.
    **reduction
        Fields of `vector` that reduce the sums.
    """
    step: dict[str, Any] = {}
    register = None
    if bias is not None:
        register = load_row(k, base, bias + 4 * y.start, y.columns)
        step = {"b_step": Step.ADD, "b_operand": Operand.VECTOR_ONE, "b": register}
    k.a.emit(
        "vector",
        a=y.register,
        a_stride=y.stride,
        rows=c.rows,
        columns=y.columns,
        **step,
        c_step=Step.ADD,
        c_operand=Operand.VECTOR,
        c=to.register,
        c_stride=to.stride,
        output=Output.WORDS,
        to=to.register,
        stride=to.stride,
        **reduction,
    )
    if register is not None:
        k.a.vectors.give(register)


def sum_squares(k: Kernel, c: Chunk) -> None:
    """Sum the squares of the residual stream."""
    for x in c.x.parts:
        k.a.emit(
            "vector",
            a=x.register,
            a_stride=x.stride,
            rows=c.rows,
            columns=x.columns,
            **_squares(k, c, x),
        )


def _squares(k: Kernel, c: Chunk, part: Part) -> dict[str, Any]:
    """Return the fields that sum squares over the parts of the residual stream."""
    parts = c.x.parts
    return {
        "reduction": Reduction.SQUARES,
        "first": part.start,
        "resume": part is not parts[0],
        "suspend": part is not parts[-1],
        "partials": k.partials if len(parts) > 1 else 0,
        "total": c.squares,
        "total_pitch": 1,
    }


def norm(k: Kernel, c: Chunk, weight: int, base: S, precision: Precision) -> Blocks:
    """Normalise the residual stream and quantise it.

    Parameters
    ----------
    k, c
        Kernel and chunk; `Chunk.squares` is up to date.
    weight
        Where the weight is, from `base`.
    precision
        How to quantise.
    """
    a = k.a
    model = k.stored.model
    width = model.width
    factor = a.rows.take()
    a.emit(
        "vector",
        a_row=True,
        a=c.squares,
        a_stride=1,
        rows=c.rows,
        b_step=Step.MUL,
        b_value=np.float32(1 / width),
        c_step=Step.ADD,
        c_value=model.eps,
        function=Function.RSQRT,
        output=Output.ROW,
        to=factor,
        stride=1,
    )
    blocks = k.take_blocks(-(-width // BLOCK), k.plan.columns // BLOCK, precision.format)
    for x in c.x.parts:
        register = load_row(k, base, weight + 4 * x.start, x.columns)
        quantise(
            k,
            {"rows": c.rows},
            x,
            blocks,
            x.start // BLOCK,
            precision,
            b_step=Step.MUL,
            b_operand=Operand.ROW,
            b=factor,
            b_stride=1,
            c_step=Step.MUL,
            c_operand=Operand.VECTOR_ONE,
            c=register,
        )
        a.vectors.give(register)
    a.rows.give(factor)
    return blocks


def quantise(
    k: Kernel,
    rows: Rows,
    part: Part,
    blocks: Blocks,
    first: int,
    precision: Precision,
    **steps: Any,
) -> None:
    """Quantise one register's columns, after steps of `vector`, to where they belong.

    Parameters
    ----------
    k, rows
        Kernel, and the rows that take part.
    part
        What is quantised.
    blocks
        Where to; parts are filled from their first block on.
    first
        First block.
    precision
        How.
    **steps
        Fields of `vector` for what comes before.
    """
    target, offset = blocks.find(first)
    k.a.emit(
        "vector",
        a=part.register,
        a_stride=part.stride,
        **rows,
        columns=part.columns,
        **steps,
        output=OUTPUT[precision.format],
        rule=RULE[precision.rule],
        to=target.register,
        into=offset > 0,
        offset=offset,
        stride=target.blocks,
        maximal=True,
        maxima=blocks.maxima,
        maxima_pitch=1,
        maxima_resume=first > 0,
    )
