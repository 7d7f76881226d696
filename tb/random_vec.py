"""Random instructions for the vector unit, of everything that the instruction set allows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl.config import TileConfig
from rtl.core.isa import (
    MASK_SLOTS,
    SLOT,
    Function,
    Operand,
    Output,
    Reduction,
    Rule,
    Select,
    Step,
)

SPECIAL = np.array(
    [
        0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x80800000, 0x3F800000,
        0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001,
        0x7F800001, 0x42F00000, 0xC3000000, 0x3EAAAAAB,
    ],
    np.uint32,
)  # fmt: skip
"""Zeros, subnormals, the least and greatest normals, infinities, NaNs of all kinds, and some."""

FLOATS, SCALES = range(6), 6
"""Registers of FP32 words, and the one with scale bytes; row registers alike."""

ROTATIONS = (Step.ROTATE_ADJACENT, Step.ROTATE_HALVES)
SUMS = (Reduction.SUM, Reduction.SQUARES)
BLOCKS = (Output.MXFP4, Output.MXINT8)
VECTORS = (Operand.VECTOR, Operand.VECTOR_HEAD, Operand.VECTOR_TOKEN, Operand.VECTOR_ONE)


def random_words(rng: np.random.Generator, count: int, special: float = 0.2) -> Any:
    """Return words: numbers of about one, and some special ones."""
    values = rng.standard_normal(count).astype(np.float32)
    values *= np.exp2(rng.integers(-3, 4, count)).astype(np.float32)
    words: NDArray[np.uint32] = values.view(np.uint32).copy()
    chosen = rng.random(count) < special
    words[chosen] = rng.choice(SPECIAL, chosen.sum())
    return words


class Maker:
    """Makes random legal instructions.

    Parameters
    ----------
    config
        For what tile.
    rng
        Where randomness comes from.
    columns
        Lengths of rows.
    """

    def __init__(
        self,
        config: TileConfig,
        rng: np.random.Generator,
        columns: tuple[int, ...] = (1, 2, 5, 31, 32, 33, 40, 0),
    ) -> None:
        self.config, self.rng, self.columns = config, rng, columns

    def vector(self) -> dict[str, Any]:
        """Return the fields of a `vector`."""
        rng = self.rng
        heads = int(rng.choice([1, 1, 2, 3]))
        rows = heads * int(rng.integers(0, 7) // heads)
        a_row, output = bool(rng.random() < 0.2), Output(rng.choice(list(Output)))
        columns = int(rng.choice(self.columns))
        if a_row or output is Output.ROW:
            columns = 1
        columns = max(columns, 1) if output in BLOCKS else columns
        o: dict[str, Any] = {
            "a_row": a_row,
            "a": int(rng.choice(FLOATS)),
            "a_offset": int(rng.integers(0, 8)),
            "a_stride": int(rng.integers(0, 4)),
            "rows": rows,
            "heads": heads,
            "columns": columns,
            "masked": bool(rng.random() < 0.3),
            "mask": int(rng.integers(0, 1 << 32)),
            "function": Function(rng.choice([Function.NONE, Function.NONE, *Function])),
            "function_value": int(random_words(rng, 1)[0]),
            "select": Select(rng.choice(list(Select))),
            "lo": int(rng.integers(-40, 100)),
            "hi": int(rng.integers(-40, 120)),
            "range_step": bool(rng.random() < 0.5),
            "first": SLOT * int(rng.integers(0, 4)),
            "reduction": Reduction(rng.choice(list(Reduction))),
            "total": 7,
            "total_offset": int(rng.integers(0, 8)),
            "total_pitch": heads,
            "resume": bool(rng.random() < 0.5),
            "initial": int(rng.choice(FLOATS)),
            "initial_offset": int(rng.integers(0, 8)),
            "initial_pitch": int(rng.integers(0, 4)),
            "suspend": bool(rng.random() < 0.5),
            "partials": int(rng.choice([5, 7] if output is Output.NONE else [7])),
            "partials_offset": int(rng.integers(0, 8)),
            "output": output,
            "rule": Rule(rng.choice(list(Rule))),
            "to": int(rng.choice([0, 1, *range(9, 24)])),
            "into": bool(rng.random() < 0.5),
            "offset": int(rng.integers(0, 8)),
            "stride": heads if output is Output.ROW else int(rng.integers(2, 5)),
            "maximal": bool(rng.random() < 0.7) and output in BLOCKS,
            "maxima": SCALES,
            "maxima_offset": int(rng.integers(0, 8)),
            "maxima_pitch": heads,
            "maxima_token": bool(rng.random() < 0.5),
            "maxima_resume": bool(rng.random() < 0.5),
        }
        if o["reduction"] is Reduction.SQUARES:
            o["function"] = Function.NONE
        if o["resume"] and o["reduction"] in SUMS:
            o["partials"] = 5  # which is defined
            o["to"] = 9 if o["to"] == 5 else o["to"]
        for which in "bcd":
            o |= self._step(which, o)
        return o

    def _step(self, which: str, o: dict[str, Any]) -> dict[str, Any]:
        """Return a step that is legal, and inside of the registers."""
        rng = self.rng
        step = Step(rng.choice([Step.NONE, Step.NONE, *Step]))
        rotates = step in ROTATIONS
        # A rotation also takes the operand of step d, and what would use its multiplier.
        if rotates and (which != "c" or o["columns"] % 2 or o["function"] or o["reduction"]):
            step, rotates = Step.ADD, False
        if which == "d" and o["c_step"] in ROTATIONS:
            step, rotates = Step.NONE, True
        ldexp = step in (Step.LDEXP_MXFP4, Step.LDEXP_MXINT8)
        operand = Operand(rng.choice(VECTORS if rotates else list(Operand)))
        stride = int(rng.integers(0, 4))
        if operand in VECTORS:
            value = int(rng.integers(0, 4))
        elif operand is Operand.CONSTANT:
            value = int(rng.integers(0, 256)) if ldexp else int(random_words(rng, 1)[0])
        else:
            value = int(rng.integers(0, 8))
        return {
            f"{which}_step": step,
            f"{which}_operand": operand,
            which: SCALES if ldexp else int(rng.choice(FLOATS)),
            f"{which}_value": value,
            f"{which}_stride": stride,
        }

    def topk(self) -> dict[str, Any]:
        """Return the fields of a `topk`."""
        rng = self.rng
        columns = max(1, int(rng.choice(self.columns)))
        segment = int(rng.choice([32, 32, 1, 7, 31]))
        slots = -(-columns // SLOT)
        masked = bool(rng.random() < 0.4) and slots <= MASK_SLOTS
        mask = int(rng.integers(1, 1 << 32))
        column = np.arange(columns)
        counts = column % SLOT < segment
        if masked:
            counts &= mask >> column // SLOT & 1 != 0
        k = int(rng.integers(1, max(2, min(counts.sum(), 40) + 1)))
        return {
            "a": int(rng.choice(FLOATS)),
            "a_offset": int(rng.integers(0, 4)),
            "a_stride": int(rng.integers(0, 4)),
            "rows": int(rng.integers(0, 4)),
            "columns": columns,
            "segment": segment,
            "slots_masked": masked,
            "slot_mask": mask,
            "k": k,
            "carry": bool(rng.random() < 0.5),
            "carried": int(rng.choice(FLOATS)),
            "indices": 10,
            "values": 11,
            "into": bool(rng.random() < 0.5),
            "offset": int(rng.integers(0, 4)),
            "stride": int(rng.integers(2, 4)),
        }
