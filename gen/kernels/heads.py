"""From the normed stream to queries, keys and values: projections, RoPE, and the append."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gen.kernels.linear import product, quantise
from gen.kernels.stored import StoredAttention, StoredLinear
from gen.kernels.values import MATRIX, OUTPUT, RULE, Blocks, Chunk, Kernel, slots
from gen.models.model import Pairing, Precision
from rtl.core.fields import S
from rtl.core.isa import SLOT, Operand, Output, Step
from rtl.formats import Format

_ROTATE = {Pairing.ADJACENT: Step.ROTATE_ADJACENT, Pairing.HALVES: Step.ROTATE_HALVES}


@dataclass(frozen=True)
class HeadGroup:
    """Some heads of all tokens, in one vector register: row = token * heads + head.

    Attributes
    ----------
    register
        Vector register, FP32 or blocks; a head is whole slots.
    start, heads
        Which heads.
    maxima
        Row register with the greatest scale of each row, where it is quantised.
    """

    register: int
    start: int
    heads: int
    maxima: int = 0


def project(
    k: Kernel, c: Chunk, x: Blocks, linear: StoredLinear, head: int, per_register: int
) -> list[HeadGroup]:
    """Multiply to heads, each padded to whole slots."""
    width = SLOT * slots(head)
    groups = []
    for start in range(0, linear.outputs // head, per_register):
        heads = min(per_register, linear.outputs // head - start)
        register = k.a.vectors.take()
        inside = range(start * head, (start + heads) * head)
        for piece in linear.pieces:
            if piece.start in inside:
                first, within = divmod(piece.start - start * head, head)
                product(
                    k,
                    {"rows": c.rows},
                    x,
                    linear,
                    piece,
                    k.weights,
                    to=register,
                    into=piece.start > start * head,
                    result_offset=first * width + within,
                    result_pitch=heads * width,
                )
        groups.append(HeadGroup(register, start, heads))
    return groups


def finish(
    k: Kernel,
    c: Chunk,
    group: HeadGroup,
    linear: StoredLinear,
    head: int,
    precision: Precision,
    rotate: Pairing | None,
) -> HeadGroup:
    """Add the bias, rotate, quantise; gives the register of `group` back."""
    a = k.a
    stride = slots(head)
    steps: dict[str, Any] = {}
    bias = None
    if linear.bias is not None:
        bias = a.vectors.take()
        a.emit(
            "load",
            to=bias,
            stride=stride,
            rows=group.heads,
            columns=head,
            address=k.weights,
            address_offset=linear.bias + 4 * group.start * head,
            pitch=4 * head,
        )
        steps |= {
            "b_step": Step.ADD,
            "b_operand": Operand.VECTOR_HEAD,
            "b": bias,
            "b_stride": stride,
        }
    if rotate is not None:
        steps |= {
            "c_step": _ROTATE[rotate],
            "c_operand": Operand.VECTOR_TOKEN,
            "c": c.cos,
            "c_stride": stride,
            "d_operand": Operand.VECTOR_TOKEN,
            "d": c.sin,
            "d_stride": stride,
        }
    blocks, maxima = a.vectors.take(), a.rows.take()
    with a.scalars(1) as (rows,):
        a.multiply(rows, c.rows, group.heads)
        a.emit(
            "vector",
            a=group.register,
            a_stride=stride,
            rows=rows,
            heads=group.heads,
            columns=head,
            **steps,
            output=OUTPUT[precision.format],
            rule=RULE[precision.rule],
            to=blocks,
            stride=stride,
            maximal=True,
            maxima=maxima,
            maxima_pitch=group.heads,
        )
    a.vectors.give(group.register)
    if bias is not None:
        a.vectors.give(bias)
    return HeadGroup(blocks, group.start, group.heads, maxima)


def load_rotation(k: Kernel, c: Chunk, head: int) -> None:
    """Load what the heads of a chunk are rotated with."""
    a = k.a
    padded = SLOT * slots(head)
    with a.scalars(1) as (row,):
        a.multiply(row, c.position, 8 * padded)
        for register, behind in ((c.cos, 0), (c.sin, 4 * padded)):
            a.emit(
                "load",
                to=register,
                stride=slots(head),
                rows=c.rows,
                columns=padded,
                address=row,
                address_offset=k.stored.map["rope"].address + behind,
                pitch=8 * padded,
            )


def append(
    k: Kernel,
    c: Chunk,
    attention: StoredAttention,
    keys: list[HeadGroup],
    values: list[HeadGroup],
) -> None:
    """Store the keys and values of a chunk in the cache; gives their registers back.

    Who reads them needs a fence.
    """
    a = k.a
    shape = attention.shape
    for token in range(k.plan.tokens):
        behind = a.label(f"appended.{token}")
        if token:
            with a.scalars(1) as (wanted,):
                a.constant(wanted, token)
                a.emit("bge", a=wanted, b=c.rows, target=behind)
        _append_token(k, c, attention, keys, values, token)
        a.place(behind)
    for group in [*keys, *values]:
        a.vectors.give(group.register)
        a.rows.give(group.maxima)
    assert shape.head <= SLOT * attention.heads.blocks


def _append_token(
    k: Kernel,
    c: Chunk,
    attention: StoredAttention,
    keys: list[HeadGroup],
    values: list[HeadGroup],
    token: int,
) -> None:
    a = k.a
    shape, blocks = attention.shape, attention.heads.blocks
    cache = attention.cache
    words = 2 * blocks + 2
    with a.scalars(4) as (row, elements, scale, position):
        a.add(position, c.position, token)
        a.multiply(row, position, 4 * words)
        a.add(row, row, k.stored.map["places"].address)
        a.add(position, position, k.cache)

        def place(to: S, word: int) -> None:
            a.emit("lw", to=to, address=row, address_offset=4 * word)
            a.add(to, to, k.cache)

        def block(
            group: HeadGroup, head: int, index: int, fmt: Format, places: tuple[S, int, S, int]
        ) -> None:
            a.emit(
                "append",
                source=group.register,
                block=(token * group.heads + head) * blocks + index,
                format=MATRIX[fmt],
                elements=places[0],
                elements_offset=places[1],
                scale=places[2],
                scale_offset=places[3],
            )

        for index in range(blocks):
            place(elements, 2 * index)
            place(scale, 2 * index + 1)
            for group in keys:
                for head in range(group.heads):
                    offset = (group.start + head) * cache.key_stride
                    block(group, head, index, shape.keys.format, (elements, offset, scale, offset))
        if blocks > 1:
            place(scale, 2 * blocks)
            for group in keys:
                for head in range(group.heads):
                    a.emit(
                        "appendmax",
                        source=group.maxima,
                        row=token * group.heads + head,
                        address=scale,
                        address_offset=(group.start + head) * cache.key_stride,
                    )
        place(elements, 2 * blocks + 1)
        for group in values:
            for head in range(group.heads):
                for index in range(blocks):
                    chunk = (group.start + head) * blocks + index
                    value = cache.value + chunk * cache.value_stride
                    where = cache.scale + chunk * cache.scale_stride
                    places = elements, value, position, where
                    block(group, head, index, shape.values.format, places)


def gather(
    k: Kernel,
    c: Chunk,
    attention: StoredAttention,
    groups: list[HeadGroup],
    factors: list[int],
    visible: dict[str, Any],
) -> Blocks:
    """Multiply every head's output with its row's factor, and quantise their concatenation.

    Parameters
    ----------
    k, c, attention
        Kernel, chunk and layer.
    groups
        Heads, FP32; their registers are given back.
    factors
        Row registers, one per group.
    visible
        Fields of the range of positions; a row that sees none gives +0.
    """
    a = k.a
    shape, cut = attention.shape, attention.heads
    precision = attention.output.activation
    whole = shape.head % SLOT == 0
    total = -(-shape.heads * shape.head // SLOT)
    unit = cut.query_heads * cut.blocks if whole else k.plan.columns // SLOT
    blocks = k.take_blocks(total, unit, precision.format)
    scratch = k.stored.map["outputs"].address
    pitch = 4 * shape.heads * shape.head
    for group, factor in zip(groups, factors, strict=True):
        with a.scalars(1) as (rows,):
            a.multiply(rows, c.rows, group.heads)
            fields: dict[str, Any] = {
                "a": group.register,
                "a_stride": cut.blocks,
                "rows": rows,
                "heads": group.heads,
                "columns": shape.head,
                "b_step": Step.MUL,
                "b_operand": Operand.ROW,
                "b": factor,
                "b_stride": group.heads,
                **visible,
            }
            if not whole:
                a.emit(
                    "vector",
                    **fields,
                    output=Output.WORDS,
                    to=group.register,
                    stride=cut.blocks,
                )
                for head in range(group.heads):
                    a.emit(
                        "store",
                        source=group.register,
                        offset=head * cut.blocks,
                        stride=group.heads * cut.blocks,
                        rows=c.rows,
                        columns=shape.head,
                        address=scratch + 4 * (group.start + head) * shape.head,
                        pitch=pitch,
                    )
            else:
                target, _ = blocks.find(group.start * cut.blocks)
                # Heads of a token are neighbours; tokens are as far apart as the part has blocks,
                # which takes an instruction each unless the group is all of the part.
                together = target.blocks == group.heads * cut.blocks
                for token in range(1 if together else k.plan.tokens):
                    _gather_whole(k, c, fields, group, blocks, precision, token, together)
        a.vectors.give(group.register)
    if not whole:
        _reload(k, c, blocks, precision, shape.heads * shape.head, scratch, pitch)
    return blocks


def _gather_whole(
    k: Kernel,
    c: Chunk,
    fields: dict[str, Any],
    group: HeadGroup,
    blocks: Blocks,
    precision: Precision,
    token: int,
    together: bool,
) -> None:
    a = k.a
    stride = fields["a_stride"]
    target, offset = blocks.find(group.start * stride)
    behind = a.label(f"gathered.{token}")
    if token:
        with a.scalars(1) as (wanted,):
            a.constant(wanted, token)
            a.emit("bge", a=wanted, b=c.rows, target=behind)
    own = dict(fields)
    if not together:
        own |= {
            "rows": group.heads,
            "a_offset": token * group.heads * stride,
            "b_value": token * group.heads,
        }
        moved = [name for name in ("lo", "hi") if isinstance(fields[name], S)]
        for name in moved:
            own[name] = a.scalar()
            a.add(own[name], fields[name], token)
    a.emit(
        "vector",
        **own,
        output=OUTPUT[precision.format],
        rule=RULE[precision.rule],
        to=target.register,
        into=offset > 0 or token > 0,
        offset=offset + token * target.blocks,
        stride=stride,
        maximal=True,
        maxima=blocks.maxima,
        maxima_offset=token,
        maxima_pitch=1,
        maxima_token=True,
        maxima_resume=group.start > 0,
    )
    if not together:
        a.free(*(own[name] for name in moved))
    a.place(behind)


def _reload(
    k: Kernel,
    c: Chunk,
    blocks: Blocks,
    precision: Precision,
    width: int,
    scratch: int,
    pitch: int,
) -> None:
    """Quantise rows that lie compacted in memory."""
    columns = k.take_columns(width)
    for part in columns.parts:
        k.a.emit(
            "load",
            to=part.register,
            stride=part.stride,
            rows=c.rows,
            columns=part.columns,
            address=scratch + 4 * part.start,
            pitch=pitch,
        )
        quantise(k, {"rows": c.rows}, part, blocks, part.start // SLOT, precision)
    columns.free(k.a)
