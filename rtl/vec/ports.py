"""How registers are read and written."""

from __future__ import annotations

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.vec.geometry import REGISTER_BITS, VectorGeometry
from rtl.vec.operation import words


class LineAddressLayout(data.StructLayout):
    """A line of the vector registers.

    Members
    -------
    register : unsigned
        Physical register.
    line : unsigned
        Line in there.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__({"register": REGISTER_BITS, "line": geometry.line_bits})


class LineReadSignature(wiring.Signature):
    """A port that reads a line, seen from the reader.

    Members
    -------
    requests : Out
        Which line; the port is ready when the line can be read.
    words : In
        The line, in the cycle behind the request.
    scales : In
        The scale byte of each of its blocks.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__(
            {
                "requests": Out(stream.Signature(LineAddressLayout(geometry))),
                "words": In(words(geometry.line_words)),
                "scales": In(data.ArrayLayout(8, geometry.line_blocks)),
            }
        )


class LineWriteLayout(data.StructLayout):
    """What is written to a line.

    Members
    -------
    address : LineAddressLayout
        Where.
    words : array of unsigned(32)
        What.
    enable : unsigned
        Which words are written.
    scales : array of unsigned(8)
        Scale bytes.
    scale_enable : unsigned
        Which scale bytes are written.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__(
            {
                "address": LineAddressLayout(geometry),
                "words": words(geometry.line_words),
                "enable": geometry.line_words,
                "scales": data.ArrayLayout(8, geometry.line_blocks),
                "scale_enable": geometry.line_blocks,
            }
        )


class WordAddressLayout(data.StructLayout):
    """A word of the row registers.

    Members
    -------
    register : unsigned
        Row register.
    row : unsigned
        Row in there.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__({"register": REGISTER_BITS, "row": geometry.row_bits})


class WordReadSignature(wiring.Signature):
    """A port that reads a word of the row registers, seen from the reader.

    Members
    -------
    requests : Out
        Which word; the port is ready when it can be read.
    word : In
        The word, in the cycle behind the request.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__(
            {"requests": Out(stream.Signature(WordAddressLayout(geometry))), "word": In(32)}
        )


class WordWriteLayout(data.StructLayout):
    """What is written to a row register.

    Members
    -------
    address : WordAddressLayout
        Where.
    word : unsigned(32)
        What.
    """

    def __init__(self, geometry: VectorGeometry) -> None:
        super().__init__({"address": WordAddressLayout(geometry), "word": 32})
