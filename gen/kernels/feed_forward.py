"""Feed-forward networks: one expert, and many with a router."""

from __future__ import annotations

from typing import Any

import numpy as np

from gen.kernels.linear import Rows, add_rows, add_to_stream, load_row, multiply, quantise
from gen.kernels.router import Choice, route
from gen.kernels.stored import StoredExpert, StoredFeedForward, StoredLayer
from gen.kernels.values import Blocks, Chunk, Columns, Kernel, Part, Phases
from gen.models.model import Gate
from rtl.core.fields import S
from rtl.core.isa import Function, Operand, Output, Step
from rtl.formats import BLOCK

ONE = np.float32(1)


def feed_forward(k: Kernel, c: Chunk, layer: StoredLayer, x: Blocks) -> Phases:
    """Run the second half of a layer, up to and including the residual sum.

    Parameters
    ----------
    k, c, layer
        Kernel, chunk and layer.
    x
        Normed stream; its registers are given back.
    """
    a, network = k.a, layer.feed_forward
    if network.router is None:
        y = yield from expert(k, {"rows": c.rows}, network.expert, network.gate, x, k.weights)
        x.free(a)
        add_to_stream(k, c, y, network.expert.down.bias, k.weights)
        y.free(a)
        return
    y = yield from mixture(k, c, network, x)
    if network.shared is not None:
        a.phase = "shared expert"
        shared = yield from expert(k, {"rows": c.rows}, network.shared, network.gate, x, k.weights)
        for part, other in zip(y.parts, shared.parts, strict=True):
            add_rows(k, c, other, part, network.shared.down.bias, k.weights)
        shared.free(a)
    x.free(a)
    add_to_stream(k, c, y, None, k.weights)
    y.free(a)


def expert(k: Kernel, rows: Rows, stored: StoredExpert, gate: Gate, x: Blocks, base: S) -> Phases:
    """Run one expert.

    Parameters
    ----------
    k, rows
        Kernel, and the rows that take part.
    stored, gate
        The expert.
    x
        Its input.
    base
        What its offsets count from.

    Returns
    -------
    Columns
        Its output without the last bias.
    """
    a, plan = k.a, k.plan
    precision = stored.down.activation
    unit = plan.columns // BLOCK
    hidden = k.take_blocks(stored.down.blocks, unit, precision.format)
    parts = plan.parts(stored.gate.outputs)
    ahead = _gate_and_up(k, rows, stored, x, base, parts[0])
    yield
    for index in range(len(parts)):
        g, u = ahead
        if index + 1 < len(parts):
            # The next columns are multiplied while these are combined.
            ahead = _gate_and_up(k, rows, stored, x, base, parts[index + 1])
        _combine(k, rows, stored, gate, base, hidden, g, u)
        a.vectors.give(g.register, u.register)
    y = k.take_columns(stored.down.outputs)
    for part in y.parts:
        multiply(k, rows, hidden, stored.down, base, part)
    hidden.free(a)
    yield
    return y


def _gate_and_up(
    k: Kernel,
    rows: Rows,
    stored: StoredExpert,
    x: Blocks,
    base: S,
    columns: tuple[int, int],
) -> tuple[Part, Part]:
    g, u = (Part(k.a.vectors.take(), *columns) for _ in range(2))
    multiply(k, rows, x, stored.up, base, u)
    multiply(k, rows, x, stored.gate, base, g)
    return g, u


def _combine(
    k: Kernel,
    rows: Rows,
    stored: StoredExpert,
    gate: Gate,
    base: S,
    hidden: Blocks,
    g: Part,
    u: Part,
) -> None:
    """Combine gate and up, and quantise for the last matrix."""
    a = k.a
    limited = gate.limit is not None
    if limited or stored.up.bias is not None:
        steps: dict[str, Any] = {}
        bias = None
        if stored.up.bias is not None:
            bias = load_row(k, base, stored.up.bias + 4 * u.start, u.columns)
            steps = {"b_step": Step.ADD, "b_operand": Operand.VECTOR_ONE, "b": bias}
        if limited:
            steps |= {
                "c_step": Step.CLAMP,
                "c_value": gate.limit,
                "d_step": Step.ADD,
                "d_value": ONE,
            }
        a.emit(
            "vector",
            a=u.register,
            a_stride=u.stride,
            **rows,
            columns=u.columns,
            **steps,
            output=Output.WORDS,
            to=u.register,
            stride=u.stride,
        )
        if bias is not None:
            a.vectors.give(bias)
    steps = {}
    bias = None
    if stored.gate.bias is not None:
        bias = load_row(k, base, stored.gate.bias + 4 * g.start, g.columns)
        steps = {"b_step": Step.ADD, "b_operand": Operand.VECTOR_ONE, "b": bias}
    if limited:
        steps |= {"c_step": Step.MINIMUM, "c_value": gate.limit, "function_value": gate.alpha}
    quantise(
        k,
        rows,
        g,
        hidden,
        g.start // BLOCK,
        stored.down.activation,
        **steps,
        function=Function.GATE,
        d_step=Step.MUL,
        d_operand=Operand.VECTOR,
        d=u.register,
        d_stride=u.stride,
    )
    if bias is not None:
        a.vectors.give(bias)


