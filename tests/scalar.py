"""A language model one number at a time, by the rules of docs/numerics.md and from nothing of ours.

Numbers are binary32 bits, finite ones only; arithmetic is rational (`tests.exact`) and rounded at
each step. Only the data comes from the project: model descriptions, and the table of the elementary
functions. Slow, so for tiny shapes.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from rtl.elementary_tables import ROWS
from tests import exact

ONE = 0x3F800000


def bits(value) -> int:
    """Bits of one float32."""
    return int(np.float32(value).view(np.uint32))


def row(values) -> list[int]:
    """Bits of a vector of float32."""
    return np.asarray(values, np.float32).view(np.uint32).tolist()


def number(a: int) -> Fraction:
    value = exact.fp32_value(a)
    assert value is not None, "only finite numbers"
    return value


def add(a: int, b: int) -> int:
    return exact.fp32_bits(number(a) + number(b), negative=bool(a & b & exact.SIGN))


def mul(a: int, b: int) -> int:
    return exact.fp32_bits(number(a) * number(b), negative=bool((a ^ b) & exact.SIGN))


def negate(a: int) -> int:
    return a ^ exact.SIGN


def sub(a: int, b: int) -> int:
    return add(a, negate(b))


def curve(which: int, fraction: int) -> Fraction:
    c0, c1, c2 = ROWS[which * 64 + (fraction >> 17)]
    d = fraction & 0x1FFFF
    return Fraction((c0 + ((c1 + (c2 * d >> 17)) * d >> 17)) >> 2, 2**23)


def exp2(a: int) -> int:
    x = number(a)
    if x < -126:
        return 0
    fixed = int(abs(x) * 2**23 + Fraction(1, 2))
    fixed = -fixed if x < 0 else fixed
    return exact.fp32_bits(curve(0, fixed % 2**23) * exact.power(fixed // 2**23))


def reciprocal(a: int) -> int:
    x = number(a)
    power = exact.log2_floor(abs(x))
    result = curve(1, a & 0x7FFFFF) * exact.power(-power - 1)
    return exact.fp32_bits(result if x > 0 else -result)


def rsqrt(a: int) -> int:
    power = exact.log2_floor(number(a))
    return exact.fp32_bits(curve(2 + power % 2, a & 0x7FFFFF) * exact.power(-(power // 2) - 1))


def exp(a: int) -> int:
    return exp2(mul(a, 0x3FB8AA3B))


def sigmoid(a: int) -> int:
    return reciprocal(add(ONE, exp2(mul(a, 0xBFB8AA3B))))


def total(values: list[int]) -> int:
    partials = [0] * 32
    for index, value in enumerate(values):
        partials[index % 32] = add(partials[index % 32], value)
    for half in (16, 8, 4, 2, 1):
        partials = [add(partials[i], partials[i + half]) for i in range(half)]
    return partials[0]


def greatest(values: list[int]) -> int:
    return max(values, key=lambda a: (number(a), not a & exact.SIGN))


def order(values: list[int]) -> list[int]:
    """Indices in descending order, the lowest first among equals."""
    return sorted(range(len(values)), key=lambda i: -number(values[i]))


def quantised(values: list[int], precision):
    """A row as `exact.window_dot` takes it."""
    padded = values + [0] * (-len(values) % 32)
    blocks = [
        exact.quantise_block(padded[i : i + 32], str(precision.format), str(precision.rule))
        for i in range(0, len(padded), 32)
    ]
    return str(precision.format), [b[0] for b in blocks], [b[1] for b in blocks]


def linear(matrix, x: list[int], acc_bits: int = 48) -> list[int]:
    operand = quantised(x, matrix.activation)
    results = [
        exact.window_dot(operand, exact.row(matrix.weights, neuron), acc_bits)[0]
        for neuron in range(matrix.weights.shape[0])
    ]
    if matrix.bias is None:
        return results
    return [add(a, b) for a, b in zip(results, row(matrix.bias), strict=True)]


def rms_norm(x: list[int], weight, eps) -> list[int]:
    mean = mul(total([mul(a, a) for a in x]), bits(1 / len(x)))
    r = rsqrt(add(mean, bits(eps)))
    return [mul(mul(a, r), w) for a, w in zip(x, row(weight), strict=True)]


def rotate(x: list[int], rope, position: int) -> list[int]:
    cos, sin, half = row(rope.cos[position]), row(rope.sin[position]), len(x) // 2
    result = list(x)
    for i in range(half):
        first, second = (2 * i, 2 * i + 1) if rope.pairing == "adjacent" else (i, i + half)
        a, b = x[first], x[second]
        result[first] = sub(mul(a, cos[i]), mul(b, sin[i]))
        result[second] = add(mul(b, cos[i]), mul(a, sin[i]))
    return result


def attend(attention, query, keys, values, head: int, acc_bits: int = 48) -> list[int]:
    """Output of one query row whose own position is the last of `keys` and `values` (quantised)."""
    position = len(keys) - 1
    first = 0 if attention.window is None else max(0, position - attention.window + 1)
    operand = quantised(query, attention.queries)
    scores = {
        j: mul(exact.window_dot(operand, keys[j], acc_bits)[0], bits(attention.scale))
        for j in range(first, position + 1)
    }
    sink = [] if attention.sinks is None else [bits(attention.sinks[head])]
    top = greatest([*scores.values(), *sink])
    p = [exp(sub(scores[j], top)) if j in scores else 0 for j in range(position + 1)]
    normaliser = total(p)
    for score in sink:
        normaliser = add(normaliser, exp(sub(score, top)))
    fmt = values[0][0]
    outputs = []
    for chunk in range(len(values[0][1])):
        scaled = []
        for j in range(position + 1):
            exponent = values[j][1][chunk] + exact.EXPONENT_OF_UNIT[fmt]
            scaled.append(exact.fp32_bits(number(p[j]) * exact.power(exponent)))
        operand = quantised(scaled, attention.probabilities)
        blocks = len(operand[1])
        assert blocks == position // 32 + 1
        unit = -exact.EXPONENT_OF_UNIT[fmt]
        for element in range(32):
            column = [values[j][2][chunk][element] for j in range(position + 1)]
            column += [0] * (-len(column) % 32)
            codes = [column[i : i + 32] for i in range(0, len(column), 32)]
            dot = exact.window_dot(operand, (fmt, [unit] * blocks, codes), acc_bits)[0]
            outputs.append(mul(dot, reciprocal(normaliser)))
    return outputs[: attention.head]


def gated(gate: int, up: int, form) -> int:
    if form.limit is None:
        return mul(mul(gate, sigmoid(gate)), up)
    limit = bits(form.limit)
    gate = gate if number(gate) < number(limit) else limit
    up = up if number(up) > -number(limit) else negate(limit)
    up = up if number(up) < number(limit) else limit
    return mul(mul(gate, sigmoid(mul(bits(form.alpha), gate))), add(up, ONE))


def expert(network, form, x: list[int]) -> list[int]:
    gates, ups = linear(network.gate, x), linear(network.up, x)
    return linear(network.down, [gated(g, u, form) for g, u in zip(gates, ups, strict=True)])


def choose(router, logits: list[int]) -> tuple[list[int], list[int]]:
    if router.kind == "softmax":
        chosen = order(logits)[: router.top_k]
        p = [exp(sub(logits[e], greatest([logits[e] for e in chosen]))) for e in chosen]
        return chosen, [mul(a, reciprocal(total(p))) for a in p]
    sigmoids = [sigmoid(a) for a in logits]
    choice = sigmoids
    if router.correction is not None:
        choice = [add(a, b) for a, b in zip(sigmoids, row(router.correction), strict=True)]
    size = len(choice) // router.groups
    groups = [range(g * size, g * size + size) for g in range(router.groups)]
    bests = [[choice[e] for e in sorted(g, key=lambda e: -number(choice[e]))[:2]] for g in groups]
    winners = order([add(*best) for best in bests])[: router.top_groups]
    allowed = sorted(e for g in winners for e in groups[g])
    chosen = sorted(allowed, key=lambda e: -number(choice[e]))[: router.top_k]
    share = reciprocal(add(total([sigmoids[e] for e in chosen]), bits(1e-20)))
    return chosen, [mul(mul(sigmoids[e], share), bits(router.scale)) for e in chosen]


def feed_forward(network, x: list[int]) -> list[int]:
    if network.router is None:
        y = expert(network.experts[0], network.gate, x)
    else:
        chosen, weights = choose(network.router, linear(network.router.linear, x))
        y = []
        for e, weight in zip(chosen, weights, strict=True):
            terms = [mul(weight, o) for o in expert(network.experts[e], network.gate, x)]
            y = [add(a, b) for a, b in zip(y, terms, strict=True)] if y else terms
    if network.shared is not None:
        shared = expert(network.shared, network.gate, x)
        y = [add(a, b) for a, b in zip(y, shared, strict=True)]
    return y


def forward(model, tokens: list[int]) -> list[list[int]]:
    """Logits of every token, one token after the other."""
    held: list[list[tuple]] = [[] for _ in model.layers]
    return [_token(model, token, position, held) for position, token in enumerate(tokens)]


def _token(model, token: int, position: int, held) -> list[int]:
    fmt, scales, codes = exact.row(model.embedding, token)
    units = [
        Fraction(exact.units(code, fmt)) * exact.power(scale + exact.EXPONENT_OF_UNIT[fmt])
        for scale, block in zip(scales, codes, strict=True)
        for code in block
    ]
    x = [exact.fp32_bits(u) for u in units[: model.width]]
    for layer, cache in zip(model.layers, held, strict=True):
        a, normed = layer.attention, rms_norm(x, layer.attention_norm, model.eps)

        def heads(projection, normed=normed, a=a) -> list[list[int]]:
            flat = linear(projection, normed)
            return [flat[i : i + a.head] for i in range(0, len(flat), a.head)]

        queries = [rotate(q, model.rope, position) for q in heads(a.query)]
        keys = [quantised(rotate(k, model.rope, position), a.keys) for k in heads(a.key)]
        cache.append((keys, [quantised(v, a.values) for v in heads(a.value)]))
        mixed = []
        for head, query in enumerate(queries):
            kv = head // (a.heads // a.kv_heads)
            rows = ([k[kv] for k, _ in cache], [v[kv] for _, v in cache])
            mixed += attend(a, query, *rows, head)
        x = [add(p, q) for p, q in zip(x, linear(a.output, mixed), strict=True)]
        normed = rms_norm(x, layer.feed_forward_norm, model.eps)
        y = feed_forward(layer.feed_forward, normed)
        x = [add(p, q) for p, q in zip(x, y, strict=True)]
    return linear(model.head, rms_norm(x, model.norm, model.eps))
