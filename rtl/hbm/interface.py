"""The bus between the controller of one pseudo-channel and its slice of the device.

Row and column commands travel on buses of their own, one command per cycle each; an ACT is
followed by a cycle in which the row bus is idle. With a command in cycle t (`rtl.hbm.timing`):

- RD: the device drives ``read`` in cycles t + CL and t + CL + 1, with ``read.valid``;
- WR: the device samples ``write`` in cycles t + WL and t + WL + 1.

Beat 0 of an access is its lower 16 bytes, and byte i of a beat is ``data[8*i:8*i+8]``. ``check``
holds a byte for each 64-bit word; on a write it is stored with its word if any byte of that is.
"""

from __future__ import annotations

import enum

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

BEAT_BYTES = 16
"""Bytes of data per cycle."""

CHECK_BITS = 16
"""Sideband bits per cycle: eight for each 64-bit word."""

ACCESS_BYTES = 32
"""Bytes of an access: two beats."""

PAGE_BYTES = 1024
"""Bytes of a row."""

COLUMNS = PAGE_BYTES // ACCESS_BYTES
"""Accesses of a row."""

COLUMN_BITS = 5
BANK_BITS = 4
ROW_BITS = 14


class RowCommand(enum.IntEnum):
    """What the row bus carries."""

    NOP = 0
    ACT = 1
    """Open ``row`` of ``bank``."""
    PRE = 2
    """Close ``bank``."""
    PREA = 3
    """Close every bank."""
    REFPB = 4
    """Refresh ``bank``, which is closed."""
    REFAB = 5
    """Refresh every bank; all are closed."""


class ColumnCommand(enum.IntEnum):
    """What the column bus carries."""

    NOP = 0
    RD = 1
    """Read ``column`` of the open row of ``bank``."""
    WR = 2
    """Write ``column`` of the open row of ``bank``."""


class PseudoChannelSignature(wiring.Signature):
    """The bus of one pseudo-channel, as its controller drives it.

    Parameters
    ----------
    row_bits
        Width of a row address.

    Members
    -------
    row : Out
        ``command``, ``bank`` and ``row``, the row bus.
    column : Out
        ``command``, ``bank`` and ``column``, the column bus.
    write : Out
        ``data``, ``enable`` (a bit per byte: 1 writes it) and ``check``.
    read : In
        ``valid``, ``data`` and ``check``; data and check mean nothing while not valid.
    """

    def __init__(self, row_bits: int = ROW_BITS) -> None:
        self.row_bits = row_bits
        super().__init__(
            {
                "row": Out(
                    wiring.Signature(
                        {"command": Out(RowCommand), "bank": Out(BANK_BITS), "row": Out(row_bits)}
                    )
                ),
                "column": Out(
                    wiring.Signature(
                        {
                            "command": Out(ColumnCommand),
                            "bank": Out(BANK_BITS),
                            "column": Out(COLUMN_BITS),
                        }
                    )
                ),
                "write": Out(
                    wiring.Signature(
                        {
                            "data": Out(8 * BEAT_BYTES),
                            "enable": Out(BEAT_BYTES),
                            "check": Out(CHECK_BITS),
                        }
                    )
                ),
                "read": In(
                    wiring.Signature(
                        {
                            "valid": Out(1),
                            "data": Out(8 * BEAT_BYTES),
                            "check": Out(CHECK_BITS),
                        }
                    )
                ),
            }
        )
