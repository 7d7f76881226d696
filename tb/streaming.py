"""Testbench of the streaming engine: operands lie in HBM, registers behind the host port."""

from __future__ import annotations

import random
from typing import Any

from rtl.config import TileConfig
from rtl.hbm.address import AddressMap
from rtl.hbm.place import LOW_COLUMNS
from rtl.hbm.settings import values
from rtl.hbm.timing import Timing
from rtl.host import axi_ports, lite_ports
from rtl.mac import OperandLayout
from rtl.streaming import OPEN_CLIENTS, StreamingEngine
from tb.hbm import HbmSlice
from tb.mac import Job, MacTestbench, pack
from tb.registers import LiteManager, LiteRegisters


class StreamingTestbench(MacTestbench):
    """Says where operands are, never what they are: their beats come from memory.

    Parameters
    ----------
    dut
        Top module of a harness around the design.
    config
        Its configuration.
    timing
        HBM timing set.
    rows
        Rows of each bank that the device has.
    piece
        Beats of an operand, at most: what is longer becomes several, all over the memory. Even; 0
        for any number.

    Attributes
    ----------
    hbm
        The way into memory and to what the timing checkers saw.
    windows
        Registers by the name of their window.
    """

    OPERANDS = "operands"

    def __init__(
        self, dut: Any, config: TileConfig, timing: Timing, rows: int, piece: int = 0
    ) -> None:
        register_map = StreamingEngine(config).register_map
        manager = LiteManager(dut)
        self.windows = {
            name: LiteRegisters(manager, register_map.maps[name], offset)
            for name, offset in register_map.offsets.items()
        }
        self.timing, self._rows, self.piece = timing, rows, piece
        for name, member in (axi_ports(config) | lite_ports()).items():
            if member.flow.name == "In":
                getattr(dut, name).value = 0
        for name in OPEN_CLIENTS:
            getattr(dut, f"{name}__descriptors__valid").value = 0
        super().__init__(dut, config)
        self.hbm = HbmSlice(dut, timing, address=AddressMap.of(timing, low_columns=LOW_COLUMNS))
        self._places: dict[bytes, list[tuple[int, int]]] = {}
        self._free = 0

    def _open_registers(self) -> LiteRegisters:
        return self.windows["mac"]

    async def reset(self) -> None:
        """Reset everything but what is in memory, and set the registers for the timing set."""
        await super().reset()
        memory = self.windows["hbm"]
        await memory.write("control", 0)
        for name, value in values(self.timing).items():
            await memory.write(name, value)
        await memory.write("rows", self._rows)
        await memory.write("control", 1)

    def allot(self, beats: int) -> int:
        """Return the first beat of a part of memory that is nobody's yet, an even one."""
        first = self._free
        self._free += beats + beats % 2
        return first

    async def prepare(self, job: Job) -> None:
        """Put the operand of a job into memory, if it is not there yet."""
        operand = job.beats(self.config)
        if operand.tobytes() in self._places:
            return
        size = self.piece or len(operand)
        order = list(range(0, len(operand), size))
        places = {}
        random.Random(len(operand)).shuffle(order)
        for start in order:
            piece = operand[start : start + size]
            places[start] = self.allot(len(piece)), len(piece)
            await self.hbm.load(piece.reshape(-1), places[start][0])
        self._places[operand.tobytes()] = [places[start] for start in sorted(places)]

    def place(self, job: Job, first: int) -> None:
        """Say that the operand of a job is in memory already, from this beat on."""
        operand = job.beats(self.config)
        self._places[operand.tobytes()] = [(first, len(operand))]

    def _supply(self, job: Job) -> None:
        for first, count in self._places[job.beats(self.config).tobytes()]:
            self.operands.send(pack(OperandLayout(), address=first, beats=count))
