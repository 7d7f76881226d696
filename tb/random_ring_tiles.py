"""Random programs for tiles in a ring: what each does by itself, and collectives in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rtl.config import TileConfig
from rtl.core.isa import BLOCK_WORDS, OPCODES, SLOT, VECTORS, Collective, Place
from sim.interpreter.errors import Fault
from sim.interpreter.network import Network
from tb.random_core import RESULTS, ProgramMaker
from tb.random_vec import FLOATS

SHARE = 0.15
"""Of the steps, those that are collectives."""

COPIES = (Collective.ALL_GATHER, Collective.BROADCAST)


class RingProgramMaker:
    """Writes a random program for every tile, and knows what they must leave behind.

    Parameters
    ----------
    config
        For what tiles.
    rng
        Where randomness comes from.
    tiles
        How many there are.

    Attributes
    ----------
    makers
        Of each tile's program, see `tb.random_core.ProgramMaker`.
    collectives
        How many there are in the programs, by kind and place.
    """

    def __init__(self, config: TileConfig, rng: np.random.Generator, tiles: int) -> None:
        self.config, self.rng = config, rng
        self.network = Network(tiles)
        self.makers = [ProgramMaker(config, rng) for _ in range(tiles)]
        self.collectives: dict[tuple[Collective, Place], int] = {}
        for number, maker in enumerate(self.makers):
            maker.tile.network, maker.tile.number = self.network, number

    def step(self) -> None:
        """Write an instruction or a few for every tile."""
        if self.rng.random() < SHARE:
            self._collective()
        else:
            for maker in self.makers:
                for _ in range(int(self.rng.integers(0, 3))):
                    maker.step()

    def _collective(self) -> None:
        """Write one of them; what is faulty is tried again."""
        rng = self.rng
        for _ in range(4):
            kind, place = Collective(rng.choice([*Collective])), Place(rng.choice([*Place]))
            if place is Place.BLOCKS and kind not in COPIES:
                continue
            blocks = place is Place.BLOCKS
            length = self.config.vector_length // (BLOCK_WORDS if blocks else 1)
            if place is Place.MEMORY:
                length = RESULTS // 8
            most = int(rng.choice([3, 16, length]))
            common = {
                "kind": kind,
                "place": place,
                "count": int(rng.integers(0, min(length, most) + 1)),
                "root": int(rng.integers(0, len(self.makers))),
            }
            where = self._memory if place is Place.MEMORY else self._registers
            if self.write([common | where(common) for _ in self.makers]):
                return

    def _memory(self, common: dict[str, Any]) -> dict[str, Any]:
        """Return where in memory a tile's words are, and where they come to."""
        last = (RESULTS - 4 * common["count"]) // 16
        read, written = (16 * int(place) for place in self.rng.integers(0, last + 1, 2))
        if self.rng.random() < 0.3:
            written = read
        return {"address": read, "result": written}

    def _registers(self, common: dict[str, Any]) -> dict[str, Any]:
        """Return where in registers a tile's units are, and where they come to."""
        rng, blocks = self.rng, common["place"] is Place.BLOCKS
        source = int(rng.integers(9, VECTORS) if blocks else rng.choice([*FLOATS]))
        to = int(rng.choice([0, 1, 2, *range(9, VECTORS)]))
        places = self.config.vector_length // (BLOCK_WORDS if blocks else SLOT)
        offset = int(rng.integers(0, min(places, 3)))
        result = offset if to == source else int(rng.integers(0, min(places, 3)))
        into = bool(rng.random() < 0.6)
        return {"source": source, "offset": offset, "to": to, "result_slot": result, "into": into}

    def write(self, fields: Sequence[dict[str, Any]]) -> bool:
        """Write a collective, as each tile says it, unless it would be faulty; say which."""
        steps = []
        for maker, own in zip(self.makers, fields, strict=True):
            own = maker.with_scalars("collective", own)
            instruction = OPCODES["collective"](**own)
            maker.tile.journal.forget()
            steps.append((maker, instruction))
        try:
            waiting = [
                maker.tile._step("collective", maker.tile._operands(instruction))
                for maker, instruction in steps
            ]
            for _ in range(2):  # give, then take
                for step in waiting:
                    next(step, None)
        except Fault:
            self.network.start()
            for maker, _ in steps:
                maker.tile.journal.undo()
            return False
        for maker, instruction in steps:
            maker.words += instruction.words
        what = fields[0]["kind"], fields[0]["place"]
        self.collectives[what] = self.collectives.get(what, 0) + 1
        return True


def random_programs(
    config: TileConfig, rng: np.random.Generator, tiles: int, steps: int
) -> RingProgramMaker:
    """Return finished random programs."""
    programs = RingProgramMaker(config, rng, tiles)
    for maker in programs.makers:
        maker.prologue()
    for _ in range(steps):
        programs.step()
    for maker in programs.makers:
        maker.epilogue()
    return programs
