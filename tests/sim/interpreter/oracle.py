"""What `vector` computes, one number at a time, from the text of the page and rational arithmetic.

Numbers are binary32 bits. Only exp2, reciprocal and rsqrt are the golden model's own.
"""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from rtl.core.isa import Function, Operand, Output, Reduction, Select, Step
from sim.golden import elementary
from tests import exact
from tests.exact import INFINITY, NAN, SIGN

LOG2E = 0x3FB8AA3B


def flush(a: int) -> int:
    if is_nan(a):
        return NAN
    return a if a & INFINITY else a & SIGN


def is_nan(a: int) -> bool:
    return a & 0x7FFFFFFF > INFINITY


def is_infinite(a: int) -> bool:
    return a & 0x7FFFFFFF == INFINITY


def order(a: int) -> int:
    """A key in the order of the numbers, -0 below +0."""
    return -(a & 0x7FFFFFFF) - 1 if a & SIGN else a


def add(a: int, b: int) -> int:
    a, b = flush(a), flush(b)
    if is_nan(a) or is_nan(b) or (is_infinite(a) and is_infinite(b) and a != b):
        return NAN
    if is_infinite(a) or is_infinite(b):
        return a if is_infinite(a) else b
    total = exact.fp32_value(a) + exact.fp32_value(b)
    return exact.fp32_bits(total, negative=bool(a & b & SIGN))


def sub(a: int, b: int) -> int:
    return add(a, b ^ SIGN)


def mul(a: int, b: int) -> int:
    a, b = flush(a), flush(b)
    sign = (a ^ b) & SIGN
    if is_nan(a) or is_nan(b):
        return NAN
    if is_infinite(a) or is_infinite(b):
        zero = 0 in (a & 0x7FFFFFFF, b & 0x7FFFFFFF)
        return NAN if zero else INFINITY | sign
    return exact.fp32_bits(exact.fp32_value(a) * exact.fp32_value(b), negative=bool(sign))


def minimum(a: int, b: int) -> int:
    a, b = flush(a), flush(b)
    return NAN if is_nan(a) or is_nan(b) else min(a, b, key=order)


def maximum(a: int, b: int) -> int:
    a, b = flush(a), flush(b)
    return NAN if is_nan(a) or is_nan(b) else max(a, b, key=order)


def clamp(a: int, b: int) -> int:
    return minimum(maximum(a, b ^ SIGN), b)


def ldexp(a: int, scale: int, offset: int) -> int:
    a = flush(a)
    if scale == 255 or is_nan(a):
        return NAN
    if is_infinite(a):
        return a
    value = exact.fp32_value(a) * Fraction(2) ** (scale - offset)
    return exact.fp32_bits(value, negative=bool(a & SIGN))


def golden(function, a: int) -> int:
    return int(function(np.array([a], np.uint32).view(np.float32)).view(np.uint32)[0])


def sigmoid(a: int) -> int:
    power = golden(elementary.exp2, mul(a, LOG2E | SIGN))
    return golden(elementary.reciprocal, add(0x3F800000, power))


STEPS = {
    Step.ADD: add,
    Step.SUB: sub,
    Step.MUL: mul,
    Step.MINIMUM: minimum,
    Step.MAXIMUM: maximum,
    Step.CLAMP: clamp,
    Step.LDEXP_MXFP4: lambda a, y: ldexp(a, y, 128),
    Step.LDEXP_MXINT8: lambda a, y: ldexp(a, y, 133),
    Step.TAKE: lambda a, y: flush(y),
}
FUNCTIONS = {
    Function.EXP: lambda a, f: golden(elementary.exp2, mul(a, LOG2E)),
    Function.EXP2: lambda a, f: golden(elementary.exp2, a),
    Function.RECIPROCAL: lambda a, f: golden(elementary.reciprocal, a),
    Function.RSQRT: lambda a, f: golden(elementary.rsqrt, a),
    Function.SIGMOID: lambda a, f: sigmoid(a),
    Function.GATE: lambda a, f: mul(a, sigmoid(mul(f, a))),
}
SUMS = (Reduction.SUM, Reduction.SQUARES)
ROTATE = (Step.ROTATE_ADJACENT, Step.ROTATE_HALVES)


