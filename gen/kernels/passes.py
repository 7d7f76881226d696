"""The instructions of a pass: query heads of some tokens that share keys.

They are rows of the same matrix instructions. If all positions a pass sees fit one register its
scores never leave the registers. Otherwise they go through memory, a stretch of positions at a
time, three times over: scores and their maximum; probabilities, their sum and the scales they will
be quantised with; the products with V. The bits are the same, since maxima do not depend on order,
sums go by absolute position, and the window of a product is anchored by the maximum over the whole
row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gen.kernels.heads import HeadGroup
from gen.kernels.stored import StoredAttention
from gen.kernels.stretch import Stretch, chained, stretches
from gen.kernels.values import LDEXP, MATRIX, OUTPUT, RULE, Chunk, Kernel
from rtl.core.fields import S
from rtl.core.isa import SLOT, Function, LoadKind, Operand, Output, Reduction, Select, Step
from rtl.formats import BLOCK


@dataclass(frozen=True)
class Pass:
    """Some heads of some tokens.

    Attributes
    ----------
    group
        Their queries.
    output
        Their outputs, FP32.
    factor
        Row register for what outputs are multiplied with, rows as in `group`.
    head
        First head, counted in the group.
    token
        First token.
    """

    group: HeadGroup
    output: HeadGroup
    factor: int
    head: int
    token: int


class Passes:
    """Writes the passes of one chunk.

    Parameters
    ----------
    k, c, attention
        Kernel, chunk and layer.
    """

    def __init__(self, k: Kernel, c: Chunk, attention: StoredAttention) -> None:
        self.k, self.c = k, c
        self.a, self.shape, self.cut = k.a, attention.shape, attention.heads
        self.cache = attention.cache
        self.sinks: dict[int, int] = {}
        """Row registers with the sinks of a group, by its first head."""
        self.scores = k.stored.map["scores"].address
        self.pitch = 4 * k.stored.capacity

    # --- fields ---

    def rows_of(self, stretch: Stretch) -> S:
        """Write the number of rows of a pass."""
        rows = self.a.scalar()
        self.a.multiply(rows, stretch.rows, self.cut.pass_heads)
        return rows

    def selected(self, stretch: Stretch) -> dict[str, Any]:
        """Return the fields that leave only what is visible."""
        return {
            "select": Select.ELEMENTS,
            "lo": stretch.lo,
            "hi": stretch.hi,
            "range_step": True,
            "first": stretch.start,
            "columns": stretch.span,
        }

    @property
    def slots(self) -> int:
        """Slots of a row of scores."""
        return self.cut.positions // SLOT

    # --- instructions ---

    def multiply_keys(self, p: Pass, stretch: Stretch, rows: S) -> int:
        """Multiply queries with keys; return the register of the scores."""
        a, cut, shape = self.a, self.cut, self.shape
        group = self.k.plan.config.group_outputs
        layout = self.cache.keys
        kv_head = (p.group.start + p.head) // shape.group
        scores = a.vectors.take()
        with a.scalars(5) as (outputs, beats, address, lo, hi):
            a.add(outputs, stretch.span, group - 1)
            a.emit("and", to=outputs, a=outputs, b=-group)
            a.emit("shr", to=beats, a=outputs, b=group.bit_length() - 1)
            each = layout.group_beats(group).total
            a.multiply(beats, beats, each)
            a.emit("add", to=address, a=self.k.cache, b=0)
            a.emit("add", to=hi, a=stretch.hi, b=0)
            if isinstance(stretch.start, S):
                with a.scalars(1) as (offset,):
                    a.emit("shr", to=offset, a=stretch.start, b=group.bit_length() - 1)
                    a.multiply(offset, offset, each * self.k.plan.config.beat_stride)
                    a.emit("add", to=address, a=address, b=offset)
                a.emit("sub", to=hi, a=hi, b=stretch.start)
            ranged: dict[str, Any] = {"lo": stretch.lo, "hi": hi}
            if isinstance(stretch.lo, S):
                a.emit("sub", to=lo, a=stretch.lo, b=stretch.start)
                ranged["lo"] = lo
            a.emit(
                "matrix",
                address=address,
                address_offset=kv_head * self.cache.key_stride,
                beats=beats,
                outputs=outputs,
                blocks=cut.blocks,
                last=shape.head - 1,
                activation=MATRIX[shape.queries.format],
                weight=MATRIX[shape.keys.format],
                rows=rows,
                heads=cut.pass_heads,
                source=p.group.register,
                offset=(p.token * p.group.heads + p.head) * cut.blocks,
                stride=cut.blocks,
                pitch=p.group.heads * cut.blocks,
                maxima=p.group.maxima,
                maxima_offset=p.token * p.group.heads + p.head,
                maxima_pitch=p.group.heads,
                ranged=True,
                range_step=True,
                **ranged,
                to=scores,
                result_stride=SLOT * self.slots,
                result_pitch=SLOT * self.slots * cut.pass_heads,
            )
        return scores

    def vector(self, register: int, rows: S, **fields: Any) -> None:
        """Write a `vector` over the scores of a pass."""
        self.a.emit(
            "vector",
            a=register,
            a_stride=self.slots,
            rows=rows,
            heads=self.cut.pass_heads,
            **fields,
        )

    def words(self, register: int) -> dict[str, Any]:
        """Return the fields that write scores."""
        return {"output": Output.WORDS, "to": register, "stride": self.slots}

    def row(self, name: str, register: int) -> dict[str, Any]:
        """Return the fields that name a row register with one word per row of a pass."""
        return {name: register, f"{name}_pitch": self.cut.pass_heads}

    def scale(self, p: Pass, scores: int, stretch: Stretch, rows: S, m: int, **output: Any) -> None:
        """Find the maximum of scaled scores; `output` may also write them, and resume."""
        start: dict[str, Any] = {}
        if output.get("resume"):
            start = self.row("initial", m)
        elif self.shape.sinks is not None:
            start = {
                "resume": True,
                "initial": self.sinks[p.group.start],
                "initial_offset": p.head,
            }
        self.vector(
            scores,
            rows,
            b_step=Step.MUL,
            b_value=self.shape.scale,
            **self.selected(stretch),
            reduction=Reduction.MAXIMUM,
            **self.row("total", m),
            **{**output, **start},
        )

    def exponentiate(
        self, scores: int, stretch: Stretch, rows: S, m: int, **reduction: Any
    ) -> None:
        """Turn scores into probabilities, and sum them."""
        self.vector(
            scores,
            rows,
            b_step=Step.SUB,
            b_operand=Operand.ROW,
            b=m,
            b_stride=self.cut.pass_heads,
            function=Function.EXP,
            **self.selected(stretch),
            reduction=Reduction.SUM,
            **reduction,
            **self.words(scores),
        )

    def divide(self, p: Pass, rows: S, m: int, total: int) -> None:
        """Add the sink to the sum, and take the reciprocal to where the outputs need it."""
        a, heads = self.a, self.cut.pass_heads
        if self.shape.sinks is not None:
            a.emit(
                "vector",
                a_row=True,
                a=self.sinks[p.group.start],
                a_offset=p.head,
                rows=rows,
                heads=heads,
                b_step=Step.SUB,
                b_operand=Operand.ROW,
                b=m,
                b_stride=heads,
                function=Function.EXP,
                d_step=Step.ADD,
                d_operand=Operand.ROW,
                d=total,
                d_stride=heads,
                output=Output.ROW,
                to=total,
                stride=heads,
            )
        a.emit(
            "vector",
            a_row=True,
            a=total,
            a_stride=heads,
            rows=rows,
            heads=heads,
            function=Function.RECIPROCAL,
            output=Output.ROW,
            to=p.factor,
            offset=p.token * p.group.heads + p.head,
            stride=p.group.heads,
        )

    def fold(
        self, p: Pass, chunk: int, scores: int, stretch: Stretch, rows: S, **fields: Any
    ) -> int:
        """Fold the scales of one chunk of V into probabilities; return the register of blocks.

        `fields` may make the probabilities of the scores first, and sum them.
        """
        a, shape = self.a, self.shape
        scales, blocks = a.vectors.take(), a.vectors.take()
        self._load_scales(p, chunk, stretch, scales)
        self.vector(
            scores,
            rows,
            d_step=LDEXP[shape.values.format],
            d_operand=Operand.VECTOR_ONE,
            d=scales,
            **self.selected(stretch),
            output=OUTPUT[shape.probabilities.format],
            rule=RULE[shape.probabilities.rule],
            to=blocks,
            stride=self.slots,
            **fields,
        )
        a.vectors.give(scales)
        return blocks

    def _load_scales(self, p: Pass, chunk: int, stretch: Stretch, scales: int) -> None:
        a, cache = self.a, self.cache
        with a.scalars(1) as (address,):
            a.emit("add", to=address, a=self.k.cache, b=stretch.start)
            a.emit(
                "load",
                to=scales,
                rows=1,
                columns=stretch.span,
                address=address,
                address_offset=cache.scale + self._chunk(p, chunk) * cache.scale_stride,
                kind=LoadKind.BYTES,
                streaming=True,
            )

    def _chunk(self, p: Pass, chunk: int) -> int:
        """Return the number of a chunk of V among those of all KV heads."""
        kv_head = (p.group.start + p.head) // self.shape.group
        return kv_head * self.cut.blocks + chunk

    def multiply_values(
        self,
        p: Pass,
        chunk: int,
        tile: tuple[int, int],
        blocks: int,
        maxima: int,
        stretch: Stretch,
        rows: S,
        **chain: Any,
    ) -> None:
        """Multiply probabilities with some outputs of one chunk of V.

        Parameters
        ----------
        p, chunk
            Pass and chunk.
        tile
            First output and how many.
        blocks, maxima
            Registers of the probabilities and their greatest scales.
        stretch, rows
            Positions and rows.
        **chain
            `clear` and `drain`.
        """
        a, cut, shape = self.a, self.cut, self.shape
        config = self.k.plan.config
        each = self.cache.values.group_beats
        first, outputs = tile
        with a.scalars(4) as (count, beats, address, last):
            a.add(count, stretch.span, BLOCK - 1)
            a.emit("shr", to=count, a=count, b=5)
            a.multiply(beats, count, each)
            if isinstance(stretch.start, S):
                a.emit("shr", to=address, a=stretch.start, b=5)
                a.multiply(address, address, each * config.beat_stride)
                a.emit("add", to=address, a=address, b=self.k.cache)
            else:
                a.emit("add", to=address, a=self.k.cache, b=0)
            a.add(last, self.c.position, p.token)
            a.emit(
                "matrix",
                address=address,
                address_offset=self.cache.value + self._chunk(p, chunk) * self.cache.value_stride,
                beats=beats,
                outputs=outputs,
                blocks=count,
                last=last,
                last_step=True,
                activation=MATRIX[shape.probabilities.format],
                weight=MATRIX[shape.values.format],
                transpose=True,
                tile_row=first // config.pseudo_channels,
                rows=rows,
                heads=cut.pass_heads,
                source=blocks,
                stride=self.slots,
                pitch=self.slots * cut.pass_heads,
                maxima=maxima,
                maxima_pitch=cut.pass_heads,
                to=p.output.register,
                into=True,
                result_offset=(p.token * p.output.heads + p.head) * cut.width
                + chunk * BLOCK
                + first,
                result_stride=cut.width,
                result_pitch=cut.width * p.output.heads,
                **chain,
            )

    def tiles(self, chunk: int) -> list[tuple[int, int]]:
        """Return first and count of the outputs of a chunk that go through together."""
        config = self.k.plan.config
        columns = min(BLOCK, self.shape.head - chunk * BLOCK)
        size = min(BLOCK, config.group_outputs)
        return [(first, min(size, columns - first)) for first in range(0, columns, size)]

    # --- passes ---

    def in_registers(self, passes: list[Pass], stretch: Stretch, rows: S) -> None:
        """Write passes whose scores fit their registers, one's vector work under another's."""
        a = self.a
        scores = [self.multiply_keys(p, stretch, rows) for p in passes]
        greatest = []
        for p, register in zip(passes, scores, strict=True):
            m = a.rows.take()
            self.scale(p, register, stretch, rows, m)
            greatest.append(m)
        for p, register, m in zip(passes, scores, greatest, strict=True):
            total = a.rows.take()
            for chunk in range(self.cut.blocks):
                maxima = a.rows.take()
                # Probabilities are made anew for every chunk: that is one pass for each, not two.
                fields: dict[str, Any] = {}
                if chunk == 0:
                    fields = {"reduction": Reduction.SUM, **self.row("total", total)}
                blocks = self.fold(
                    p,
                    chunk,
                    register,
                    stretch,
                    rows,
                    b_step=Step.MUL,
                    b_value=self.shape.scale,
                    c_step=Step.SUB,
                    c_operand=Operand.ROW,
                    c=m,
                    c_stride=self.cut.pass_heads,
                    function=Function.EXP,
                    **fields,
                    maximal=True,
                    **self.row("maxima", maxima),
                )
                for tile in self.tiles(chunk):
                    self.multiply_values(p, chunk, tile, blocks, maxima, stretch, rows)
                a.vectors.give(blocks)
                a.rows.give(maxima)
            self.divide(p, rows, m, total)
            a.vectors.give(register)
            a.rows.give(m, total)

    def through_memory(self, p: Pass, stretch: Stretch, rows: S) -> None:
        """Write a pass whose scores do not fit."""
        a, cut = self.a, self.cut
        m, total = a.rows.take(), a.rows.take()
        maxima = [a.rows.take() for _ in range(cut.blocks)]
        for part, first in stretches(a, stretch, cut.positions, "scores"):
            scores = self.multiply_keys(p, part, rows)
            self.scale(p, scores, part, rows, m, resume=not first, **self.words(scores))
            self._move("store", scores, part, rows)
            a.vectors.give(scores)
        partials = a.vectors.take()
        for part, first in stretches(a, stretch, cut.positions, "probabilities"):
            scores = a.vectors.take()
            self._move("load", scores, part, rows)
            self.exponentiate(
                scores, part, rows, m, partials=partials, resume=not first, suspend=True
            )
            self._move("store", scores, part, rows)
            for chunk in range(cut.blocks):
                blocks = self.fold(
                    p,
                    chunk,
                    scores,
                    part,
                    rows,
                    maximal=True,
                    maxima_resume=not first,
                    **self.row("maxima", maxima[chunk]),
                )
                a.vectors.give(blocks)
            a.vectors.give(scores)
        # Partial sums are not below +0 here, so that summing them from +0 is folding them.
        a.emit(
            "vector",
            a=partials,
            a_stride=1,
            rows=rows,
            heads=cut.pass_heads,
            columns=SLOT,
            reduction=Reduction.SUM,
            **self.row("total", total),
        )
        a.vectors.give(partials)
        self.divide(p, rows, m, total)
        for chunk in range(cut.blocks):
            for tile in self.tiles(chunk):
                self._chain(p, chunk, tile, maxima[chunk], stretch, rows)
        a.rows.give(m, total, *maxima)

    def _chain(
        self,
        p: Pass,
        chunk: int,
        tile: tuple[int, int],
        maxima: int,
        stretch: Stretch,
        rows: S,
    ) -> None:
        a = self.a
        for part, first, last in chained(a, stretch, self.cut.positions, "values"):
            scores = a.vectors.take()
            self._move("load", scores, part, rows)
            blocks = self.fold(p, chunk, scores, part, rows)
            self.multiply_values(
                p, chunk, tile, blocks, maxima, part, rows, clear=first, drain=last
            )
            a.vectors.give(scores, blocks)

    def _move(self, what: str, register: int, part: Stretch, rows: S) -> None:
        """Load or store the scores of a stretch, a row per row of the pass."""
        a = self.a
        with a.scalars(1) as (address,):
            assert isinstance(part.start, S)
            a.multiply(address, part.start, 4)
            a.emit(
                what,
                **{"to" if what == "load" else "source": register},
                stride=self.slots,
                rows=rows,
                columns=part.span,
                address=address,
                address_offset=self.scores,
                pitch=self.pitch,
            )
