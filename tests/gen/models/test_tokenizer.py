"""Prompts, and text that grows by whole characters."""

from __future__ import annotations

import pytest

from gen.models.errors import ModelError
from gen.models.huggingface_tokenizer import HuggingFaceTokenizer
from gen.models.tokenizer import TextStream, prompt_tokens
from tests.gen.models.samples import BEGIN, write_huggingface_tokenizer


@pytest.fixture
def tokenizer(tmp_path):
    write_huggingface_tokenizer(tmp_path / "tokenizer.json")
    return HuggingFaceTokenizer.load(tmp_path / "tokenizer.json")


def test_a_prompt_begins_with_begin(tokenizer):
    assert prompt_tokens(tokenizer, "the") == [BEGIN, 257]
    assert prompt_tokens(tokenizer, "") == [BEGIN]


def test_an_empty_prompt_is_refused_where_nothing_begins_it(tmp_path):
    write_huggingface_tokenizer(tmp_path / "tokenizer.json", begin=False)
    tokenizer = HuggingFaceTokenizer.load(tmp_path / "tokenizer.json")
    with pytest.raises(ModelError, match="The prompt is empty"):
        prompt_tokens(tokenizer, "")


def test_a_prompt_that_is_no_text_is_refused(tokenizer):
    with pytest.raises(ModelError, match="The prompt is not text"):
        prompt_tokens(tokenizer, "\udcff")


@pytest.mark.parametrize("before", ["", "é", "the "])
def test_a_stream_gives_whole_characters(tokenizer, before):
    tokens = tokenizer.encode("né €🙂 the")
    stream = TextStream(tokenizer, [BEGIN, *tokenizer.encode(before)])
    parts = [stream.push(token) for token in tokens]
    assert "".join(parts) == "né €🙂 the"
    assert stream.finish() == ""
    assert all("\ufffd" not in part for part in parts)
    assert parts[:3] == ["n", "", "é"]


def test_what_is_never_completed_comes_last(tokenizer):
    stream = TextStream(tokenizer)
    assert [stream.push(token) for token in tokenizer.encode("a€")[:-1]] == ["a", "", ""]
    assert stream.finish() == "\ufffd"
