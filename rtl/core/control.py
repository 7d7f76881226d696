"""The core's registers: what a host says to it, and what it says."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from rtl.config import TileConfig
from rtl.core.core import COUNTERS, Cause
from rtl.core.fields import WORD_BITS
from rtl.core.program import LINE_WORDS, PC_BITS
from rtl.counters import Counter, step_signature
from rtl.registers import Access, Field, Register, RegisterBlock, RegisterBus, RegisterMap

_CAUSES = ", ".join(f"{cause.value} {cause.name.lower()}" for cause in Cause)


def registers(config: TileConfig) -> tuple[Register, ...]:
    """Return the registers of the core."""
    window = config.issue_window
    line_bits = ceil_log2(config.program_bytes // (4 * LINE_WORDS))
    return (
        Register(
            "control",
            "what the core does",
            (
                Field(
                    "start",
                    1,
                    Access.PULSE,
                    "run the program from its word 0, unless it runs or a fault ended the last one",
                ),
            ),
        ),
        Register(
            "settings",
            "what may change while no program runs",
            (
                Field(
                    "window",
                    window.bit_length(),
                    Access.READ_WRITE,
                    f"instructions that may wait for issue, 1 to {window}; 1 is in order",
                    reset=window,
                ),
                Field(
                    "prefetch",
                    1,
                    Access.READ_WRITE,
                    "stream operands before the instructions that use them are issued",
                    reset=1,
                ),
            ),
        ),
        Register(
            "status",
            "how it goes",
            (
                Field("running", 1, Access.READ, "a program runs"),
                Field("cause", 3, Access.READ, f"why the last one stopped: {_CAUSES}"),
            ),
        ),
        Register(
            "pc",
            "where the last program stopped",
            (Field("value", PC_BITS, Access.READ, "number of the word of that instruction"),),
        ),
        *(
            Register(
                f"program_{i}",
                "a line of the program that is to be stored",
                (Field("word", WORD_BITS, Access.READ_WRITE, f"word {i} of the line"),),
            )
            for i in range(LINE_WORDS)
        ),
        Register(
            "program_store",
            "store the line, while no program runs",
            (
                Field("store", 1, Access.PULSE, "do so"),
                Field("line", line_bits, Access.PULSE, f"as words {LINE_WORDS} times this and on"),
            ),
        ),
    )


class Control(wiring.Component):
    """What a host sees of the core.

    Parameters
    ----------
    config
        The configuration of the tile.
    counters
        What is counted beside the core's own events.

    Members
    -------
    bus : In
        Registers and counters, see `register_map`.
    program_write, program_address, program_data, start, limit, ahead : Out
        To the core, see `rtl.core.core.Core`.
    running, cause, pc, events : In
        From it.
    others : In
        Steps of the other counters.

    Attributes
    ----------
    register_map
        Control, status, counters.
    """

    def __init__(self, config: TileConfig, counters: tuple[Counter, ...]) -> None:
        self._counters = counters
        self.register_map = RegisterMap(
            config,
            registers(config),
            (Counter("cycles", "clock cycles since reset"), *COUNTERS, *counters),
        )
        lines = config.program_bytes // (4 * LINE_WORDS)
        super().__init__(
            {
                "bus": In(RegisterBus(self.register_map.words)),
                "program_write": Out(1),
                "program_address": Out(ceil_log2(lines)),
                "program_data": Out(WORD_BITS * LINE_WORDS),
                "start": Out(1),
                "limit": Out(range(config.issue_window + 1)),
                "ahead": Out(1),
                "running": In(1),
                "cause": In(Cause),
                "pc": In(PC_BITS),
                "events": In(step_signature(COUNTERS)),
                "others": In(step_signature(counters)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the registers."""
        m = Module()
        m.submodules.registers = block = RegisterBlock(self.register_map)
        connect(m, flipped(self.bus), block.bus)
        m.d.comb += [
            self.start.eq(block.control.start),
            self.limit.eq(block.settings.window),
            self.ahead.eq(block.settings.prefetch),
            self.program_write.eq(block.program_store.store & ~self.running),
            self.program_address.eq(block.program_store.line),
            self.program_data.eq(
                Cat(getattr(block, f"program_{i}").word for i in range(LINE_WORDS))
            ),
            block.status.running.eq(self.running),
            block.status.cause.eq(self.cause),
            block.pc.value.eq(self.pc),
            block.step.cycles.eq(1),
            *(getattr(block.step, c.name).eq(getattr(self.events, c.name)) for c in COUNTERS),
            *(getattr(block.step, c.name).eq(getattr(self.others, c.name)) for c in self._counters),
        ]
        return m
