"""exp2, reciprocal and rsqrt, bit for bit those of `sim.golden.elementary`.

Each is reduced to an exponent and a curve over a 23-bit fraction f; `rtl.elementary_tables` has
the curves. The value of a curve less 1, in units of 2**-23, is *added* behind the exponent: where
the curve meets 2 it carries into it.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from rtl import elementary_tables as tables
from rtl.leaf import Leaf
from rtl.vec.binary32 import BIAS, INFINITY, QUIET_NAN, Binary32

FRACTION_BITS = 23
CURVE_ROWS = 1 << tables.SEGMENT_BITS
BASE = 1 << FRACTION_BITS + tables.GUARD_BITS
"""Value 1 in the units of the tables."""

FRAME = data.StructLayout({"exponent": 8, "negative": 1, "zero": 1, "infinite": 1, "nan": 1})
"""A result but for its fraction: sign and exponent field, or what it is instead."""


class Curve(Leaf):
    """Evaluate the polynomial of a table.

    Integers pass through a shift that rounds down. So each sum can be formed before its shift, and
    becomes one carry-save tree with its product:

        inner = (c1 << 17) + c2·d >> 17
        value = (c0 << 17) + inner·d >> 19

    Multipliers are unsigned. Where a curve falls, -inner stands for inner: then it is c2·d that is
    subtracted, and what was rounded down must be rounded up, which a sum does that is one short of
    the next integer.

    Parameters
    ----------
    first, count
        Which curves of the table there are: `count` of them from `first` on, which all rise or all
        fall.

    Members
    -------
    advance : In
        Let the pipeline go on.
    row : In
        Row of the table, from `first`'s on: curve and top bits of the fraction.
    position : In
        The other bits of the fraction, d.
    value : Out
        The curve less 1, in units of ``2**-23``: 0 to ``2**23``. `LATENCY` steps later, and with
        another step's work behind its last register.
    """

    LATENCY = 1

    def __init__(self, first: int, count: int) -> None:
        self.first, self.count = first, count
        self.rows = tables.ROWS[first * CURVE_ROWS : (first + count) * CURVE_ROWS]
        super().__init__(
            {
                "advance": In(1),
                "row": In(bits_for(len(self.rows) - 1)),
                "position": In(tables.POSITION_BITS),
                "value": Out(FRACTION_BITS + 1),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return f"vec_curve_{self.first}_{self.count}"

    def build(self, platform: Any) -> Module:
        """Return the evaluator."""
        m = Module()
        bits = tables.POSITION_BITS
        falls = self.rows[0][1] < 0
        c0, c1, c2 = (
            self._column(m, name, values)
            for name, values in (
                ("c0", [c0 - BASE for c0, _, _ in self.rows]),
                ("c1", [abs(c1) for _, c1, _ in self.rows]),
                ("c2", [c2 for _, _, c2 in self.rows]),
            )
        )
        inner = Signal(range(max(abs(c1) + c2 for _, c1, c2 in self.rows) + 1))
        start = Signal.like(c0)
        position = Signal.like(self.position)
        bend = c2 * self.position
        slope = Cat(Const(-1, bits), c1) - bend if falls else (c1 << bits) + bend
        with m.If(self.advance):
            m.d.sync += [inner.eq(slope >> bits), start.eq(c0), position.eq(self.position)]
        way = inner * position
        total = (start << bits) - way if falls else (start << bits) + way
        m.d.comb += self.value.eq(total >> bits + tables.GUARD_BITS)
        return m

    def _column(self, m: Module, name: str, values: list[int]) -> Signal:
        """Return the entry of `row` in a column of the table."""
        width = bits_for(max(values))
        segment, number = self.row[: tables.SEGMENT_BITS], self.row[tables.SEGMENT_BITS :]
        column = Signal(width, name=name)
        entries = []
        # Curve by curve: to the synthesis one table of several curves is one of more inputs.
        for i in range(self.count):
            entry = Signal(width, name=f"{name}_{i}")
            rows = values[i * CURVE_ROWS : (i + 1) * CURVE_ROWS]
            m.d.comb += entry.eq(Array(Const(value, width) for value in rows)[segment])
            entries.append(entry & (number == i).replicate(width))
        m.d.comb += column.eq(reduce(or_, entries))
        return column


class Exp2(Leaf):
    """``2**x``, in three steps.

    Members
    -------
    advance : In
        Let the pipeline go on.
    x : In
        Operand.
    value : Out
        ``2**x``, `LATENCY` steps later.
    """

    LATENCY = 1 + Curve.LATENCY + 1

    def __init__(self) -> None:
        super().__init__({"advance": In(1), "x": In(32), "value": Out(32)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "vec_exp2"

    def build(self, platform: Any) -> Module:
        """Return the hardware."""
        m = Module()
        x = Binary32(self.x)

        # First step: the fixed-point number, an integer above a fraction of 23 bits. Magnitudes
        # below 128 have a field of at most 133; half a unit is kept to round with. A negative
        # number is the ones' complement and one more, unless that half would have been added.
        distance = Signal(8)
        halves, fixed = Signal(31), Signal(31)
        large, negative, nan = Signal(), Signal(), Signal()
        m.d.comb += [
            distance.eq(BIAS + 6 - x.exponent),
            halves.eq(Mux(distance[5:].any(), 0, x.significand << 7 >> distance[:5])),
        ]
        with m.If(self.advance):
            m.d.sync += [
                fixed.eq(
                    Cat(halves[1:] ^ x.negative.replicate(30), x.negative)
                    + (halves[0] ^ x.negative)
                ),
                large.eq(x.exponent > BIAS + 6),
                negative.eq(x.negative),
                nan.eq(x.is_nan),
            ]

        # The other steps: the curve of the fraction.
        fraction, whole = fixed[:FRACTION_BITS], fixed[FRACTION_BITS:].as_signed()
        frame = Signal(FRAME)
        place = Signal(signed(9))
        m.submodules.curve = curve = Curve(tables.EXP2, 1)
        m.d.comb += [
            curve.advance.eq(self.advance),
            curve.row.eq(fraction[tables.POSITION_BITS :]),
            curve.position.eq(fraction[: tables.POSITION_BITS]),
            place.eq(whole + BIAS),
            frame.exponent.eq(place[:8]),
            frame.zero.eq(Mux(large, negative, place <= 0)),
            frame.infinite.eq(large & ~negative),
            frame.nan.eq(nan),
        ]
        _assemble(m, self.advance, frame, curve.value, self.value)
        return m


class Root(Leaf):
    """``1 / x`` or ``1 / sqrt(x)``, in two steps.

    Members
    -------
    advance : In
        Let the pipeline go on.
    x : In
        Operand.
    square : In
        Whether the square root of the reciprocal is wanted.
    value : Out
        The result, `LATENCY` steps later.
    """

    LATENCY = Curve.LATENCY + 1

    def __init__(self) -> None:
        super().__init__({"advance": In(1), "x": In(32), "square": In(1), "value": Out(32)})

    @property
    def module_name(self) -> str:
        """Name of the module."""
        return "vec_root"

    def build(self, platform: Any) -> Module:
        """Return the hardware."""
        m = Module()
        x = Binary32(self.x)
        even = x.exponent[0]  # of an even power of two, the bias being odd

        # The curves RECIPROCAL, RSQRT_EVEN and RSQRT_ODD are 0, 1 and 2 here.
        number = Mux(self.square, Mux(even, 1, 2), 0)
        beyond = self.x[:31] > (2 * BIAS - 1 << FRACTION_BITS)  # infinity is
        frame = Signal(FRAME)
        m.submodules.curve = curve = Curve(tables.RECIPROCAL, 3)
        m.d.comb += [
            curve.advance.eq(self.advance),
            curve.row.eq(Cat(x.fraction[tables.POSITION_BITS :], number)),
            curve.position.eq(x.fraction[: tables.POSITION_BITS]),
            frame.exponent.eq(
                Mux(
                    self.square,
                    (3 * BIAS - 1 >> 1) - (x.exponent + 1 >> 1),
                    2 * BIAS - 1 - x.exponent,
                )
            ),
            frame.negative.eq(x.negative),
            frame.zero.eq(Mux(self.square, x.is_infinite, beyond)),
            frame.infinite.eq(x.is_zero),
            frame.nan.eq(x.is_nan | (self.square & x.negative & ~x.is_zero)),
        ]
        _assemble(m, self.advance, frame, curve.value, self.value)
        return m


def _assemble(m: Module, advance: Value, frame: Any, curve: Value, value: Signal) -> None:
    """Put a number together from its frame, which waits for the curve, in a last step."""
    for i in range(Curve.LATENCY):
        later = Signal(FRAME, name=f"frame{i}")
        with m.If(advance):
            m.d.sync += later.eq(frame)
        frame = later
    # Where the curve meets 2, the bit above its fraction carries.
    number = Cat(curve[:-1], (frame.exponent + curve[-1])[:8], frame.negative)
    with m.If(advance):
        m.d.sync += value.eq(number)
        with m.If(frame.zero):
            m.d.sync += value.eq(Cat(Const(0, 31), frame.negative))
        with m.If(frame.infinite):
            m.d.sync += value.eq(Cat(Const(INFINITY, 31), frame.negative))
        with m.If(frame.nan):
            m.d.sync += value.eq(QUIET_NAN)
