"""Model images: every bit comes back, the bytes are always the same, damage is noticed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from gen.models import huggingface, image
from gen.models.errors import ModelError
from gen.models.formats import ModelFormats
from gen.models.glassllm import GlassTokenizer
from gen.models.glassllm import load as load_glassllm
from gen.models.huggingface_tokenizer import HuggingFaceTokenizer
from gen.models.llama2c_tokenizer import Llama2cTokenizer
from gen.models.model import Model, Router, RouterKind
from gen.models.quantised import quantise_model
from gen.mx import MXTensor
from tests.gen.models.samples import (
    CONFIGS,
    END,
    state,
    write_huggingface_tokenizer,
    write_llama2c_tokenizer,
)

ROOT = Path(__file__).parents[3]

FORMATS = [
    ModelFormats(),
    ModelFormats.from_dict({"embedding": "fp32", "attention": "mxint8/ceil", "keys": "mxfp4"}),
]


def sample(kind="gpt_oss", formats=FORMATS[0], **changes) -> Model:
    config = CONFIGS[kind] | changes
    mxfp4 = kind == "gpt_oss"
    return quantise_model(huggingface.from_state_dict(config, state(config, mxfp4=mxfp4)), formats)


def same(a, b) -> bool:
    """Whether two models are equal in every bit."""
    if dataclasses.is_dataclass(a) and not isinstance(a, MXTensor):
        return type(a) is type(b) and all(
            same(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a)
        )
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and a == b


# --- round trip ----------------------------------------------------------------------------------


@pytest.mark.parametrize("formats", FORMATS)
@pytest.mark.parametrize("kind", list(CONFIGS))
def test_every_bit_comes_back(tmp_path, kind, formats):
    model = sample(kind, formats)
    image.save(tmp_path / "m.safetensors", model, None, formats)
    found = image.load(tmp_path / "m.safetensors")
    assert same(found.model, model)
    assert not same(found.model, sample(kind, formats, rms_norm_eps=1e-6))
    assert (found.formats, found.tokenizer) == (formats, None)


def test_odd_lengths_odd_values_and_every_field(tmp_path):
    """Rows of 341 elements, signed zeros, NaN payloads, and a router with everything."""
    model = quantise_model(load_glassllm().to_model(), FORMATS[0])
    odd = model.norm.copy()
    odd[:4] = np.array([0x80000000, 0x7FC01234, 0xFF800000, 1], np.uint32).view(np.float32)
    layer = model.layers[0]
    router = Router(
        model.head, RouterKind.SIGMOID, 3, odd, groups=4, top_groups=2, scale=np.float32(0.1)
    )
    network = dataclasses.replace(
        layer.feed_forward, router=router, shared=layer.feed_forward.experts[0]
    )
    layer = dataclasses.replace(layer, feed_forward=network)
    model = dataclasses.replace(model, norm=odd, layers=(layer, *model.layers[1:]))
    image.save(tmp_path / "m.safetensors", model, None, FORMATS[0])
    assert same(image.load(tmp_path / "m.safetensors").model, model)


def tokenizers(directory: Path) -> dict:
    write_huggingface_tokenizer(directory / "tokenizer.json")
    write_llama2c_tokenizer(directory / "tok.bin")
    return {
        "glassllm": GlassTokenizer(load_glassllm().tokenizer),
        "huggingface": HuggingFaceTokenizer.load(directory / "tokenizer.json", [END]),
        "llama2c": Llama2cTokenizer.load(directory / "tok.bin", 270),
    }


@pytest.mark.parametrize("kind", ["glassllm", "huggingface", "llama2c"])
def test_the_tokenizer_comes_back(tmp_path, kind):
    tokenizer = tokenizers(tmp_path)[kind]
    image.save(tmp_path / "m.safetensors", sample("llama"), tokenizer, FORMATS[0])
    found = image.load(tmp_path / "m.safetensors").tokenizer
    assert type(found) is type(tokenizer)
    assert found.state() == tokenizer.state()
    assert (found.begin, found.end) == (tokenizer.begin, tokenizer.end)
    assert found.encode("a café") == tokenizer.encode("a café")


def test_an_image_may_be_read_by_whom_any_file_may(tmp_path):
    image.save(tmp_path / "m.safetensors", sample(), None, FORMATS[0])
    (tmp_path / "other").touch()
    modes = [path.stat().st_mode for path in tmp_path.iterdir()]
    assert len(modes) == 2
    assert len({*modes}) == 1


def test_four_bits_take_four_bits(tmp_path):
    model = sample("llama")
    image.save(tmp_path / "m.safetensors", model, None, FORMATS[0])
    arrays = safetensors.numpy.load_file(tmp_path / "m.safetensors")
    codes = arrays["model.layers.0.attention.query.weights.codes"]
    assert codes.shape == (64, 2, 16)
    weights = model.layers[0].attention.query.weights
    np.testing.assert_array_equal(codes & 15, weights.codes[..., 0::2])
    np.testing.assert_array_equal(codes >> 4, weights.codes[..., 1::2])
    np.testing.assert_array_equal(
        arrays["model.layers.0.attention.query.weights.scales"], weights.scales
    )


# --- the same bytes ------------------------------------------------------------------------------

PROGRAM = """
from pathlib import Path
import sys
from gen.models import image
from tests.gen.models.test_image import FORMATS, sample
print(image.save(Path(sys.argv[1]), sample("mixtral"), None, FORMATS[0]))
"""


def test_bytes_and_hash_are_the_same_in_every_run(tmp_path):
    results = set()
    for seed in ("0", "1", "2"):
        path = tmp_path / f"{seed}.safetensors"
        digest = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path)],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        results.add((digest, hashlib.sha256(path.read_bytes()).hexdigest()))
    assert len(results) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda model: dataclasses.replace(model, name="another"),
        lambda model: dataclasses.replace(model, eps=np.float32(1e-7)),
        lambda model: dataclasses.replace(model, norm=-model.norm),
        lambda model: dataclasses.replace(model, layers=model.layers[:1]),
    ],
)
def test_another_model_has_another_hash(tmp_path, change):
    model = sample("llama")
    path = tmp_path / "m.safetensors"
    first = image.save(path, model, None, FORMATS[0])
    assert image.save(path, model, None, FORMATS[0]) == first
    assert image.save(path, change(model), None, FORMATS[0]) != first
    assert image.save(path, model, None, FORMATS[0].replace({"keys": "mxfp4"})) != first


# --- damage --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("image") / "m.safetensors"
    config = CONFIGS["llama"] | {"num_hidden_layers": 1, "vocab_size": 5}
    model = quantise_model(huggingface.from_state_dict(config, state(config)), FORMATS[0])
    image.save(path, model, None, FORMATS[0])
    return path.read_bytes()


def refused(path: Path, data: bytes, sentence: str) -> None:
    path.write_bytes(data)
    with pytest.raises(ModelError, match=sentence) as error:
        image.load(path)
    assert str(error.value).startswith(str(path))
    assert len(str(error.value).splitlines()) == 1


def test_any_changed_byte_is_noticed(tmp_path, whole):
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(whole[:8], "little")
    places = [*range(40), *rng.integers(0, header, 300), *rng.integers(header, len(whole), 100)]
    for place in [*places, len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        refused(tmp_path / "m.safetensors", bytes(damaged), "is damaged")


@pytest.mark.parametrize("length", [0, 1, 8, 100, 5000, -1])
def test_a_cut_file_is_noticed(tmp_path, whole, length):
    refused(tmp_path / "m.safetensors", whole[:length], "is damaged")


def test_what_follows_is_noticed(tmp_path, whole):
    refused(tmp_path / "m.safetensors", whole + b"\0", "is damaged")


def rewritten(path: Path, whole: bytes, change) -> bytes:
    """Return the image with other facts, or None for no metadata."""
    path.write_bytes(whole)
    with safetensors.safe_open(path, framework="np") as file:
        facts = json.loads(file.metadata()["jalapeno"])
    arrays = safetensors.numpy.load(whole)
    change(facts, arrays)
    return safetensors.numpy.save(arrays, {"jalapeno": json.dumps(facts)})


def test_other_versions_are_refused(tmp_path, whole):
    path = tmp_path / "m.safetensors"
    for version in (0, 2, "1", None):
        data = rewritten(path, whole, lambda facts, _: facts.update(version=version))  # noqa: B023
        refused(path, data, f"is a model image of version {version}; this program reads version 1")


def test_a_tensor_more_or_less_or_another_hash_is_noticed(tmp_path, whole):
    path = tmp_path / "m.safetensors"
    for change in (
        lambda facts, arrays: arrays.pop("model.norm"),
        lambda facts, arrays: arrays.update(more=np.zeros(1, np.uint8)),
        lambda facts, arrays: facts.update(hash="0" * 64),
        lambda facts, arrays: facts.pop("hash"),
        lambda facts, arrays: facts["model"].update(name="another"),
    ):
        refused(path, rewritten(path, whole, change), "is damaged: its contents are not those")


def test_other_safetensors_are_refused(tmp_path):
    data = safetensors.numpy.save({"x": np.zeros(3, np.float32)})
    refused(tmp_path / "m.safetensors", data, "is not a model image; give the directory")
    data = safetensors.numpy.save({"x": np.zeros(3, np.float32)}, {"jalapeno": "[1]"})
    refused(tmp_path / "m.safetensors", data, "is damaged")


# --- writing -------------------------------------------------------------------------------------


def test_an_interruption_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "new folder" / "m.safetensors"
    image.save(path, sample("llama"), None, FORMATS[0])
    before = path.read_bytes()

    def interrupted(arrays, file, metadata):
        Path(file).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.numpy, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        image.save(path, sample("mixtral"), None, FORMATS[0])
    assert [file.name for file in path.parent.iterdir()] == ["m.safetensors"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["m.bin", "m", "folder.safetensors"])
def test_names_that_are_refused(tmp_path, name):
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(ModelError, match=rf"cannot be .*{name}; it must be a file called NAME\.s"):
        image.save(tmp_path / name, sample("llama"), None, FORMATS[0])
