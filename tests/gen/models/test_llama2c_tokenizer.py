"""The tokenizer of llama2.c, on pieces where every rule of run.c shows."""

from __future__ import annotations

import pytest

from gen.models.errors import ModelError
from gen.models.llama2c_tokenizer import Llama2cTokenizer
from tests.gen.models.samples import PIECES, write_llama2c_tokenizer

BYTES = {bytes([byte]): 3 + byte for byte in range(256)}
TOKENS = {text: 259 + index for index, text in enumerate(PIECES)}


@pytest.fixture
def tokenizer(tmp_path):
    write_llama2c_tokenizer(tmp_path / "tok.bin")
    return Llama2cTokenizer.load(tmp_path / "tok.bin", 270)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("a", [" a"]),  # a space goes in front
        ("abc", [" a", "bc"]),  # " a" (-3) is better than "bc" (-4), and "abc" never comes up
        ("babc", [" ", "b", "abc"]),  # "bc" first, then "abc" (-1)
        ("aaa", [" a", "aa"]),  # of equals the first
        ("é", [" ", "é"]),
        (" a", [" ", " a"]),
    ],
)
def test_merging(tokenizer, text, pieces):
    assert tokenizer.encode(text) == [TOKENS[piece] for piece in pieces]


def test_unknown_characters_become_bytes(tokenizer):
    expected = [TOKENS[" "], *(BYTES[bytes([byte])] for byte in "€".encode())]
    assert tokenizer.encode("€") == expected
    assert tokenizer.decode([1, *expected]) == "€"
    assert tokenizer.decode([1, *expected[:-1]]) == "�"


def test_the_space_goes_after_begin_only(tokenizer):
    a = TOKENS[" a"]
    assert tokenizer.decode([1, a, a]) == "a a"
    assert tokenizer.decode([a, a]) == " a a"
    assert tokenizer.begin == (1,)
    assert tokenizer.end == {1, 2}


@pytest.mark.parametrize("text", ["a", "abc abc", "€uro bébé", "line\nline", "  two", "🙂"])
def test_round_trip(tokenizer, text):
    assert tokenizer.decode([1, *tokenizer.encode(text)]) == text


def test_state(tokenizer):
    copy = Llama2cTokenizer.from_state(tokenizer.state())
    assert (copy.pieces, copy.scores) == (tokenizer.pieces, tokenizer.scores)


@pytest.mark.parametrize("vocabulary", [269, 271])
def test_another_vocabulary_is_refused(tmp_path, vocabulary):
    write_llama2c_tokenizer(tmp_path / "tok.bin")
    with pytest.raises(ModelError, match=f"tok.bin is not a llama2.c tokenizer of {vocabulary} to"):
        Llama2cTokenizer.load(tmp_path / "tok.bin", vocabulary)


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\0" * 8 + b"\xff" * 20])
def test_other_files_are_refused(tmp_path, data):
    (tmp_path / "tok.bin").write_bytes(data)
    with pytest.raises(ModelError, match=r"is not a llama2\.c tokenizer of 2 to"):
        Llama2cTokenizer.load(tmp_path / "tok.bin", 2)


@pytest.mark.parametrize("token", [-1, 270])
def test_unknown_tokens_are_refused(tokenizer, token):
    with pytest.raises(ModelError, match=f"token is {token}; it must be 0 to 269."):
        tokenizer.decode([token])
