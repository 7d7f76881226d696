"""One tile: its state, and what every instruction does to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from gen.layout import BLOCK_BYTES
from gen.mx import MXTensor, join_planes, nibble_planes, pack_nibbles, unpack_nibbles
from rtl.config import TileConfig
from rtl.core.fields import IllegalInstruction, Instruction, Kind, S
from rtl.core.isa import (
    BLOCK_WORDS,
    MASK_ROWS,
    SLOT,
    Collective,
    LoadKind,
    Place,
    decode,
)
from rtl.formats import BLOCK, Format
from sim.golden.formats import dequantise
from sim.interpreter.errors import Fault, ProgramError
from sim.interpreter.matrix import FORMATS, MatrixUnit
from sim.interpreter.memory import Memory
from sim.interpreter.network import Message, Network, Payload, Request
from sim.interpreter.registers import RowRegisters, Scalars, VectorRegisters
from sim.interpreter.rows import Rows
from sim.interpreter.scalar import ARITHMETIC, BRANCHES, WORD, signed
from sim.interpreter.vector import VectorUnit

_TABLES = {LoadKind.MXFP4: Format.MXFP4, LoadKind.MXINT8: Format.MXINT8}

Waiting = Generator[str, None, None]
"""What a tile is while it runs: each time it cannot go on, it says what it waits for."""


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
        self.scalars = Scalars()
        self.rows = RowRegisters(config)
        self.vectors = VectorRegisters(config)
        self.vector_unit = VectorUnit(self.vectors, self.rows)
        self.matrix_unit = MatrixUnit(config, memory, self.vectors, self.rows)
        self.peers: Sequence[Tile] = [self]
        self.pc = 0
        self.executed: Counter[str] = Counter()
        self._decoded: dict[int, Instruction] = {}
        self._program: Sequence[int] = ()

    def execute(self, program: Sequence[int], limit: int | None = None) -> Waiting:
        """Execute a program from its first word to its `stop`.

        Parameters
        ----------
        program
            32-bit words.
        limit
            Instructions after which it is taken not to end.

        Yields
        ------
        str
            What the tile waits for, whenever it cannot go on by itself.

        Raises
        ------
        ProgramError
            If an instruction cannot be executed.
        """
        if program is not self._program:
            self._program, self._decoded = program, {}
        self.memory.start()
        self.pc = 0
        count = 0
        while True:
            text = ""
            try:
                instruction = self._decoded.get(self.pc)
                if instruction is None:
                    instruction = self._decoded[self.pc] = decode(program, self.pc)
                text = str(instruction)
                if instruction.name == "stop":
                    if self.matrix_unit.chain is not None:
                        raise Fault("The last chain was not drained")
                    return
                count += 1
                if limit is not None and count > limit:
                    raise Fault(f"The program does not end within {limit} instructions")
                self.executed[instruction.name] += 1
                o = self._operands(instruction)
                target = yield from self._step(instruction.name, o)
            except (Fault, IllegalInstruction) as fault:
                raise ProgramError(str(fault), self.number, self.pc, text) from None
            self.pc = self.pc + instruction.opcode.words if target is None else target

    def _operands(self, instruction: Instruction) -> SimpleNamespace:
        """Return all fields as numbers, with scalar registers read."""
        operands = {}
        for field in instruction.opcode.fields:
            value = instruction.values[field.name]
            if field.kind is Kind.VALUE:
                if isinstance(value, S):
                    value = self.scalars[value.number]
                    value = signed(value) if field.signed else value
                    # Scalar arithmetic works on all bits, others must fit the field.
                    if field.bits > 13 or instruction.opcode.engine != "scalar":
                        field.check(value)
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
        address = _word_address(o.address + o.address_offset)
        self.scalars[o.to] = int(self.memory.load(address, 4).view(np.uint32)[0])

    def _sw(self, o: SimpleNamespace) -> None:
        address = _word_address(o.address + o.address_offset)
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
            return read(_word_address(address), 4 * o.columns).view(np.uint32)
        if o.kind is LoadKind.BYTES:
            return read(address, o.columns).astype(np.uint32)
        fmt = _TABLES[o.kind]
        blocks = -(-o.columns // BLOCK)
        packed = read(address, blocks * fmt.planes * BLOCK_BYTES)
        codes = join_planes(unpack_nibbles(packed.reshape(blocks, fmt.planes, -1)), fmt)
        codes.reshape(-1)[o.columns :] = 0
        scales = read((o.scales + o.scales_offset + distance) & WORD, blocks)
        return dequantise(MXTensor(codes, scales, fmt, o.columns)).view(np.uint32)

    def _loadr(self, o: SimpleNamespace) -> None:
        address = _word_address(o.address + o.address_offset)
        words = self.memory.load(address, 4 * o.rows).view(np.uint32)
        self.rows.write(o.to, o.row + np.arange(o.rows), words)

    def _store(self, o: SimpleNamespace) -> None:
        rows = Rows.of(o)
        words = self.vectors.read_words(
            o.source, SLOT * (o.offset + o.stride * rows.index), o.columns
        )
        for row, data in zip(rows.index, words, strict=True):
            address = o.address + o.address_offset + int(row) * o.pitch
            self.memory.store(_word_address(address & WORD), data)

    def _append(self, o: SimpleNamespace) -> None:
        fmt = FORMATS[o.format]
        block = self.vectors.read_blocks(o.source, np.array([o.block]), 1, fmt)
        for plane, nibbles in enumerate(nibble_planes(block.codes[0, 0], fmt)):
            address = o.elements + o.elements_offset + plane * self.config.beat_stride
            self.memory.append(address & WORD, pack_nibbles(nibbles))
        self.memory.append((o.scale + o.scale_offset) & WORD, block.scales[0])

    def _appendmax(self, o: SimpleNamespace) -> None:
        value = self.rows.read(o.source, np.array([o.row])).astype(np.uint8)
        self.memory.append((o.address + o.address_offset) & WORD, value)

    def _fence(self, o: SimpleNamespace) -> None:
        self.memory.fence()

    # --- other tiles ---

    def _collective(self, o: SimpleNamespace) -> Waiting:
        reads = o.kind is not Collective.BARRIER
        if o.kind is Collective.BROADCAST:
            reads = o.root == self.number
        payload = self._give(o) if reads else None
        request = Request(o.kind, o.place, o.count, o.root, payload)
        if o.place is Place.BLOCKS and o.kind not in (
            Collective.ALL_GATHER,
            Collective.BROADCAST,
            Collective.BARRIER,
        ):
            raise Fault(f"place is blocks, {o.kind.name.lower()} takes words")
        self.network.join(self.number, request)
        while not request.done:
            yield f"the others in {o.kind.name.lower()}"
        if request.error:
            raise Fault(request.error)
        if request.result is not None:
            self._take(o, request.result, request.where.start)

    def _give(self, o: SimpleNamespace) -> Payload:
        """Return the whole as this tile sees it; of an all-gather only its share counts."""
        if o.place is Place.MEMORY:
            address = (o.address + o.address_offset) & WORD
            data = self.memory.load(_word_address(address), 4 * o.count)
            return Payload(data.view(np.uint32)[:, None].copy(), np.zeros(o.count))
        return self._payload(o.source, o.offset, o.place, o.count, o.kind is Collective.ALL_GATHER)

    def _payload(
        self, register: int, offset: int, place: Place, count: int, partial: bool = False
    ) -> Payload:
        """Return units of a register; if `partial`, some of them may be undefined."""
        size, start = _units(place, offset)
        where = slice(start, start + size * count)
        if where.stop > self.vectors.length:
            raise Fault(
                f"v{register} has {self.vectors.length} words, {size * count} from {start} "
                "are wanted"
            )
        words = self.vectors.words[register, where].reshape(count, size).copy()
        kinds = self.vectors.kinds[register, where].reshape(count, size)
        if place is Place.WORDS:
            if not partial:
                self.vectors.read_words(register, np.array([start]), count)
            return Payload(words, kinds.copy())
        scales = self.vectors.scales[register, offset : offset + count, None]
        if not partial:
            for block in range(offset, offset + count):
                self.vectors.block_format(register, block)
        return Payload(words, np.concatenate([kinds, scales], axis=1))

    def _take(self, o: SimpleNamespace, payload: Payload, first: int) -> None:
        """Write units from the whole's unit `first` on to where they belong."""
        if o.place is Place.MEMORY:
            address = (o.result + o.result_offset + 4 * first) & WORD
            self.memory.store(_word_address(address), payload.words)
            return
        self._put(o.to, o.result_slot, o.place, payload, first, o.into)

    def _put(
        self, register: int, offset: int, place: Place, payload: Payload, first: int, into: bool
    ) -> None:
        if not into:
            self.vectors.fresh(register)
        size, start = _units(place, offset)
        where = slice(start + size * first, start + size * (first + len(payload)))
        if where.stop > self.vectors.length:
            raise Fault(f"v{register} has {self.vectors.length} words, {where.stop} are wanted")
        self.vectors.words[register, where] = payload.words.reshape(-1)
        if place is Place.WORDS:
            self.vectors.kinds[register, where] = 1
        else:
            self.vectors.kinds[register, where] = payload.extra[:, :-1].reshape(-1)
            blocks = slice(offset + first, offset + first + len(payload))
            self.vectors.scales[register, blocks] = payload.extra[:, -1]

    def _send(self, o: SimpleNamespace) -> None:
        payload = self._payload(o.source, o.offset, o.place, o.count)
        self.network.send(o.tile, Message(self.number, o.tag, o.place, payload))

    def _receive(self, o: SimpleNamespace) -> Waiting:
        while (message := self.network.receive(self.number, o)) is None:
            source = "any tile" if o.any_tile else f"tile {o.tile}"
            yield f"a message from {source}" + ("" if o.any_tag else f" with tag {o.tag}")
        if (message.place, len(message.payload)) != (o.place, o.count):
            raise Fault(
                f"The message from tile {message.source} has {len(message.payload)} "
                f"{Place(message.place).name.lower()}, {o.count} {o.place.name.lower()} are wanted"
            )
        self._put(o.to, o.offset, o.place, message.payload, 0, o.into)
        if o.any_tile or o.any_tag:
            envelope = np.array([message.source, message.tag], np.uint32)
            self.rows.write(o.envelope, np.arange(2), envelope)

    def _remote(self, o: SimpleNamespace) -> None:
        self.network.check_tile(o.tile)
        address = _word_address((o.address + o.address_offset) & WORD)
        words = self.peers[o.tile].memory.load(address, 4 * o.count).view(np.uint32)
        if not o.into:
            self.vectors.fresh(o.to)
        self.vectors.write_words(o.to, np.array([SLOT * o.offset]), words[None])


def _units(place: Place, offset: int) -> tuple[int, int]:
    """Return the words of a unit, and the first word of a run of units."""
    return (1, SLOT * offset) if place is Place.WORDS else (BLOCK_WORDS, BLOCK_WORDS * offset)


def _word_address(address: int) -> int:
    address &= WORD
    if address % 4:
        raise Fault(f"Address {address:#x} is no multiple of 4")
    return address
