"""Registers that are declared once: hardware, address map and documentation follow from it.

A block declares its registers as `Register` objects; `RegisterMap` places them, and the counters of
`rtl.counters`, at addresses; `RegisterBlock` is the hardware. `gen.package` exports the same map as
JSON and as a C header.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.config import TileConfig
from rtl.counters import Counter, CounterBank, step_signature
from rtl.names import check_name, check_unique

WORD_BITS = 32
WORD_BYTES = WORD_BITS // 8

IDENTITY = 0x4A414C31
"""What the first register reads: ``JAL1`` in ASCII; the digit is the version of the layout."""


class Access(enum.StrEnum):
    """What software and hardware may do with a field."""

    READ = "read"
    """Software reads what hardware shows at that moment."""

    READ_WRITE = "read-write"
    """Software reads and writes; hardware sees the value."""

    PULSE = "pulse"
    """Hardware sees the bits that software writes, during that cycle; they read as zero."""

    STICKY = "sticky"
    """Hardware sets bits, which stay set until software writes ones to them; setting wins."""


@dataclass(frozen=True)
class Field:
    """Declaration of a field of a register.

    Attributes
    ----------
    name
        Lower-case identifier.
    bits
        Width, 1 to 32.
    access
        Who may do what with it.
    description
        What it means, as a phrase.
    reset
        Value after reset; only where software can write it, and zero otherwise.

    Raises
    ------
    ValueError
        Name, width or reset value is not allowed.
    """

    name: str
    bits: int
    access: Access
    description: str
    reset: int = 0

    def __post_init__(self) -> None:
        check_name(self.name, "field")
        if not 1 <= self.bits <= WORD_BITS:
            raise ValueError(f"field {self.name} has {self.bits} bits; it must have 1 to 32.")
        if not 0 <= self.reset < 1 << self.bits:
            raise ValueError(f"field {self.name} cannot hold its reset value {self.reset}.")
        if self.reset and self.access is not Access.READ_WRITE:
            raise ValueError(f"field {self.name} is {self.access}; its reset value must be 0.")


@dataclass(frozen=True)
class Register:
    """Declaration of a register of 32 bits.

    Attributes
    ----------
    name
        Lower-case identifier.
    description
        What it is for, as a phrase.
    fields
        Its fields, from bit 0 upwards without gaps.

    Raises
    ------
    ValueError
        The fields do not fit, two have the same name, or the register's name is not allowed.
    """

    name: str
    description: str
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        check_name(self.name, "register")
        check_unique((field.name for field in self.fields), f"fields of register {self.name}")
        total = sum(field.bits for field in self.fields)
        if not 1 <= total <= WORD_BITS:
            raise ValueError(f"register {self.name} has {total} bits; it must have 1 to 32.")

    @property
    def placed(self) -> tuple[tuple[int, Field], ...]:
        """Its fields, each with the number of its lowest bit."""
        offsets = [0]
        for field in self.fields:
            offsets.append(offsets[-1] + field.bits)
        return tuple(zip(offsets, self.fields, strict=False))


def _read_only(name: str, description: str) -> Register:
    return Register(name, description, (Field("value", WORD_BITS, Access.READ, description),))


_HEAD = {
    "identity": "the number 0x4A414C31, by which software recognises the device",
    "config_hash_low": "low 32 bits of the hash of the configuration",
    "config_hash_high": "high 16 bits of the hash of the configuration",
}
_SNAPSHOT = Register(
    "counter_control",
    "control of the counters",
    (Field("snapshot", 1, Access.PULSE, "copy all counters to where they can be read"),),
)


class RegisterMap:
    """Registers and counters at their addresses.

    Words of 32 bits, at byte offsets from 0 in this order: identity and configuration hash, which
    every map starts with; the registers as declared; and, if there are counters, the register that
    takes a snapshot and then the counters as declared, each low word first.

    Parameters
    ----------
    config
        Configuration whose hash the map shows.
    registers, counters
        Declarations.

    Raises
    ------
    ValueError
        Two registers, or a register and a counter, have the same name.
    """

    def __init__(
        self,
        config: TileConfig,
        registers: Iterable[Register] = (),
        counters: Iterable[Counter] = (),
    ) -> None:
        self.config = config
        self.declared = tuple(registers)
        self.counters = tuple(counters)
        head = tuple(_read_only(name, description) for name, description in _HEAD.items())
        control = (_SNAPSHOT,) if self.counters else ()
        self.registers = (*head, *self.declared, *control)
        check_unique(
            [register.name for register in self.registers]
            + [counter.name for counter in self.counters],
            "registers or counters",
        )

    @property
    def constants(self) -> Mapping[str, int]:
        """Values of the registers that every map starts with, by name."""
        config_hash = int(self.config.hash, 16)
        low, high = config_hash & 0xFFFF_FFFF, config_hash >> WORD_BITS
        return dict(zip(_HEAD, (IDENTITY, low, high), strict=True))

    @property
    def register_offsets(self) -> Mapping[str, int]:
        """Byte offset of every register, by name."""
        return {register.name: WORD_BYTES * index for index, register in enumerate(self.registers)}

    @property
    def counter_offsets(self) -> Mapping[str, int]:
        """Byte offset of the low word of every counter, by name."""
        offset = WORD_BYTES * len(self.registers)
        offsets = {}
        for counter in self.counters:
            offsets[counter.name] = offset
            offset += WORD_BYTES * -(-counter.bits // WORD_BITS)
        return offsets

    @property
    def words(self) -> int:
        """Words of the whole map."""
        return len(self.registers) + sum(-(-counter.bits // WORD_BITS) for counter in self.counters)

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return registers and counters as plain JSON values."""
        registers = [
            {
                "name": register.name,
                "offset": self.register_offsets[register.name],
                "description": register.description,
                "fields": [
                    {
                        "name": field.name,
                        "lsb": lsb,
                        "bits": field.bits,
                        "access": field.access.value,
                        "reset": self.constants.get(register.name, field.reset),
                        "description": field.description,
                    }
                    for lsb, field in register.placed
                ],
            }
            for register in self.registers
        ]
        counters = [
            {
                "name": counter.name,
                "offset": self.counter_offsets[counter.name],
                "bits": counter.bits,
                "description": counter.description,
            }
            for counter in self.counters
        ]
        return {"registers": registers, "counters": counters}


