"""A host that nobody here wrote, cocotbext-axi's, on the AXI port of a design with memory."""

from __future__ import annotations

import random
from typing import Any

from cocotb.triggers import gather
from cocotbext.axi import AxiBus, AxiMaster, AxiResp

from rtl.config import TileConfig
from rtl.host.burst import bus_bytes
from sim.hbm.beats import UNWRITTEN
from tb.axi import AxiChecker
from tb.stream import any_pauses, never

REGION = 200
"""Beats that a worker has for itself."""


class AxiHost:
    """A manager that nobody here wrote, on the AXI port; its protocol is watched.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.
    """

    def __init__(self, dut: Any, config: TileConfig) -> None:
        self._beat, self._stride = config.beat_bytes, config.beat_stride
        self._largest = bus_bytes(config).bit_length() - 1
        self.axi = AxiMaster(AxiBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
        self.checker = AxiChecker(dut)

    def pause(self, choices: random.Random | None) -> None:
        """Choose pauses of all channels, or none."""
        write, read = self.axi.write_if, self.axi.read_if
        for channel in (
            *(write.aw_channel, write.w_channel, write.b_channel),
            *(read.ar_channel, read.r_channel),
        ):
            channel.set_pause_generator(any_pauses(choices) if choices else never())

    async def write_beats(self, first: int, data: bytes) -> None:
        """Write whole beats, several bursts at a time, and wait for all responses."""
        # Nobody may write the holes between beats.
        beat = self._beat
        size = beat if beat != self._stride else max(beat, len(data) // beat // 3 * beat)
        parts = range(0, len(data), size)
        answers = await gather(
            *(
                self.axi.write(self.address_of(first * self._beat + i), data[i : i + size])
                for i in parts
            )
        )
        assert all(answer.resp == AxiResp.OKAY for answer in answers)

    async def work(self, choices: random.Random, first: int, accesses: int) -> bytes:
        """Write and read at random places of a region, and check all that is read.

        Returns
        -------
        bytes
            What must be in the region.
        """
        image = bytearray([UNWRITTEN]) * (REGION * self._beat)

        def span() -> tuple[int, int]:
            length = choices.choice([1, 3, choices.randint(1, 64), choices.randint(1, 2500)])
            start = choices.randrange(len(image))
            whole = self._beat == self._stride
            end = len(image) if whole else (start // self._beat + 1) * self._beat
            return start, min(length, end - start)

        for _ in range(accesses):
            start, length = span()
            size = choices.randint(0, self._largest) if length < 64 else self._largest
            data = choices.randbytes(length)
            address = self.address_of(first * self._beat + start)
            answer = await self.axi.write(address, data, size=size)
            assert answer.resp == AxiResp.OKAY
            image[start : start + length] = data
            if choices.random() < 0.5:
                start, length = span()
            size = choices.randint(0, self._largest) if length < 64 else self._largest
            address = self.address_of(first * self._beat + start)
            answer = await self.axi.read(address, length, size=size)
            assert answer.resp == AxiResp.OKAY
            assert answer.data == image[start : start + length], f"{length} bytes at {start}"
        return bytes(image)

    def address_of(self, index: int) -> int:
        """Return the AXI address of a byte, counted without holes."""
        beat, offset = divmod(index, self._beat)
        return beat * self._stride + offset
