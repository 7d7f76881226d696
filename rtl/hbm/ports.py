"""What the clients of an HBM slice and its controllers say to each other."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import KIB, TileConfig
from rtl.hbm.interface import BEAT_BYTES

ADDRESS_BITS = 28
"""Bits of the number of a beat."""

LENGTH_BITS = 24
"""Bits of the number of beats of a descriptor."""

POISON = 0xBA
"""Every byte of a beat that could not be read."""


@dataclass(frozen=True)
class Client:
    """Someone who reads and writes.

    Attributes
    ----------
    name
        Lower-case identifier.
    reads
        Beats that its reorder buffer holds; 0 for one that only writes.
    writes
        Whether it writes.
    """

    name: str
    reads: int
    writes: bool


def clients(config: TileConfig) -> tuple[Client, ...]:
    """Return the clients of the slice of a tile.

    The reorder buffers of the matrix stream hold 6 KiB together, but no fewer than 64 beats each,
    which a sequential stream needs.
    """
    stream_beats = max(64, 6 * KIB // BEAT_BYTES // config.pseudo_channels)
    return (
        Client("matrix", stream_beats, False),
        Client("l1", 64, True),
        Client("loads", 64, False),
        Client("stores", 0, True),
        Client("host", 64, True),
    )


def find_client(config: TileConfig, name: str) -> Client:
    """Return a client of the slice of a tile by its name."""
    return next(client for client in clients(config) if client.name == name)


class DescriptorLayout(data.StructLayout):
    """What a client wants.

    Fields
    ------
    address
        Number of the first beat.
    beats
        How many, at least one.
    write
        To write them; otherwise to read.
    """

    def __init__(self) -> None:
        super().__init__({"address": ADDRESS_BITS, "beats": LENGTH_BITS, "write": 1})


class WriteBeatLayout(data.StructLayout):
    """A beat to be written: ``data``, and an ``enable`` per byte."""

    def __init__(self, channels: int = 1) -> None:
        size = BEAT_BYTES * channels
        super().__init__({"data": 8 * size, "enable": size})


class ReadBeatLayout(data.StructLayout):
    """A beat that was read: ``data``, and ``error`` if any of it is poison."""

    def __init__(self, channels: int = 1) -> None:
        super().__init__({"data": 8 * BEAT_BYTES * channels, "error": 1})


class AnswerLayout(data.StructLayout):
    """That a write was accepted; with ``error``, beats out of range were dropped."""

    def __init__(self) -> None:
        super().__init__({"error": 1})


class ClientSignature(wiring.Signature):
    """Port of a client, as the client drives it.

    Parameters
    ----------
    client
        Whose.
    channels
        Pseudo-channels side by side.

    Members
    -------
    descriptors : Out
        What to do; in this order. See `DescriptorLayout`.
    writes : Out
        Beats of the descriptors that write. See `WriteBeatLayout`.
    answers : In
        One for every descriptor that writes, once all of it is accepted: a read whose descriptor is
        accepted from then on sees it, whosever it is. See `AnswerLayout`.
    reads : In
        Beats of the descriptors that read. See `ReadBeatLayout`.
    """

    def __init__(self, client: Client, channels: int = 1) -> None:
        members = {"descriptors": Out(stream.Signature(DescriptorLayout()))}
        if client.writes:
            members["writes"] = Out(stream.Signature(WriteBeatLayout(channels)))
            members["answers"] = In(stream.Signature(AnswerLayout()))
        if client.reads:
            members["reads"] = In(stream.Signature(ReadBeatLayout(channels)))
        super().__init__(members)