class Described(Protocol):
    """Registers and counters that can be described to software."""

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return registers and counters as plain JSON values, see `RegisterMap.to_dict`."""


@runtime_checkable
class HasRegisterMap(Protocol):
    """A component that software can talk to; packages of it describe its map."""

    register_map: Described


class RegisterBus(wiring.Signature):
    """One access per cycle to the words of a register map.

    Parameters
    ----------
    words
        Words of the map.

    Members
    -------
    address : Out
        Number of the word, not of the byte.
    mapped : In
        Whether there is a word at `address`, in the same cycle.
    write : Out
        Write `write_data` in this cycle.
    write_mask : Out
        Which bytes to write, lowest first.
    write_data : Out
        What to write.
    read : Out
        Read in this cycle.
    read_data : In
        What was read in the cycle before; zero where nothing is mapped.
    """

    def __init__(self, words: int) -> None:
        super().__init__(
            {
                "address": Out(max(1, ceil_log2(words))),
                "mapped": In(1),
                "write": Out(1),
                "write_mask": Out(WORD_BYTES),
                "write_data": Out(WORD_BITS),
                "read": Out(1),
                "read_data": In(WORD_BITS),
            }
        )


def _port(field: Field) -> wiring.Member:
    if field.access is Access.READ_WRITE:
        return Out(field.bits, init=field.reset)
    return (Out if field.access is Access.PULSE else In)(field.bits)


class RegisterBlock(wiring.Component):
    """Hardware of a register map.

    A read in the cycle after a write sees it, and a read in the cycle after a snapshot sees that.

    Parameters
    ----------
    register_map
        What there is to read and write.

    Members
    -------
    bus : In
        Access by software, see `RegisterBus`.
    *register* : Out
        Each declared register, by its name, with its fields by theirs. Hardware sees fields that
        software writes and drives the others.
    step : In
        Where there are counters, the increment of each, see `CounterBank`.

    Raises
    ------
    ValueError
        A register is called like another member.
    """

    def __init__(self, register_map: RegisterMap) -> None:
        self.register_map = register_map
        members: dict[str, wiring.Member] = {"bus": In(RegisterBus(register_map.words))}
        if register_map.counters:
            members["step"] = In(step_signature(register_map.counters))
        for register in register_map.declared:
            taken = register.name in members or register.name in vars(self)
            if taken or hasattr(type(self), register.name):
                raise ValueError(f"no register can be called {register.name}.")
            members[register.name] = Out(
                wiring.Signature({field.name: _port(field) for field in register.fields})
            )
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        """Return the hardware."""
        m = Module()
        bus = self.bus
        mask = Cat(bit.replicate(8) for bit in bus.write_mask)
        written = Signal(WORD_BITS)
        m.d.comb += written.eq(bus.write_data & mask)

        words: list[Value] = [
            Const(value, WORD_BITS) for value in self.register_map.constants.values()
        ]
        for register in self.register_map.declared:
            select = Signal(name=f"select_{register.name}")
            m.d.comb += select.eq(bus.write & (bus.address == len(words)))
            shown = []
            for lsb, field in register.placed:
                port = getattr(getattr(self, register.name), field.name)
                bits = slice(lsb, lsb + field.bits)
                shown.append(self._field(m, field, port, select, written[bits], mask[bits]))
            words.append(Cat(shown))
        if self.register_map.counters:
            m.submodules.counters = bank = CounterBank(self.register_map.counters)
            wiring.connect(m, wiring.flipped(self.step), bank.step)
            m.d.comb += bank.snapshot.eq(bus.write & (bus.address == len(words)) & written[0])
            words.append(Const(0, WORD_BITS))
            for counter in self.register_map.counters:
                copy = getattr(bank.copies, counter.name)
                words += [copy[bit : bit + WORD_BITS] for bit in range(0, counter.bits, WORD_BITS)]

        m.d.comb += bus.mapped.eq(bus.address < len(words))
        with m.If(bus.read):
            m.d.sync += bus.read_data.eq(0)
            with m.Switch(bus.address):
                for index, word in enumerate(words):
                    with m.Case(index):
                        m.d.sync += bus.read_data.eq(word)
        return m

    def _field(
        self, m: Module, field: Field, port: Signal, select: Value, written: Value, mask: Value
    ) -> Value:
        """Connect a field to software's writes and return what it reads as.

        `written` holds the bits that software writes, and zeros elsewhere; `mask` says which those
        are.
        """
        match field.access:
            case Access.READ:
                return port
            case Access.READ_WRITE:
                with m.If(select):
                    m.d.sync += port.eq((port & ~mask) | written)
                return port
            case Access.PULSE:
                m.d.comb += port.eq(Mux(select, written, 0))
                return Const(0, field.bits)
            case Access.STICKY:
                sticky = Signal(field.bits, name=f"sticky_{field.name}")
                m.d.sync += sticky.eq((sticky & ~Mux(select, written, 0)) | port)
                return sticky
