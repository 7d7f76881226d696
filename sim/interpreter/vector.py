"""What the vector unit does."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from gen.quantise import quantise
from rtl.core.isa import MASK_SLOTS, SLOT, Function, Operand, Output, Reduction, Rule, Select, Step
from rtl.formats import BLOCK, SCALE_NAN, Format, ScaleRule
from sim.golden import elementary, formulas, fp32
from sim.golden.formats import fold_scale
from sim.interpreter.errors import Fault, check_apart
from sim.interpreter.registers import RowRegisters, VectorRegisters
from sim.interpreter.rows import Rows

_ARITHMETIC: dict[Step, Callable[[Any, Any], fp32.Floats]] = {
    Step.ADD: fp32.add,
    Step.SUB: fp32.sub,
    Step.MUL: fp32.mul,
    Step.MINIMUM: fp32.minimum,
    Step.MAXIMUM: fp32.maximum,
    Step.CLAMP: lambda x, y: fp32.clamp(x, _negated(y), y),
}
_FUNCTIONS: dict[Function, Callable[[fp32.Floats], fp32.Floats]] = {
    Function.EXP: formulas.exp,
    Function.EXP2: elementary.exp2,
    Function.RECIPROCAL: elementary.reciprocal,
    Function.RSQRT: elementary.rsqrt,
    Function.SIGMOID: formulas.sigmoid,
}
_FORMATS = {Output.MXFP4: Format.MXFP4, Output.MXINT8: Format.MXINT8}
_LDEXP = {Step.LDEXP_MXFP4: Format.MXFP4, Step.LDEXP_MXINT8: Format.MXINT8}
_RULES = {Rule.FLOOR: ScaleRule.FLOOR, Rule.CEIL: ScaleRule.CEIL}
_ROTATE = (Step.ROTATE_ADJACENT, Step.ROTATE_HALVES)
_VECTOR_ROWS = {
    Operand.VECTOR: "index",
    Operand.VECTOR_HEAD: "head",
    Operand.VECTOR_TOKEN: "token",
}

_SUMS = (Reduction.SUM, Reduction.SQUARES)
_ROTATIONS = (*_VECTOR_ROWS, Operand.VECTOR_ONE)


class VectorUnit:
    """One pass over rows of vector registers.

    Parameters
    ----------
    vectors, rows
        The registers it reads and writes.
    """

    def __init__(self, vectors: VectorRegisters, rows: RowRegisters) -> None:
        self.vectors, self.row_registers = vectors, rows

    def vector(self, o: SimpleNamespace) -> None:
        """Execute `vector`; `o` has all its fields as numbers."""
        rows = Rows.of(o)
        if o.first % BLOCK:
            raise Fault(f"first is {o.first}, it must be a multiple of {BLOCK}")
        if (o.a_row or o.output is Output.ROW) and o.columns != 1:
            raise Fault(f"columns is {o.columns}, of a row register it must be 1")
        if o.output in _FORMATS and not o.columns:
            raise Fault("columns is 0, of blocks it must be at least 1")
        self._check_side(o)
        self._check_destinations(o)
        x = self._first_operand(o, rows)
        x = self._step(o, rows, x, "b")
        if o.c_step in _ROTATE:
            reduced = x = self._rotate(o, rows, x)
        else:
            x = self._step(o, rows, x, "c")
            if o.function is Function.GATE:
                x = fp32.mul(x, formulas.sigmoid(fp32.mul(_constant(o.function_value), x)))
            elif o.function is not Function.NONE:
                x = _FUNCTIONS[o.function](x)
            reduced = x
            x = self._step(o, rows, x, "d")

        inside = np.ones(x.shape, np.bool_)
        if o.select is not Select.ALL:
            lo, hi = rows.range(o)
            inside &= lo < hi
            if o.select is Select.ELEMENTS:
                position = o.first + np.arange(o.columns)
                inside &= (lo <= position) & (position < hi)
            x, reduced = (np.where(inside, y, np.float32(0)) for y in (x, reduced))
        self._reduce(o, rows, reduced, inside)
        self._write(o, rows, x)

    def _check_side(self, o: SimpleNamespace) -> None:
        """Refuse two uses of the multiplier beside the function: rotation, GATE, squares."""
        users = [
            name
            for name, used in (
                (o.c_step.name.lower(), o.c_step in _ROTATE),
                (f"function {o.function.name.lower()}", o.function is not Function.NONE),
                ("reduction squares", o.reduction is Reduction.SQUARES),
            )
            if used
        ]
        if len(users) > 1:
            raise Fault(f"{users[0]} and {users[1]} do not go together")
        if o.c_step in _ROTATE and o.reduction is not Reduction.NONE:
            name = o.reduction.name.lower()
            raise Fault(f"reduction is {name}, with rotation it must be none")
        if o.c_step in _ROTATE and o.d_step is not Step.NONE:
            raise Fault(f"d_step is {o.d_step.name.lower()}, with rotation it must be none")

    def _check_destinations(self, o: SimpleNamespace) -> None:
        vectors, rows = {}, {}
        if o.output is Output.ROW:
            rows["to"] = o.to
        elif o.output is not Output.NONE:
            vectors["to"] = o.to
        if o.maximal and o.output in _FORMATS:
            rows["maxima"] = o.maxima
        if o.suspend and o.reduction in _SUMS:
            vectors["partials"] = o.partials
        elif o.reduction is not Reduction.NONE:
            rows["total"] = o.total
        check_apart("v", **vectors)
        check_apart("r", **rows)

    def topk(self, o: SimpleNamespace) -> None:
        """Execute `topk`."""
        check_apart("v", indices=o.indices, values=o.values)
        rows = Rows(o.rows, 1, False, 0)
        starts = SLOT * (o.a_offset + o.a_stride * rows.index)
        column = np.arange(o.columns)
        column = column[column % SLOT < o.segment]
        if o.slots_masked:
            if o.columns > SLOT * MASK_SLOTS:
                raise Fault(f"columns is {o.columns}, with a mask there are {MASK_SLOTS} slots")
            column = column[o.slot_mask >> column // SLOT & 1 != 0]
        if not 1 <= o.k <= column.size:
            raise Fault(f"k is {o.k}, with {column.size} elements it must be 1 to {column.size}")
        compared = self._columns(o.a, starts, column)
        chosen = fp32.top_k(compared, o.k)
        source = self._columns(o.carried, starts, column) if o.carry else compared
        values = np.take_along_axis(source, chosen, axis=-1)
        for register, words in ((o.indices, column[chosen]), (o.values, values.view(np.uint32))):
            if not o.into:
                self.vectors.fresh(register)
            self.vectors.write_words(
                register, SLOT * (o.offset + o.stride * rows.index), words.astype(np.uint32)
            )

    def _columns(self, register: int, starts: Any, column: Any) -> fp32.Floats:
        words = [self.vectors.read_words(register, starts + c, 1) for c in column]
        return np.concatenate(words, axis=1).view(np.float32)

    def _first_operand(self, o: SimpleNamespace, rows: Rows) -> fp32.Floats:
        if o.b_step is Step.TAKE:
            return np.zeros((len(rows), o.columns), np.float32)  # a is not read
        if o.a_row:
            words = self.row_registers.read(o.a, rows.places(o.a_offset, o.a_stride))
            return words[:, None].view(np.float32)
        return self.vectors.floats(o.a, SLOT * (o.a_offset + o.a_stride * rows.index), o.columns)

    def _step(self, o: SimpleNamespace, rows: Rows, x: fp32.Floats, which: str) -> fp32.Floats:
        step: Step = getattr(o, f"{which}_step")
        if step is Step.NONE:
            return x
        if step in _ROTATE:
            raise Fault(f"{which}_step is {step.name.lower()}, only c_step may be that")
        y = self._operand(o, rows, which)
        if step in _LDEXP:
            scales = y.view(np.uint32)
            if (scales > SCALE_NAN).any():
                raise Fault(f"{which} holds {scales.max()}, scales are 0 to {SCALE_NAN}")
            return fold_scale(x, scales.astype(np.uint8), _LDEXP[step])
        if step is Step.TAKE:
            return np.broadcast_to(fp32.flush(y), x.shape)
        return _ARITHMETIC[step](x, y)

    def _rotate(self, o: SimpleNamespace, rows: Rows, x: fp32.Floats) -> fp32.Floats:
        """Return ``x * C + partner * S``."""
        for name in ("c_operand", "d_operand"):
            if (operand := getattr(o, name)) not in _ROTATIONS:
                raise Fault(f"{name} is {operand.name.lower()}, rotation takes a vector")
        if o.columns % 2:
            raise Fault(f"columns is {o.columns}, rotation takes an even number")
        column = np.arange(o.columns)
        if o.c_step is Step.ROTATE_ADJACENT:
            partner = x[:, column ^ 1]
        else:
            partner = x[:, (column + o.columns // 2) % max(o.columns, 1)]
        c = self._operand(o, rows, "c")
        s = self._operand(o, rows, "d")
        return fp32.add(fp32.mul(x, c), fp32.mul(partner, s))

    def _operand(self, o: SimpleNamespace, rows: Rows, which: str) -> fp32.Floats:
        """Return y of a step, which broadcasts to [rows, columns]."""
        operand: Operand = getattr(o, f"{which}_operand")
        register, value, stride = (
            getattr(o, name) for name in (which, f"{which}_value", f"{which}_stride")
        )
        if operand is Operand.CONSTANT:
            return _constant(value)
        if operand is Operand.VECTOR_ONE:
            return self.vectors.floats(register, np.array([SLOT * value]), o.columns)
        if operand in _VECTOR_ROWS:
            row = getattr(rows, _VECTOR_ROWS[operand])
            starts = SLOT * (value + stride * row)
            return self.vectors.floats(register, starts, o.columns)
        place = {
            Operand.ROW: rows.places(value, stride),
            Operand.ROW_HEAD: value + rows.head,
            Operand.ROW_TOKEN: value + rows.token * stride,
        }[operand]
        return self.row_registers.read(register, place)[:, None].view(np.float32)

    def _reduce(self, o: SimpleNamespace, rows: Rows, x: fp32.Floats, inside: Any) -> None:
        if o.reduction is Reduction.NONE:
            return
        places = rows.places(o.total_offset, o.total_pitch)
        if o.reduction is Reduction.MAXIMUM:
            if o.resume:
                start = self.row_registers.read(
                    o.initial, rows.places(o.initial_offset, o.initial_pitch)
                ).view(np.float32)
            else:
                start = np.full(len(rows), -np.inf, np.float32)
            seen = np.where(inside, x, np.float32(-np.inf))
            total = fp32.maximum(start, fp32.reduce_max(seen)) if o.columns else fp32.flush(start)
            self.row_registers.write(o.total, places, total.view(np.uint32))
            return
        if o.reduction is Reduction.SQUARES:
            x = fp32.mul(x, x)
        starts = SLOT * (o.partials_offset + rows.index)
        partials = self.vectors.floats(o.partials, starts, SLOT) if o.resume else None
        partials = fp32.sum_partials(x, None if partials is None else fp32.flush(partials))
        if o.suspend:
            if not o.resume:
                self.vectors.fresh(o.partials)
            self.vectors.write_words(o.partials, starts, partials.view(np.uint32))
        else:
            total = fp32.fold_partials(partials)
            self.row_registers.write(o.total, places, total.view(np.uint32))

    def _write(self, o: SimpleNamespace, rows: Rows, x: fp32.Floats) -> None:
        if o.output is Output.ROW:
            places = rows.places(o.offset, o.stride)
            self.row_registers.write(o.to, places, np.ascontiguousarray(x).view(np.uint32)[:, 0])
        elif o.output is Output.WORDS:
            if not o.into:
                self.vectors.fresh(o.to)
            starts = SLOT * (o.offset + o.stride * rows.index)
            self.vectors.write_words(o.to, starts, np.ascontiguousarray(x).view(np.uint32))
        elif o.output in _FORMATS:
            self._quantise(o, rows, x)

    def _quantise(self, o: SimpleNamespace, rows: Rows, x: fp32.Floats) -> None:
        if not o.into:
            self.vectors.fresh(o.to)
        if not len(rows):
            return
        blocks = quantise(x, _FORMATS[o.output], _RULES[o.rule])
        if o.maximal:
            self._maxima(o, rows, blocks.maximum_scale.astype(np.uint32))
        self.vectors.write_blocks(o.to, o.offset + o.stride * rows.index, blocks)

    def _maxima(self, o: SimpleNamespace, rows: Rows, greatest: Any) -> None:
        """Write the greatest scales, of every row or of every token."""
        if o.maxima_token:
            place = o.maxima_offset + rows.token * o.maxima_pitch
        else:
            place = rows.places(o.maxima_offset, o.maxima_pitch)
        if o.maxima_resume:
            old = self.row_registers.read(o.maxima, place)
            if (old > SCALE_NAN).any():
                raise Fault(f"r{o.maxima} holds {old.max()}, scales are 0 to {SCALE_NAN}")
            greatest = np.maximum(greatest, old)
        where, inverse = np.unique(place, return_inverse=True)
        merged = np.zeros(where.size, np.uint32)
        np.maximum.at(merged, inverse, greatest)
        self.row_registers.write(o.maxima, where, merged)


def _constant(bits: int) -> fp32.Floats:
    return fp32.from_bits(np.uint32(bits))


def _negated(y: fp32.Floats) -> fp32.Floats:
    return fp32.from_bits(fp32.to_bits(y) ^ np.uint32(0x80000000))
