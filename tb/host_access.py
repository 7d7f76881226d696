"""A host at the memory port of a tile: it reads and writes bytes, and else costs no time.

The managers of `tb.axi` and of cocotbext-axi look at the bus in every cycle, which would take
longer than a program that runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from cocotb.triggers import RisingEdge

from gen.mx import Bytes
from rtl.host.burst import Kind, Response

MOST = 256
"""Transfers of a burst."""

PAGE = 4096
"""No burst leaves its 4 KiB."""


class HostAccess:
    """Read and write memory, one burst after the other.

    Parameters
    ----------
    dut
        The design.
    beat, stride
        Bytes of a beat, and of the address space that it takes: the width of the bus.
    prefix
        What the names of its ports start with.
    """

    def __init__(self, dut: Any, beat: int, stride: int, prefix: str = "s_axi") -> None:
        self._edge = RisingEdge(dut.clk)
        self._beat, self._stride = beat, stride
        self._port = lambda name: getattr(dut, f"{prefix}_{name}")
        for name in ("awvalid", "wvalid", "arvalid", "bready", "rready"):
            self._port(name).value = 0

    async def write(self, address: int, data: Bytes) -> None:
        """Write bytes from an address on."""
        beats, enable = self._spread(address, data)
        for first, count in self._bursts(address // self._stride, len(beats)):
            at = first - address // self._stride
            await self._address("aw", first, count)
            for i in range(at, at + count):
                await self._send(
                    "w",
                    data=int.from_bytes(beats[i].tobytes(), "little"),
                    strb=sum(int(bit) << n for n, bit in enumerate(enable[i])),
                    last=int(i == at + count - 1),
                )
            self._check(await self._receive("b", "resp"), first)

    async def read(self, address: int, size: int) -> Bytes:
        """Read bytes from an address on."""
        begin = address % self._stride
        count = -(-(begin + size) // self._beat)
        beats = np.empty((count, self._beat), np.uint8)
        at = 0
        for first, length in self._bursts(address // self._stride, count):
            await self._address("ar", first, length)
            for _ in range(length):
                answer = await self._receive("r", "resp", "data")
                self._check(answer, first)
                value = answer["data"].to_bytes(self._stride, "little")
                beats[at] = np.frombuffer(value, np.uint8, self._beat)
                at += 1
        return beats.reshape(-1)[begin : begin + size].copy()

    def _spread(self, address: int, data: Bytes) -> tuple[Bytes, np.ndarray]:
        """Return beats of the bus, and which of their bytes are written."""
        begin = address % self._stride
        count = -(-(begin + data.size) // self._beat)
        values, enable = np.zeros((2, count * self._beat), np.uint8)
        values[begin : begin + data.size] = data
        enable[begin : begin + data.size] = 1
        width = ((0, 0), (0, self._stride - self._beat))
        return np.pad(values.reshape(count, -1), width), np.pad(enable.reshape(count, -1), width)

    def _bursts(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield first beat and length of each burst."""
        page, end = PAGE // self._stride, first + count
        while first < end:
            length = min(end - first, MOST, page - first % page)
            yield first, length
            first += length

    def _check(self, answer: dict[str, int], beat: int) -> None:
        assert answer["resp"] == Response.OKAY, (
            f"the memory answers {answer['resp']} to an access at {beat * self._stride:#x}"
        )

    async def _address(self, channel: str, beat: int, length: int) -> None:
        size = self._stride.bit_length() - 1
        await self._send(
            channel,
            id=0,
            addr=beat * self._stride,
            len=length - 1,
            size=size,
            burst=Kind.INCR.value,
        )

    async def _send(self, channel: str, **fields: int) -> None:
        for name, value in fields.items():
            self._port(channel + name).value = value
        self._port(f"{channel}valid").value = 1
        await self._edge
        while not self._port(f"{channel}ready").value:
            await self._edge
        self._port(f"{channel}valid").value = 0

    async def _receive(self, channel: str, *names: str) -> dict[str, int]:
        self._port(f"{channel}ready").value = 1
        await self._edge
        while not self._port(f"{channel}valid").value:
            await self._edge
        self._port(f"{channel}ready").value = 0
        return {name: int(self._port(channel + name).value.to_unsigned()) for name in names}
