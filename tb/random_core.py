"""Random programs for the core: dependences of every kind, and nothing that is faulty.

A program is written as it is executed, by the interpreter, so that every instruction is legal where
it stands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rtl.config import TileConfig
from rtl.core.fields import Kind, S
from rtl.core.isa import BLOCK_WORDS, OPCODES, SCALARS, SLOT, VECTORS, MatrixFormat, Output
from sim.interpreter.errors import Fault
from sim.interpreter.memory import Memory
from sim.interpreter.tile import Tile
from tb.random_vec import FLOATS, SCALES, Maker, random_words

THROUGH, PAST, END = 0x0000, 0x4000, 0x8000
"""Memory that is only touched through L1, and only past it."""

RESULTS = 0x2000
"""Where registers go at the end; appended blocks go as far behind `PAST`."""

SCRATCH = range(1, 16)
"""Scalar registers that arithmetic works on; those from 16 on hold values of fields."""

ARITHMETIC = ("add", "sub", "mul", "and", "or", "xor", "shl", "shr", "min", "max")


class ProgramMaker:
    """Writes a random program, and knows what it must leave behind.

    Parameters
    ----------
    config
        For what tile.
    rng
        Where randomness comes from.

    Attributes
    ----------
    words
        The program so far.
    tile
        The state behind it.
    image
        Memory before it.
    """

    def __init__(self, config: TileConfig, rng: np.random.Generator) -> None:
        self.config, self.rng = config, rng
        self.words: list[int] = []
        memory = Memory(config, END)
        image = random_words(rng, memory.bytes.size // 4, 0.1).view(np.uint8)
        memory.bytes[:] = image
        # Scale bytes, for whoever loads them.
        memory.poke(THROUGH, rng.integers(0, 256, 0x400).astype(np.uint8))
        self.image = memory.bytes.copy()
        self.tile = Tile(config, memory)
        memory.start()
        self._maker = Maker(config, rng, (0, 1, 2, 5, 8, 31, 32, 33, 40))
        self._next_scalar = 16

    def write(self, name: str, **fields: Any) -> bool:
        """Write an instruction, unless it would be faulty; say which."""
        instruction = OPCODES[name](**fields)
        self.tile.journal.forget()
        try:
            o = self.tile._operands(instruction)
            for waiting in self.tile._step(name, o):
                raise AssertionError(waiting)
        except Fault:
            self.tile.journal.undo()
            return False
        self.words += instruction.words
        return True

    def prologue(self) -> None:
        """Fill registers."""
        length = self.config.vector_length
        for register in [*FLOATS, SCALES]:
            kind = {"kind": 1} if register == SCALES else {}
            address = THROUGH if register == SCALES else 0x400 + 4 * length * register
            assert self.write(
                "load", to=register, rows=1, columns=length, address=address % 0x1800, **kind
            )
            rows = self.config.row_length
            assert self.write("loadr", to=register, rows=rows, address=0x800 + 4 * register)
        for register in SCRATCH:
            self.write("const", to=S(register), value=int(self.rng.integers(0, 1 << 32)))

    def value(self, number: int) -> S:
        """Put a number into a scalar register, in one of several ways."""
        register = S(self._next_scalar)
        self._next_scalar = 16 + (self._next_scalar - 15) % (SCALARS - 16)
        if self.rng.random() < 0.5:
            self.write("const", to=register, value=number & 0xFFFFFFFF)
        else:
            part = int(self.rng.integers(0, 4096))
            self.write("const", to=register, value=(number - part) & 0xFFFFFFFF)
            self.write("add", to=register, a=register, b=part)
        return register

    def with_scalars(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return fields, some of whose values are in scalar registers."""
        changed = dict(fields)
        for field in OPCODES[name].fields:
            if field.kind is Kind.VALUE and field.name in fields and self.rng.random() < 0.2:
                changed[field.name] = self.value(int(fields[field.name]))
        return changed

    def step(self) -> None:
        """Write an instruction or a few."""
        rng = self.rng
        kind = rng.choice(
            ["scalar", "branch", "loop", "vector", "topk", "memory", "append", "read", "word"],
            p=[0.15, 0.06, 0.02, 0.35, 0.06, 0.16, 0.05, 0.1, 0.05],
        )
        getattr(self, f"_{kind}")()

    def _scalar(self) -> None:
        to, a = (S(int(rng)) for rng in self.rng.choice(SCRATCH, 2))
        b: Any = S(int(self.rng.integers(0, 16)))
        if self.rng.random() < 0.5:
            b = int(self.rng.integers(-4096, 4096))
        self.write(str(self.rng.choice(ARITHMETIC)), to=to, a=a, b=b)

    def _branch(self) -> None:
        """Write a branch over something that is only legal if it is not taken."""
        name = str(self.rng.choice(["beq", "bne", "blt", "bge"]))
        a = S(int(self.rng.choice(SCRATCH)))
        b: Any = a if self.rng.random() < 0.3 else int(self.rng.integers(-4096, 4096))
        branch = OPCODES[name](a=a, b=b, target=0)
        taken = _taken(name, self.tile.scalars[a.number], b, self.tile)
        at = len(self.words)
        self.words += branch.words
        if taken:
            garbage = OPCODES["vector"](**self._maker.vector()) if self.rng.random() < 0.5 else None
            self.words += garbage.words if garbage else [0xFFFFFFFF] * int(self.rng.integers(1, 9))
        else:
            self.step()
        self.words[at : at + len(branch.words)] = OPCODES[name](
            a=a, b=b, target=len(self.words)
        ).words

    def _loop(self) -> None:
        counter, sum_ = S(int(self.rng.choice(SCRATCH[:7]))), S(int(self.rng.choice(SCRATCH[7:])))
        turns = int(self.rng.integers(1, 6))
        self.write("const", to=counter, value=turns)
        target = len(self.words)
        self.words += OPCODES["add"](to=sum_, a=sum_, b=counter).words
        self.words += OPCODES["loop"](counter=counter, target=target).words
        scalars = self.tile.scalars
        for left in range(turns, 0, -1):
            scalars[sum_.number] = scalars[sum_.number] + left
        scalars[counter.number] = 0

    def _vector(self) -> None:
        fields = self._maker.vector()
        # Row registers are not renamed: write those that others read.
        fields["total"] = int(self.rng.choice([7, *FLOATS]))
        if fields["output"] is Output.ROW:
            fields["to"] = int(self.rng.choice(FLOATS))
        self.write("vector", **self.with_scalars("vector", fields))

    def _topk(self) -> None:
        fields = self._maker.topk()
        fields |= dict(zip(("indices", "values"), (int(v) for v in self._two()), strict=True))
        self.write("topk", **self.with_scalars("topk", fields))

    def _two(self) -> Any:
        return self.rng.choice(np.arange(9, VECTORS), 2, replace=False)

    def _memory(self) -> None:
        rng = self.rng
        columns, rows = int(rng.integers(1, 65)), int(rng.integers(1, 4))
        address = 4 * int(rng.integers(0, (RESULTS - 0x800) // 4))
        fields = {
            "offset": int(rng.integers(0, 3)), "stride": int(rng.integers(1, 3)), "rows": rows,
            "columns": columns, "address": address, "pitch": 4 * int(rng.integers(0, 65)),
        }  # fmt: skip
        what = rng.choice(["load", "store", "loadr"])
        if what == "load":
            fields |= {"to": int(rng.choice([*FLOATS, 9, 12])), "into": bool(rng.random() < 0.7)}
        elif what == "store":
            fields |= {
                "source": int(rng.choice(FLOATS)),
                "masked": bool(rng.random() < 0.3),
                "mask": int(rng.integers(0, 16)),
            }
        else:
            row = int(rng.integers(0, 8))
            fields = {"to": int(rng.choice(FLOATS)), "row": row, "rows": rows, "address": address}
        self.write(str(what), **self.with_scalars(str(what), fields))

    def _append(self) -> None:
        """Write a block or a byte past L1, and now and then load it behind a fence."""
        rng = self.rng
        elements = PAST + 64 * int(rng.integers(0, 32))
        scale = PAST + 0x1000 + int(rng.integers(0, 64))
        kind = rng.random()
        if kind < 0.4:
            self.write(
                "append", source=int(rng.integers(9, VECTORS)), block=int(rng.integers(0, 4)),
                format=MatrixFormat(int(rng.integers(0, 2))), elements=elements, scale=scale,
            )  # fmt: skip
        elif kind < 0.7:
            self.write("appendmax", source=SCALES, row=int(rng.integers(0, 8)), address=scale)
        else:
            self.write("fence")
            self.write(
                "load", to=int(rng.choice([*FLOATS])), into=True, rows=1, columns=32,
                address=PAST + 4 * int(rng.integers(0, 0x400)), streaming=True,
            )  # fmt: skip

    def _read(self) -> None:
        rng = self.rng
        to = S(int(rng.choice(SCRATCH)))
        what = rng.choice(["readv", "readr", "match"])
        if what == "readv":
            fields = {
                "source": int(rng.integers(0, VECTORS)), "slot": int(rng.integers(0, 4)),
                "word": int(rng.integers(0, 32)),
            }  # fmt: skip
        elif what == "readr":
            fields = {"source": int(rng.integers(0, 9)), "row": int(rng.integers(0, 12))}
        else:
            source = int(rng.choice([*FLOATS, 10]))
            equal = int(self.tile.vectors.words[source, 3])
            fields = {
                "source": source, "rows": int(rng.integers(0, 4)), "word": 3, "equal": equal,
            }  # fmt: skip
        self.write(str(what), to=to, **self.with_scalars(str(what), fields))

    def _word(self) -> None:
        address = 4 * int(self.rng.integers(0, (RESULTS - 0x800) // 4))
        if self.rng.random() < 0.5:
            self.write("lw", to=S(int(self.rng.choice(SCRATCH))), address=address)
        else:
            self.write("sw", value=S(int(self.rng.choice(SCRATCH))), address=address)

    def epilogue(self) -> None:
        """Put all that is defined where it can be compared, and stop."""
        vectors = self.tile.vectors
        address = RESULTS
        for register in range(SCALARS):
            assert self.write("sw", value=S(register), address=address)
            address += 4
        block = 0
        for register in range(VECTORS):
            kinds = vectors.kinds[register]
            words = np.flatnonzero((kinds == 1).reshape(-1, SLOT).all(1))
            for slot in words.tolist()[:4]:
                if address + 4 * SLOT <= PAST:
                    assert self.write(
                        "store", source=register, offset=slot, rows=1, columns=SLOT,
                        address=address,
                    )  # fmt: skip
                    address += 4 * SLOT
            for fmt, kind in ((MatrixFormat.MXFP4, 2), (MatrixFormat.MXINT8, 3)):
                whole = np.flatnonzero((kinds == kind).reshape(-1, BLOCK_WORDS).all(1))
                for number in whole.tolist()[:2]:
                    if block < 48:
                        assert self.write(
                            "append", source=register, block=number, format=fmt,
                            elements=PAST + 0x2000 + 64 * block, scale=PAST + 0x3000 + block,
                        )  # fmt: skip
                        block += 1
        self.words += OPCODES["stop"]().words


def _taken(name: str, a: int, b: Any, tile: Tile) -> bool:
    def signed(x: int) -> int:
        return (x & 0xFFFFFFFF) - ((x & 0x80000000) << 1)

    other = tile.scalars[b.number] if isinstance(b, S) else b
    x, y = signed(a), signed(other)
    return {"beq": x == y, "bne": x != y, "blt": x < y, "bge": x >= y}[name]


def random_program(config: TileConfig, rng: np.random.Generator, steps: int) -> ProgramMaker:
    """Return a finished random program."""
    maker = ProgramMaker(config, rng)
    maker.prologue()
    for _ in range(steps):
        maker.step()
    maker.epilogue()
    return maker
