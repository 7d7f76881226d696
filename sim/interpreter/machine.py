"""Several tiles that run their programs together."""

from __future__ import annotations

from collections.abc import Sequence

from rtl.config import TileConfig
from sim.interpreter.errors import ProgramError
from sim.interpreter.memory import Memory
from sim.interpreter.network import Network
from sim.interpreter.tile import Tile


class Machine:
    """Tiles with a network between them.

    Parameters
    ----------
    config
        Of every tile.
    memories
        One per tile; as many tiles there are.

    Attributes
    ----------
    tiles
        The tiles.
    network
        What connects them.
    """

    def __init__(self, config: TileConfig, memories: Sequence[Memory]) -> None:
        self.network = network = Network(len(memories))
        self.tiles = [Tile(config, memory, network, i) for i, memory in enumerate(memories)]
        for tile in self.tiles:
            tile.peers = self.tiles

    def run(self, programs: Sequence[Sequence[int]], limit: int | None = None) -> None:
        """Run a program on every tile, until all have stopped.

        Each tile runs until it must wait for others; then the next one does. What they compute
        does not depend on that order, unless they receive from any tile, or read another tile's
        memory without having waited for what they want to see there.

        Parameters
        ----------
        programs
            One per tile, 32-bit words.
        limit
            Instructions per tile after which a program is taken not to end.

        Raises
        ------
        ProgramError
            If an instruction cannot be executed, all tiles that have not stopped wait, or a
            message is left when all have.
        """
        self.network.start()
        running = {
            tile.number: (tile, tile.execute(program, limit))
            for tile, program in zip(self.tiles, programs, strict=True)
        }
        waiting: dict[int, tuple[int, str]] = {}
        while running:
            before = sum(tile.executed.total() for tile in self.tiles), len(running)
            for number, (tile, steps) in list(running.items()):
                try:
                    waiting[number] = tile.pc, next(steps)
                except StopIteration:
                    del running[number]
            if before == (sum(tile.executed.total() for tile in self.tiles), len(running)):
                first = min(running)
                waits = "; ".join(f"tile {n} for {waiting[n][1]}" for n in sorted(running))
                raise ProgramError(f"All tiles that run wait: {waits}", first, running[first][0].pc)
        _check_inboxes(self.tiles)


def run(tile: Tile, program: Sequence[int], limit: int | None = None) -> None:
    """Run a program on a tile that is alone.

    Raises
    ------
    ProgramError
        If an instruction cannot be executed, the program waits for another tile, or a message is
        left when it has stopped.
    """
    tile.network.start()
    for wait in tile.execute(program, limit):
        cause = f"There is no other tile, and this one waits for {wait}"
        raise ProgramError(cause, tile.number, tile.pc)
    _check_inboxes([tile])


def _check_inboxes(tiles: Sequence[Tile]) -> None:
    """Raise `ProgramError` if a tile has not taken a message."""
    for tile in tiles:
        for message in tile.network.inboxes[tile.number]:
            cause = f"The message from tile {message.source} with tag {message.tag} was not taken"
            raise ProgramError(cause, tile.number, tile.pc)
