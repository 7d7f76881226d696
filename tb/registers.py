"""Access to registers and counters, over a `rtl.registers.RegisterBus` or over AXI4-Lite."""

from __future__ import annotations

from typing import Any

from cocotb.triggers import Lock, RisingEdge

from rtl.registers import WORD_BYTES, RegisterMap


class RegisterDriver:
    """Reads and writes the words of a register map.

    Parameters
    ----------
    dut
        The design.
    register_map
        What is behind the bus.
    bus
        Name of the bus.
    """

    def __init__(self, dut: Any, register_map: RegisterMap, bus: str = "bus") -> None:
        self._clock = dut.clk
        self._map = register_map
        self._port = lambda name: getattr(dut, f"{bus}__{name}")
        for port in ("address", "write", "write_mask", "write_data", "read"):
            self._port(port).value = 0

    async def read(self, register: str) -> int:
        """Return the value of a register."""
        return await self._read(self._map.register_offsets[register])

    async def write(self, register: str, value: int) -> None:
        """Write all of a register."""
        await self._write(self._map.register_offsets[register], value)

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

    async def _write(self, offset: int, value: int) -> None:
        self._port("address").value = offset // WORD_BYTES
        self._port("write_data").value = value
        self._port("write_mask").value = 0xF
        self._port("write").value = 1
        await RisingEdge(self._clock)
        self._port("write").value = 0

    async def _read(self, offset: int) -> int:
        self._port("address").value = offset // WORD_BYTES
        self._port("read").value = 1
        await RisingEdge(self._clock)
        self._port("read").value = 0
        await RisingEdge(self._clock)
        return int(self._port("read_data").value.to_unsigned())


class LiteManager:
    """Reads and writes words over AXI4-Lite, one after the other.

    Parameters
    ----------
    dut
        The design.
    prefix
        What the names of its ports start with.
    """

    def __init__(self, dut: Any, prefix: str = "s_axil") -> None:
        self._clock = dut.clk
        self._port = lambda name: getattr(dut, f"{prefix}_{name}")
        self._lock = Lock()
        for name in ("awvalid", "wvalid", "arvalid", "bready", "rready"):
            self._port(name).value = 0

    async def read(self, address: int) -> int:
        """Return a word."""
        async with self._lock:
            await self._send("ar", addr=address)
            answer = await self._receive("r", "resp", "data")
        assert answer["resp"] == 0, f"no register at {address:#x}"
        return answer["data"]

    async def write(self, address: int, value: int) -> None:
        """Write a word."""
        async with self._lock:
            await self._send("aw", addr=address)
            await self._send("w", data=value, strb=0xF)
            answer = await self._receive("b", "resp")
        assert answer["resp"] == 0, f"no register at {address:#x}"

    async def _send(self, channel: str, **fields: int) -> None:
        for name, value in fields.items():
            self._port(channel + name).value = value
        self._port(f"{channel}valid").value = 1
        await RisingEdge(self._clock)
        while not self._port(f"{channel}ready").value:
            await RisingEdge(self._clock)
        self._port(f"{channel}valid").value = 0

    async def _receive(self, channel: str, *names: str) -> dict[str, int]:
        self._port(f"{channel}ready").value = 1
        await RisingEdge(self._clock)
        while not self._port(f"{channel}valid").value:
            await RisingEdge(self._clock)
        self._port(f"{channel}ready").value = 0
        return {name: int(self._port(channel + name).value.to_unsigned()) for name in names}


class LiteRegisters(RegisterDriver):
    """Reads and writes a register map in a window of an AXI4-Lite port.

    Parameters
    ----------
    manager
        Of the port.
    register_map
        What is in the window.
    base
        Byte address of the window.
    """

    def __init__(self, manager: LiteManager, register_map: RegisterMap, base: int) -> None:
        self._manager, self._map, self._base = manager, register_map, base

    async def _read(self, offset: int) -> int:
        return await self._manager.read(self._base + offset)

    async def _write(self, offset: int, value: int) -> None:
        await self._manager.write(self._base + offset, value)
