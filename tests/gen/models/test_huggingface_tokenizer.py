"""Tokenizers that the library of that name runs."""

from __future__ import annotations

import pytest

from gen.models.errors import ModelError
from gen.models.huggingface_tokenizer import HuggingFaceTokenizer
from tests.gen.models.samples import BEGIN, END, write_huggingface_tokenizer


def test_it_knows_begin_end_and_text(tmp_path):
    write_huggingface_tokenizer(tmp_path / "tokenizer.json")
    tokenizer = HuggingFaceTokenizer.load(tmp_path / "tokenizer.json", [END])
    assert (tokenizer.vocabulary, tokenizer.begin, tokenizer.end) == (260, (BEGIN,), {END})
    tokens = tokenizer.encode("the end")
    assert tokens[0] == 257
    assert tokenizer.decode([BEGIN, *tokens, END]) == "the end"


def test_without_a_template_nothing_begins_a_prompt(tmp_path):
    write_huggingface_tokenizer(tmp_path / "tokenizer.json", begin=False)
    assert HuggingFaceTokenizer.load(tmp_path / "tokenizer.json").begin == ()


def test_state(tmp_path):
    write_huggingface_tokenizer(tmp_path / "tokenizer.json")
    tokenizer = HuggingFaceTokenizer.load(tmp_path / "tokenizer.json", [END, BEGIN])
    copy = HuggingFaceTokenizer.from_state(tokenizer.state())
    assert copy.state() == tokenizer.state()
    assert copy.encode("the end") == tokenizer.encode("the end")
    assert copy.end == {BEGIN, END}


@pytest.mark.parametrize("text", ["", "{}", "[1]", "no JSON", "\ud800"])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "tokenizer.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(ModelError, match=r"tokenizer\.json is not a tokenizer\.json: ") as error:
        HuggingFaceTokenizer.load(tmp_path / "tokenizer.json")
    assert len(str(error.value).splitlines()) == 1


def test_a_missing_file_says_its_name(tmp_path):
    with pytest.raises(FileNotFoundError):
        HuggingFaceTokenizer.load(tmp_path / "tokenizer.json")