def mixture(k: Kernel, c: Chunk, network: StoredFeedForward, x: Blocks) -> Phases:
    """Route tokens to experts and combine what these give, in the order of slots.

    A single token takes its experts one after the other and adds each as it comes. Several tokens
    share the weights of an expert: each expert that is wanted is streamed once, for all tokens
    that want it, and its rows wait in memory until all are there.

    Returns
    -------
    Columns
        The combination.
    """
    a = k.a
    router = network.router
    assert router is not None
    a.phase = "router"
    choice = yield from route(k, c, router, x)
    y = k.take_columns(network.expert.down.outputs)
    for part in y.parts:
        _minus_zero(k, c, part)
    many, done = a.label("experts.many"), a.label("experts.done")
    a.phase = "experts"
    if k.plan.tokens > 1:
        with a.scalars(1) as (one,):
            a.constant(one, 1)
            a.emit("blt", a=one, b=c.rows, target=many)
    yield from _one_token(k, network, choice, x, y)
    if k.plan.tokens > 1:
        a.jump(done)
        a.place(many)
        yield from _many_tokens(k, c, network, choice, x, y)
        a.place(done)
    choice.free(a)
    return y


def _minus_zero(k: Kernel, c: Chunk, part: Part) -> None:
    """Begin a sum: -0 + x is x, for every x."""
    k.a.emit(
        "vector",
        a=0,
        rows=c.rows,
        columns=part.columns,
        b_step=Step.TAKE,
        b_value=np.float32(-0.0),
        output=Output.WORDS,
        to=part.register,
        stride=part.stride,
    )


def _select_expert(
    k: Kernel, network: StoredFeedForward, choice: Choice, index: S, base: S
) -> None:
    """Turn the index of an expert into what its offsets count from."""
    choice.expert(k.a, base, index)
    k.a.multiply(base, base, network.stride)
    k.a.emit("add", to=base, a=base, b=k.weights)


def _add_expert(k: Kernel, y: Part, o: int, weight: S, row: int, bias: int | None = None) -> None:
    """Add one row of an expert's output, times its weight, to the sum.

    Parameters
    ----------
    k
        Kernel.
    y
        The sum.
    o
        Register with the output, in its first row.
    weight
        FP32 bits of the weight.
    row
        Row of the sum.
    bias
        Register of a bias that is added first.
    """
    step: dict[str, Any] = {}
    if bias is not None:
        step = {"b_step": Step.ADD, "b_operand": Operand.VECTOR_ONE, "b": bias}
    k.a.emit(
        "vector",
        a=o,
        rows=1,
        columns=y.columns,
        **step,
        c_step=Step.MUL,
        c_value=weight,
        d_step=Step.ADD,
        d_operand=Operand.VECTOR,
        d=y.register,
        d_value=row * y.stride,
        output=Output.WORDS,
        to=y.register,
        into=True,
        offset=row * y.stride,
    )


def _one_token(
    k: Kernel, network: StoredFeedForward, choice: Choice, x: Blocks, y: Columns
) -> Phases:
    a = k.a
    down = network.expert.down
    assert network.router is not None
    with a.scalars(4) as (slot, index, base, weight):
        a.constant(slot, 0)
        loop = a.here("slot")
        # The index is known long before the weight, and weights can stream then.
        choice.read(a, index, None, 0, slot)
        _select_expert(k, network, choice, index, base)
        # A loop is one phase: another chunk's instructions must not be repeated with it.
        o = yield from _atomically(expert(k, {"rows": 1}, network.expert, network.gate, x, base))
        choice.read(a, None, weight, 0, slot)
        for part, own in zip(y.parts, o.parts, strict=True):
            bias = None
            if down.bias is not None:
                bias = load_row(k, base, down.bias + 4 * part.start, part.columns)
            _add_expert(k, part, own.register, weight, 0, bias)
            if bias is not None:
                a.vectors.give(bias)
        o.free(a)
        a.add(slot, slot, 1)
        with a.scalars(1) as (slots,):
            a.constant(slots, network.router.shape.top_k)
            a.emit("blt", a=slot, b=slots, target=loop)


