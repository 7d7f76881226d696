"""The greatest result of every row, and which one it is."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.config import TileConfig
from rtl.mac.geometry import OUTPUT_BITS, index
from rtl.mac.operation import ResultLayout
from rtl.matrix.operation import ResultsLayout
from rtl.vec.compare import order_key
from rtl.vec.geometry import VectorGeometry
from rtl.vec.ports import WordReadSignature, WordWriteLayout


class FoundLayout(data.StructLayout):
    """A result.

    Members
    -------
    value : unsigned(32)
        Binary32.
    output : unsigned
        Its output neuron.
    """

    def __init__(self) -> None:
        super().__init__({"value": 32, "output": OUTPUT_BITS})


class StageLayout(data.StructLayout):
    """What is left of results that came together, somewhere in the tree.

    Members
    -------
    valid : unsigned(1)
        There is something.
    row, output : unsigned
        Row, and output neuron of the first lane.
    candidates : array
        For each, ``keep`` (it is there), ``value`` and ``lane``.
    """

    def __init__(self, config: TileConfig, candidates: int) -> None:
        candidate = data.StructLayout({"keep": 1, "value": 32, "lane": index(config.vec_lanes)})
        super().__init__(
            {
                "valid": 1,
                "row": index(config.lanes),
                "output": OUTPUT_BITS,
                "candidates": data.ArrayLayout(candidate, candidates),
            }
        )


def _beats(a: Any, b: Any) -> Value:
    """Return whether a result comes before another: it is greater, or equal and of a lower one."""
    key, other = order_key(a.value), order_key(b.value)
    return (key > other) | ((key == other) & (a.output < b.output))


class ArgMax(wiring.Component):
    """Keep the best of every row while results pass by, and write it behind the last one.

    Results come in any order, so equals are told apart by their outputs.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    operation : In
        Whose results they are, see `ResultsLayout`; stays until `done`.
    results : In
        The results.
    may_end : In
        Everything else of the instruction is done.
    done : Out
        The registers have what the last results decided.
    read, write : Out
        Ports of the row registers.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = geometry = VectorGeometry(config)
        super().__init__(
            {
                "operation": In(ResultsLayout(config)),
                "results": In(stream.Signature(ResultLayout(config))),
                "may_end": In(1),
                "done": Out(1),
                "read": Out(WordReadSignature(geometry)),
                "write": Out(stream.Signature(WordWriteLayout(geometry))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return comparators, a memory of rows and the walk that writes them."""
        m = Module()
        lanes = self.config.lanes
        coming = self.results.payload
        o = self.operation

        memory = Memory(shape=FoundLayout(), depth=lanes, init=[])
        m.submodules.rows = memory
        put = memory.write_port()
        get = memory.read_port(transparent_for=[put])
        known = Signal(lanes)  # rows that have a best

        take = Signal()
        m.d.comb += take.eq(self.results.valid & self.results.ready)
        best, flowing = self._best(m, coming, take)

        # Behind the tree: against the best of the row so far, which is read in the cycle before.
        new = Signal(FoundLayout())
        new_valid = Signal()
        new_row = Signal(range(lanes))
        m.d.sync += [
            new.value.eq(best.candidates[0].value),
            new.output.eq(best.output + best.candidates[0].lane),
            new_valid.eq(best.valid & best.candidates[0].keep),
            new_row.eq(best.row),
        ]
        old = Signal(FoundLayout())
        m.d.comb += [
            old.eq(get.data),
            put.addr.eq(new_row),
            put.data.eq(new),
            put.en.eq(new_valid & (~known.bit_select(new_row, 1) | _beats(new, old))),
        ]
        with m.If(new_valid):
            m.d.sync += known.eq(known | (1 << new_row))

        # Behind the last one: row by row to the registers.
        left = Signal(lanes)
        row = Signal(range(lanes))
        m.d.comb += [
            get.addr.eq(best.row),
            get.en.eq(best.valid),
            self.read.requests.payload.register.eq(o.best),
            self.read.requests.payload.row.eq(row),
            self.write.payload.address.row.eq(row),
        ]
        with m.FSM():
            with m.State("PASS"):
                m.d.comb += self.results.ready.eq(1)
                m.d.sync += [left.eq(o.mask), row.eq(0)]
                with m.If(take & coming.last):
                    m.next = "FLOW"
            with m.State("FLOW"), m.If(~flowing):
                m.next = "ROW"
            with m.State("ROW"):
                m.d.comb += [get.addr.eq(row), get.en.eq(left[0])]
                with m.If(left[0]):
                    m.d.comb += self.read.requests.valid.eq(o.argmax_resume)
                    with m.If(~o.argmax_resume):
                        m.next = "VALUE"
                    with m.Elif(self.read.requests.ready):
                        m.next = "COMPARE"
                with m.Elif(left.any()):
                    m.d.sync += [left.eq(left >> 1), row.eq(row + 1)]
                with m.Elif(self.may_end):
                    m.d.comb += self.done.eq(1)
                    m.d.sync += known.eq(0)
                    m.next = "PASS"
            with m.State("COMPARE"):
                m.next = "NEXT"
                with m.If(order_key(old.value) > order_key(self.read.word)):
                    m.next = "VALUE"
            with m.State("VALUE"):
                m.d.comb += [
                    self.write.valid.eq(1),
                    self.write.payload.address.register.eq(o.best),
                    self.write.payload.word.eq(old.value),
                ]
                with m.If(self.write.ready):
                    m.next = "INDEX"
            with m.State("INDEX"):
                m.d.comb += [
                    self.write.valid.eq(1),
                    self.write.payload.address.register.eq(o.best_index),
                    self.write.payload.word.eq(o.argmax_base + old.output),
                ]
                with m.If(self.write.ready):
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.d.sync += [left.eq(left >> 1), row.eq(row + 1)]
                m.next = "ROW"
        return m

    def _best(self, m: Module, coming: Any, take: Value) -> tuple[Any, Value]:
        """Return the best of results that come together, and whether some are on their way to it.

        They meet in a tree, a level of it in a cycle. Lanes are in the order of outputs.
        """
        lanes = self.config.vec_lanes
        stage = Signal(StageLayout(self.config, lanes), name="stage0")
        m.d.comb += [stage.valid.eq(take), stage.row.eq(coming.row), stage.output.eq(coming.output)]
        for i in range(lanes):
            m.d.comb += [
                stage.candidates[i].keep.eq(coming.keep[i]),
                stage.candidates[i].value.eq(coming.values[i]),
                stage.candidates[i].lane.eq(i),
            ]
        flowing: Value = Const(0)
        for level in range(1, exact_log2(lanes) + 1):
            left = lanes >> level
            next_stage = Signal(StageLayout(self.config, left), name=f"stage{level}")
            m.d.sync += [
                next_stage.valid.eq(stage.valid),
                next_stage.row.eq(stage.row),
                next_stage.output.eq(stage.output),
            ]
            for i in range(left):
                low, high = stage.candidates[2 * i], stage.candidates[2 * i + 1]
                greater = order_key(high.value) > order_key(low.value)
                takes_high = high.keep & (greater | ~low.keep)
                m.d.sync += next_stage.candidates[i].eq(Mux(takes_high, high, low))
            stage = next_stage
            flowing |= stage.valid
        return stage, flowing
