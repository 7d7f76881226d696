"""The table as a whole, and decoding and disassembling programs by it."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from rtl.core import isa
from rtl.core.fields import OPCODE_BITS, Choice, IllegalInstruction, Kind, Opcode, S
from rtl.core.isa import BY_NUMBER, OPCODES, decode, disassemble

each_opcode = pytest.mark.parametrize("opcode", OPCODES.values(), ids=OPCODES)


def random_value(rng: random.Random, field):
    """A value of a field: often an end of its range, or a scalar register where that can be."""
    if field.kind is Kind.SCALAR or (field.kind is Kind.VALUE and rng.random() < 0.3):
        return S(rng.choice([0, 1, 31, rng.randrange(32)]))
    if field.choices is not None:
        return rng.choice(list(field.choices))
    numbers = field.range
    return rng.choice([numbers[0], numbers[-1], numbers[len(numbers) // 2], rng.choice(numbers)])


def random_instruction(rng: random.Random, opcode: Opcode):
    return opcode(**{field.name: random_value(rng, field) for field in opcode.fields})


# The table


def test_numbers_and_names_are_unique():
    assert len(BY_NUMBER) == len(OPCODES) == len(isa._TABLE)
    assert [opcode.number for opcode in OPCODES.values()] == sorted(BY_NUMBER)
    assert all(number < 1 << OPCODE_BITS for number in BY_NUMBER)
    assert OPCODES["stop"].number == 0  # memory of zeros stops


@each_opcode
def test_fields_fit_their_words_and_are_described(opcode):
    bits = OPCODE_BITS + sum(field.width for field in opcode.fields)
    assert 32 * (opcode.words - 1) < bits <= 32 * opcode.words
    assert opcode.description.endswith(".")
    for field in opcode.fields:
        assert field.description
        assert field.description == field.description.strip()
        if field.default is not None:
            field.check(field.default)


@each_opcode
def test_choices_have_room_and_meanings(opcode):
    for field in opcode.fields:
        if field.kind is Kind.CHOICE:
            assert issubclass(field.choices, Choice)
            assert [*field.choices] == list(range(len(field.choices)))
            assert field.bits == max(1, (len(field.choices) - 1).bit_length())
            assert all(choice.meaning for choice in field.choices)


def test_only_signed_fields_are_positions_and_operands_of_arithmetic():
    signed = {
        (field.name, field.bits)
        for opcode in OPCODES.values()
        for field in opcode.fields
        if field.signed
    }
    assert signed == {("b", 13), ("lo", 21), ("hi", 21)}


def test_instructions_by_hand():
    """Two encodings that follow from the page alone, to catch a table that was reordered."""
    add = OPCODES["add"](to=S(3), a=S(1), b=-2)
    assert add.words == [0x02 | 3 << 8 | 1 << 13 | (-2 & 0x1FFF) << 19]
    append = OPCODES["append"](
        source=4, block=S(9), format=1, elements=S(2), elements_offset=0x1234, scale=0x80000000
    )
    fields = [(4, 5), (9 << 1 | 1, 11), (1, 1), (2 << 1 | 1, 33), (0x1234 << 1, 33)]
    bits, at = 0x22, 8
    for value, width in [*fields, (0x80000000 << 1, 33), (0, 33)]:
        bits |= value << at
        at += width
    assert append.words == [bits >> 32 * i & 0xFFFFFFFF for i in range(5)]


# Round trips


@each_opcode
def test_random_instructions_survive_encoding(opcode):
    rng = random.Random(opcode.number)
    for _ in range(200):
        instruction = random_instruction(rng, opcode)
        words = instruction.words
        assert len(words) == opcode.words
        assert all(0 <= word < 1 << 32 for word in words)
        assert words[0] & 0xFF == opcode.number
        back = decode(words)
        assert back == instruction
        assert str(back) == str(instruction)
        assert back.words == words


@each_opcode
def test_every_value_of_every_field_at_both_ends(opcode):
    rng = random.Random(opcode.number)
    for field in opcode.fields:
        ends = [field.range[0], field.range[-1]]
        if field.kind is Kind.SCALAR:
            ends = [S(0), S(31)]
        elif field.choices is not None:
            ends = list(field.choices)
        elif field.kind is Kind.VALUE:
            ends += [S(0), S(31)]
        for end in ends:
            values = {f.name: random_value(rng, f) for f in opcode.fields} | {field.name: end}
            assert decode(opcode(**values).words).values[field.name] == end


@each_opcode
def test_values_beyond_both_ends_are_refused_by_name(opcode):
    rng = random.Random(opcode.number)
    for field in opcode.fields:
        beyond = [field.range[0] - 1, field.range[-1] + 1]
        if field.choices is not None:
            beyond = [-1, len(field.choices)]
        if field.kind is Kind.SCALAR:
            beyond = [S(32), 0]
        elif field.kind is Kind.VALUE:
            beyond.append(S(32))
        else:
            beyond.append(S(0))
        for value in beyond:
            values = {f.name: random_value(rng, f) for f in opcode.fields} | {field.name: value}
            with pytest.raises(IllegalInstruction) as caught:
                opcode(**values)
            assert str(caught.value) == (
                f"In {opcode.name}, {field.name} is {value}; it must be {field.allowed}."
            )


@each_opcode
def test_random_words_are_refused_or_are_what_they_encode(opcode):
    rng = random.Random(opcode.number)
    for _ in range(200):
        words = [rng.getrandbits(32) for _ in range(opcode.words)]
        words[0] = words[0] & ~0xFF | opcode.number
        with suppress(IllegalInstruction):
            assert decode(words).words == words


# Words that are no instruction


@pytest.mark.parametrize(
    ("words", "pc", "sentence"),
    [
        ([0xFF], 0, "0xff is no opcode."),
        ([0x0C], 0, "0x0c is no opcode."),
        ([0, 0x20], 1, "load takes 8 words; the program ends after 1."),
        ([0x01], 0, "const takes 2 words; the program ends after 1."),
        ([0, 0], 2, "pc is 2; the program has words 0 to 1."),
        ([0], -1, "pc is -1; the program has words 0 to 0."),
        ([], 0, "pc is 0; the program has no words."),
        ([0x100], 0, "In stop, bits behind the last field are not 0."),
    ],
)
def test_words_that_are_no_instruction(words, pc, sentence):
    with pytest.raises(IllegalInstruction) as caught:
        decode(words, pc)
    assert str(caught.value) == sentence


def test_a_choice_that_there_is_not():
    words = OPCODES["collective"](kind=6).words
    words[0] |= 7 << 8
    with pytest.raises(IllegalInstruction) as caught:
        decode(words)
    assert str(caught.value) == (
        "In collective, kind is 7; it must be all_gather or broadcast or reduce_scatter_sum or "
        "reduce_scatter_maximum or all_reduce_sum or all_reduce_maximum or barrier."
    )


def test_a_vector_register_that_there_is_not():
    words = OPCODES["readv"](to=S(1), source=23).words
    words[0] |= 31 << 13
    with pytest.raises(IllegalInstruction) as caught:
        decode(words)
    assert str(caught.value) == "In readv, source is 31; it must be v0 to v23."


# Programs


def test_a_program_taken_apart():
    rng = random.Random(1)
    instructions = [random_instruction(rng, rng.choice([*OPCODES.values()])) for _ in range(50)]
    words = [word for instruction in instructions for word in instruction.words]
    listing = disassemble(words)
    assert [instruction for _, instruction in listing] == instructions
    address = 0
    for at, instruction in listing:
        assert at == address
        assert decode(words, at) == instruction
        address += len(instruction.words)
    assert disassemble([]) == []


def test_a_program_with_a_bad_word_is_not_taken_apart():
    with pytest.raises(IllegalInstruction, match=r"^0xee is no opcode\.$"):
        disassemble([0, 0xEE])