def _atomically(kernel: Phases) -> Phases:
    """Run a kernel to its end without a break."""
    while True:
        try:
            next(kernel)
        except StopIteration as end:
            return end.value
    yield


def _many_tokens(
    k: Kernel, c: Chunk, network: StoredFeedForward, choice: Choice, x: Blocks, y: Columns
) -> Phases:
    a = k.a
    down = network.expert.down
    router = network.router
    assert router is not None
    slots, width = router.shape.top_k, down.outputs
    scratch = k.stored.map["outputs"].address
    with a.scalars(6) as (token, slot, index, base, wanted, rest):
        a.constant(token, 0)
        next_token = a.here("token")
        a.constant(slot, 0)
        next_slot, skip = a.here("token.slot"), a.label("token.skip")
        choice.read(a, index, None, token, slot)
        a.constant(wanted, 0)
        for other in range(slots):
            choice.match(a, rest, other, index, c.rows)
            a.emit("or", to=wanted, a=wanted, b=rest)
        # An expert is run where it is wanted first: by no earlier token.
        a.constant(rest, 1)
        a.emit("shl", to=rest, a=rest, b=token)
        a.add(rest, rest, -1)
        a.emit("and", to=rest, a=rest, b=wanted)
        a.emit("bne", a=rest, b=0, target=skip)
        _select_expert(k, network, choice, index, base)
        rows = {"rows": c.rows, "masked": True, "mask": wanted}
        o = yield from _atomically(expert(k, rows, network.expert, network.gate, x, base))
        if down.bias is not None:
            for part in o.parts:
                bias = load_row(k, base, down.bias + 4 * part.start, part.columns)
                a.emit(
                    "vector",
                    a=part.register,
                    a_stride=part.stride,
                    **rows,
                    columns=part.columns,
                    b_step=Step.ADD,
                    b_operand=Operand.VECTOR_ONE,
                    b=bias,
                    output=Output.WORDS,
                    to=part.register,
                    stride=part.stride,
                )
                a.vectors.give(bias)
        for other in range(slots):
            choice.match(a, rest, other, index, c.rows)
            for part in o.parts:
                a.emit(
                    "store",
                    source=part.register,
                    stride=part.stride,
                    rows=c.rows,
                    columns=part.columns,
                    address=scratch + 4 * (other * width + part.start),
                    pitch=4 * slots * width,
                    masked=True,
                    mask=rest,
                )
        o.free(a)
        a.place(skip)
        a.add(slot, slot, 1)
        with a.scalars(1) as (most,):
            a.constant(most, slots)
            a.emit("blt", a=slot, b=most, target=next_slot)
        a.add(token, token, 1)
        a.emit("blt", a=token, b=c.rows, target=next_token)
    _combine_slots(k, c, choice, y, slots, width, scratch)
    yield from ()


def _combine_slots(
    k: Kernel, c: Chunk, choice: Choice, y: Columns, slots: int, width: int, scratch: int
) -> None:
    """Add what the experts left in memory, token by token, in the order of slots."""
    a = k.a
    for token in range(k.plan.tokens):
        behind = a.label(f"combined.{token}")
        with a.scalars(4) as (slot, weight, row, most):
            a.constant(most, token)
            a.emit("bge", a=most, b=c.rows, target=behind)
            a.constant(slot, 0)
            a.constant(row, scratch + 4 * token * slots * width)
            loop = a.here(f"combine.{token}")
            choice.read(a, None, weight, token, slot)
            for part in y.parts:
                o = a.vectors.take()
                a.emit(
                    "load",
                    to=o,
                    rows=1,
                    columns=part.columns,
                    address=row,
                    address_offset=4 * part.start,
                )
                _add_expert(k, part, o, weight, token)
                a.vectors.give(o)
            a.add(row, row, 4 * width)
            a.add(slot, slot, 1)
            a.constant(most, slots)
            a.emit("blt", a=slot, b=most, target=loop)
        a.place(behind)