class Registers:
    """Vector words, block codes and scales, and row words that were written, by place."""

    def __init__(self) -> None:
        self.words: dict[tuple[int, int], int] = {}
        self.blocks: dict[tuple[int, int], tuple[str, int, list[int]]] = {}
        self.rows: dict[tuple[int, int], int] = {}

    def put_word(self, register: int, place: int, word: int) -> None:
        self.words[register, place] = word
        self.blocks.pop((register, place // 8), None)

    def put_block(self, register: int, place: int, block: tuple[str, int, list[int]]) -> None:
        self.blocks[register, place] = block
        for word in range(8 * place, 8 * place + 8):
            self.words.pop((register, word), None)

    def copy(self) -> Registers:
        other = Registers()
        other.words, other.blocks, other.rows = map(dict, (self.words, self.blocks, self.rows))
        return other

    def forget(self, register: int) -> None:
        for kept in (self.words, self.blocks):
            for place in [place for place in kept if place[0] == register]:
                del kept[place]


def vector(o: SimpleNamespace, old: Registers, new: Registers) -> None:
    """Execute `vector` on what is in `old`, and write to `new`."""
    rows = [r for r in range(o.rows) if not o.masked or o.mask >> r & 1]
    finished = [_row(o, old, r, *divmod(r, o.heads)) for r in rows]
    if o.suspend and o.reduction in SUMS and not o.resume:
        new.forget(o.partials)
    if o.output in (Output.WORDS, Output.MXFP4, Output.MXINT8) and not o.into:
        new.forget(o.to)
    greatest: dict[int, int] = {}
    for r, (x, total, partials) in zip(rows, finished, strict=True):
        token, head = divmod(r, o.heads)
        if total is not None:
            new.rows[o.total, o.total_offset + o.total_pitch * token + head] = total
        for i, partial in enumerate(partials or []):
            new.put_word(o.partials, 32 * (o.partials_offset + r) + i, partial)
        if o.output is Output.ROW:
            new.rows[o.to, o.offset + o.stride * token + head] = x[0]
        if o.output is Output.WORDS:
            for j, bits in enumerate(x):
                new.put_word(o.to, 32 * (o.offset + o.stride * r) + j, bits)
        if o.output in (Output.MXFP4, Output.MXINT8):
            place = o.maxima_offset + o.maxima_pitch * token + (0 if o.maxima_token else head)
            if o.maxima_resume and o.maximal:
                greatest.setdefault(place, old.rows[o.maxima, place])
            fmt, padded = o.output.name.lower(), x + [0] * (-len(x) % 32)
            for block in range(len(padded) // 32):
                part = padded[32 * block : 32 * block + 32]
                scale, codes = exact.quantise_block(part, fmt, o.rule.name.lower())
                new.put_block(o.to, o.offset + o.stride * r + block, (fmt, scale, codes))
                greatest[place] = max(greatest.get(place, 0), 0 if scale == 255 else scale)
    if o.maximal:
        new.rows.update({(o.maxima, place): scale for place, scale in greatest.items()})


def _row(o: SimpleNamespace, old: Registers, r: int, token: int, head: int):
    """Return the elements of a row, its total if it has one, and its partial sums likewise."""

    def first(j: int) -> int:
        if o.b_step is Step.TAKE:
            return 0
        if o.a_row:
            return old.rows[o.a, o.a_offset + o.a_stride * token + head]
        return old.words[o.a, 32 * (o.a_offset + o.a_stride * r) + j]

    def operand(which: str, j: int) -> int:
        register, value, stride, kind = (
            getattr(o, name) for name in (which, f"{which}_value", f"{which}_stride",
                                          f"{which}_operand")
        )  # fmt: skip
        if kind is Operand.CONSTANT:
            return value
        if kind in (Operand.ROW, Operand.ROW_HEAD, Operand.ROW_TOKEN):
            place = {
                Operand.ROW: stride * token + head,
                Operand.ROW_HEAD: head,
                Operand.ROW_TOKEN: stride * token,
            }[kind]
            return old.rows[register, value + place]
        which_row = {
            Operand.VECTOR: r,
            Operand.VECTOR_HEAD: head,
            Operand.VECTOR_TOKEN: token,
            Operand.VECTOR_ONE: 0,
        }[kind]
        return old.words[register, 32 * (value + stride * which_row) + j]

    def step(which: str, x: list[int]) -> list[int]:
        what = getattr(o, f"{which}_step")
        if what is Step.NONE:
            return x
        if what in ROTATE:
            half = o.columns // 2
            adjacent = what is Step.ROTATE_ADJACENT
            partner = [j ^ 1 if adjacent else (j + half) % o.columns for j in range(o.columns)]
            return [
                add(mul(x[j], operand("c", j)), mul(x[partner[j]], operand("d", j)))
                for j in range(o.columns)
            ]
        return [STEPS[what](x[j], operand(which, j)) for j in range(o.columns)]

    x = step("c", step("b", [first(j) for j in range(o.columns)]))
    if o.function is not Function.NONE:
        x = [FUNCTIONS[o.function](a, o.function_value) for a in x]
    reduced, x = x, step("d", x)
    lo, hi = (bound + token * o.range_step for bound in (o.lo, o.hi))
    stays = [True] * len(x)
    if o.select is Select.ELEMENTS:
        stays = [lo <= o.first + j < hi for j in range(len(x))]
    elif o.select is Select.ROWS:
        stays = [lo < hi] * len(x)
    x, reduced = (
        [a if stay else 0 for a, stay in zip(y, stays, strict=True)] for y in (x, reduced)
    )

    total, partials = None, None
    if o.reduction is Reduction.MAXIMUM:
        total = INFINITY | SIGN
        if o.resume:
            total = old.rows[o.initial, o.initial_offset + o.initial_pitch * token + head]
        for a, stay in zip(reduced, stays, strict=True):
            total = maximum(total, a) if stay else total
        total = flush(total)
    elif o.reduction in SUMS:
        partials = [0] * 32
        if o.resume:
            place = 32 * (o.partials_offset + r)
            partials = [flush(old.words[o.partials, place + i]) for i in range(32)]
        for j, a in enumerate(reduced):
            value = mul(a, a) if o.reduction is Reduction.SQUARES else a
            partials[j % 32] = add(partials[j % 32], value)
        if not o.suspend:
            for half in (16, 8, 4, 2, 1):
                partials = [add(partials[i], partials[i + half]) for i in range(half)]
            total, partials = partials[0], None
    return x, total, partials
