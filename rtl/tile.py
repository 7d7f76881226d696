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
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out, connect, flipped

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
from rtl.mac import OperandStream
from rtl.matrix import MatrixUnit
from rtl.memory.engine import MemoryEngine
from rtl.register_windows import RegisterDecoder, RegisterWindows
from rtl.registers import RegisterBlock, RegisterMap
from rtl.vec.registers import RowRegisterFile, VectorRegisterFile
from rtl.vec.unit import COUNTERS as VECTOR_COUNTERS
from rtl.vec.unit import LINE_READS, LINE_WRITES, WORD_READS, WORD_WRITES, VectorUnit

GATED = ("memory", "matrix", "vector")
"""Engines with a clock of their own, which stops where they have nothing to do."""

COUNTERS = tuple(
    counter
    for name in GATED
    for counter in (
        Counter(f"{name}_busy", f"cycles in which the {name} engine had an instruction"),
        Counter(f"{name}_dark", f"cycles in which the {name} engine had no clock"),
    )
)
"""What is counted of the engines from outside."""


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
    memory, vector
        These engines have instructions.
    resolving, registers, full
        An instruction waits for values and names, for a free physical register, for the window.
    """

    def __init__(self, config: TileConfig) -> None:
        flags = ("beat", "asked", "waits", "step", "pair", "transfer", "memory", "vector")
        front = ("resolving", "registers", "full")
        super().__init__(
            {**dict.fromkeys((*flags, *front), 1), "window": WindowProbeLayout(config)}
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
            }
        )
        super().__init__(
            {
                "hbm": Out(PseudoChannelSignature()).array(config.pseudo_channels),
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
        connect(m, host.bus, decoder.bus)
        for window, bus in (
            ("core", self._control.bus),
            ("hbm", self._slice.bus),
            ("operands", self._operands.bus),
            ("mac", self._matrix.bus),
            ("vec", vector.bus),
            ("memory", self._memory.bus),
            ("l1", self._cache.bus),
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
        buses = {name: getattr(self._decoder, name) for name in ("memory", "l1", "mac")}
        access = {name: bus.read | bus.write for name, bus in buses.items()}
        # What goes to memory may wait there for longer than anything here lasts, and an answer must
        # not pass by.
        ports = [cache.client, memory.loads, memory.stores]
        channels = ("descriptors", "writes", "answers", "reads")
        streams = [
            getattr(port, name) for port in ports for name in channels if hasattr(port, name)
        ]
        offered = {
            "memory": memory.operations.valid
            | memory.access.valid
            | cache.ranges.valid
            | Cat(stream.valid for stream in streams).any()
            | access["memory"]
            | access["l1"],
            "matrix": matrix.operations.valid
            | matrix.fetches.valid
            | matrix.beats.valid
            | access["mac"],
            "vector": vector.operations.valid,
        }
        for name, unit in (("memory", memory), ("matrix", matrix), ("vector", vector)):
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
        """Connect the core with the engines. Those of other tiles are not there."""
        core, memory, cache = self._core, self._memory, self._cache
        done = Signal(len(Engine))
        m.d.comb += core.done.eq(done)
        for engine, unit in (
            (Engine.MEMORY, memory),
            (Engine.MATRIX, self._matrix),
            (Engine.VECTOR, self._vector),
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
            core.memory_error.eq(memory.failed | self._operands.failed),
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
        for file, kind, reads, writes in (
            (
                VectorRegisterFile,
                "vectors",
                {
                    "scalar": core.lines,
                    "memory": memory.lines_read,
                    "matrix": matrix.read_activations,
                    **{name: getattr(vector, f"read_{name}") for name in LINE_READS},
                },
                {
                    "memory": memory.lines_write,
                    "matrix": matrix.write_results,
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
        """Connect everyone with memory."""
        memory, cache, operands = self._memory, self._cache, self._operands
        connect(m, memory.cache.requests, cache.requests)
        connect(m, cache.answers, memory.cache.answers)
        connect(m, operands.beats, self._matrix.beats)
        connect(m, operands.client, self._slice.matrix)
        connect(m, cache.client, self._slice.l1)
        connect(m, memory.loads, self._slice.loads)
        connect(m, memory.stores, self._slice.stores)
        for inner, outer in zip(self._slice.hbm, self.hbm, strict=True):
            connect(m, inner, flipped(outer))

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
            "resolving": core.events.resolving,
            "registers": core.events.stalled_registers,
            "full": core.events.stalled_window,
        }
        m.d.comb += [self.probe[name].eq(value) for name, value in shown.items()]
