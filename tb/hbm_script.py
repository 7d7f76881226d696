"""Commands on an HBM bus at given cycles, for tests of device and checker by themselves.

Drives the ports of `sim.hbm.wires.BusWires`. Cycle 1 is the first after reset, as in the checker's
reports. Everything is written and read in the middle of a cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, Timer

from rtl.hbm.interface import ColumnCommand, RowCommand

PERIOD_NS = 10


CHANNELS = 2
"""Pseudo-channels of the wires."""


def port(dut: Any, channel: int, name: str) -> Any:
    """Return a port of the bus of a channel."""
    return getattr(dut, f"drive__{channel}__{name}")


class Command(NamedTuple):
    """A command on the row or the column bus.

    Attributes
    ----------
    cycle
        When.
    name
        Name of a `RowCommand` or a `ColumnCommand`, or the code of neither as "row 6".
    bank, row, column
        Where.
    channel
        Pseudo-channel.
    """

    cycle: int
    name: str
    bank: int = 0
    row: int = 0
    column: int = 0
    channel: int = 0


class Script:
    """Whoever gives the commands.

    Attributes
    ----------
    cycle
        The present cycle.
    """

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self.cycle = 0
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        dut.rst.value = 1
        self._idle()

    async def reset(self) -> None:
        """Reset; afterwards it is cycle 1."""
        self._dut.rst.value = 1
        self._idle()
        await ClockCycles(self._dut.clk, 2)
        await FallingEdge(self._dut.clk)
        self._dut.rst.value = 0
        self.cycle = 1

    async def reach(self, cycle: int) -> None:
        """Wait until `cycle`."""
        assert cycle >= self.cycle, f"cycle {cycle} is over, it is {self.cycle}"
        if cycle > self.cycle:
            await Timer((cycle - self.cycle) * PERIOD_NS, "ns")
            self.cycle = cycle

    async def play(self, commands: Iterable[Command], until: int = 0) -> None:
        """Give commands, and wait for the cycle after the last, or for cycle `until`."""
        for command in sorted(commands):
            if command.cycle > self.cycle:
                await self._next(command.cycle)
            self._give(command)
        await self._next(max(until, self.cycle + 1))

    async def _next(self, cycle: int) -> None:
        await self.reach(self.cycle + 1)
        self._idle()
        await self.reach(cycle)

    def _idle(self) -> None:
        for channel in range(CHANNELS):
            port(self._dut, channel, "row__command").value = 0
            port(self._dut, channel, "column__command").value = 0

    def _give(self, command: Command) -> None:
        bus, _, code = command.name.partition(" ")
        if command.name in RowCommand.__members__:
            bus, code = "row", str(RowCommand[command.name].value)
        elif command.name in ColumnCommand.__members__:
            bus, code = "column", str(ColumnCommand[command.name].value)
        if bus == "row":
            values = {"command": int(code), "bank": command.bank, "row": command.row}
        else:
            values = {"command": int(code), "bank": command.bank, "column": command.column}
        for name, value in values.items():
            port(self._dut, command.channel, f"{bus}__{name}").value = value
