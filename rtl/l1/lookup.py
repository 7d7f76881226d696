"""The first half of the cache: where the line of a request is, or will be.

A request is looked up in the order of the program, long before its data is touched. Whatever it
changes (a line is given a place, bytes of it were written, it will be fetched) is noted at once, so
the next one may be looked up in the next cycle, hit or miss. What is to be done with the lines
themselves goes into a queue, to be done in the same order.

Each byte of a line is *dirty*, written here, or else as it is in memory; a line that was *fetched*
has both, one that was not has the dirty bytes only. So a write never waits for memory, and what
goes back to memory is what was written, byte for byte.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.counters import Counter, step_signature
from rtl.l1.geometry import L1Geometry
from rtl.l1.ports import EntryLayout, MaskLayout, RangeLayout, RequestLayout, UpdateLayout
from rtl.l1.recency import touched, victim

COUNTERS = (
    Counter("reads", "requests that read"),
    Counter("writes", "requests that write"),
    Counter("hits", "requests that need nothing from memory and give no line away"),
    Counter("misses", "reads that fetch a line"),
    Counter("write_backs", "lines of which something was written to memory"),
    Counter("stalled_queue", "cycles a request waits since too many wait for their lines"),
    Counter("stalled_fetches", "cycles a miss waits since as many as can be are under way"),
    Counter("stalled_write_backs", "cycles a request waits for lines to be written to memory"),
    Counter("stalled_conflict", "cycles a miss waits for its own line to be written to memory"),
    Counter("stalled_range", "cycles a request waits for lines that are to leave, or after reset"),
)
"""What is counted here. A cycle in which a request waits is counted under one cause."""


class StateLayout(data.StructLayout):
    """What is known of a place.

    Fields
    ------
    valid
        There is a line.
    tag
        Which one.
    fetched
        It was fetched, or will be when whoever needs it gets to it.
    dirty
        Bytes that were written.
    """

    def __init__(self, geometry: L1Geometry) -> None:
        super().__init__(
            {
                "valid": 1,
                "tag": geometry.tag_bits,
                "fetched": 1,
                "dirty": geometry.line_bytes,
            }
        )


class Lookup(wiring.Component):
    """Look requests up.

    Parameters
    ----------
    geometry
        Sizes.

    Members
    -------
    requests : In
        What is wanted.
    ranges : In
        Lines that are to leave; taken when they have. Requests that were taken before it was
        offered come before it, others after.
    entries : Out
        What is to be done with lines.
    updates : Out
        What is written, for each entry that writes.
    masks : Out
        Dirty bytes, for each entry with `evict`, and then for each with `masked`.
    fetches : Out
        Lines to be read from memory, for each entry with `fill`.
    departures : Out
        Lines that go to memory, for each entry with `evict`.
    query : Out
        Line that may be fetched next.
    found, idle : In
        It is on its way to memory; no line is.
    events : Out
        See `COUNTERS`.
    """

    def __init__(self, geometry: L1Geometry) -> None:
        self.geometry = g = geometry
        super().__init__(
            {
                "requests": In(stream.Signature(RequestLayout(g))),
                "ranges": In(stream.Signature(RangeLayout(g))),
                "entries": Out(stream.Signature(EntryLayout(g))),
                "updates": Out(stream.Signature(UpdateLayout(g))),
                "masks": Out(stream.Signature(MaskLayout(g))),
                "fetches": Out(stream.Signature(g.line_bits)),
                "departures": Out(stream.Signature(g.line_bits)),
                "query": Out(g.line_bits),
                "found": In(1),
                "idle": In(1),
                "events": Out(step_signature(COUNTERS)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the look-up and the walk through sets."""
        m = Module()
        g = self.geometry
        levels = exact_log2(g.ways)

        # What is known of a set is read in one cycle, and used and changed in the next. Who waits
        # reads again; and a read sees what is written in the same cycle.
        index_bits = max(1, g.set_bits)
        at, look = Signal(index_bits), Signal(index_bits)
        new = Signal(StateLayout(g))
        change = Signal(g.ways)
        states = []
        for w in range(g.ways):
            m.submodules[f"state{w}"] = memory = Memory(
                shape=StateLayout(g), depth=1 << index_bits, init=[]
            )
            write_port = memory.write_port()
            read_port = memory.read_port(transparent_for=[write_port])
            m.d.comb += [
                read_port.addr.eq(look),
                write_port.addr.eq(at),
                write_port.data.eq(new),
                write_port.en.eq(change[w]),
            ]
            states.append(read_port.data)
        m.submodules.recency = recency = Memory(shape=g.ways, depth=1 << index_bits, init=[])
        touch = recency.write_port()
        order = recency.read_port(transparent_for=[touch])
        m.d.comb += [order.addr.eq(look), touch.addr.eq(at)]
        m.d.sync += at.eq(look)

        # --- the request ---
        now = Signal(RequestLayout(g))
        busy, go = Signal(), Signal()
        line, tag = now.beat[1:], now.beat[1 + g.set_bits :]
        hits, free = Signal(g.ways), Signal(g.ways)
        way = Signal(max(1, levels))
        chosen = Signal(StateLayout(g))
        for w, state in enumerate(states):
            m.d.comb += [
                hits[w].eq(state.valid & (state.tag == tag)),
                free[w].eq(~state.valid),
            ]
        hit = hits.any()
        m.d.comb += way.eq(
            Mux(hit, _first(hits), Mux(free.any(), _first(free), victim(order.data, g.ways)))
        )
        m.d.comb += chosen.eq(_among(way, states))
        dirty = Signal(g.line_bytes)
        missing, fetch, evict, masked = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            dirty.eq(Mux(hit, chosen.dirty, 0)),
            missing.eq((now.enable & ~dirty.word_select(now.beat[0], g.beat_bytes)).any()),
            fetch.eq(~now.write & missing & ~(hit & chosen.fetched)),
            masked.eq(fetch & hit),
            evict.eq(~hit & chosen.valid & chosen.dirty.any()),
        ]

        # --- the walk: sets that lines of a range may be in, all at first ---
        walking, settling = Signal(init=1), Signal()
        clearing = Signal(init=1)
        left = Signal(range(max(2, g.sets)), init=g.sets - 1)
        span = self.ranges.payload
        inside, leaves = Signal(g.ways), Signal(g.ways)
        step, last = Signal(), Signal()
        first_line, last_line = span.first[1:], span.last[1:]
        for w, state in enumerate(states):
            # (the index is 1 bit wide where there is but one set)
            number = Cat(at[: g.set_bits], state.tag)
            m.d.comb += [
                inside[w].eq(state.valid & (number >= first_line) & (number <= last_line)),
                leaves[w].eq(inside[w] & state.dirty.any() & span.flush & ~clearing),
            ]
        leaving = Signal(max(1, levels))
        gone = Signal(StateLayout(g))
        m.d.comb += [leaving.eq(_first(leaves)), gone.eq(_among(leaving, states))]

        # --- what either asks for ---
        departs = Signal()
        place = Mux(walking, leaving, way)
        departing = StateLayout(g)(Mux(walking, gone, chosen))
        wants = {
            "entries": busy | (walking & leaves.any()),
            "updates": busy & now.write,
            "fetches": busy & fetch,
            "departures": departs,
            "masks": departs | (busy & masked),
        }
        m.d.comb += departs.eq(Mux(walking, leaves.any(), busy & evict))
        allowed = Signal()
        obstacles = {
            "conflict": busy & fetch & self.found,
            **{name: want & ~getattr(self, name).ready for name, want in wants.items()},
        }
        m.d.comb += allowed.eq(~Cat(obstacles.values()).any())
        for name, want in wants.items():
            m.d.comb += getattr(self, name).valid.eq(want & allowed)

        entry = self.entries.payload
        m.d.comb += [
            go.eq(busy & allowed),
            entry.place.eq(g.place(place, at)),
            entry.beat.eq(now.beat[0]),
            entry.evict.eq(departs),
            entry.fill.eq(busy & fetch),
            entry.masked.eq(busy & masked),
            entry.read.eq(busy & ~now.write),
            entry.write.eq(busy & now.write),
            entry.depends.eq(missing),
            self.updates.payload.data.eq(now.data),
            self.updates.payload.enable.eq(now.enable),
            self.masks.payload.dirty.eq(departing.dirty),
            self.fetches.payload.eq(line),
            self.departures.payload.eq(Cat(at[: g.set_bits], departing.tag)),
            self.query.eq(line),
        ]

        # --- what changes ---
        m.d.comb += [
            touch.en.eq(go),
            touch.data.eq(touched(order.data, way, g.ways)),
        ]
        with m.If(walking):
            # Lines with something to write leave one by one, then the others together.
            m.d.comb += new.eq(0)
            with m.If(clearing):
                m.d.comb += [change.eq(~0), step.eq(1)]
            with m.Elif(leaves.any()):
                m.d.comb += change.eq(Mux(allowed, 1 << leaving, 0))
            with m.Else():
                m.d.comb += [change.eq(inside), step.eq(1)]
        with m.Else():
            written = Mux(now.write, now.enable, 0)
            m.d.comb += [
                change.eq(Mux(go, 1 << way, 0)),
                new.valid.eq(1),
                new.tag.eq(tag),
                new.fetched.eq((hit & chosen.fetched) | fetch),
                new.dirty.eq(
                    dirty | Cat(Mux(now.beat[0], 0, written), Mux(now.beat[0], written, 0))
                ),
            ]

        # --- who is next ---
        serving = ~walking & ~settling
        taken = self.requests.valid & self.requests.ready
        begins = serving & ~busy & self.ranges.valid
        m.d.comb += [
            self.requests.ready.eq(serving & ~self.ranges.valid & (~busy | go)),
            last.eq(step & (left == 0)),
            look.eq(Mux(busy & ~go, line, self.requests.payload.beat[1:])[: g.set_bits]),
        ]
        with m.If(walking):
            m.d.comb += look.eq((at + step)[: g.set_bits])
        with m.Elif(begins):
            m.d.comb += look.eq(first_line[: g.set_bits])
        with m.If(go | taken):
            m.d.sync += busy.eq(taken)
        with m.If(taken):
            m.d.sync += now.eq(self.requests.payload)
        lines = Signal(g.line_bits)
        m.d.comb += lines.eq(last_line - first_line)
        with m.If(begins):
            m.d.sync += [
                walking.eq(1),
                left.eq(Mux(lines >= g.sets, g.sets - 1, lines)),
            ]
        with m.If(step):
            m.d.sync += left.eq(left - 1)
        with m.If(last):
            m.d.sync += [walking.eq(0), clearing.eq(0), settling.eq(~clearing)]
        m.d.comb += self.ranges.ready.eq(settling & self.idle)
        with m.If(self.ranges.ready):
            m.d.sync += settling.eq(0)

        # A line is in one way of its set, and a range stays until it is done.
        with m.If(busy):
            m.d.sync += Assert((hits & (hits - 1)[: g.ways]) == 0)
        with m.If(settling):
            m.d.sync += Assert(self.ranges.valid)
        self._count(m, go, busy, now.write, fetch, evict, departs & allowed, obstacles)
        return m

    def _count(
        self,
        m: Module,
        go: Value,
        busy: Value,
        write: Value,
        fetch: Value,
        evict: Value,
        departed: Value,
        obstacles: dict[str, Value],
    ) -> None:
        """Say what happens."""
        events = self.events
        m.d.comb += [
            events.reads.eq(go & ~write),
            events.writes.eq(go & write),
            events.hits.eq(go & ~fetch & ~evict),
            events.misses.eq(go & fetch),
            events.write_backs.eq(departed),
            events.stalled_range.eq(self.requests.valid & ~self.requests.ready & ~busy),
        ]
        free: Value = busy
        for event, names in (
            ("stalled_conflict", ("conflict",)),
            ("stalled_write_backs", ("departures", "masks")),
            ("stalled_fetches", ("fetches",)),
            ("stalled_queue", ("entries", "updates")),
        ):
            because = Cat(obstacles[name] for name in names).any()
            m.d.comb += getattr(events, event).eq(free & because)
            free = free & ~because


def _first(bits: Value) -> Value:
    """Return the number of the lowest bit that is set."""
    result: Value = Const(len(bits) - 1, max(1, (len(bits) - 1).bit_length()))
    for i in reversed(range(len(bits) - 1)):
        result = Mux(bits[i], i, result)
    return result


def _among(index: Value, values: Any) -> Value:
    """Return the value of an index."""
    result = Value.cast(values[-1])
    for i, value in enumerate(values[:-1]):
        result = Mux(index == i, Value.cast(value), result)
    return result
