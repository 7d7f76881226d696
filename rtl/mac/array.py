"""The array: lane pairs times columns, and the activation stores beside them."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import TileConfig
from rtl.mac.accumulate import AccumulatorLayout
from rtl.mac.activations import ActivationStore
from rtl.mac.geometry import MacGeometry, index
from rtl.mac.pair import LaneStepLayout, PairColumn, StationaryLayout, WeightLayout
from rtl.mac.sequence import ArrayStepLayout


class DoneLayout(data.StructLayout):
    """Rows whose accumulators are complete.

    Members
    -------
    valid, second : unsigned(1)
        One row; two rows.
    bank : unsigned(1)
        Their group buffer.
    end : unsigned(1)
        The group is complete with them.
    """

    def __init__(self) -> None:
        super().__init__({"valid": 1, "second": 1, "bank": 1, "end": 1})


class MacArray(wiring.Component):
    """All lanes of all columns.

    A lane takes the second block row of a step where it holds copies. Seen from the weights there
    are four kinds of lanes, even and odd ones of lower and of upper pairs, so the choice is made
    once per kind and not in every lane.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    write, write_address, write_data : In
        Activation blocks to store.
    read, read_address : In
        Activation blocks to fetch, a cycle before their step.
    step, weights : In
        What to do, from the sequencer.
    done : Out
        Rows that may be read from the next cycle on.
    advance, word, select, values : In, In, In, Out
        Accumulators for the drain, see `PairColumn`; `values` holds S·P of them in the order of the
        outputs.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.geometry = geometry = MacGeometry(config)
        weights = data.ArrayLayout(WeightLayout(geometry), geometry.columns)
        accumulator = AccumulatorLayout(geometry)
        address = index(config.act_blocks)
        super().__init__(
            {
                "write": In(geometry.pairs).array(2),
                "write_address": In(address),
                "write_data": In(StationaryLayout(geometry)).array(2),
                "read": In(geometry.pairs).array(2),
                "read_address": In(address),
                "step": In(ArrayStepLayout(geometry)),
                "weights": In(weights).array(2),
                "done": Out(DoneLayout()),
                "advance": In(1),
                "word": In(index(2 * geometry.drain_words)),
                "select": In(geometry.pairs).array(2, geometry.drain_rows),
                "values": Out(data.ArrayLayout(accumulator, geometry.drain_width)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the array."""
        m = Module()
        geometry = self.geometry
        step = self.step

        kinds = {}
        for upper in range(2):
            for lane in range(2):
                kinds[upper, lane] = self._kind(m, upper, lane)

        fuse = Signal()
        planes = Signal()
        m.d.sync += [fuse.eq(step.wide), planes.eq(step.planes)]

        values: list[list[Any]] = [[] for _ in range(geometry.columns)]
        for p in range(geometry.pairs):
            upper = int(p >= geometry.upper)
            store = ActivationStore(geometry)
            m.submodules[f"activations{p}"] = store
            m.d.comb += [
                store.write_address.eq(self.write_address),
                store.read_address.eq(self.read_address),
            ]
            loads = []
            steps = []
            for lane in range(2):
                active = Signal(name=f"active{p}_{lane}")
                lane_step = Signal(LaneStepLayout(geometry), name=f"step{p}_{lane}")
                # An odd lane that is fused has no accumulator of its own.
                own = 1 if lane == 0 else ~step.wide
                _, shared = kinds[upper, lane]
                m.d.comb += [
                    store.write[lane].eq(self.write[lane][p]),
                    store.write_data[lane].eq(self.write_data[lane]),
                    store.read[lane].eq(self.read[lane][p]),
                    active.eq(
                        (step.valid & step.primary[lane][p]) | (step.second & step.copy[lane][p])
                    ),
                    lane_step.row.eq(shared.row),
                    lane_step.bank.eq(shared.bank),
                    lane_step.clear.eq(shared.clear),
                ]
                hold = Signal(name=f"hold{p}_{lane}")
                add = Signal(name=f"add{p}_{lane}")
                m.d.sync += [hold.eq(active & own & step.hold), add.eq(active & own & step.add)]
                m.d.comb += [lane_step.hold.eq(hold), lane_step.add.eq(add)]
                loads.append(active)
                steps.append(lane_step)
            for c in range(geometry.columns):
                cell = PairColumn(geometry)
                m.submodules[f"pair{p}_{c}"] = cell
                for lane in range(2):
                    weights, _ = kinds[upper, lane]
                    m.d.comb += [
                        cell.weight[lane].eq(weights[c]),
                        cell.load[lane].eq(loads[lane]),
                        cell.stationary[lane].eq(store.stationary[lane]),
                        cell.step[lane].eq(steps[lane]),
                        cell.select[lane].eq(Cat(word[p] for word in self.select[lane])),
                    ]
                if geometry.int8:
                    m.d.comb += [cell.fuse.eq(fuse), cell.planes.eq(planes)]
                m.d.comb += [cell.advance.eq(self.advance), cell.read.eq(self.word)]
                values[c].append(cell.value.as_value())

        element = AccumulatorLayout(geometry).size
        for c in range(geometry.columns):
            column = Signal(element * geometry.drain_rows, name=f"column{c}")
            m.d.comb += column.eq(reduce(or_, values[c]))
            for s in range(geometry.drain_rows):
                m.d.comb += self.values[s * geometry.columns + c].eq(column.word_select(s, element))

        # Accumulators are written at the end of the second cycle after the step.
        done = Signal(DoneLayout())
        m.d.sync += [
            done.valid.eq(step.valid & step.last),
            done.second.eq(step.second),
            done.bank.eq(step.bank),
            done.end.eq(step.end),
            self.done.eq(done),
        ]
        return m

    def _kind(self, m: Module, upper: int, lane: int) -> tuple[Any, Any]:
        """Return the weights, and registered the accumulator, that one kind of lane is offered."""
        name = f"{'upper' if upper else 'lower'}_{'odd' if lane else 'even'}"
        step = self.step
        weights = Signal.like(self.weights[0], name=f"weights_{name}")
        shared = Signal(LaneStepLayout(self.geometry), name=f"step_{name}")
        if lane:
            second = step.paired if upper else step.paired & ~step.wide
        else:
            second = step.paired & step.wide if upper else 0
        m.d.comb += weights.eq(Mux(second, self.weights[1], self.weights[0]))
        m.d.sync += [
            shared.row.eq(step.row + second),
            shared.bank.eq(step.bank),
            shared.clear.eq(step.clear),
        ]
        return weights, shared
