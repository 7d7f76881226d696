"""The testbench's side of an HBM slice: its timing, a way into its memory, what its checkers saw.

Works on the top module that `sim.hbm.harness.attach` makes. Memory is addressed in beats of the
slice: beat b is the 16 bytes of beat b of each pseudo-channel, the first channel's first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cocotb.triggers import Timer

from rtl.hbm.address import AddressMap
from rtl.hbm.interface import BEAT_BYTES, COLUMNS
from rtl.hbm.timing import BURST, Timing, pack
from sim.hbm.beats import from_text, to_text, with_check
from sim.hbm.harness import ACTIONS, BEAT_BITS, REPORT, TALLY
from sim.hbm.rules import RULES
from sim.hbm.secded import Bytes

DEVICE_BANKS = 16
"""Banks for which the device model has room, whatever the timing set."""


@dataclass(frozen=True)
class Report:
    """What the checker of one pseudo-channel saw since reset.

    Attributes
    ----------
    violations
        How many.
    broken
        Which rules.
    rule, bank, cycle, distance, required
        The first violation: `cycle` counts from reset; the commands were `distance` cycles apart.
    """

    violations: int
    broken: frozenset[str]
    rule: str
    bank: int
    cycle: int
    distance: int
    required: int

    def __str__(self) -> str:
        if not self.violations:
            return "no violation"
        return (
            f"{self.violations} violations of {', '.join(sorted(self.broken))}; the first in cycle "
            f"{self.cycle}: {self.rule}, bank {self.bank}, {self.distance} cycles, "
            f"{self.required} required"
        )


class HbmSlice:
    """An HBM slice in a simulation.

    Parameters
    ----------
    dut
        Top module of a harness.
    timing
        Timing set of devices and checkers; takes effect with the next reset.
    address
        Order of accesses, by default that of `AddressMap.of`.
    fatal
        End the simulation at the first violation.
    """

    def __init__(
        self, dut: Any, timing: Timing, *, address: AddressMap | None = None, fatal: bool = True
    ) -> None:
        self._dut = dut
        self.address = address or AddressMap.of(timing)
        self.channels = len(dut.hbm_report) // sum(REPORT.values())
        self.set_timing(timing.to_dict())
        dut.hbm_fatal.value = int(fatal)
        self._turn = 0
        dut.hbm_backdoor_turn.value = 0
        dut.hbm_backdoor_action.value = 0

    def set_timing(self, fields: Mapping[str, int]) -> None:
        """Give the device other run-time fields, which need not make sense; then reset."""
        self._dut.hbm_timing.value = pack(fields)

    # --- memory --------------------------------------------------------------------------------

    async def load(self, data: Bytes, beat: int = 0) -> None:
        """Write whole beats, with their check bits, from `beat` on.

        Parameters
        ----------
        data : uint8 [n * 16 * channels]
            What.
        beat
            Where.
        """
        beats = np.ascontiguousarray(data, np.uint8).reshape(-1, self.channels, BEAT_BYTES)
        places = self.places(beat + np.arange(len(beats)))
        order = np.argsort(places)
        for channel in range(self.channels):
            stored = with_check(beats[order, channel])
            self._file(channel).write_bytes(to_text(places[order], stored))
            await self._act("LOAD", channel)

    async def dump(self, count: int, beat: int = 0) -> Bytes:
        """Return `count` beats from `beat` on, as they are stored: errors are not corrected."""
        places = self.places(beat + np.arange(count))
        first, last = int(places.min()), int(places.max())
        beats = np.empty((count, self.channels, BEAT_BYTES), np.uint8)
        for channel in range(self.channels):
            await self._act("DUMP", channel, first=first, last=last)
            stored = from_text(self._file(channel).read_bytes())
            beats[:, channel] = stored[places - first, :BEAT_BYTES]
        return beats.reshape(-1)

    async def flip(self, channel: int, beat: int, *bits: int) -> None:
        """Flip stored bits of a beat of one channel: 0 to 127 of the data, then 16 check bits."""
        mask = sum(1 << bit for bit in set(bits))
        await self._act("FLIP", channel, first=int(self.places(beat)), beat=mask)

    async def peek(self, channel: int, beat: int) -> tuple[int, int]:
        """Return data and check bits of a beat of one channel."""
        await self._act("PEEK", channel, first=int(self.places(beat)))
        value = int(self._dut.hbm_backdoor_value.value.to_unsigned()) >> channel * BEAT_BITS
        value &= (1 << BEAT_BITS) - 1
        return value & ((1 << 8 * BEAT_BYTES) - 1), value >> 8 * BEAT_BYTES

    async def clear(self) -> None:
        """Make all memory unwritten."""
        for channel in range(self.channels):
            await self._act("CLEAR", channel)

    def places(self, beat: Any) -> np.ndarray:
        """Return where the device keeps beats."""
        beat = np.asarray(beat, np.int64)
        bank, row, column = self.address.locate(beat // BURST)
        return ((row * DEVICE_BANKS + bank) * COLUMNS + column) * BURST + beat % BURST

    def _file(self, channel: int) -> Path:
        return Path(f"hbm{channel}.hex")

    async def _act(
        self, action: str, channel: int, *, first: int = 0, last: int = 0, beat: int = 0
    ) -> None:
        assert beat >> BEAT_BITS == 0
        dut = self._dut
        dut.hbm_backdoor_action.value = ACTIONS.index(action)
        dut.hbm_backdoor_channel.value = channel
        dut.hbm_backdoor_first.value = first
        dut.hbm_backdoor_last.value = last
        dut.hbm_backdoor_beat.value = beat
        await Timer(1, "step")
        self._turn ^= 1
        dut.hbm_backdoor_turn.value = self._turn
        await Timer(1, "step")

    # --- what the checkers saw -----------------------------------------------------------------

    def report(self, channel: int = 0) -> Report:
        """Return what the checker of a channel saw since reset."""
        values = self._fields("hbm_report", REPORT, channel)
        mask = values.pop("broken")
        broken = frozenset(rule for i, rule in enumerate(RULES) if mask >> i & 1)
        rule = list(RULES)[values.pop("rule")]
        return Report(broken=broken, rule=rule, **values)

    def tally(self, channel: int = 0) -> dict[str, int]:
        """Return how many commands of each kind a channel got since reset."""
        return self._fields("hbm_tally", TALLY, channel)

    def check(self) -> None:
        """Fail if a rule was broken in any channel."""
        for channel in range(self.channels):
            report = self.report(channel)
            assert not report.violations, f"HBM{channel}: {report}"

    def _fields(self, port: str, widths: Mapping[str, int], channel: int) -> dict[str, int]:
        rest = int(getattr(self._dut, port).value.to_unsigned()) >> channel * sum(widths.values())
        values = {}
        for name, width in widths.items():
            values[name] = rest & ((1 << width) - 1)
            rest >>= width
        return values
