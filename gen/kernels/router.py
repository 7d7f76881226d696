"""Routers: which experts a token takes, and with what weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gen.assembler import Assembler
from gen.kernels.linear import product
from gen.kernels.plan import Plan
from gen.kernels.stored import StoredRouter
from gen.kernels.values import Blocks, Chunk, Kernel, Phases, slots
from gen.memory_map import DoesNotFit
from gen.models.model import Router, RouterKind
from rtl.core.fields import S
from rtl.core.isa import MASK_SLOTS, SLOT, Function, Operand, Output, Reduction, Step

TINY = np.float32(1e-20)
"""What keeps the weights of vanishing sigmoids finite."""


@dataclass(frozen=True)
class Choice:
    """Experts and weights of every token: registers with a row of slots per token.

    Attributes
    ----------
    indices, weights
        Vector registers, rows `stride` slots apart.
    stride
        Slots from one token to the next.
    size
        Experts of a group; a group takes whole slots, which indices count.
    """

    indices: int
    weights: int
    stride: int
    size: int

    def read(
        self, a: Assembler, index: S | None, weight: S | None, token: S | int, slot: S
    ) -> None:
        """Read the index of a slot's expert, and its weight."""
        with a.scalars(1) as (place,):
            if isinstance(token, S):
                a.multiply(place, token, self.stride)
            else:
                a.constant(place, token * self.stride)
            if weight is not None:
                a.emit("readv", to=weight, source=self.weights, slot=place, word=slot)
            if index is not None:
                a.emit("readv", to=index, source=self.indices, slot=place, word=slot)

    def expert(self, a: Assembler, to: S, index: S) -> None:
        """Turn an index into the number of the expert."""
        padded = SLOT * slots(self.size)
        if padded == self.size:
            a.emit("add", to=to, a=index, b=0)
            return
        with a.scalars(1) as (within,):
            a.emit("and", to=within, a=index, b=padded - 1)
            a.emit("shr", to=to, a=index, b=padded.bit_length() - 1)
            a.multiply(to, to, self.size)
            a.emit("add", to=to, a=to, b=within)

    def match(self, a: Assembler, to: S, slot: int, index: S, rows: S) -> None:
        """Find the tokens that have an expert in a slot."""
        a.emit(
            "match",
            to=to,
            source=self.indices,
            stride=self.stride,
            word=slot,
            rows=rows,
            equal=index,
        )

    def free(self, a: Assembler) -> None:
        """Give the registers back."""
        a.vectors.give(self.indices, self.weights)


def route(k: Kernel, c: Chunk, router: StoredRouter, x: Blocks) -> Phases:
    """Choose experts for the tokens of a chunk.

    Returns
    -------
    Choice
    """
    logits, row = _logits(k, c, router, x)
    yield
    if router.shape.kind is RouterKind.SOFTMAX:
        return _softmax(k, c, router, logits, row)
    return _sigmoid(k, c, router, logits, row)


def _logits(k: Kernel, c: Chunk, router: StoredRouter, x: Blocks) -> tuple[int, int]:
    """Compute logits, with their bias; return their register and the slots of a row."""
    a = k.a
    size = router.experts // router.shape.groups
    stride = slots(size) * router.shape.groups
    logits = a.vectors.take()
    for piece in router.linear.pieces:
        group, within = divmod(piece.start, size)
        product(
            k,
            {"rows": c.rows},
            x,
            router.linear,
            piece,
            k.weights,
            to=logits,
            into=piece.start > 0,
            result_offset=SLOT * slots(size) * group + within,
            result_pitch=SLOT * stride,
        )
    if router.linear.bias is not None:
        _add_grouped(k, c, router, logits, stride, router.linear.bias)
    return logits, stride


def _grouped_row(k: Kernel, router: StoredRouter, offset: int) -> int:
    """Load a number for every expert, groups as far apart as in the logits."""
    size = router.experts // router.shape.groups
    register = k.a.vectors.take()
    k.a.emit(
        "load",
        to=register,
        stride=slots(size),
        rows=router.shape.groups,
        columns=size,
        address=k.weights,
        address_offset=offset,
        pitch=4 * size,
    )
    return register


