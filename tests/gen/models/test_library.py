"""Models by name and path: each form is recognised, and what is none of them is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gen.lookup import UnknownName
from gen.models import image
from gen.models.errors import ModelError
from gen.models.formats import ModelFormats
from gen.models.library import import_model, open_model
from gen.mx import MXTensor
from rtl.formats import Format
from tests.gen.models.samples import (
    CONFIGS,
    LLAMA2C_HEADER,
    state,
    write_huggingface,
    write_llama2c,
    write_llama2c_tokenizer,
)


@pytest.fixture
def checkpoint(tmp_path):
    write_llama2c(tmp_path / "tiny.bin")
    return tmp_path / "tiny.bin"


@pytest.mark.parametrize("name", ["glassllm", "glassllm:pt"])
def test_installed_models(name):
    opened = open_model(name)
    assert opened.model.name == name
    assert isinstance(opened.model.embedding, MXTensor)
    assert opened.formats == ModelFormats()
    assert opened.tokenizer.begin == ()
    assert opened.tokenizer.vocabulary == opened.model.vocabulary


def test_importing_keeps_the_numbers(checkpoint):
    model, tokenizer = import_model(str(checkpoint))
    assert model.embedding.dtype == np.float32
    assert tokenizer is None


@pytest.mark.parametrize("name", ["tok270.bin", "tokenizer.bin"])
def test_the_tokenizer_beside_a_checkpoint_is_found(checkpoint, name):
    write_llama2c_tokenizer(checkpoint.with_name(name))
    checkpoint.with_name("token.bin").write_bytes(b"something else")
    assert open_model(str(checkpoint)).tokenizer.vocabulary == 270


def test_two_tokenizers_that_fit_are_one_too_many(checkpoint):
    for name in ("tok1.bin", "tok2.bin"):
        write_llama2c_tokenizer(checkpoint.with_name(name))
    with pytest.raises(ModelError, match=r"^tok1.bin and tok2.bin both fit .* with --tokenizer\.$"):
        open_model(str(checkpoint))
    opened = open_model(str(checkpoint), tokenizer=checkpoint.with_name("tok2.bin"))
    assert opened.tokenizer.vocabulary == 270


def test_a_tokenizer_that_does_not_fit_is_refused(checkpoint, tmp_path):
    write_llama2c_tokenizer(tmp_path / "tok.bin")
    write_llama2c(checkpoint, (*LLAMA2C_HEADER[:5], 280, 16))
    with pytest.raises(ModelError, match=r"is not a llama2\.c tokenizer of 280 tokens"):
        open_model(str(checkpoint), tokenizer=tmp_path / "tok.bin")
    assert open_model(str(checkpoint)).tokenizer is None


def test_a_hugging_face_directory(tmp_path):
    write_huggingface(tmp_path / "m", CONFIGS["gpt_oss"], state(CONFIGS["gpt_oss"]))
    opened = open_model(str(tmp_path / "m"), {"router": "mxfp4"})
    router = opened.model.layers[0].feed_forward.router
    assert router.linear.weights.format is Format.MXFP4
    assert opened.tokenizer.vocabulary == 260


def test_a_vocabulary_greater_than_the_models_is_refused(tmp_path):
    config = CONFIGS["llama"] | {"vocab_size": 100}
    write_huggingface(tmp_path / "m", config, state(config))
    with pytest.raises(ModelError, match="The tokenizer has 260 tokens; this model knows 100"):
        open_model(str(tmp_path / "m"))


def test_an_image_keeps_its_formats_unless_told_otherwise(checkpoint, tmp_path):
    opened = open_model(str(checkpoint), {"attention": "mxint8", "keys": "mxfp4"})
    path = tmp_path / "tiny.safetensors"
    image.save(path, *opened)
    again = open_model(str(path))
    assert again.formats == opened.formats
    assert again.model.embedding == opened.model.embedding
    changed = open_model(str(path), {"attention": "mxfp4", "keys": "mxint8"})
    assert changed.formats == ModelFormats()
    assert changed.model.layers[0].attention.query.weights.format is Format.MXFP4
    assert changed.model.layers[0].attention.keys.format is Format.MXINT8


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["glasllm", "none.bin", "none.safetensors", "a/b"])
def test_unknown_names_are_refused(name):
    with pytest.raises(
        UnknownName, match=re.escape(f"There is no model {name}; choose from glass")
    ):
        open_model(name)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "model.gguf").touch()
    with pytest.raises(
        ModelError, match=r"model\.gguf is not a model; give a llama2\.c checkpoint"
    ):
        open_model(str(tmp_path / "model.gguf"))
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        open_model(str(tmp_path))


def test_a_tokenizer_for_a_model_that_has_its_own_is_refused(checkpoint, tmp_path):
    with pytest.raises(ModelError, match="--tokenizer is x; glassllm has its own, so it must be"):
        open_model("glassllm", tokenizer="x")
    path = tmp_path / "tiny.safetensors"
    image.save(path, *open_model(str(checkpoint)))
    with pytest.raises(ModelError, match="--tokenizer is x; a model image has its own"):
        open_model(str(path), tokenizer="x")


def test_formats_are_checked():
    with pytest.raises(ModelError, match='keys is "mxfp8"'):
        open_model("glassllm", {"keys": "mxfp8"})
