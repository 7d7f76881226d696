"""What the host port is to the HBM slice: one of its clients."""

from __future__ import annotations

from rtl.config import TileConfig
from rtl.hbm.ports import (
    ADDRESS_BITS,
    AnswerLayout,
    ClientSignature,
    DescriptorLayout,
    ReadBeatLayout,
    WriteBeatLayout,
    find_client,
)

__all__ = [
    "ADDRESS_BITS",
    "AnswerLayout",
    "DescriptorLayout",
    "ReadBeatLayout",
    "WriteBeatLayout",
    "find_client",
    "signature",
]


def signature(config: TileConfig) -> ClientSignature:
    """Return the port of the host."""
    return ClientSignature(find_client(config, "host"), config.pseudo_channels)