def _add_grouped(
    k: Kernel, c: Chunk, router: StoredRouter, register: int, stride: int, offset: int
) -> None:
    """Add a number for every expert to a register, rows being pairs of token and group."""
    a, shape = k.a, router.shape
    size = router.experts // shape.groups
    added = _grouped_row(k, router, offset)
    with a.scalars(1) as (rows,):
        a.multiply(rows, c.rows, shape.groups)
        a.emit(
            "vector",
            a=register,
            a_stride=stride // shape.groups,
            rows=rows,
            heads=shape.groups,
            columns=size,
            b_step=Step.ADD,
            b_operand=Operand.VECTOR_HEAD,
            b=added,
            b_stride=stride // shape.groups,
            output=Output.WORDS,
            to=register,
            stride=stride // shape.groups,
        )
    a.vectors.give(added)


def _softmax(k: Kernel, c: Chunk, router: StoredRouter, logits: int, row: int) -> Choice:
    a, top_k = k.a, router.shape.top_k
    stride = slots(top_k)
    indices, values = a.vectors.take(), a.vectors.take()
    a.emit(
        "topk",
        a=logits,
        a_stride=row,
        rows=c.rows,
        columns=router.experts,
        k=top_k,
        indices=indices,
        values=values,
        stride=stride,
    )
    a.vectors.give(logits)
    greatest, total = a.rows.take(), a.rows.take()
    chosen: dict[str, Any] = {
        "a": values,
        "a_stride": stride,
        "rows": c.rows,
        "columns": top_k,
    }
    written: dict[str, Any] = {"output": Output.WORDS, "to": values, "stride": stride}
    a.emit("vector", **chosen, reduction=Reduction.MAXIMUM, total=greatest, total_pitch=1)
    a.emit(
        "vector",
        **chosen,
        b_step=Step.SUB,
        b_operand=Operand.ROW,
        b=greatest,
        b_stride=1,
        function=Function.EXP,
        reduction=Reduction.SUM,
        total=total,
        total_pitch=1,
        **written,
    )
    _reciprocal(k, c, total)
    a.emit(
        "vector",
        **chosen,
        b_step=Step.MUL,
        b_operand=Operand.ROW,
        b=total,
        b_stride=1,
        **written,
    )
    a.rows.give(greatest, total)
    return Choice(indices, values, stride, SLOT * slots(router.experts))


def _reciprocal(k: Kernel, c: Chunk, total: int, **step: Any) -> None:
    k.a.emit(
        "vector",
        a_row=True,
        a=total,
        a_stride=1,
        rows=c.rows,
        **step,
        function=Function.RECIPROCAL,
        output=Output.ROW,
        to=total,
        stride=1,
    )


def _sigmoid(k: Kernel, c: Chunk, router: StoredRouter, logits: int, row: int) -> Choice:
    """Choose by sigmoids plus a correction, among the best groups; weigh by sigmoids."""
    a, shape = k.a, router.shape
    size, groups = router.experts // shape.groups, shape.groups
    per_group = slots(size)
    sigmoids, choice = logits, a.vectors.take()
    with a.scalars(1) as (rows,):
        a.multiply(rows, c.rows, groups)
        whole: dict[str, Any] = {
            "a_stride": per_group,
            "rows": rows,
            "heads": groups,
            "columns": size,
            "output": Output.WORDS,
            "stride": per_group,
        }
        a.emit("vector", a=logits, **whole, function=Function.SIGMOID, to=sigmoids)
        added: dict[str, Any] = {}
        if router.correction is not None:
            correction = _grouped_row(k, router, router.correction)
            added = {
                "b_step": Step.ADD,
                "b_operand": Operand.VECTOR_HEAD,
                "b": correction,
                "b_stride": per_group,
            }
        a.emit("vector", a=sigmoids, **whole, **added, to=choice)
        if router.correction is not None:
            a.vectors.give(correction)
        if groups > 1:
            ordered = _best_groups(k, c, router, choice, rows)
    top_k = shape.top_k
    stride = slots(top_k)
    indices, values = a.vectors.take(), a.vectors.take()
    fields: dict[str, Any] = {"k": top_k, "indices": indices, "values": values, "stride": stride}
    if groups == 1:
        a.emit(
            "topk",
            a=choice,
            a_stride=row,
            rows=c.rows,
            columns=router.experts,
            carry=True,
            carried=sigmoids,
            **fields,
        )
    else:
        _among_groups(k, c, router, choice, sigmoids, ordered, fields)
    a.vectors.give(choice, sigmoids)
    total = a.rows.take()
    chosen: dict[str, Any] = {
        "a": values,
        "a_stride": stride,
        "rows": c.rows,
        "columns": top_k,
    }
    a.emit("vector", **chosen, reduction=Reduction.SUM, total=total, total_pitch=1)
    _reciprocal(k, c, total, b_step=Step.ADD, b_value=TINY)
    a.emit(
        "vector",
        **chosen,
        b_step=Step.MUL,
        b_operand=Operand.ROW,
        b=total,
        b_stride=1,
        c_step=Step.MUL,
        c_value=shape.scale,
        output=Output.WORDS,
        to=values,
        stride=stride,
    )
    a.rows.give(total)
    return Choice(indices, values, stride, size if groups > 1 else SLOT * slots(size))


