"""A tile: core, engines, registers, L1, and the HBM slice that holds its state."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import (
    Cat,
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Module,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.activity import Activity
from rtl.clock_gate import ClockGate
from rtl.config import TileConfig
from rtl.core.control import Control
from rtl.core.core import Core
from rtl.core.window import Engine, WindowProbeLayout
from rtl.counters import Counter
from rtl.hbm.interface import PseudoChannelSignature
from rtl.hbm.slice import HbmSlice
from rtl.host import HostPort, axi_ports, lite_ports, pass_through
from rtl.host.axi import REGISTER_WORDS
from rtl.l1 import L1Cache
from rtl.l1.geometry import L1Geometry
from rtl.l1.share import L1Share
from rtl.mac import OperandStream
from rtl.matrix import MatrixUnit
from rtl.memory.engine import MemoryEngine
from rtl.message.layouts import TILE_BITS
from rtl.message.unit import MessageUnit
from rtl.noc.link import FlitLayout
from rtl.register_windows import RegisterDecoder, RegisterWindows
from rtl.registers import RegisterBlock, RegisterMap
from rtl.ring import RingUnit
from rtl.ring.geometry import RingGeometry
from rtl.ring.layouts import LinkLayout
from rtl.vec.registers import RowRegisterFile, VectorRegisterFile
from rtl.vec.unit import COUNTERS as VECTOR_COUNTERS
from rtl.vec.unit import LINE_READS, LINE_WRITES, WORD_READS, WORD_WRITES, VectorUnit

GATED = ("memory", "matrix", "vector", "collective", "message")
"""Engines with a clock of their own, which stops where they have nothing to do."""

WAYS = ("up", "down")
"""Directions of the ring."""

PACKETS = ("requests", "replies")
"""Networks of the NoC."""

COUNTERS = (
    *(
        counter
        for name in GATED
        for counter in (
            Counter(f"{name}_busy", f"cycles in which the {name} engine had an instruction"),
            Counter(f"{name}_dark", f"cycles in which the {name} engine had no clock"),
        )
    ),
    Counter("host_reads", "beats of memory that the host read"),
    Counter("host_writes", "beats of memory that the host wrote"),
)
"""What is counted of engines and host from outside."""


class ProbeLayout(data.StructLayout):
    """What happens in a tile in a cycle, for whoever wants to know where time goes.

    Fields
    ------
    window
        In the issue window.
    beat
        The matrix engine takes a beat of an operand.
    asked
        Beats of operands are under way.
    waits
        One is there, and the engine has no room.
    step, pair
        The array takes a block row, or two.
    transfer
        A transfer enters the lanes of the vector unit.
    memory, vector, collective, message
        These engines have instructions.
    resolving, registers, full
        An instruction waits for values and names, for a free physical register, for the window.
    """

    def __init__(self, config: TileConfig) -> None:
        flags = ("beat", "asked", "waits", "step", "pair", "transfer")
        engines = ("memory", "vector", "collective", "message")
        front = ("resolving", "registers", "full")
        super().__init__(
            {**dict.fromkeys((*flags, *engines, *front), 1), "window": WindowProbeLayout(config)}
        )


class Tile(wiring.Component):
    """Runs a program.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    s_axi_*, s_axil_* : In
        Of the host port, see `rtl.host.HostPort`.
    hbm : array of Out
        The pseudo-channels.
    up_in, up_out, down_in, down_out : In, Out
        Links of the ring, see `rtl.ring.RingEngine`; a tile that is alone needs none.
    requests_out, requests_in, replies_out, replies_in : Out, In
        Flits to and from both networks, see `rtl.message.MessageEngine`; as above.
    number : In
        Which tile this is: its place in the mesh, x first; constant from reset on.
    probe : Out
        See `ProbeLayout`; connected to nothing on a chip.
    running : Out
        A program runs; falls when it has ended, for whatever cause.

    Attributes
    ----------
    register_map
        What the host reaches over AXI4-Lite, a window for each part.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self._core = Core(config)
        self._control = Control(config, COUNTERS)
        self._slice = HbmSlice(config)
        self._operands = OperandStream(config)
        self._matrix = MatrixUnit(config)
        self._memory = MemoryEngine(config)
        self._cache = L1Cache(config)
        self._ring = RingUnit(config)
        self._message = MessageUnit(config)
        self._vector_map = RegisterMap(config, (), VECTOR_COUNTERS)
        self.register_map = RegisterWindows(
            {
                "core": self._control.register_map,
                "hbm": self._slice.register_map,
                "operands": self._operands.register_map,
                "mac": self._matrix.register_map,
                "vec": self._vector_map,
                "memory": self._memory.register_map,
                "l1": self._cache.register_map,
                "ring": self._ring.register_map,
                "message": self._message.register_map,
            }
        )
        link = stream.Signature(LinkLayout(RingGeometry(config)))
        flits = stream.Signature(FlitLayout(config.flit_bytes))
        super().__init__(
            {
                "hbm": Out(PseudoChannelSignature()).array(config.pseudo_channels),
                **{f"{way}_in": In(link) for way in WAYS},
                **{f"{way}_out": Out(link) for way in WAYS},
                **{f"{network}_in": In(flits) for network in PACKETS},
                **{f"{network}_out": Out(flits) for network in PACKETS},
                "number": In(TILE_BITS),
                "running": Out(1),
                "probe": Out(ProbeLayout(config)),
            }
            | axi_ports(config)
            | lite_ports()
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the parts, connected."""
        m = Module()
        m.submodules.core = self._core
        m.submodules.control = self._control
        m.submodules.slice = self._slice
        m.submodules.operand_stream = self._operands
        m.submodules.matrix = DomainRenamer("matrix")(self._matrix)
        m.submodules.memory = DomainRenamer("memory")(self._memory)
        m.submodules.cache = DomainRenamer("memory")(self._cache)
        m.submodules.ring = DomainRenamer("collective")(self._ring)
        m.submodules.message = DomainRenamer("message")(self._message)
        self._vector = VectorUnit(self.config)
        m.submodules.vector = DomainRenamer("vector")(self._vector)
        self._host(m)
        self._clocks(m)
        self._instructions(m)
        self._registers(m)
        self._streams(m)
        self._probe(m)
        return m

    def _host(self, m: Module) -> None:
        """Let the host reach memory and registers."""
        m.submodules.host = host = HostPort(self.config)
        m.submodules.decoder = self._decoder = decoder = RegisterDecoder(
            self.register_map, REGISTER_WORDS
        )
        m.submodules.vector_counters = vector = RegisterBlock(self._vector_map)
        pass_through(m, self, host, axi_ports(self.config) | lite_ports())
        connect(m, host.client, self._slice.host)
        reads, writes, moves = host.client.reads, host.client.writes, self._control.others
        m.d.comb += [
            moves.host_reads.eq(reads.valid & reads.ready),
            moves.host_writes.eq(writes.valid & writes.ready),
        ]
        connect(m, host.bus, decoder.bus)
        for window, bus in (
            ("core", self._control.bus),
            ("hbm", self._slice.bus),
            ("operands", self._operands.bus),
            ("mac", self._matrix.bus),
            ("vec", vector.bus),
            ("memory", self._memory.bus),
            ("l1", self._cache.bus),
            ("ring", self._ring.bus),
            ("message", self._message.bus),
        ):
            connect(m, getattr(decoder, window), bus)
        for counter in VECTOR_COUNTERS:
            step = getattr(self._vector.counters, counter.name)
            m.d.comb += getattr(vector.step, counter.name).eq(step)

        core, control = self._core, self._control
        for name in ("program_write", "program_address", "program_data", "start", "limit", "ahead"):
            m.d.comb += getattr(core, name).eq(getattr(control, name))
        for name in ("running", "cause", "pc"):
            m.d.comb += getattr(control, name).eq(getattr(core, name))
        connect(m, core.events, control.events)
        m.d.comb += self.running.eq(core.running)

    def _clocks(self, m: Module) -> None:
        """Give each engine its clock."""
        memory, cache, matrix, vector = self._memory, self._cache, self._matrix, self._vector
        ring, message = self._ring, self._message
        windows = ("memory", "l1", "mac", "ring", "message")
        buses = {name: getattr(self._decoder, name) for name in windows}
        access = {name: bus.read | bus.write for name, bus in buses.items()}
        # What goes to memory may wait there for longer than anything here lasts, and an answer must
        # not pass by.
        ports = [cache.client, memory.loads, memory.stores]
        channels = ("descriptors", "writes", "answers", "reads")
        streams = [
            getattr(port, name) for port in ports for name in channels if hasattr(port, name)
        ]
        # Flits of others pass by, and what has come in is on its way out.
        links = [getattr(ring, f"{way}_{side}") for way in WAYS for side in ("in", "out")]
        packets = [getattr(message, f"{name}_{side}") for name in PACKETS for side in ("in", "out")]
        offered = {
            "memory": memory.operations.valid
            | memory.access.valid
            | ring.cache.requests.valid
            | message.reading  # others' programs wait for that, not this tile's
            | cache.ranges.valid
            | Cat(stream.valid for stream in streams).any()
            | access["memory"]
            | access["l1"],
            "matrix": matrix.operations.valid
            | matrix.fetches.valid
            | matrix.beats.valid
            | access["mac"],
            "vector": vector.operations.valid,
            "collective": ring.operations.valid
            | Cat(link.valid for link in links).any()
            | access["ring"],
            "message": message.operations.valid
            | message.reading
            | Cat(flit.valid for flit in packets).any()
            | access["message"],
        }
        units: tuple[Any, ...] = (memory, matrix, vector, ring, message)
        for name, unit in zip(GATED, units, strict=True):
            domain = ClockDomain(name)
            setattr(m.domains, name, domain)
            m.submodules[f"{name}_activity"] = activity = Activity()
            m.submodules[f"{name}_gate"] = gate = ClockGate()
            m.d.comb += [
                activity.offered.eq(offered[name]),
                activity.begins.eq(unit.operations.valid & unit.operations.ready),
                activity.ends.eq(unit.done),
                gate.clock.eq(ClockSignal()),
                gate.enable.eq(activity.clock | ResetSignal()),
                domain.clk.eq(gate.gated),
                domain.rst.eq(ResetSignal()),
                getattr(self._control.others, f"{name}_busy").eq(activity.busy),
                getattr(self._control.others, f"{name}_dark").eq(~gate.enable),
            ]

    def _instructions(self, m: Module) -> None:
        """Connect the core with the engines."""
        core, memory, cache = self._core, self._memory, self._cache
        done = Signal(len(Engine))
        m.d.comb += core.done.eq(done)
        for engine, unit in (
            (Engine.MEMORY, memory),
            (Engine.MATRIX, self._matrix),
            (Engine.VECTOR, self._vector),
            (Engine.COLLECTIVE, self._ring),
            (Engine.MESSAGE, self._message),
        ):
            issued, operations = core.issued[engine], unit.operations
            bits = len(Value.cast(operations.payload))
            m.d.comb += [
                operations.payload.eq(issued.payload[:bits]),
                operations.valid.eq(issued.valid),
                issued.ready.eq(operations.ready),
                done[engine].eq(unit.done),
            ]
        connect(m, core.operands, self._operands.operands)
        connect(m, core.fetches, self._matrix.fetches)
        connect(m, core.access, memory.access)
        connect(m, memory.answers, core.answers)
        everything = cache.ranges.payload
        m.d.comb += [
            core.memory_error.eq(memory.failed | self._operands.failed | self._ring.memory_failed),
            core.collective_error.eq(self._ring.failed),
            core.message_error.eq(self._message.failed),
            # What a program leaves behind goes to memory, where the host and the next one look.
            cache.ranges.valid.eq(core.finish & memory.idle),
            everything.first.eq(0),
            everything.last.eq(~0),
            everything.flush.eq(1),
            core.finished.eq(cache.ranges.valid & cache.ranges.ready),
        ]

    def _registers(self, m: Module) -> None:
        """Connect everyone with the registers. Who comes first goes first."""
        core, memory, matrix, vector = self._core, self._memory, self._matrix, self._vector
        ring, message = self._ring, self._message
        for file, kind, reads, writes in (
            (
                VectorRegisterFile,
                "vectors",
                {
                    "scalar": core.lines,
                    "memory": memory.lines_read,
                    "matrix": matrix.read_activations,
                    "collective": ring.read,
                    "message": message.lines_read,
                    **{name: getattr(vector, f"read_{name}") for name in LINE_READS},
                },
                {
                    "memory": memory.lines_write,
                    "matrix": matrix.write_results,
                    "collective": ring.write,
                    "message": message.lines_write,
                    **{name: getattr(vector, f"write_{name}") for name in LINE_WRITES},
                },
            ),
            (
                RowRegisterFile,
                "rows",
                {
                    "scalar": core.rows,
                    "memory": memory.words_read,
                    "matrix": matrix.rows_read_maxima,
                    "best": matrix.rows_read_best,
                    **{name: getattr(vector, f"rows_read_{name}") for name in WORD_READS},
                },
                {
                    "memory": memory.words_write,
                    "message": message.words_write,
                    "best": matrix.rows_write_best,
                    **{name: getattr(vector, f"rows_write_{name}") for name in WORD_WRITES},
                },
            ),
        ):
            registers = file(
                self.config, [f"read_{n}" for n in reads], [f"write_{n}" for n in writes]
            )
            m.submodules[kind] = registers
            for name, port in reads.items():
                connect(m, port, getattr(registers, f"read_{name}"))
            for name, port in writes.items():
                connect(m, port, getattr(registers, f"write_{name}"))

    def _streams(self, m: Module) -> None:
        """Connect everyone with memory, and with other tiles."""
        memory, cache, operands = self._memory, self._cache, self._operands
        share = L1Share(L1Geometry(self.config), ("memory", "collective", "message"))
        m.submodules.cache_share = DomainRenamer("memory")(share)
        connect(m, memory.cache, share.memory)
        connect(m, self._ring.cache, share.collective)
        connect(m, self._message.cache, share.message)
        connect(m, share.cache.requests, cache.requests)
        connect(m, cache.answers, share.cache.answers)
        connect(m, operands.beats, self._matrix.beats)
        connect(m, operands.client, self._slice.matrix)
        connect(m, cache.client, self._slice.l1)
        connect(m, memory.loads, self._slice.loads)
        connect(m, memory.stores, self._slice.stores)
        for inner, outer in zip(self._slice.hbm, self.hbm, strict=True):
            connect(m, inner, flipped(outer))
        for way in WAYS:
            connect(m, flipped(getattr(self, f"{way}_in")), getattr(self._ring, f"{way}_in"))
            connect(m, getattr(self._ring, f"{way}_out"), flipped(getattr(self, f"{way}_out")))
        message = self._message
        for name in PACKETS:
            connect(m, flipped(getattr(self, f"{name}_in")), getattr(message, f"{name}_in"))
            connect(m, getattr(message, f"{name}_out"), flipped(getattr(self, f"{name}_out")))
        m.d.comb += message.number.eq(self.number)

    def _probe(self, m: Module) -> None:
        """Show what happens."""
        core, beats, mac = self._core, self._operands.beats, self._matrix.events
        shown = {
            "window": core.probe,
            "beat": beats.valid & beats.ready,
            "asked": self._operands.active,
            "waits": beats.valid & ~beats.ready,
            "step": mac.step,
            "pair": mac.pair,
            "transfer": self._vector.counters.transfers,
            "memory": self._control.others.memory_busy,
            "vector": self._control.others.vector_busy,
            "collective": self._control.others.collective_busy,
            "message": self._control.others.message_busy,
            "resolving": core.events.resolving,
            "registers": core.events.stalled_registers,
            "full": core.events.stalled_window,
        }
        m.d.comb += [self.probe[name].eq(value) for name, value in shown.items()]
