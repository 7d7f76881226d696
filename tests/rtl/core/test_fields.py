"""Fields and instructions as values: what fits, what is refused and how, bits by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rtl.core.fields import Choice, Field, IllegalInstruction, Kind, Opcode, S


class Colour(Choice):
    RED = 0, "like a rose"
    GREEN = 1, "like grass"
    BLUE = 2, "like the sky"


NUMBER = Field("n", Kind.NUMBER, 3, "a number")
VALUE = Field("v", Kind.VALUE, 8, "a value", 7)
SIGNED = Field("w", Kind.VALUE, 13, "a signed value", 0, signed=True)
WORD = Field("word", Kind.VALUE, 32, "a word", 0)
COLOUR = Field("colour", Kind.CHOICE, 2, "a colour", Colour.GREEN, choices=Colour)
FLAG = Field("flag", Kind.FLAG, 1, "a flag", False)
SCALAR = Field("s", Kind.SCALAR, 5, "a scalar register")
ROW = Field("r", Kind.ROW, 5, "a row register")
VECTOR = Field("vec", Kind.VECTOR, 5, "a vector register", count=24)
EITHER = Field("either", Kind.REGISTER, 5, "a register")
TARGET = Field("target", Kind.TARGET, 20, "a target")
EVERY = [NUMBER, VALUE, SIGNED, WORD, COLOUR, FLAG, SCALAR, ROW, VECTOR, EITHER, TARGET]

each_field = pytest.mark.parametrize("field", EVERY, ids=lambda field: field.name)


def legal(field):
    """Values of a field: all ends of all ranges."""
    if field.kind is Kind.SCALAR:
        return [S(0), S(31)]
    if field.kind is Kind.CHOICE:
        return list(Colour)
    if field.kind is Kind.FLAG:
        return [False, True]
    numbers = [field.range.start, field.range.start + 1, 0, field.range.stop - 1]
    return [*numbers, S(0), S(1), S(31)] if field.kind is Kind.VALUE else numbers


@each_field
def test_bits_and_back(field):
    for value in legal(field):
        bits = field.pack(value)
        assert 0 <= bits < 1 << field.width
        back = field.unpack(bits)
        assert back == value
        assert type(back) is type(value)


@each_field
def test_every_other_bit_pattern_is_refused(field):
    """Decoding is the inverse of encoding, nothing more."""
    patterns = range(1 << field.width) if field.width <= 14 else [(1 << field.width) - 1, 65]
    for bits in patterns:
        try:
            value = field.unpack(bits)
        except IllegalInstruction:
            continue
        assert field.pack(value) == bits


@pytest.mark.parametrize(
    ("field", "value", "bits"),
    [
        (VALUE, 5, 0b1010),
        (VALUE, S(5), 0b1011),
        (SIGNED, -1, 0x3FFE),
        (SIGNED, -4096, 0x2000),
        (SIGNED, S(31), 0b111111),
        (WORD, 0xFFFFFFFF, 0x1FFFFFFFE),
        (COLOUR, Colour.BLUE, 2),
        (SCALAR, S(9), 9),
        (VECTOR, 23, 23),
    ],
)
def test_bits_by_hand(field, value, bits):
    assert field.pack(value) == bits
    assert field.unpack(bits) == value


def test_a_value_is_never_narrower_than_a_register():
    narrow = Field("v", Kind.VALUE, 2, "a value")
    assert narrow.width == 6
    assert narrow.unpack(narrow.pack(S(31))) == S(31)
    with pytest.raises(IllegalInstruction, match=r"^v is 4; it must be 0 to 3 or"):
        narrow.unpack(4 << 1)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        (NUMBER, 8, "n is 8; it must be 0 to 7."),
        (NUMBER, -1, "n is -1; it must be 0 to 7."),
        (NUMBER, S(1), "n is s1; it must be 0 to 7."),
        (NUMBER, 1.0, "n is 1.0; it must be 0 to 7."),
        (NUMBER, "1", "n is 1; it must be 0 to 7."),
        (VALUE, 256, "v is 256; it must be 0 to 255 or a scalar register."),
        (VALUE, S(32), "v is s32; it must be 0 to 255 or a scalar register."),
        (VALUE, S(-1), "v is s-1; it must be 0 to 255 or a scalar register."),
        (SIGNED, 4096, "w is 4096; it must be -4096 to 4095 or a scalar register."),
        (SIGNED, -4097, "w is -4097; it must be -4096 to 4095 or a scalar register."),
        (WORD, 1 << 32, "word is 4294967296; it must be 0 to 4294967295 or a scalar register."),
        (COLOUR, 3, "colour is 3; it must be red or green or blue."),
        (COLOUR, S(1), "colour is s1; it must be red or green or blue."),
        (FLAG, 2, "flag is 2; it must be 0 to 1."),
        (SCALAR, 5, "s is 5; it must be s0 to s31."),
        (SCALAR, S(32), "s is s32; it must be s0 to s31."),
        (ROW, 32, "r is 32; it must be r0 to r31."),
        (ROW, S(3), "r is s3; it must be r0 to r31."),
        (VECTOR, 24, "vec is 24; it must be v0 to v23."),
        (EITHER, 32, "either is 32; it must be 0 to 31."),
        (TARGET, 1 << 20, "target is 1048576; it must be 0 to 1048575."),
    ],
)
def test_what_cannot_stand_there_is_refused(field, value, sentence):
    with pytest.raises(IllegalInstruction) as caught:
        field.check(value)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("field", "bits", "sentence"),
    [
        (COLOUR, 3, "colour is 3; it must be red or green or blue."),
        (VECTOR, 24, "vec is 24; it must be v0 to v23."),
        (VALUE, 32 << 1 | 1, "v is s32; it must be 0 to 255 or a scalar register."),
        (WORD, (1 << 33) - 1, f"word is s{2**32 - 1}; it must be 0 to {2**32 - 1} or a scalar "
         "register."),
    ],
)  # fmt: skip
def test_bits_that_mean_nothing_are_refused(field, bits, sentence):
    with pytest.raises(IllegalInstruction) as caught:
        field.unpack(bits)
    assert str(caught.value) == sentence


def test_numpy_integers_are_integers():
    for value in (np.int64(5), np.uint8(5)):
        VALUE.check(value)
        assert VALUE.pack(value) == 10
    with pytest.raises(IllegalInstruction, match=r"v is 300; it must be 0 to 255"):
        VALUE.check(np.int64(300))


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        (NUMBER, 3, "3"), (VALUE, S(4), "s4"), (SIGNED, -5, "-5"), (WORD, 4095, "4095"),
        (WORD, 4096, "0x1000"), (COLOUR, Colour.BLUE, "blue"), (FLAG, True, "1"),
        (SCALAR, S(7), "s7"), (ROW, 8, "r8"), (VECTOR, 9, "v9"), (EITHER, 10, "10"),
    ],
)  # fmt: skip
def test_text_for_people(field, value, text):
    assert field.text(value) == text


def test_a_choice_is_a_number_with_a_meaning():
    assert Colour.GREEN == 1
    assert Colour(2) is Colour.BLUE
    assert Colour.BLUE.meaning == "like the sky"
    assert COLOUR.unpack(0) is Colour.RED


OPCODE = Opcode("paint", 0x9C, "hand", "Paints.", (NUMBER, VALUE, COLOUR, SCALAR, FLAG))


def test_the_encoding_by_hand():
    """Opcode, then 3 + 9 + 2 + 5 + 1 bits, lowest first: one word."""
    instruction = OPCODE(n=5, v=S(2), colour=Colour.BLUE, s=S(31), flag=True)
    bits = 0x9C | 5 << 8 | 0b101 << 11 | 2 << 20 | 31 << 22 | 1 << 27
    assert OPCODE.words == 1
    assert instruction.words == [bits]
    assert OPCODE.decode([bits]) == instruction
    assert str(instruction) == "paint n=5 v=s2 colour=blue s=s31 flag=1"


def test_fields_run_on_into_further_words():
    wide = Opcode("wide", 1, "hand", "Is wide.", (WORD, SIGNED))
    assert wide.words == 2
    low, high = wide(word=0x80000001, w=-1).words
    assert low == 1 | 0x80000001 << 9 & 0xFFFFFFFF
    assert high == 0x80000001 >> 23 | 0x3FFE << 9


def test_defaults_are_what_is_said_if_nothing_is():
    instruction = OPCODE(n=1, s=S(2))
    assert instruction.values == {"n": 1, "v": 7, "colour": Colour.GREEN, "s": S(2), "flag": False}
    assert str(instruction) == "paint n=1 s=s2"
    assert OPCODE(n=1, s=S(2), v=7, colour=1, flag=0) == instruction


def test_an_instruction_is_what_its_words_decode_to():
    instruction = OPCODE(n=np.int64(1), v=True, colour=2, s=S(2), flag=1)
    assert instruction == OPCODE.decode(instruction.words)
    assert [type(value) for value in instruction.values.values()] == [int, int, Colour, S, bool]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"s": S(0)}, "paint needs a n."),
        ({"n": 1, "s": S(0), "m": 2}, "paint has no field m."),
        ({"n": 9, "s": S(0)}, "In paint, n is 9; it must be 0 to 7."),
        ({"n": 1, "s": S(0), "v": None}, "paint needs a v."),
    ],
)
def test_instructions_that_are_refused(values, sentence):
    with pytest.raises(IllegalInstruction) as caught:
        OPCODE(**values)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "paint takes 1 words; the program ends after 0."),
        ([0x9C | 3 << 20], "In paint, colour is 3; it must be red or green or blue."),
        ([0x9C | 0b1000001 << 11], "In paint, v is s32; it must be 0 to 255 or a scalar register."),
        ([0x9C | 1 << 28], "In paint, bits behind the last field are not 0."),
    ],
)
def test_words_that_are_refused(words, sentence):
    with pytest.raises(IllegalInstruction) as caught:
        OPCODE.decode(words)
    assert str(caught.value) == sentence


def test_two_fields_of_one_name_are_a_mistake_of_the_table():
    with pytest.raises(AssertionError, match=r"twice has two fields of one name"):
        Opcode("twice", 2, "hand", "Is wrong.", (NUMBER, NUMBER))
