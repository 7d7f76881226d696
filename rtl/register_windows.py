"""Several register maps behind one bus, each in a window of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.names import check_name
from rtl.registers import WORD_BYTES, RegisterBus, RegisterMap

WINDOW_WORDS = 128
"""Words of a window, a power of two."""


class RegisterWindows:
    """Register maps, one behind the other, each at a multiple of `WINDOW_WORDS`.

    Parameters
    ----------
    maps
        The maps by name, lower-case identifiers. In descriptions, the names of registers and
        counters start with it.

    Raises
    ------
    ValueError
        A map has more words than a window.
    """

    def __init__(self, maps: Mapping[str, RegisterMap]) -> None:
        self.maps = dict(maps)
        for name, register_map in self.maps.items():
            check_name(name, "window")
            if register_map.words > WINDOW_WORDS:
                raise ValueError(
                    f"{name} has {register_map.words} words; it must have at most {WINDOW_WORDS}."
                )

    @property
    def offsets(self) -> Mapping[str, int]:
        """Byte offset of every window, by name."""
        size = WORD_BYTES * WINDOW_WORDS
        return {name: size * number for number, name in enumerate(self.maps)}

    @property
    def words(self) -> int:
        """Words of all windows together."""
        return WINDOW_WORDS * len(self.maps)

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return registers and counters as plain JSON values."""
        described: dict[str, list[dict[str, Any]]] = {"registers": [], "counters": []}
        for window, register_map in self.maps.items():
            base = self.offsets[window]
            for kind, entries in register_map.to_dict().items():
                described[kind] += [
                    entry | {"name": f"{window}_{entry['name']}", "offset": base + entry["offset"]}
                    for entry in entries
                ]
        return described


class RegisterDecoder(wiring.Component):
    """Lead every access to the window that it is for.

    Parameters
    ----------
    windows
        What there is.
    words
        Words that can be addressed, at least those of all windows.

    Members
    -------
    bus : In
        Access by software, see `rtl.registers.RegisterBus`.
    *window* : Out
        To the register map of that name.
    """

    def __init__(self, windows: RegisterWindows, words: int) -> None:
        self._names = tuple(windows.maps)
        if words < windows.words:
            raise ValueError(f"words is {words}, the windows have {windows.words}.")
        super().__init__(
            {
                "bus": In(RegisterBus(words)),
                **{name: Out(RegisterBus(m.words)) for name, m in windows.maps.items()},
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Return the decoder; it remembers who answers the last read."""
        m = Module()
        bus = self.bus
        within = (WINDOW_WORDS - 1).bit_length()
        for number, name in enumerate(self._names):
            window = getattr(self, name)
            here, answers = Signal(name=f"{name}_here"), Signal(name=f"{name}_answers")
            # A map may have an address of fewer bits than a window: nothing is behind it.
            inside = bus.address[len(window.address) : within] == 0
            m.d.comb += [
                here.eq((bus.address[within:] == number) & inside),
                window.address.eq(bus.address),
                window.write.eq(bus.write & here),
                window.write_mask.eq(bus.write_mask),
                window.write_data.eq(bus.write_data),
                window.read.eq(bus.read & here),
            ]
            with m.If(here):
                m.d.comb += bus.mapped.eq(window.mapped)
            with m.If(bus.read):
                m.d.sync += answers.eq(here)
            with m.If(answers):
                m.d.comb += bus.read_data.eq(window.read_data)
        return m
