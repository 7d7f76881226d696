"""Access to registers and counters over a `rtl.registers.RegisterBus`."""

from __future__ import annotations

from typing import Any

from cocotb.triggers import RisingEdge

from rtl.registers import WORD_BYTES, RegisterMap


class RegisterDriver:
    """Reads and writes the words of a register map.

    Parameters
    ----------
    dut
        The design; the bus is its port ``bus``.
    register_map
        What is behind the bus.
    """

    def __init__(self, dut: Any, register_map: RegisterMap) -> None:
        self._dut = dut
        self._map = register_map
        for port in ("address", "write", "write_mask", "write_data", "read"):
            getattr(dut, f"bus__{port}").value = 0

    async def read(self, register: str) -> int:
        """Return the value of a register."""
        return await self._read(self._map.register_offsets[register])

    async def write(self, register: str, value: int) -> None:
        """Write all of a register."""
        dut = self._dut
        dut.bus__address.value = self._map.register_offsets[register] // WORD_BYTES
        dut.bus__write_data.value = value
        dut.bus__write_mask.value = 0xF
        dut.bus__write.value = 1
        await RisingEdge(dut.clk)
        dut.bus__write.value = 0

    async def counters(self) -> dict[str, int]:
        """Take a snapshot of all counters and return it."""
        await self.write("counter_control", 1)
        values = {}
        for counter in self._map.counters:
            offset = self._map.counter_offsets[counter.name]
            values[counter.name] = 0
            for word in range(-(-counter.bits // 32)):
                part = await self._read(offset + WORD_BYTES * word)
                values[counter.name] |= part << 32 * word
        return values

    async def _read(self, offset: int) -> int:
        dut = self._dut
        dut.bus__address.value = offset // WORD_BYTES
        dut.bus__read.value = 1
        await RisingEdge(dut.clk)
        dut.bus__read.value = 0
        await RisingEdge(dut.clk)
        return int(dut.bus__read_data.value.to_unsigned())
