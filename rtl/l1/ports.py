"""What the users of the L1 cache and the cache say to each other."""

from __future__ import annotations

from amaranth.lib import data

from rtl.l1.geometry import L1Geometry


class RequestLayout(data.StructLayout):
    """What is wanted of a beat.

    Fields
    ------
    beat
        Number of the beat.
    write
        To write it; otherwise to read.
    data
        What is written.
    enable
        Bytes that are written, or that matter to who reads: the others of the answer are anything.
    """

    def __init__(self, geometry: L1Geometry) -> None:
        super().__init__(
            {
                "beat": geometry.beat_bits,
                "write": 1,
                "data": 8 * geometry.beat_bytes,
                "enable": geometry.beat_bytes,
            }
        )


class AnswerLayout(data.StructLayout):
    """A beat that was read: ``data``, and ``error`` if any byte that matters is poison."""

    def __init__(self, geometry: L1Geometry) -> None:
        super().__init__({"data": 8 * geometry.beat_bytes, "error": 1})


class RangeLayout(data.StructLayout):
    """Lines that are to leave the cache: all that a run of beats touches.

    Fields
    ------
    first, last
        Numbers of the first and of the last beat.
    flush
        To write what was changed to memory before; otherwise it is lost.
    """

    def __init__(self, geometry: L1Geometry) -> None:
        super().__init__({"first": geometry.beat_bits, "last": geometry.beat_bits, "flush": 1})


class EntryLayout(data.StructLayout):
    """What a request asks of the lines, once it is known where they are.

    Fields
    ------
    place, beat
        Where: the line, and the beat in it.
    evict
        First write the bytes of a mask, of what has been in this place, to memory.
    fill
        Then take a line from memory.
    masked
        Of that, leave out the bytes of a mask: they were written since.
    read, write
        Then read the beat, or write to it.
    depends
        Some byte that matters is as it was in memory.
    """

    def __init__(self, geometry: L1Geometry) -> None:
        super().__init__(
            {
                "place": geometry.place_bits,
                "beat": 1,
                "evict": 1,
                "fill": 1,
                "masked": 1,
                "read": 1,
                "write": 1,
                "depends": 1,
            }
        )


class UpdateLayout(data.StructLayout):
    """What is written to a beat: ``data``, and an ``enable`` per byte."""

    def __init__(self, geometry: L1Geometry) -> None:
        super().__init__({"data": 8 * geometry.beat_bytes, "enable": geometry.beat_bytes})


class MaskLayout(data.StructLayout):
    """Which bytes of a line were ``dirty``."""

    def __init__(self, geometry: L1Geometry) -> None:
        super().__init__({"dirty": geometry.line_bytes})
