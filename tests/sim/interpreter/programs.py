"""What tests of the interpreter share: small tiles, short programs, registers by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gen.mx import MXTensor
from rtl.config import PRESETS, TileConfig
from rtl.core.fields import Instruction
from rtl.core.isa import OPCODES, SLOT
from rtl.formats import Format
from sim.interpreter import Memory, ProgramError, Tile, run

NANO, SMALL, BASE = (PRESETS[name] for name in ("nano", "small", "base"))
FP4, INT8 = Format.MXFP4, Format.MXINT8
SIZE = 1 << 15


def op(name: str, **values: Any) -> Instruction:
    return OPCODES[name](**values)


STOP = op("stop")
FENCE = op("fence")


def words_of(instructions: Sequence[Instruction]) -> list[int]:
    return [word for instruction in instructions for word in instruction.words]


def make_tile(config: TileConfig = SMALL, size: int = SIZE) -> Tile:
    return Tile(config, Memory(config, size))


def execute(tile: Tile, *instructions: Instruction, limit: int | None = None) -> Tile:
    """Run instructions, then stop."""
    run(tile, words_of([*instructions, STOP]), limit)
    return tile


# Registers by hand


def set_words(tile: Tile, register: int, rows: Any, offset: int = 0, stride: int = 0) -> None:
    """Write rows of words, FP32 or integers, `stride` slots apart."""
    rows = np.atleast_2d(rows)
    words = rows.view(np.uint32) if rows.dtype == np.float32 else rows.astype(np.uint32)
    tile.vectors.write_words(register, SLOT * (offset + stride * np.arange(len(words))), words)


def set_blocks(
    tile: Tile, register: int, tensor: MXTensor, offset: int = 0, stride: int | None = None
) -> None:
    """Write rows of blocks, `stride` blocks apart; by default one behind the other."""
    stride = tensor.blocks if stride is None else stride
    tile.vectors.write_blocks(register, offset + stride * np.arange(tensor.shape[0]), tensor)


def set_rows(tile: Tile, register: int, words: Any, first: int = 0) -> None:
    """Write neighbouring words of a row register, FP32 or integers."""
    words = np.atleast_1d(words)
    words = words.view(np.uint32) if words.dtype == np.float32 else words.astype(np.uint32)
    tile.rows.write(register, first + np.arange(words.size), words)


def get_words(tile: Tile, register: int, count: int, offset: int = 0) -> np.ndarray:
    return tile.vectors.read_words(register, np.array([SLOT * offset]), count)[0].copy()


def get_rows(tile: Tile, register: int, count: int, first: int = 0) -> np.ndarray:
    return tile.rows.read(register, first + np.arange(count)).copy()


def get_blocks(tile: Tile, register: int, fmt: Format, count: int, offset: int = 0) -> MXTensor:
    return tile.vectors.read_blocks(register, np.array([offset]), count, fmt)[0]


def defined(tile: Tile, register: int) -> np.ndarray:
    """Which words of a vector register are defined."""
    return tile.vectors.kinds[register] != 0


# State, and faults that must leave it alone


def state(tile: Tile) -> dict[str, Any]:
    """Everything a program can see, and what the interpreter knows about it."""
    chain = tile.matrix_unit.chain
    return {
        "pc": tile.pc,
        "scalars": [tile.scalars[i] for i in range(32)],
        "rows": tile.rows.words.copy(),
        "rows defined": tile.rows.defined.copy(),
        "vectors": tile.vectors.words.copy(),
        "kinds": tile.vectors.kinds.copy(),
        "scales": tile.vectors.scales.copy(),
        "memory": tile.memory.bytes.copy(),
        "ways": tile.memory._ways.copy(),
        "chain": chain and (len(chain.activations), len(chain.beats)),
        "inbox": [len(inbox) for inbox in tile.network.inboxes],
    }


def assert_same_state(one: Tile, other: Tile) -> None:
    theirs = state(other)
    for name, value in state(one).items():
        assert np.array_equal(value, theirs[name]), name


def check_fault(
    make: Callable[[], Tile],
    instructions: Sequence[Instruction],
    cause: str,
) -> None:
    """Run instructions of which the last is faulty: the error is exact, and it did nothing."""
    *before, faulty = instructions
    program = words_of([*instructions, STOP])
    tile, twin = make(), make()
    with pytest.raises(ProgramError) as caught:
        run(tile, program)
    error = caught.value
    pc = len(words_of(before))
    assert (error.cause, error.tile, error.pc) == (cause, tile.number, pc)
    assert error.instruction == str(faulty)
    assert str(error) == f"{cause[:-1]} (tile {tile.number}, pc {pc}, {faulty})."
    with pytest.raises(ProgramError):
        run(twin, program, limit=len(before))
    assert_same_state(tile, twin)
