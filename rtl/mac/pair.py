"""One lane pair in one column: the repeated cell of the array."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.formats import BLOCK
from rtl.leaf import Leaf
from rtl.mac.accumulate import AccumulatorLayout, WindowAdd
from rtl.mac.dot import NibbleDot, SignificandDot
from rtl.mac.geometry import SHIFT_BITS, MacGeometry, index
from rtl.mac.operand import CORRECTION, SIGNIFICAND, STATIONARY, STREAM


class WeightLayout(data.StructLayout):
    """A weight block as the lanes take it.

    Members
    -------
    operands : array
        32 multiplier operands.
    drop : unsigned
        Binades of the block's scale below its neuron's maximum, saturating.
    nan : unsigned(1)
        The block's scale is NaN.
    """

    def __init__(self, geometry: MacGeometry) -> None:
        operand = STREAM if geometry.int8 else SIGNIFICAND
        super().__init__(
            {"operands": data.ArrayLayout(operand, BLOCK), "drop": SHIFT_BITS, "nan": 1}
        )


class StationaryLayout(data.StructLayout):
    """An activation block as a lane holds it.

    Members
    -------
    operands : array
        32 multiplier operands.
    correction : signed
        See `rtl.mac.operand`; only beside MXINT8.
    drop : unsigned
        Binades of the block's scale below its row's maximum, plus clog2(n) of the row, saturating.
    nan : unsigned(1)
        The block's scale is NaN.
    """

    def __init__(self, geometry: MacGeometry) -> None:
        members: dict[str, Any] = {"drop": SHIFT_BITS, "nan": 1}
        if geometry.int8:
            members["correction"] = CORRECTION
        operand = STATIONARY if geometry.int8 else SIGNIFICAND
        members["operands"] = data.ArrayLayout(operand, BLOCK)
        super().__init__(members)


class LaneStepLayout(data.StructLayout):
    """What one lane does with the block pair in its operand registers.

    Members
    -------
    hold : unsigned(1)
        It is a high weight plane: keep the dot product for the low plane.
    add : unsigned(1)
        The block dot product is complete: add it to the accumulator.
    row : unsigned
        Row of the accumulator in its group.
    bank : unsigned(1)
        Group buffer of the accumulator.
    clear : unsigned(1)
        First block of the row: start at zero.
    """

    def __init__(self, geometry: MacGeometry) -> None:
        super().__init__(
            {
                "hold": 1,
                "add": 1,
                "row": index(geometry.group_rows),
                "bank": 1,
                "clear": 1,
            }
        )


class PairColumn(Leaf):
    """Two lanes of one column: dot products, fusion, window accumulators.

    Weights are registered here, per lane and only when the lane works on them, so that nothing
    behind the register of an idle lane toggles. The pipeline is: operand registers, dot product and
    fusion, shift and add. All control is registered outside and shared by the whole array.

    Members
    -------
    weight : array of In
        Weight block offered to the even and to the odd lane.
    load : array of In
        Take it.
    stationary : array of In
        Activation block of each lane.
    step : array of In
        What each lane does with its operands, beside the operand registers.
    fuse : In
        8-bit activations: the odd lane's dot product belongs to the even lane. Only beside MXINT8.
    planes : In
        8-bit weights: a high plane was held, this is the low one. Only beside MXINT8.
    advance : In
        Let the drain go on; without it the value stays.
    read : In
        Word of accumulators to read: words of bank 0, then of bank 1.
    select : array of In
        Accumulators of that word to deliver, for each lane.
    value : array of Out
        The selected accumulators, a cycle later; zero where none is selected.
    """

    def __init__(self, geometry: MacGeometry) -> None:
        self.geometry = geometry
        members = {
            "weight": In(WeightLayout(geometry)).array(2),
            "load": In(1).array(2),
            "stationary": In(StationaryLayout(geometry)).array(2),
            "step": In(LaneStepLayout(geometry)).array(2),
            "read": In(index(2 * geometry.drain_words)),
            "advance": In(1),
            "select": In(unsigned(geometry.drain_rows)).array(2),
            "value": Out(data.ArrayLayout(AccumulatorLayout(geometry), geometry.drain_rows)),
        }
        if geometry.int8:
            members |= {"fuse": In(1), "planes": In(1)}
        super().__init__(members)

    @property
    def module_name(self) -> str:
        """Name of the module."""
        config = self.geometry.config
        kind = "int8" if self.geometry.int8 else "fp4"
        return (
            f"mac_pair_{kind}_{config.acc_bits}_{self.geometry.group_rows}"
            f"_{self.geometry.drain_rows}"
        )

    def build(self, platform: Any) -> Module:
        """Return the two lanes."""
        m = Module()
        geometry = self.geometry
        width = geometry.dot_bits + 1

        weights = []
        dots = []
        for lane in range(2):
            weight = Signal(WeightLayout(geometry), name=f"weight{lane}")
            with m.If(self.load[lane]):
                m.d.sync += weight.eq(self.weight[lane])
            dot = NibbleDot() if geometry.int8 else SignificandDot()
            m.submodules[f"dot{lane}"] = dot
            m.d.comb += [
                dot.weights.eq(weight.operands),
                dot.activations.eq(self.stationary[lane].operands),
            ]
            if geometry.int8:
                m.d.comb += dot.correction.eq(self.stationary[lane].correction)
            weights.append(weight)
            dots.append(dot.dot)

        values: list[Value] = []
        for lane in range(2):
            step = self.step[lane]
            complete = Signal(signed(width), name=f"complete{lane}")
            if geometry.int8:
                m.d.comb += complete.eq(self._recombine(m, lane, dots))
            else:
                m.d.comb += complete.eq(dots[lane])

            add = WindowAdd(geometry)
            m.submodules[f"add{lane}"] = add
            adding = Signal(name=f"adding{lane}")
            pending = Signal(LaneStepLayout(geometry), name=f"pending{lane}")
            dot = Signal(signed(width), name=f"dot{lane}_aligned")
            distance = Signal(unsigned(SHIFT_BITS + 1), name=f"distance{lane}")
            nan = Signal(name=f"nan{lane}")
            m.d.sync += adding.eq(step.add)
            with m.If(step.add):
                m.d.sync += [
                    pending.eq(step),
                    dot.eq(complete),
                    distance.eq(weights[lane].drop + self.stationary[lane].drop),
                    nan.eq(weights[lane].nan | self.stationary[lane].nan),
                ]

            # The accumulators. A step whose row was written by the step before reads the new value.
            memory = Memory(
                shape=data.ArrayLayout(AccumulatorLayout(geometry), geometry.drain_rows),
                depth=2 * geometry.drain_words,
                init=[],
            )
            m.submodules[f"accumulators{lane}"] = memory
            write = memory.write_port(granularity=1)
            update = memory.read_port(transparent_for=(write,))
            drain = memory.read_port()
            m.d.comb += [
                update.en.eq(step.add),
                update.addr.eq(self._word(step)),
                add.dot.eq(dot),
                add.distance.eq(distance),
                add.nan.eq(nan),
                add.clear.eq(pending.clear),
                add.previous.eq(update.data[self._element(pending)]),
                write.addr.eq(self._word(pending)),
                write.en.eq(adding << self._element(pending)),
                drain.addr.eq(self.read),
                drain.en.eq(self.advance & self.select[lane].any()),
            ]
            selected = Signal(geometry.drain_rows, name=f"selected{lane}")
            with m.If(self.advance):
                m.d.sync += selected.eq(self.select[lane])
            for i in range(geometry.drain_rows):
                m.d.comb += write.data[i].eq(add.updated)
            element = AccumulatorLayout(geometry).size
            gate = Cat(selected[i].replicate(element) for i in range(geometry.drain_rows))
            values.append(drain.data.as_value() & gate)
        m.d.comb += self.value.eq(values[0] | values[1])
        return m

    def _recombine(self, m: Module, lane: int, dots: list[Value]) -> Value:
        """Return the block dot product of all planes, aligned to the top of `dot_bits`."""
        width = self.geometry.dot_bits + 1
        plane: Value = dots[lane]
        if lane == 0:
            plane = Mux(self.fuse, (dots[0] << 4) + dots[1], dots[0])
        high = Signal(signed(width - 4), name=f"high{lane}")
        with m.If(self.step[lane].hold):
            m.d.sync += high.eq(plane)
        whole = Signal(signed(width), name=f"whole{lane}")
        m.d.comb += whole.eq(Mux(self.planes, high << 4, 0) + plane)
        # |D| is below 2**20, 2**16 or 2**13.
        return Mux(
            self.fuse & self.planes, whole, Mux(self.fuse | self.planes, whole << 4, whole << 7)
        )

    def _element(self, step: Any) -> Value:
        """Return which accumulator of a word a row is."""
        bits = self.geometry.drain_rows.bit_length() - 1
        return step.row[:bits] if bits else Const(0, 1)

    def _word(self, step: Any) -> Value:
        """Return the word a row is in: words of bank 0, then of bank 1."""
        bits = self.geometry.drain_rows.bit_length() - 1
        return Mux(step.bank, self.geometry.drain_words, 0) + (step.row >> bits)
