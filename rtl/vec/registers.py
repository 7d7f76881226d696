"""The registers of a tile: banks of memory, and ports that share them.

A register lies in the bank of its number modulo `BANKS`. A bank reads one line and writes one in a
cycle, so ports only wait for each other where they want the same bank. Ports that come first in the
list of names go first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In
from amaranth.utils import exact_log2

from rtl.config import TileConfig
from rtl.core.isa import PHYSICAL_VECTORS, ROWS
from rtl.vec.geometry import VectorGeometry
from rtl.vec.ports import (
    LineReadSignature,
    LineWriteLayout,
    WordReadSignature,
    WordWriteLayout,
)

BANKS = 8
"""Banks of a register file."""

_BANK_BITS = exact_log2(BANKS)


class _Share:
    """Ports of a kind, and who of them has each bank."""

    def __init__(self, m: Module, ports: Sequence[Any], register: Any) -> None:
        banks = [Signal(_BANK_BITS, name=f"bank{i}") for i in range(len(ports))]
        for bank, port in zip(banks, ports, strict=True):
            m.d.comb += bank.eq(register(port.payload))
        self.granted: list[list[Signal]] = []
        for b in range(BANKS):
            taken: Value | int = 0
            row = []
            for i, port in enumerate(ports):
                wants = Signal(name=f"wants{i}_{b}")
                granted = Signal(name=f"granted{i}_{b}")
                m.d.comb += [wants.eq(port.valid & (banks[i] == b)), granted.eq(wants & ~taken)]
                taken = taken | wants
                row.append(granted)
            self.granted.append(row)
        for i, port in enumerate(ports):
            m.d.comb += port.ready.eq(_any(row[i] for row in self.granted))


def _any(bits: Any) -> Value:
    result: Any = 0
    for bit in bits:
        result = result | bit
    return result


def _select(granted: Sequence[Value], values: Sequence[Value]) -> Value:
    """Return the value of whoever is granted."""
    result = values[-1]
    for bit, value in zip(reversed(granted[:-1]), reversed(values[:-1]), strict=True):
        result = Mux(bit, value, result)
    return result


class VectorRegisterFile(wiring.Component):
    """The vector registers.

    Parameters
    ----------
    config
        The configuration of the tile.
    reads, writes
        Names of the ports, those that go first first.

    Members
    -------
    *read* : In
        `LineReadSignature`, by name.
    *write* : In
        A stream of `LineWriteLayout`, by name.
    """

    def __init__(self, config: TileConfig, reads: Sequence[str], writes: Sequence[str]) -> None:
        self.geometry = VectorGeometry(config)
        self.reads, self.writes = tuple(reads), tuple(writes)
        layout = LineWriteLayout(self.geometry)
        super().__init__(
            {
                **{name: In(LineReadSignature(self.geometry)) for name in reads},
                **{name: In(stream.Signature(layout)) for name in writes},
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return banks and ports."""
        m = Module()
        g = self.geometry
        reads = [getattr(self, name) for name in self.reads]
        writes = [getattr(self, name) for name in self.writes]
        read = _Share(m, [port.requests for port in reads], lambda p: p.register[:_BANK_BITS])
        write = _Share(m, writes, lambda p: p.address.register[:_BANK_BITS])
        depth = PHYSICAL_VECTORS // BANKS * (1 << g.line_bits)
        lines: list[Value] = []
        scales: list[Value] = []
        for b in range(BANKS):
            m.submodules[f"words{b}"] = bank = Memory(shape=g.line_words * 32, depth=depth, init=[])
            m.submodules[f"scales{b}"] = beside = Memory(
                shape=g.line_blocks * 8, depth=depth, init=[]
            )
            payloads = [port.payload for port in writes]
            put = Signal(LineWriteLayout(g), name=f"put{b}")
            get = _select(read.granted[b], [_place(p.requests.payload) for p in reads])
            some = _any(write.granted[b])
            m.d.comb += put.eq(_select(write.granted[b], [p.as_value() for p in payloads]))
            for memory, granularity, data, enable, found in (
                (bank, 32, put.words, put.enable, lines),
                (beside, 8, put.scales, put.scale_enable, scales),
            ):
                write_port = memory.write_port(granularity=granularity)
                read_port = memory.read_port()
                m.d.comb += [
                    write_port.addr.eq(_place(put.address)),
                    write_port.data.eq(data),
                    write_port.en.eq(Mux(some, enable, 0)),
                    read_port.addr.eq(get),
                    read_port.en.eq(_any(read.granted[b])),
                ]
                found.append(read_port.data)
        for i, port in enumerate(reads):
            bank_of = Signal(_BANK_BITS, name=f"bank_of{i}")
            m.d.sync += bank_of.eq(port.requests.payload.register)
            m.d.comb += [
                port.words.eq(_among(bank_of, lines)),
                port.scales.eq(_among(bank_of, scales)),
            ]
        return m


class RowRegisterFile(wiring.Component):
    """The row registers.

    Parameters
    ----------
    config
        The configuration of the tile.
    reads, writes
        Names of the ports, those that go first first.

    Members
    -------
    *read* : In
        `WordReadSignature`, by name.
    *write* : In
        A stream of `WordWriteLayout`, by name.
    """

    def __init__(self, config: TileConfig, reads: Sequence[str], writes: Sequence[str]) -> None:
        self.geometry = VectorGeometry(config)
        self.reads, self.writes = tuple(reads), tuple(writes)
        layout = WordWriteLayout(self.geometry)
        super().__init__(
            {
                **{name: In(WordReadSignature(self.geometry)) for name in reads},
                **{name: In(stream.Signature(layout)) for name in writes},
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return banks and ports."""
        m = Module()
        reads = [getattr(self, name) for name in self.reads]
        writes = [getattr(self, name) for name in self.writes]
        read = _Share(m, [port.requests for port in reads], lambda p: p.register[:_BANK_BITS])
        write = _Share(m, writes, lambda p: p.address.register[:_BANK_BITS])
        depth = ROWS // BANKS << self.geometry.row_bits
        found = []
        for b in range(BANKS):
            m.submodules[f"words{b}"] = bank = Memory(shape=32, depth=depth, init=[])
            write_port, read_port = bank.write_port(), bank.read_port()
            put = Signal(WordWriteLayout(self.geometry), name=f"put{b}")
            m.d.comb += [
                put.eq(_select(write.granted[b], [p.payload.as_value() for p in writes])),
                write_port.addr.eq(_place(put.address)),
                write_port.data.eq(put.word),
                write_port.en.eq(_any(write.granted[b])),
                read_port.addr.eq(
                    _select(read.granted[b], [_place(p.requests.payload) for p in reads])
                ),
                read_port.en.eq(_any(read.granted[b])),
            ]
            found.append(read_port.data)
        for i, port in enumerate(reads):
            bank_of = Signal(_BANK_BITS, name=f"bank_of{i}")
            m.d.sync += bank_of.eq(port.requests.payload.register)
            m.d.comb += port.word.eq(_among(bank_of, found))
        return m


def _place(address: Any) -> Value:
    """Return where in its bank a line or word is: register bits above the bank's, then the rest."""
    return address.as_value()[_BANK_BITS:]


def _among(index: Signal, values: Sequence[Value]) -> Value:
    """Return the value of an index."""
    result = Value.cast(values[-1])
    for i, value in enumerate(values[:-1]):
        result = Mux(index == i, Value.cast(value), result)
    return result
