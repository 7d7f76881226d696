"""Where an access lies, in hardware; `rtl.hbm.address` says how."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from rtl.hbm.interface import BANK_BITS, COLUMN_BITS, ROW_BITS
from rtl.hbm.ports import ADDRESS_BITS

BANKS = 1 << BANK_BITS
"""Banks for which there is hardware; the geometry says how many exist."""

LOW_COLUMNS = 1
"""64 bytes stay in one bank."""

ACCESS_BITS = ADDRESS_BITS
"""Bits of the number of an access, and one more: what lies behind the last is out of range."""

WITHIN_BITS = 3
"""Bits of the number of a bank within its group."""

FINGERPRINT_BITS = 10


class GeometryLayout(data.StructLayout):
    """How many banks there are, one bit set in each field.

    Fields
    ------
    groups
        1, 2 or 4 bank groups.
    within
        1, 2, 4 or 8 banks in each.
    rows
        Rows of each bank, a number.
    """

    def __init__(self) -> None:
        super().__init__({"groups": 3, "within": 4, "rows": ROW_BITS + 1})


class SetLayout(data.StructLayout):
    """The pages that a sequential stream walks through together: one in each bank group.

    Fields
    ------
    within
        Number of the banks in their groups.
    row
        Row.
    """

    def __init__(self) -> None:
        super().__init__({"within": WITHIN_BITS, "row": ROW_BITS})


class PlaceLayout(data.StructLayout):
    """Place of an access: ``bank``, ``row``, ``column``."""

    def __init__(self) -> None:
        super().__init__({"column": COLUMN_BITS, "bank": BANK_BITS, "row": ROW_BITS})


def _shifted(value: Value, amounts: Value) -> Value:
    """Return `value` without as many low bits as the number of the bit that is set in `amounts`."""
    result = value[len(amounts) - 1 :]
    for i in reversed(range(len(amounts) - 1)):
        result = Mux(amounts[i], value[i:], result)
    return result


class Locator:
    """Split the number of an access.

    Parameters
    ----------
    m
        Where to put the hardware.
    geometry
        See `GeometryLayout`.
    access
        The number.

    Attributes
    ----------
    place
        See `PlaceLayout`.
    set_number
        Number of the set of pages.
    pages
        The set itself, see `SetLayout`.
    exists
        Whether there is such an access.
    """

    def __init__(self, m: Module, geometry: data.View, access: Value) -> None:
        low, rest = access[:LOW_COLUMNS], access[LOW_COLUMNS:]
        high_bits = COLUMN_BITS - LOW_COLUMNS
        groups, within = geometry.groups, geometry.within
        above = Signal(len(rest))
        group = Signal(2)
        m.d.comb += [
            above.eq(_shifted(rest, groups)),
            group.eq(rest[:2] & Cat(groups[1] | groups[2], groups[2])),
        ]
        self.set_number = Signal(ACCESS_BITS - LOW_COLUMNS - high_bits)
        m.d.comb += self.set_number.eq(above[high_bits:])
        row = Signal(len(self.set_number))
        self.pages = Signal(SetLayout())
        self.place = Signal(PlaceLayout())
        self.exists = Signal()
        m.d.comb += [
            row.eq(_shifted(self.set_number, within)),
            self.pages.eq(pages(geometry, self.set_number)),
            self.exists.eq(row < geometry.rows),
            self.place.column.eq(Cat(low, above[:high_bits])),
            self.place.row.eq(row),
            self.place.bank.eq(group | _above_group(groups, self.pages.within)),
        ]


def _above_group(groups: Value, within: Value) -> Value:
    return Mux(groups[2], within << 2, Mux(groups[1], within << 1, within))


def pages(geometry: data.View, set_number: Value) -> data.View:
    """Return the set of pages with a number."""
    within = geometry.within
    mask = Cat(within[1:].any(), within[2:].any(), within[3])
    value = Cat(set_number[:WITHIN_BITS] & mask, _shifted(set_number, within)[:ROW_BITS])
    return data.View(SetLayout(), value)


def group_of(groups: Value, bank: int) -> Value:
    """Return the number of the group of a bank."""
    return Mux(groups[2], bank & 3, Mux(groups[1], bank & 1, 0))


def within_of(groups: Value, bank: int) -> Value:
    """Return the number of a bank in its group."""
    return Mux(groups[2], bank >> 2, Mux(groups[1], bank >> 1, bank))[:WITHIN_BITS]


def exists(geometry: data.View, bank: int) -> Value:
    """Return whether there is a bank of this number."""
    groups, within = geometry.groups, geometry.within
    return Cat(groups[g] & within[w] for g in range(3) for w in range(4) if bank < 1 << g + w).any()


def fingerprint(row: Value, column: Value) -> Value:
    """Return bits that are the same for the same access of a bank, and rarely for another."""
    folded = row[:5] ^ row[5:10] ^ row[10:]
    return Cat(column, folded[:5])
