"""What the host port is to the HBM slice: one of its clients."""

from __future__ import annotations

from rtl.config import TileConfig
from rtl.hbm.ports import (
    ADDRESS_BITS,
    AnswerLayout,
    Client,
    ClientSignature,
    DescriptorLayout,
    ReadBeatLayout,
    WriteBeatLayout,
    clients,
)

__all__ = [
    "ADDRESS_BITS",
    "AnswerLayout",
    "DescriptorLayout",
    "ReadBeatLayout",
    "WriteBeatLayout",
    "client",
    "signature",
]


def client(config: TileConfig) -> Client:
    """Return the host among the clients of the slice."""
    return next(client for client in clients(config) if client.name == "host")


def signature(config: TileConfig) -> ClientSignature:
    """Return the port of the host."""
    return ClientSignature(client(config), config.pseudo_channels)
