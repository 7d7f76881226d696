"""Attention: from the normed stream to the outputs of all heads."""

from __future__ import annotations

from gen.kernels.heads import HeadGroup, append, finish, gather, project
from gen.kernels.passes import Pass, Passes
from gen.kernels.stored import StoredAttention
from gen.kernels.stretch import stretch_from, visible
from gen.kernels.values import Blocks, Chunk, Kernel, Phases
from rtl.core.fields import S
from rtl.core.isa import Output, Select, Step


def attend(
    k: Kernel,
    c: Chunk,
    attention: StoredAttention,
    queries: list[HeadGroup],
    window: S | None,
) -> Phases:
    """Attend with quantised queries to the cache.

    Parameters
    ----------
    k, c, attention
        Kernel, chunk and layer.
    queries
        All heads; their registers are given back.
    window
        From `load_window`; given back as well.

    Returns
    -------
    Blocks
        Outputs of all heads, quantised for the output projection.
    """
    a, cut = k.a, attention.heads
    writer = Passes(k, c, attention)
    seen = visible(a, c, window)
    if attention.sinks is not None:
        for query in queries:
            writer.sinks[query.start] = a.rows.take()
            a.emit(
                "loadr",
                to=writer.sinks[query.start],
                rows=query.heads,
                address=k.weights,
                address_offset=attention.sinks + 4 * query.start,
            )
    outputs = [HeadGroup(a.vectors.take(), q.start, q.heads) for q in queries]
    factors = [a.rows.take() for _ in queries]
    for output in outputs:
        _clear(k, output.register)
    for token in range(0, k.plan.tokens, cut.pass_tokens):
        passes = [
            Pass(query, output, factor, head, token)
            for query, output, factor in zip(queries, outputs, factors, strict=True)
            for head in range(0, query.heads, cut.pass_heads)
        ]
        behind, long = a.label(f"attended.{token}"), a.label(f"long.{token}")
        if token:
            with a.scalars(1) as (wanted,):
                a.constant(wanted, token)
                a.emit("bge", a=wanted, b=c.rows, target=behind)
        stretch = stretch_from(a, c, cut, seen, token)
        rows = writer.rows_of(stretch)
        everything = cut.positions >= k.stored.capacity
        if not everything:
            with a.scalars(1) as (most,):
                a.constant(most, cut.positions)
                a.emit("blt", a=most, b=stretch.span, target=long)
        for first in range(0, len(passes), 2):
            writer.in_registers(passes[first : first + 2], stretch, rows)
        if not everything:
            a.jump(behind)
            a.place(long)
            for p in passes:
                writer.through_memory(p, stretch, rows)
        a.place(behind)
        stretch.free(a)
        a.free(rows)
        yield
    for query in queries:
        a.vectors.give(query.register)
        a.rows.give(query.maxima)
    a.rows.give(*writer.sinks.values())
    select = {"select": Select.ROWS, **seen.fields()}
    blocks = gather(k, c, attention, outputs, factors, select)
    a.rows.give(*factors)
    seen.free(a)
    return blocks


def _clear(k: Kernel, register: int) -> None:
    """Begin a register that passes write one after the other: renamed once, not once per pass."""
    k.a.emit(
        "vector",
        a=0,
        rows=1,
        columns=1,
        b_step=Step.TAKE,
        b_value=0,
        output=Output.WORDS,
        to=register,
    )


def load_window(k: Kernel, attention: StoredAttention) -> S | None:
    """Load the window of a layer, if any of its shape has one, long before it is needed."""
    if attention.window is None:
        return None
    window = k.a.scalar()
    k.a.emit("lw", to=window, address=k.weights, address_offset=attention.window)
    return window


def self_attention(k: Kernel, c: Chunk, attention: StoredAttention, x: Blocks) -> Phases:
    """Project, rotate, append and attend.

    Parameters
    ----------
    k, c, attention
        Kernel, chunk and layer.
    x
        Normed stream; its registers are given back.

    Returns
    -------
    Blocks
        Outputs of all heads, quantised for the output projection.
    """
    a, shape, cut = k.a, attention.shape, attention.heads
    pairing = k.stored.model.rope.pairing
    a.phase = "queries, keys, values"
    window = load_window(k, attention)
    # Keys and values first: they are on their way to the cache while queries are multiplied.
    keys = project(k, c, x, attention.key, shape.head, cut.kv_heads)
    values = project(k, c, x, attention.value, shape.head, cut.kv_heads)
    yield
    a.phase = "rotate, append"
    keys = [finish(k, c, g, attention.key, shape.head, shape.keys, pairing) for g in keys]
    values = [finish(k, c, g, attention.value, shape.head, shape.values, None) for g in values]
    append(k, c, attention, keys, values)
    a.phase = "queries, keys, values"
    queries = project(k, c, x, attention.query, shape.head, cut.query_heads)
    x.free(a)
    a.phase = "rotate, append"
    a.emit("fence")
    queries = [
        finish(k, c, g, attention.query, shape.head, shape.queries, pairing) for g in queries
    ]
    yield
    a.phase = "attention"
    return (yield from attend(k, c, attention, queries, window))
