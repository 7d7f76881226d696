"""What the device stores: beats of 16 data bytes and two check bytes, and their text form."""

from __future__ import annotations

import numpy as np

from rtl.hbm.interface import BEAT_BYTES
from sim.hbm.secded import Bytes, check_bytes

STORED_BYTES = BEAT_BYTES + 2
"""Bytes of a beat in the device: data, then the check byte of each word."""

UNWRITTEN = 0xDB
"""What every byte of memory reads as until it is written; check bits are valid."""

POISON = 0xBA
"""Every byte of a beat that comes from no open row; two check bits of each word are wrong."""

_HEX = np.frombuffer(b"".join(b"%02x" % value for value in range(256)), np.uint8).reshape(256, 2)


def with_check(data: Bytes) -> Bytes:
    """Return beats as the device stores them.

    Parameters
    ----------
    data : uint8 [n, 16]
        Their data.
    """
    return np.concatenate([data, check_bytes(data.reshape(-1, 2, 8))], axis=1)


def uniform(byte: int) -> int:
    """Return the beat whose data bytes are all `byte`, as the number {check, data}."""
    beat = with_check(np.full((1, BEAT_BYTES), byte, np.uint8))
    return int.from_bytes(beat.tobytes(), "little")


UNWRITTEN_BEAT = uniform(UNWRITTEN)
POISON_BEAT = uniform(POISON) ^ 0x0303 << 8 * BEAT_BYTES


def to_text(places: np.ndarray, beats: Bytes) -> bytes:
    """Return a file for ``$readmemh`` that puts beats at places in the device.

    Parameters
    ----------
    places : int [n]
        Where, in ascending order.
    beats : uint8 [n, 18]
        What.
    """
    lines = np.full((len(beats), 2 * STORED_BYTES + 1), ord("\n"), np.uint8)
    lines[:, :-1] = _HEX[beats[:, ::-1]].reshape(len(beats), -1)
    starts = np.flatnonzero(np.diff(places, prepend=-2) != 1)
    ends = [*starts[1:], len(places)]
    return b"".join(
        b"@%x\n" % places[start] + lines[start:end].tobytes()
        for start, end in zip(starts, ends, strict=True)
    )


def from_text(text: bytes) -> Bytes:
    """Return the beats of a file of ``$writememh``, as the device stores them."""
    digits = b"".join(line for line in text.split() if not line.startswith((b"@", b"//")))
    return np.frombuffer(bytes.fromhex(digits.decode()), np.uint8).reshape(-1, STORED_BYTES)[
        :, ::-1
    ]
