"""Instructions as hardware sees them: fields where they are in the encoding."""

from __future__ import annotations

from amaranth.hdl import signed, unsigned
from amaranth.lib import data

from rtl.core.fields import OPCODE_BITS, WORD_BITS, Field, Kind
from rtl.core.isa import OPCODES


def placed(name: str) -> list[tuple[Field, int]]:
    """Return the fields of an instruction, each with the number of its lowest bit."""
    at, found = OPCODE_BITS, []
    for field in OPCODES[name].fields:
        found.append((field, at))
        at += field.width
    return found


class InstructionLayout(data.FlexibleLayout):
    """The fields of an instruction where they are in its encoding, as an engine gets them.

    Scalar registers have been read, so that every value is a number; vector registers have been
    renamed.

    Parameters
    ----------
    name
        Mnemonic.
    """

    def __init__(self, name: str) -> None:
        fields = {"opcode": data.Field(unsigned(OPCODE_BITS), 0)}
        for field, at in placed(name):
            shape = signed(field.bits) if field.signed else unsigned(field.bits)
            # The lowest bit of a value has said whether it was in a register.
            fields[field.name] = data.Field(shape, at + (field.kind is Kind.VALUE))
        super().__init__(WORD_BITS * OPCODES[name].words, fields)
