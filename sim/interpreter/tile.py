"""One tile: its state, and what every instruction does to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from gen.layout import BLOCK_BYTES
from gen.mx import MXTensor, join_planes, nibble_planes, pack_nibbles, unpack_nibbles
from rtl.config import TileConfig
from rtl.core.fields import IllegalInstruction, Instruction, Kind, S
from rtl.core.isa import MASK_ROWS, SLOT, Collective, LoadKind, Place, decode
from rtl.formats import BLOCK, Format
from sim.golden.formats import dequantise
from sim.interpreter.errors import Fault, ProgramError
from sim.interpreter.matrix import FORMATS, MatrixUnit
from sim.interpreter.memory import Memory
from sim.interpreter.network import Message, Network, Payload, Request, share
from sim.interpreter.registers import RowRegisters, Scalars, VectorRegisters
from sim.interpreter.rows import Rows
from sim.interpreter.scalar import ARITHMETIC, BRANCHES, WORD, signed
from sim.interpreter.vector import VectorUnit

_TABLES = {LoadKind.MXFP4: Format.MXFP4, LoadKind.MXINT8: Format.MXINT8}

_ALL_BITS = ARITHMETIC.keys() | BRANCHES.keys()

Waiting = Generator[str, None, None]
"""What a tile is while it runs: each time it cannot go on, it says what it waits for."""

Observer = Callable[[int, Instruction, SimpleNamespace], None]
"""Is told of each instruction before it is executed: its address, itself, its fields as numbers."""


class Tile:
    """A tile with its registers and memory.

    Parameters
    ----------
    config
        Of the tile.
    memory
        Its memory.
    network
        What connects it; by default it is alone.
    number
        Which tile it is.

    Attributes
    ----------
    scalars, rows, vectors
        Registers.
    pc : int
        Word address of the instruction under way.
    executed : Counter
        Instructions by name.
    observe : Observer, optional
        Who is told what is executed.
    """

    def __init__(
        self,
        config: TileConfig,
        memory: Memory,
        network: Network | None = None,
        number: int = 0,
    ) -> None:
        self.config, self.memory, self.number = config, memory, number
        self.network = Network(1) if network is None else network
        self.journal = memory.journal
        self.scalars = Scalars()
        self.rows = RowRegisters(config, self.journal)
        self.vectors = VectorRegisters(config, self.journal)
        self.vector_unit = VectorUnit(self.vectors, self.rows)
        self.matrix_unit = MatrixUnit(config, memory, self.vectors, self.rows)
        self.peers: Sequence[Tile] = [self]
        self.pc = 0
        self.executed: Counter[str] = Counter()
        self.observe: Observer | None = None
        self._decoded: dict[int, Instruction] = {}
        self._program: Sequence[int] = ()

    def execute(self, program: Sequence[int], limit: int | None = None) -> Waiting:
        """Return what executes a program from its first word to its `stop`.

        Parameters
        ----------
        program
            32-bit words.
        limit
            Instructions after which it is taken not to end.

        Returns
        -------
        Waiting
            Goes on each time it is asked, until the tile has to wait for others or has stopped.
            Raises `ProgramError` if an instruction cannot be executed; registers and memory are
            then what they were before it.
        """
        if program is not self._program:
            self._program, self._decoded = program, {}
        self.memory.start()
        self.matrix_unit.chain = None
        self.pc = 0
        return self._execute(limit)

    def _execute(self, limit: int | None) -> Waiting:
        count = 0
        while True:
            instruction = None
            self.journal.forget()
            try:
                instruction = self._decoded.get(self.pc)
                if instruction is None:
                    instruction = self._decoded[self.pc] = decode(self._program, self.pc)
                if instruction.name == "stop":
                    if self.matrix_unit.chain is not None:
                        raise Fault("The last chain was not drained")
                    return
                count += 1
                if limit is not None and count > limit:
                    raise Fault(f"The program does not end within {limit} instructions")
                self.executed[instruction.name] += 1
                o = self._operands(instruction)
                if self.observe is not None:
                    self.observe(self.pc, instruction, o)
                target = yield from self._step(instruction.name, o)
            except (Fault, IllegalInstruction) as fault:
                self.journal.undo()
                text = "" if instruction is None else str(instruction)
                raise ProgramError(str(fault), self.number, self.pc, text) from None
            self.pc = self.pc + instruction.opcode.words if target is None else target

    def _operands(self, instruction: Instruction) -> SimpleNamespace:
        """Return all fields as numbers, with scalar registers read."""
        operands = {}
        for field in instruction.opcode.fields:
            value = instruction.values[field.name]
            if field.kind is Kind.VALUE:
                if isinstance(value, S):
                    register, value = value, self.scalars[value.number]
                    value = signed(value) if field.signed else value
                    # Arithmetic and branches work on all bits, others must fit the field.
                    if value not in field.range and instruction.name not in _ALL_BITS:
                        raise Fault(
                            f"{field.name} is {value} in {register}, it must be {field.numbers}"
                        )
            elif field.kind is Kind.SCALAR:
                value = value.number
            operands[field.name] = value
        return SimpleNamespace(**operands)

    def _step(self, name: str, o: SimpleNamespace) -> Generator[str, None, int | None]:
        """Execute one instruction; return where to go on if not behind it."""
        if name in ARITHMETIC:
            self.scalars[o.to] = ARITHMETIC[name](self.scalars[o.a], o.b)
        elif name in BRANCHES:
            return o.target if BRANCHES[name](self.scalars[o.a], o.b) else None
        elif name == "loop":
            self.scalars[o.counter] = self.scalars[o.counter] - 1
            return o.target if self.scalars[o.counter] else None
        elif name == "collective":
            yield from self._collective(o)
        elif name == "send":
            yield from self._send(o)
        elif name == "receive":
            yield from self._receive(o)
        elif name in ("vector", "topk"):
            getattr(self.vector_unit, name)(o)
        elif name == "matrix":
            self.matrix_unit.matrix(o)
        else:
            getattr(self, f"_{name}")(o)
        return None

    # --- scalar ---

    def _const(self, o: SimpleNamespace) -> None:
        self.scalars[o.to] = o.value

    def _lw(self, o: SimpleNamespace) -> None:
        address = _aligned(o.address + o.address_offset)
        self.scalars[o.to] = int(self.memory.load(address, 4).view(np.uint32)[0])

    def _sw(self, o: SimpleNamespace) -> None:
        address = _aligned(o.address + o.address_offset)
        self.memory.store(address, np.uint32(self.scalars[o.value]))

    def _readv(self, o: SimpleNamespace) -> None:
        word = self.vectors.read_words(o.source, np.array([SLOT * o.slot + o.word]), 1)
        self.scalars[o.to] = int(word[0, 0])

    def _readr(self, o: SimpleNamespace) -> None:
        self.scalars[o.to] = int(self.rows.read(o.source, np.array([o.row]))[0])

    def _match(self, o: SimpleNamespace) -> None:
        if o.rows > MASK_ROWS:
            raise Fault(f"rows is {o.rows}, it must be at most {MASK_ROWS}")
        starts = SLOT * (o.offset + o.stride * np.arange(o.rows)) + o.word
        equal = self.vectors.read_words(o.source, starts, 1)[:, 0] == o.equal
        self.scalars[o.to] = sum(1 << int(row) for row in np.flatnonzero(equal))

    # --- memory ---

    def _load(self, o: SimpleNamespace) -> None:
        if o.kind in _TABLES and not o.columns:
            raise Fault("columns is 0, of blocks it must be at least 1")
        if not o.into:
            self.vectors.fresh(o.to)
        read = self.memory.stream if o.streaming else self.memory.load
        for row in range(o.rows):
            start = np.array([SLOT * (o.offset + o.stride * row)])
            words = self._loaded(o, read, row * o.pitch)
            self.vectors.write_words(o.to, start, words[None])

    def _loaded(self, o: SimpleNamespace, read: Any, distance: int) -> Any:
        """Return the words of the row that is so many bytes behind row 0."""
        address = (o.address + o.address_offset + distance) & WORD
        if o.kind is LoadKind.WORDS:
            return read(_aligned(address), 4 * o.columns).view(np.uint32)
        if o.kind is LoadKind.BYTES:
            return read(address, o.columns).astype(np.uint32)
        fmt = _TABLES[o.kind]
        blocks = -(-o.columns // BLOCK)
        packed = read(_aligned(address, BLOCK_BYTES), blocks * fmt.planes * BLOCK_BYTES)
        codes = join_planes(unpack_nibbles(packed.reshape(blocks, fmt.planes, -1)), fmt)
        codes.reshape(-1)[o.columns :] = 0
        scales = read((o.scales + o.scales_offset + distance) & WORD, blocks)
        return dequantise(MXTensor(codes, scales, fmt, o.columns)).view(np.uint32)

    def _loadr(self, o: SimpleNamespace) -> None:
        address = _aligned(o.address + o.address_offset)
        words = self.memory.load(address, 4 * o.rows).view(np.uint32)
        self.rows.write(o.to, o.row + np.arange(o.rows), words)

    def _store(self, o: SimpleNamespace) -> None:
        rows = Rows.of(o)
        words = self.vectors.read_words(
            o.source, SLOT * (o.offset + o.stride * rows.index), o.columns
        )
        for row, data in zip(rows.index, words, strict=True):
            address = o.address + o.address_offset + int(row) * o.pitch
            self.memory.store(_aligned(address), data)

    def _append(self, o: SimpleNamespace) -> None:
        fmt = FORMATS[o.format]
        block = self.vectors.read_blocks(o.source, np.array([o.block]), 1, fmt)
        elements = _aligned(o.elements + o.elements_offset, BLOCK_BYTES)
        for plane, nibbles in enumerate(nibble_planes(block.codes[0, 0], fmt)):
            address = elements + plane * self.config.beat_stride
            self.memory.append(address & WORD, pack_nibbles(nibbles))
        self.memory.append((o.scale + o.scale_offset) & WORD, block.scales[0])

    def _appendmax(self, o: SimpleNamespace) -> None:
        value = self.rows.read(o.source, np.array([o.row])).astype(np.uint8)
        self.memory.append((o.address + o.address_offset) & WORD, value)

    def _fence(self, o: SimpleNamespace) -> None:
        self.memory.fence()

    # --- other tiles ---

    def _collective(self, o: SimpleNamespace) -> Waiting:
        moves_blocks = o.kind in (Collective.ALL_GATHER, Collective.BROADCAST, Collective.BARRIER)
        if o.place is Place.BLOCKS and not moves_blocks:
            raise Fault(f"place is blocks, {o.kind.name.lower()} takes words")
        gives = o.kind is not Collective.BARRIER
        if o.kind is Collective.BROADCAST:
            gives = o.root == self.number
        if gives:
            self._check_overlap(o)
        request = Request(o.kind, o.place, o.count, o.root, self._give(o) if gives else None)
        self.network.join(self.number, request)
        while not request.done:
            yield f"the others in {o.kind.name.lower()}"
        if request.error:
            raise Fault(request.error)
        if request.result is not None:
            self._take(o, request.result, request.first)

    def _check_overlap(self, o: SimpleNamespace) -> None:
        """Raise `Fault` if what is written is not where it was read, but reaches into it."""
        if o.place is Place.MEMORY:
            read, written = (self.memory.run(address, 0).start for address in _wholes(o))
            size = 4 * o.count
        elif o.source == o.to and o.into:
            unit = 1 if o.place is Place.BLOCKS else SLOT
            read, written, size = unit * o.offset, unit * o.result_slot, o.count
        else:
            return
        if 0 < abs(read - written) < size:
            raise Fault("The whole that is written overlaps the one that is read")

    def _give(self, o: SimpleNamespace) -> Payload:
        """Return what this tile gives: the whole, or of an all-gather its share."""
        units = slice(0, o.count)
        if o.kind is Collective.ALL_GATHER:
            units = share(o.count, self.number, self.network.tiles)
        count = units.stop - units.start
        if o.place is Place.MEMORY:
            address = self.memory.behind(_wholes(o)[0], 4 * units.start)
            return Payload.of_words(self.memory.load(address, 4 * count).view(np.uint32))
        return self._payload(o, count, units.start)

    def _take(self, o: SimpleNamespace, payload: Payload, first: int) -> None:
        """Write units from the whole's unit `first` on to where they belong."""
        if o.place is Place.MEMORY:
            address = self.memory.behind(_wholes(o)[1], 4 * first)
            self.memory.store(address, payload.words)
        else:
            self._put(o, o.result_slot, payload, first)

    def _payload(self, o: SimpleNamespace, count: int, first: int = 0) -> Payload:
        """Return units of a register."""
        if o.place is Place.BLOCKS:
            return Payload(*self.vectors.copy_blocks(o.source, o.offset + first, count))
        start = np.array([SLOT * o.offset + first])
        return Payload.of_words(self.vectors.read_words(o.source, start, count))

    def _put(self, o: SimpleNamespace, offset: int, payload: Payload, first: int = 0) -> None:
        """Write units to a register."""
        if not o.into:
            self.vectors.fresh(o.to)
        if o.place is Place.BLOCKS:
            self.vectors.paste_blocks(o.to, offset + first, payload.words, payload.about)
        else:
            start = np.array([SLOT * offset + first])
            self.vectors.write_words(o.to, start, payload.words.reshape(1, -1))

    def _send(self, o: SimpleNamespace) -> Waiting:
        _check_message(o)
        message = Message(self.number, o.tag, o.place, self._payload(o, o.count))
        while not self.network.room(self.number):
            yield "one of its messages to be taken"
        self.network.send(o.tile, message)

    def _receive(self, o: SimpleNamespace) -> Waiting:
        _check_message(o)
        while (message := self.network.find(self.number, o)) is None:
            source = "any tile" if o.any_tile else f"tile {o.tile}"
            yield f"a message from {source}" + ("" if o.any_tag else f" with tag {o.tag}")
        if (message.place, len(message.payload)) != (o.place, o.count):
            raise Fault(
                f"The message from tile {message.source} has {len(message.payload)} "
                f"{message.place.name.lower()}, {o.count} {o.place.name.lower()} are wanted"
            )
        self._put(o, o.offset, message.payload)
        if o.any_tile or o.any_tag:
            envelope = np.array([message.source, message.tag], np.uint32)
            self.rows.write(o.envelope, np.arange(2), envelope)
        self.network.take(self.number, message)

    def _remote(self, o: SimpleNamespace) -> None:
        self.network.check_tile(o.tile)
        address = _aligned(o.address + o.address_offset)
        words = self.peers[o.tile].memory.load(address, 4 * o.count).view(np.uint32)
        if not o.into:
            self.vectors.fresh(o.to)
        self.vectors.write_words(o.to, np.array([SLOT * o.offset]), words[None])


def _check_message(o: SimpleNamespace) -> None:
    if o.place is Place.MEMORY:
        raise Fault("place is memory, messages hold words or blocks")


def _wholes(o: SimpleNamespace) -> tuple[int, int]:
    """Return the addresses of the wholes in memory that a collective reads and writes."""
    return (
        _aligned(o.address + o.address_offset, BLOCK_BYTES),
        _aligned(o.result + o.result_offset, BLOCK_BYTES),
    )


def _aligned(address: int, size: int = 4) -> int:
    address &= WORD
    if address % size:
        raise Fault(f"Address {address:#x} is no multiple of {size}")
    return address
