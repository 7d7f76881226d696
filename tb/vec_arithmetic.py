"""Testbench of the vector unit's arithmetic: millions of operands through one lane.

A call into the simulator costs far more than an addition. So operands come in *batches* of 256,
as one wide port, and so do results: Python wakes up once per batch, and the lane is busy all the
time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer
from numpy.typing import NDArray

from gen.quantise import quantise
from rtl.core.isa import Function, MatrixFormat, Rule, Step
from rtl.formats import BLOCK, Format, ScaleRule
from rtl.vec.code import Quantiser, scale_of
from rtl.vec.compare import flush, maximum, minimum, order_key
from rtl.vec.function import FUNCTION_BITS, LATENCIES, FunctionLane
from rtl.vec.multiply import LATENCY as PRODUCT_LATENCY
from rtl.vec.step import KIND_BITS
from rtl.vec.step import Step as StepLane
from sim.golden import elementary, formulas, fp32
from sim.golden.formats import fold_scale

PERIOD_NS = 10

BATCH = 256
"""Operands that go in at once."""

RESULTS = ("step", "function", "side", "flush", "maximum", "minimum", "key", "scale", "code")
"""What a lane computes, in the order of the numbers of `ArithmeticLane.chosen`."""

Bits = NDArray[np.uint32]


class ArithmeticLane(wiring.Component):
    """All of the vector unit's arithmetic, once, fed from batches.

    Members
    -------
    advance : In
        Let everything go on. Otherwise the lane sees other operands, which it must not take.
    x, y, kind : In
        A batch of operands and step kinds, the first lowest. It is taken from the first cycle
        after reset on, one by one and again and again. The low byte of y is the scale of `code`.
    middle, factor : In
        What the function does.
    format, rule : In
        Of the quantiser.
    chosen : In
        Which of `RESULTS` is collected.
    results : Out
        The last results, as many as a batch has.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "advance": In(1),
                "x": In(32 * BATCH),
                "y": In(32 * BATCH),
                "kind": In(KIND_BITS * BATCH),
                "middle": In(FUNCTION_BITS),
                "factor": In(32),
                "format": In(1),
                "rule": In(1),
                "chosen": In(range(len(RESULTS))),
                "results": Out(32 * BATCH),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the lane."""
        m = Module()
        index = Signal(range(BATCH))
        x, y, kind = Signal(32), Signal(32), Signal(KIND_BITS)
        for operand, batch in ((x, self.x), (y, self.y), (kind, self.kind)):
            width = len(operand)
            right = Signal(width)
            m.d.comb += [
                right.eq(batch.word_select(index, width)),
                operand.eq(Mux(self.advance, right, ~right)),
            ]

        m.submodules.step = step = StepLane()
        m.submodules.function = function = FunctionLane()
        m.submodules.quantiser = quantiser = Quantiser()
        a, b = Signal(32), Signal(32)
        m.d.comb += [
            a.eq(flush(x)),
            b.eq(flush(y)),
            step.advance.eq(self.advance),
            step.kind.eq(kind),
            step.x.eq(x),
            step.y.eq(y),
            function.advance.eq(self.advance),
            function.kind.eq(self.middle),
            function.factor.eq(self.factor),
            function.x.eq(x),
            function.side_a.eq(x),
            function.side_b.eq(y),
            quantiser.x.eq(x),
            quantiser.scale.eq(y[:8]),
            quantiser.format.eq(self.format),
        ]
        results = {
            "step": step.value,
            "function": function.value,
            "side": function.side_value,
            "flush": a,
            "maximum": maximum(a, b),
            "minimum": minimum(a, b),
            "key": order_key(x),
            "scale": scale_of(x[:31], format=self.format, rule=self.rule),
            "code": quantiser.code,
        }
        result = Signal(32)
        m.d.comb += result.eq(Array(results[name] for name in RESULTS)[self.chosen])
        with m.If(self.advance):
            m.d.sync += [index.eq(index + 1), self.results.eq(Cat(self.results[32:], result))]
        return m


@dataclass(frozen=True)
class Operation:
    """Something a lane computes, and what it should.

    Attributes
    ----------
    name
        Name, as in reports.
    result
        Which of `RESULTS` it is.
    latency
        Steps from operands to result.
    golden
        Its bits, of x and y.
    controls
        Ports that are set for it.
    relation
        How x and y should be related: see `operands`.
    """

    name: str
    result: str
    latency: int
    golden: Callable[[Bits, Bits], Bits]
    controls: dict[str, int]
    relation: str = "single"


def _floats(function: Callable[..., fp32.Floats], arity: int = 2) -> Callable[[Bits, Bits], Bits]:
    """Return a function of float32 arrays as one of their bits."""

    def of_bits(x: Bits, y: Bits) -> Bits:
        operands = (fp32.from_bits(x), fp32.from_bits(y))[:arity]
        return fp32.to_bits(function(*operands))

    return of_bits


def _clamp(x: fp32.Floats, y: fp32.Floats) -> fp32.Floats:
    return fp32.clamp(x, fp32.from_bits(fp32.to_bits(y) ^ np.uint32(0x80000000)), y)


def _fold(fmt: Format, x: Bits, y: Bits) -> Bits:
    return fp32.to_bits(fold_scale(fp32.from_bits(x), y.astype(np.uint8), fmt))


def _gate(factor: int, x: fp32.Floats) -> fp32.Floats:
    scaled = fp32.mul(fp32.from_bits(factor), x)
    return fp32.mul(x, formulas.sigmoid(scaled))


def _key(x: fp32.Floats) -> Bits:
    """Return the keys of numbers as unsigned numbers: one less below zero than those of `fp32`."""
    key = fp32.order_key(x).astype(np.int64)
    key = np.where(np.isnan(x), -(1 << 31), np.where(key < 0, key - 1, key))
    return (key + (1 << 31)).astype(np.uint32)


def _scale(fmt: Format, rule: ScaleRule, x: Bits, y: Bits) -> Bits:
    blocks = np.zeros((x.size, BLOCK), np.uint32)
    blocks[:, -1] = x
    return quantise(blocks.view(np.float32), fmt, rule).scales[:, 0].astype(np.uint32)


def _code(fmt: Format, x: Bits, y: Bits) -> Bits:
    """Return codes of numbers in blocks of a given scale, which a second element sees to."""
    scale = y.astype(np.int64) & 0xFF
    # The smallest amax that has the scale; scale 0 leaves x as the only element.
    amax = np.where(scale == 255, 255, np.where(scale == 0, 0, scale + fmt.emax)) << 23
    blocks = np.zeros((x.size, BLOCK), np.uint32)
    blocks[:, 0], blocks[:, 1] = x, amax
    tensor = quantise(blocks.view(np.float32), fmt)
    assert (tensor.scales[:, 0] == scale).all(), "an element is too large for its scale"
    return tensor.codes[:, 0, 0].astype(np.uint32)


ARITHMETIC: dict[Step, tuple[Callable[[Bits, Bits], Bits], str]] = {
    Step.NONE: (lambda x, y: x, "any"),
    Step.ADD: (_floats(fp32.add), "sum"),
    Step.SUB: (_floats(fp32.sub), "sum"),
    Step.MUL: (_floats(fp32.mul), "product"),
    Step.MINIMUM: (_floats(fp32.minimum), "sum"),
    Step.MAXIMUM: (_floats(fp32.maximum), "sum"),
    Step.CLAMP: (_floats(_clamp), "sum"),
    Step.LDEXP_MXFP4: (partial(_fold, Format.MXFP4), "scale"),
    Step.LDEXP_MXINT8: (partial(_fold, Format.MXINT8), "scale"),
    Step.ROTATE_ADJACENT: (_floats(fp32.mul), "product"),
    Step.ROTATE_HALVES: (_floats(fp32.mul), "product"),
    Step.TAKE: (lambda x, y: fp32.to_bits(fp32.flush(fp32.from_bits(y))), "any"),
}
"""What a step of each kind gives, and which relation of exponents makes it hard."""

FUNCTIONS: dict[Function, Callable[[fp32.Floats], fp32.Floats]] = {
    Function.EXP: formulas.exp,
    Function.EXP2: elementary.exp2,
    Function.RECIPROCAL: elementary.reciprocal,
    Function.RSQRT: elementary.rsqrt,
    Function.SIGMOID: formulas.sigmoid,
}

FACTORS = {"one": 0x3F800000, "alpha": 0x3FD9DB23}
"""What GATE multiplies with: 1, and the 1.702 of gpt-oss."""

FORMATS = {MatrixFormat.MXFP4: Format.MXFP4, MatrixFormat.MXINT8: Format.MXINT8}
RULES = {Rule.FLOOR: ScaleRule.FLOOR, Rule.CEIL: ScaleRule.CEIL}


def _operations() -> Iterator[Operation]:
    for kind, (golden, relation) in ARITHMETIC.items():
        name = f"step_{kind.name.lower()}"
        yield Operation(name, "step", StepLane.LATENCY, golden, {"kind": kind}, relation)
    for function, of in FUNCTIONS.items():
        yield Operation(
            f"function_{function.name.lower()}",
            "function",
            LATENCIES[function],
            _floats(of, 1),
            {"middle": function},
        )
    for name, factor in FACTORS.items():
        yield Operation(
            f"function_gate_{name}",
            "function",
            LATENCIES[Function.GATE],
            _floats(partial(_gate, factor), 1),
            {"middle": Function.GATE, "factor": factor},
        )
    for middle in (Function.NONE, Function.EXP):
        yield Operation(
            f"side_beside_{middle.name.lower()}",
            "side",
            PRODUCT_LATENCY,
            _floats(fp32.mul),
            {"middle": middle},
            "product",
        )
    yield Operation("flush", "flush", 0, _floats(fp32.flush, 1), {})
    yield Operation("maximum", "maximum", 0, _floats(fp32.maximum), {}, "sum")
    yield Operation("minimum", "minimum", 0, _floats(fp32.minimum), {}, "sum")
    yield Operation("key", "key", 0, lambda x, y: _key(fp32.from_bits(x)), {})
    for number, fmt in FORMATS.items():
        for rule_number, rule in RULES.items():
            yield Operation(
                f"scale_{fmt}_{rule}",
                "scale",
                0,
                partial(_scale, fmt, rule),
                {"format": number, "rule": rule_number},
            )
        yield Operation(
            f"code_{fmt}", "code", 0, partial(_code, fmt), {"format": number}, f"code_{fmt}"
        )


OPERATIONS = {operation.name: operation for operation in _operations()}
"""All that a lane computes, by name."""


def _corners() -> Bits:
    """Return the numbers at which arithmetic changes its mind, of both signs."""
    exponents = [
        *(1, 2, 3, 24, 25, 26, 27, 28),  # sums that round, sums that vanish
        *(63, 64, 190, 191),  # products at either end
        *(103, 126, 127, 128, 134),  # around 1, and beyond the range of exp2
        *(253, 254),
    ]
    fractions = [0, 1, 0x400000, 0x7FFFFE, 0x7FFFFF]
    normal = [exponent << 23 | fraction for exponent in exponents for fraction in fractions]
    special = [
        *(0x00000000, 0x00000001, 0x00400000, 0x007FFFFF),  # zero and subnormals
        *(0x7F800000, 0x7F800001, 0x7FA00000, 0x7FC00000, 0x7FC12345, 0x7FFFFFFF),  # not numbers
        *(0x42FBFFFF, 0x42FC0000, 0x42FC0001),  # 126, where exp2 ends below
    ]
    positive = np.array(special + normal, np.uint32)
    return np.concatenate([positive, positive | np.uint32(0x80000000)])


CORNERS = _corners()


def corner_pairs(relation: str) -> tuple[Bits, Bits]:
    """Return all pairs of corners, or of corners and scale bytes, that have a relation."""
    if relation == "single":
        return CORNERS, CORNERS
    others = CORNERS
    if relation in ("scale", "code_mxfp4", "code_mxint8"):
        others = np.arange(256, dtype=np.uint32)
    x, y = (grid.ravel() for grid in np.meshgrid(CORNERS, others))
    return _of_scale(x, y, relation)


def operands(rng: np.random.Generator, count: int, relation: str) -> tuple[Bits, Bits]:
    """Return random operands that are harder than random bits.

    Fractions are sparse, dense, short, or runs of ones as often as they are random, and those of a
    pair equal, one apart or each other's inverse: so there are ties, near ties, carries through
    everything and cancellation.

    Parameters
    ----------
    rng
        What to draw from.
    count
        How many pairs.
    relation
        ``sum``: exponents that are up to 30 apart. ``product``: exponents whose sum is around
        either end of the range, significands whose product is close to a power of two. ``scale``:
        y is a scale byte that brings x close to either end. ``code_mxfp4``, ``code_mxint8``: y is
        the scale byte of a block that x can be in. ``any``: nothing. ``single``: y does not matter.
    """
    which = rng.random(count)
    x = _numbers(rng, count)
    exponent = (x >> 23 & 0xFF).astype(np.int64)
    if relation in ("scale", "code_mxfp4", "code_mxint8"):
        near = {"scale": 130 - exponent, "code_mxfp4": exponent, "code_mxint8": exponent}[relation]
        near = near + rng.choice([0, 254 if relation == "scale" else 0], count)
        y = np.where(which < 0.1, rng.integers(0, 256, count), near + rng.integers(-4, 12, count))
        return _of_scale(x, y.clip(0, 255).astype(np.uint32), relation)

    if relation == "single":
        return x, x
    y = _numbers(rng, count)
    fraction = x & 0x7FFFFF
    close = fraction.astype(np.int64) + rng.integers(-1, 2, count)
    related = np.where(rng.random(count) < 0.5, close & 0x7FFFFF, ~fraction & 0x7FFFFF)
    if relation == "product":
        significand = fraction.astype(np.int64) | 1 << 23
        inverse = (1 << 47) // significand + rng.integers(-1, 2, count)
        related = np.where(which < 0.2, related, inverse) & 0x7FFFFF
        middle = rng.choice([126, 127, 381, 382, 254], count) + rng.integers(-2, 3, count)
        other = middle - exponent
    else:
        other = exponent + rng.integers(-3, 4, count) * rng.choice([1, 1, 4, 9], count)
    y = np.where(which < 0.3, y & np.uint32(0xFF800000) | related.astype(np.uint32), y)
    tied = y & np.uint32(0x807FFFFF) | other.clip(0, 255).astype(np.uint32) << np.uint32(23)
    return x, np.where(which < 0.8 if relation != "any" else False, tied, y)


def _numbers(rng: np.random.Generator, count: int) -> Bits:
    """Return random numbers with fractions and exponents of many kinds."""
    bits = rng.integers(0, 1 << 32, (4, count), np.uint32)
    length = rng.integers(0, 24, (2, count))
    below = ((1 << length) - 1).astype(np.uint32)  # runs of ones from the right
    fraction = np.choose(
        rng.integers(0, 6, count),
        [
            bits[0],
            bits[0] & bits[1] & bits[2],
            bits[0] | bits[1] | bits[2],
            bits[0] & ~below[0],
            below[0] ^ below[1],
            below[0] ^ (bits[0] & 1) ^ below[1],
        ],
    )
    exponent = np.choose(
        rng.integers(0, 4, count),
        [
            bits[3] >> 1 & 0xFF,
            120 + (bits[3] & 15),
            120 + (bits[3] & 15),
            np.array([0, 1, 2, 63, 64, 190, 254, 255])[bits[3] & 7],
        ],
    ).astype(np.uint32)
    return bits[3] & np.uint32(0x80000000) | exponent << np.uint32(23) | fraction & 0x7FFFFF


def _of_scale(x: Bits, y: Bits, relation: str) -> tuple[Bits, Bits]:
    """Return pairs with numbers made to fit into a block with their scale."""
    if not relation.startswith("code"):
        return x, y
    fmt = Format(relation.removeprefix("code_"))
    y = np.where(y == 255, y, np.minimum(y, 254 - fmt.emax)).astype(np.uint32)
    largest = np.where(y == 255, 255, y + fmt.emax).astype(np.uint32)
    exponent = np.minimum(x >> 23 & 0xFF, largest)
    return x & np.uint32(0x807FFFFF) | exponent << np.uint32(23), y


class ArithmeticTestbench:
    """Sends operands through an `ArithmeticLane` and compares all results with the golden model.

    Parameters
    ----------
    dut
        The design.
    """

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        Clock(dut.clk, PERIOD_NS, unit="ns").start()

    async def check(
        self,
        operation: Operation,
        x: Bits,
        y: Bits,
        *,
        kinds: Bits | None = None,
        golden: Bits | None = None,
        stalls: random.Random | None = None,
    ) -> None:
        """Compute and compare.

        Parameters
        ----------
        operation
            What to compute.
        x, y
            Operands.
        kinds
            Kind of step of each pair, by default that of the operation.
        golden
            What to expect, by default what the operation says.
        stalls
            Source of random pauses, by default there are none.
        """
        got = await self._compute(operation, x, y, kinds, stalls)
        want = operation.golden(x, y) if golden is None else golden
        wrong = np.flatnonzero(got != want)
        if wrong.size:
            i = wrong[0]
            raise AssertionError(
                f"{operation.name}: {wrong.size} of {x.size} wrong, the first {x[i]:#010x} with "
                f"{y[i]:#010x}: {got[i]:#010x} instead of {want[i]:#010x}"
            )

    async def _compute(
        self,
        operation: Operation,
        x: Bits,
        y: Bits,
        kinds: Bits | None,
        stalls: random.Random | None,
    ) -> Bits:
        dut = self.dut
        dut.rst.value = 1
        for name in ("middle", "factor", "format", "rule"):
            getattr(dut, name).value = int(operation.controls.get(name, 0))
        dut.chosen.value = RESULTS.index(operation.result)
        dut.advance.value = 1
        kind = operation.controls.get("kind", Step.NONE)
        if kinds is None:
            dut.kind.value = _packed(np.full(BATCH, kind, np.uint32), KIND_BITS)
        await FallingEdge(dut.clk)
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        # Another batch pushes the last results out.
        empty = np.zeros(-x.size % BATCH + BATCH, np.uint32)
        collected = []
        for start in range(0, x.size + empty.size, BATCH):
            batch = slice(start, start + BATCH)
            for port, values, bits in ((dut.x, x, 32), (dut.y, y, 32), (dut.kind, kinds, 4)):
                if values is not None:
                    words = values[batch]
                    if words.size < BATCH:
                        words = np.concatenate([words, empty])[:BATCH]
                    port.value = _packed(words, bits)
            await self._batch(stalls)
            collected.append(int(dut.results.value).to_bytes(4 * BATCH, "little"))
        results = np.frombuffer(b"".join(collected), "<u4")
        return results[operation.latency :][: x.size]

    async def _batch(self, stalls: random.Random | None) -> None:
        """Wait, from a falling edge to another, while the lane takes a batch."""
        if stalls is None:
            await Timer(BATCH * PERIOD_NS, "ns")
            return
        taken = 0
        while taken < BATCH:
            advance = stalls.random() < 0.6
            self.dut.advance.value = advance
            await FallingEdge(self.dut.clk)
            taken += advance


def _packed(values: Bits, bits: int) -> int:
    """Return values of 32 or 4 bits as one number, the first lowest."""
    if bits == 4:
        values = (values[0::2] | values[1::2] << 4).astype(np.uint8)
    return int.from_bytes(values.tobytes(), "little")
