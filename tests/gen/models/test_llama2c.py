"""llama2.c checkpoints: where every number ends up, and what is refused."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from gen.models import llama2c
from gen.models.errors import ModelError
from gen.models.model import Pairing
from tests.gen.models.samples import LLAMA2C_HEADER, write_llama2c


@pytest.mark.parametrize("tied", [True, False])
def test_every_array_has_its_place(tmp_path, tied):
    header = (*LLAMA2C_HEADER[:5], 270 if tied else -270, LLAMA2C_HEADER[6])
    arrays = write_llama2c(tmp_path / "tiny.bin", header)
    model = llama2c.load(tmp_path / "tiny.bin")
    assert (model.name, model.vocabulary, model.width, model.context) == ("tiny", 270, 24, 16)
    np.testing.assert_array_equal(model.embedding, arrays["embedding"])
    np.testing.assert_array_equal(model.norm, arrays["norm"])
    np.testing.assert_array_equal(model.head.weights, arrays["embedding" if tied else "head"])
    assert model.eps == np.float32(1e-5)
    assert len(model.layers) == 2
    for index, layer in enumerate(model.layers):
        attention, (expert,) = layer.attention, layer.feed_forward.experts
        for name, array in {
            "attention_norm": layer.attention_norm,
            "wq": attention.query.weights,
            "wk": attention.key.weights,
            "wv": attention.value.weights,
            "wo": attention.output.weights,
            "ffn_norm": layer.feed_forward_norm,
            "w1": expert.gate.weights,
            "w2": expert.down.weights,
            "w3": expert.up.weights,
        }.items():
            np.testing.assert_array_equal(array, arrays[name][index], err_msg=name)
        assert (attention.heads, attention.kv_heads, attention.head) == (4, 2, 6)
        assert attention.scale == np.float32(1 / np.sqrt(6))
        assert attention.window is attention.sinks is attention.query.bias is None
        assert layer.feed_forward.router is layer.feed_forward.shared is None


def test_rope_is_computed_and_not_read(tmp_path):
    write_llama2c(tmp_path / "tiny.bin")
    rope = llama2c.load(tmp_path / "tiny.bin").rope
    angle = np.arange(16)[:, None] / 10000 ** (np.arange(0, 6, 2) / 6)
    assert rope.pairing is Pairing.ADJACENT
    np.testing.assert_array_equal(rope.cos, np.cos(angle).astype(np.float32))
    np.testing.assert_array_equal(rope.sin, np.sin(angle).astype(np.float32))


def refused(path, data: bytes, sentence: str) -> None:
    path.write_bytes(data)
    with pytest.raises(ModelError, match=f"^{re.escape(f'{path} {sentence}')}"):
        llama2c.load(path)


@pytest.mark.parametrize("change", [-4, -1, 1, 4])
def test_another_length_is_refused(tmp_path, change):
    path = tmp_path / "tiny.bin"
    write_llama2c(path)
    data = path.read_bytes()
    refused(
        path,
        data[:change] if change < 0 else data + bytes(change),
        f"has {len(data) + change} bytes; a llama2.c checkpoint of dim 24, hidden_dim 20, "
        f"n_layers 2, n_heads 4, n_kv_heads 2, vocab_size 270, seq_len 16 has {len(data)}.",
    )


@pytest.mark.parametrize("version", [1, 2])
def test_later_versions_are_refused(tmp_path, version):
    data = struct.pack("<2I", 0x616B3432, version) + bytes(248)
    refused(tmp_path / "new.bin", data, f"is version {version} of the llama2.c format; only")


@pytest.mark.parametrize(
    "header",
    [
        (0, 20, 2, 4, 2, 270, 16),
        (24, -1, 2, 4, 2, 270, 16),
        (24, 20, 2, 5, 5, 270, 16),
        (24, 20, 2, 8, 2, 270, 16),
        (24, 20, 2, 4, 3, 270, 16),
        (24, 20, 2, 4, 2, 0, 16),
        (24, 20, 2, 4, 2, 270, 0),
    ],
    ids=str,
)
def test_what_cannot_be_a_header_is_refused(tmp_path, header):
    refused(tmp_path / "odd.bin", struct.pack("<7i", *header), "is not a llama2.c checkpoint")


@pytest.mark.parametrize("data", [b"", b"GGUF", bytes(27)])
def test_other_files_are_refused(tmp_path, data):
    refused(tmp_path / "odd.bin", data, "is not a llama2.c checkpoint")