def _best_groups(k: Kernel, c: Chunk, router: StoredRouter, choice: int, rows: S) -> int:
    """Order groups by the sum of their two best choices; return the register of indices.

    Group g has index 32 * g.
    """
    a, shape = k.a, router.shape
    size, groups = router.experts // shape.groups, shape.groups
    best = min(2, size)
    scores, indices, values = a.rows.take(), a.vectors.take(), a.vectors.take()
    a.emit(
        "topk",
        a=choice,
        a_stride=slots(size),
        rows=rows,
        columns=size,
        k=best,
        indices=indices,
        values=values,
    )
    a.emit(
        "vector",
        a=values,
        a_stride=1,
        rows=rows,
        heads=groups,
        columns=best,
        reduction=Reduction.SUM,
        total=scores,
        total_pitch=groups,
    )
    a.emit(
        "vector",
        a_row=True,
        a=scores,
        a_stride=groups,
        rows=rows,
        heads=groups,
        output=Output.WORDS,
        to=values,
        stride=1,
    )
    a.emit(
        "topk",
        a=values,
        a_stride=groups,
        rows=c.rows,
        columns=SLOT * (groups - 1) + 1,
        segment=1,
        k=shape.top_groups,
        indices=indices,
        values=values,
    )
    a.rows.give(scores)
    a.vectors.give(values)
    return indices


def _among_groups(
    k: Kernel,
    c: Chunk,
    router: StoredRouter,
    choice: int,
    sigmoids: int,
    ordered: int,
    fields: dict[str, Any],
) -> None:
    """Choose among the experts of the best groups, token by token."""
    a, shape = k.a, router.shape
    size, groups = router.experts // shape.groups, shape.groups
    per_group = slots(size)
    for token in range(k.plan.tokens):
        behind = a.label(f"chosen.{token}")
        with a.scalars(3) as (mask, group, bit):
            if token:
                a.constant(group, token)
                a.emit("bge", a=group, b=c.rows, target=behind)
            a.constant(mask, 0)
            for place in range(shape.top_groups):
                a.emit("readv", to=group, source=ordered, slot=token, word=place)
                a.emit("shr", to=group, a=group, b=5)
                a.multiply(group, group, per_group)
                a.constant(bit, (1 << per_group) - 1)
                a.emit("shl", to=bit, a=bit, b=group)
                a.emit("or", to=mask, a=mask, b=bit)
            a.emit(
                "topk",
                a=choice,
                a_offset=token * groups * per_group,
                rows=1,
                columns=SLOT * per_group * groups,
                # Only a group of less than a slot has gaps; see `check_router`.
                segment=min(size, SLOT),
                slots_masked=True,
                slot_mask=mask,
                carry=True,
                carried=sigmoids,
                into=token > 0,
                offset=token * int(fields["stride"]),
                **fields,
            )
        a.place(behind)
    a.vectors.give(ordered)


def check_router(router: Router, plan: Plan) -> None:
    """Raise `DoesNotFit` unless a router's groups can be told apart in one register."""
    experts, groups, tokens = router.linear.shape[0], router.groups, plan.tokens
    size = experts // groups
    wanted = tokens * groups * slots(size)
    if wanted * SLOT > plan.registers:
        raise DoesNotFit(
            f"Logits of {experts} experts in {groups} groups for {tokens} "
            f"tokens take {wanted * SLOT} words, a vector register has {plan.registers}."
        )
    if groups > 1 and tokens * groups > plan.config.row_length:
        raise DoesNotFit(
            f"groups is {groups}; scores of the groups of {tokens} tokens need row registers of "
            f"{tokens * groups} words, they have {plan.config.row_length}."
        )
    if groups > 1 and groups * slots(size) > MASK_SLOTS:
        raise DoesNotFit(
            f"groups is {groups}; groups of {size} experts take {groups * slots(size)} slots, a "
            f"mask has {MASK_SLOTS}."
        )
    if groups > 1 and size > SLOT and size % SLOT:
        raise DoesNotFit(
            f"groups is {groups}; groups of more than {SLOT} experts must be multiples of "
            f"{SLOT}, these have {size}."
        )
