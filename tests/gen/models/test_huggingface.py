"""Hugging Face models: where every number ends up, and what is refused."""

from __future__ import annotations

import json
import re

import ml_dtypes
import numpy as np
import pytest
import safetensors

from gen.models import huggingface
from gen.models.errors import ModelError
from gen.models.model import Pairing, RouterKind
from gen.mx import MXTensor
from rtl.formats import Format
from tests.gen.models.samples import (
    BEGIN,
    CONFIGS,
    END,
    state,
    write_huggingface,
    write_huggingface_tokenizer,
)

KINDS = list(CONFIGS)


def load(kind, **changes):
    config = CONFIGS[kind] | changes
    tensors = state(config)
    return huggingface.from_state_dict(config, tensors, kind), tensors


def same(array, expected):
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, expected)


# --- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_all_have_in_common(kind):
    model, tensors = load(kind)
    head = tensors["model.embed_tokens.weight" if kind == "llama" else "lm_head.weight"]
    assert (model.name, model.vocabulary, model.width, model.context) == (kind, 300, 64, 40)
    assert (model.eps, model.rope.pairing) == (np.float32(1e-5), Pairing.HALVES)
    same(model.embedding, tensors["model.embed_tokens.weight"])
    same(model.head.weights, head)
    same(model.norm, tensors["model.norm.weight"])
    for index, layer in enumerate(model.layers):
        place, attention = f"model.layers.{index}", layer.attention
        same(layer.attention_norm, tensors[f"{place}.input_layernorm.weight"])
        same(layer.feed_forward_norm, tensors[f"{place}.post_attention_layernorm.weight"])
        for letter, linear in {
            "q": attention.query,
            "k": attention.key,
            "v": attention.value,
            "o": attention.output,
        }.items():
            same(linear.weights, tensors[f"{place}.self_attn.{letter}_proj.weight"])
            if kind == "gpt_oss":
                same(linear.bias, tensors[f"{place}.self_attn.{letter}_proj.bias"])
            else:
                assert linear.bias is None
        assert (attention.heads, attention.kv_heads) == (4, 2)
        assert attention.head == (32 if kind == "gpt_oss" else 16)
        assert attention.scale == np.float32(attention.head**-0.5)


def test_llama():
    model, tensors = load("llama")
    (expert,) = model.layers[1].feed_forward.experts
    for name in ("gate", "up", "down"):
        same(getattr(expert, name).weights, tensors[f"model.layers.1.mlp.{name}_proj.weight"])
    assert model.layers[1].attention.window is None
    angle = 3 * 5e5 ** (-np.arange(8) / 8)
    np.testing.assert_array_equal(model.rope.cos[3], np.cos(angle).astype(np.float32))


@pytest.mark.parametrize("name", ["self_attn.q_proj", "mlp.up_proj", "mlp.down_proj"])
def test_biases_are_taken_where_there_are_such(name):
    config = CONFIGS["llama"]
    tensors = state(config)
    outputs = len(tensors[f"model.layers.0.{name}.weight"])
    tensors[f"model.layers.0.{name}.bias"] = np.arange(outputs, dtype=np.float32)
    layer = huggingface.from_state_dict(config, tensors).layers[0]
    (expert,) = layer.feed_forward.experts
    linear = {"q_proj": layer.attention.query, "up_proj": expert.up, "down_proj": expert.down}
    same(linear[name.split(".")[1]].bias, np.arange(outputs))


def test_a_tied_head_may_be_there_all_the_same():
    config = CONFIGS["llama"]
    tensors = state(config) | {"lm_head.weight": np.zeros((300, 64), np.float32)}
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(8, np.float32)
    model = huggingface.from_state_dict(config, tensors)
    assert model.head.weights is model.embedding


@pytest.mark.parametrize("fused", [False, True])
def test_mixtral(fused):
    config = CONFIGS["mixtral"]
    tensors = state(config)
    read = dict(tensors)
    if fused:  # as the library itself holds them
        for layer in range(2):
            old, new = f"model.layers.{layer}.block_sparse_moe", f"model.layers.{layer}.mlp"
            w1, w2, w3 = (
                np.stack([read.pop(f"{old}.experts.{e}.w{number}.weight") for e in range(3)])
                for number in (1, 2, 3)
            )
            read[f"{new}.gate.weight"] = read.pop(f"{old}.gate.weight")
            read[f"{new}.experts.gate_up_proj"] = np.concatenate([w1, w3], 1)
            read[f"{new}.experts.down_proj"] = w2
    for index, layer in enumerate(huggingface.from_state_dict(config, read).layers):
        network = layer.feed_forward
        place = f"model.layers.{index}.block_sparse_moe"
        assert layer.attention.window == 7
        assert (network.router.kind, network.router.top_k) == (RouterKind.SOFTMAX, 2)
        assert network.gate.limit is network.gate.alpha is network.shared is None
        same(network.router.linear.weights, tensors[f"{place}.gate.weight"])
        for number, expert in enumerate(network.experts):
            name = f"{place}.experts.{number}"
            same(expert.gate.weights, tensors[f"{name}.w1.weight"])
            same(expert.up.weights, tensors[f"{name}.w3.weight"])
            same(expert.down.weights, tensors[f"{name}.w2.weight"])


def test_gpt_oss():
    model, tensors = load("gpt_oss")
    assert [layer.attention.window for layer in model.layers] == [5, None]
    for index, layer in enumerate(model.layers):
        network, place = layer.feed_forward, f"model.layers.{index}"
        same(layer.attention.sinks, tensors[f"{place}.self_attn.sinks"])
        assert (network.gate.limit, network.gate.alpha) == (7, np.float32(1.702))
        assert (network.router.kind, network.router.top_k) == (RouterKind.SOFTMAX, 2)
        same(network.router.linear.weights, tensors[f"{place}.mlp.router.weight"])
        same(network.router.linear.bias, tensors[f"{place}.mlp.router.bias"])
        both = tensors[f"{place}.mlp.experts.gate_up_proj"]
        both_bias = tensors[f"{place}.mlp.experts.gate_up_proj_bias"]
        for e, expert in enumerate(network.experts):
            same(expert.gate.weights, both[e, :, 0::2].T)
            same(expert.up.weights, both[e, :, 1::2].T)
            same(expert.down.weights, tensors[f"{place}.mlp.experts.down_proj"][e].T)
            same(expert.gate.bias, both_bias[e, 0::2])
            same(expert.up.bias, both_bias[e, 1::2])
            same(expert.down.bias, tensors[f"{place}.mlp.experts.down_proj_bias"][e])


def test_gpt_oss_windows_alternate_where_the_configuration_does_not_say():
    model, _ = load("gpt_oss", layer_types=None, swiglu_limit=3.5)
    assert [layer.attention.window for layer in model.layers] == [5, None]
    assert model.layers[0].feed_forward.gate.limit == 3.5


def test_mxfp4_experts_keep_every_code_and_scale():
    config = CONFIGS["gpt_oss"] | {"quantization_config": {"quant_method": "mxfp4"}}
    tensors = state(config, mxfp4=True)
    model = huggingface.from_state_dict(config, tensors)
    for index, layer in enumerate(model.layers):
        place = f"model.layers.{index}.mlp.experts"
        for e, expert in enumerate(layer.feed_forward.experts):
            for name, rows, matrix in (
                ("gate_up_proj", np.s_[0::2], expert.gate.weights),
                ("gate_up_proj", np.s_[1::2], expert.up.weights),
                ("down_proj", np.s_[:], expert.down.weights),
            ):
                blocks = tensors[f"{place}.{name}_blocks"][e][rows]
                assert isinstance(matrix, MXTensor)
                assert matrix.format is Format.MXFP4
                np.testing.assert_array_equal(matrix.codes[..., 0::2], blocks & 15)
                np.testing.assert_array_equal(matrix.codes[..., 1::2], blocks >> 4)
                np.testing.assert_array_equal(
                    matrix.scales, tensors[f"{place}.{name}_scales"][e][rows]
                )


def test_rope_scaling():
    stretched = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8,
    }
    plain, _ = load("llama")
    old, _ = load("llama", rope_scaling=stretched)
    new, _ = load("llama", rope_parameters=stretched | {"rope_theta": 5e5}, rope_theta=None)
    np.testing.assert_array_equal(old.rope.cos, new.rope.cos)
    assert (old.rope.sin[1, 2:] < plain.rope.sin[1, 2:]).all()
    for kind in ({"type": "default"}, {"rope_type": "default"}, None):
        np.testing.assert_array_equal(load("llama", rope_scaling=kind)[0].rope.cos, plain.rope.cos)


@pytest.mark.parametrize(
    ("changes", "amplitude"),
    [
        ({}, 0.1 * np.log(32) + 1),
        ({"attention_factor": 1.25}, 1.25),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
    ],
)
def test_yarn_amplitude(changes, amplitude):
    scaling = CONFIGS["gpt_oss"]["rope_scaling"] | changes
    model, _ = load("gpt_oss", rope_scaling=scaling)
    np.testing.assert_array_equal(model.rope.cos[0], np.float32(amplitude))
    np.testing.assert_array_equal(model.rope.sin[0], 0)


# --- directories ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_directory_gives_what_its_tensors_do(tmp_path, dtype, shards):
    config = CONFIGS["gpt_oss"] | {"eos_token_id": END}
    tensors = state(config, mxfp4=True)
    write_huggingface(tmp_path / "my model", config, tensors, dtype=dtype, shards=shards)
    (tmp_path / "my model" / "generation_config.json").write_text('{"eos_token_id": [5, 6]}')
    model, tokenizer = huggingface.load(tmp_path / "my model")
    assert model.name == "my model"
    assert (tokenizer.begin, tokenizer.end) == ((BEGIN,), {5, 6, END})
    expected = huggingface.from_state_dict(config, tensors)
    if dtype is not np.float16:  # which has fewer exponents, but more digits
        same(model.embedding, expected.embedding)
    np.testing.assert_allclose(model.embedding, expected.embedding, atol=1e-7)
    last, wanted = (each.layers[1].feed_forward.experts[2] for each in (model, expected))
    assert last.down.weights == wanted.down.weights


def test_a_tokenizer_may_be_missing_or_elsewhere(tmp_path):
    write_huggingface(tmp_path / "m", CONFIGS["llama"], state(CONFIGS["llama"]), tokenizer=False)
    assert huggingface.load(tmp_path / "m")[1] is None
    write_huggingface_tokenizer(tmp_path / "tokenizer.json")
    assert huggingface.load(tmp_path / "m", tmp_path / "tokenizer.json")[1].vocabulary == 260


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "changes", "sentence"),
    [
        ("llama", {"model_type": "bert"}, "model_type is \"bert\"; it must be 'gpt_oss', 'llama"),
        ("llama", {"model_type": None}, "model_type is null; it must be"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act is \"gelu\"; it must be 'silu'."),
        ("llama", {"hidden_size": -1}, "hidden_size is -1; it must be greater than 0."),
        ("llama", {"hidden_size": "big"}, 'hidden_size is "big"; it must be a valid integer.'),
        ("llama", {"hidden_size": 66}, "hidden_size is 66; without head_dim it must be a mult"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads is 3; it must divide num_att"),
        ("llama", {"head_dim": 15}, "head_dim is 15; RoPE needs an even number."),
        ("llama", {"rms_norm_eps": float("nan")}, "rms_norm_eps is NaN; it must be "),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5; it must be "),
        (
            "llama",
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "rope_scaling.rope_type is \"dynamic\"; it must be 'default', 'llama3' or 'yarn'.",
        ),
        (
            "llama",
            {"rope_scaling": {"rope_type": "llama3", "original_max_position_embeddings": 8}},
            "config.json has no factor for RoPE; llama3 scaling needs it.",
        ),
        ("llama", {"rope_scaling": "linear"}, 'rope_scaling is "linear"; it must be '),
        (
            "llama",
            {"quantization_config": {"quant_method": "gptq"}},
            'quant_method is "gptq" in a llama model; only mxfp4 in gpt_oss models',
        ),
        (
            "gpt_oss",
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            'quant_method is "bitsandbytes" in a gpt_oss model',
        ),
        ("gpt_oss", {"layer_types": ["full_attention"]}, "layer_types has 1 entries; it must ha"),
        ("gpt_oss", {"layer_types": ["chunked"] * 2}, 'layer_types.0 is "chunked"; it must be '),
        ("gpt_oss", {"rope_scaling": None}, "config.json has no rope_scaling; every gpt_oss"),
        ("mixtral", {"num_experts_per_tok": 4}, "num_experts_per_tok is 4; it must be 1 to num"),
        ("mixtral", {"num_local_experts": None}, "num_experts_per_tok is 2; it must be 1 to num"),
    ],
)
def test_configurations_that_are_refused(kind, changes, sentence):
    tensors = state(CONFIGS[kind])
    with pytest.raises(ModelError, match=re.escape(sentence)) as error:
        huggingface.from_state_dict(CONFIGS[kind] | changes, tensors)
    assert str(error.value).startswith("config.json")
    assert str(error.value).endswith(".")


@pytest.mark.parametrize("name", ["hidden_size", "vocab_size", "model_type", "rms_norm_eps"])
def test_what_a_configuration_must_say(name):
    config = {field: value for field, value in CONFIGS["llama"].items() if field != name}
    with pytest.raises(ModelError, match=rf"^config\.json has no {name}\.$"):
        huggingface.from_state_dict(config, state(CONFIGS["llama"]))


def changed(kind="llama", mxfp4=False, **changes):
    """Import a model in which some tensors, named with __ for a dot, are other ones or none."""
    tensors = state(CONFIGS[kind], mxfp4=mxfp4)
    for name, tensor in changes.items():
        name = f"model.{name.replace('__', '.')}"
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    return huggingface.from_state_dict(CONFIGS[kind], tensors)


def test_tensors_that_are_refused():
    with pytest.raises(ModelError, match=r"^the checkpoint has no tensor model\.norm\.weight\.$"):
        changed(norm__weight=None)
    with pytest.raises(ModelError, match=r"norm\.weight has shape \[65\]; by config.json .* \[64"):
        changed(norm__weight=np.zeros(65, np.float32))
    with pytest.raises(ModelError, match=r"norm\.weight has the type int8; it must be float32"):
        changed(norm__weight=np.zeros(64, np.int8))
    with pytest.raises(ModelError, match=r"q_norm\.weight is a tensor that llama models do not h"):
        changed(layers__0__self_attn__q_norm__weight=np.zeros(16, np.float32))
    scales = np.zeros((3, 64, 1), np.float32)
    with pytest.raises(ModelError, match="down_proj_scales has the type float32; it must be uint8"):
        changed("gpt_oss", mxfp4=True, layers__1__mlp__experts__down_proj_scales=scales)


def test_mxfp4_needs_whole_blocks():
    config = CONFIGS["gpt_oss"] | {"intermediate_size": 48}
    with pytest.raises(ModelError, match="down_proj sums over 48 inputs; MXFP4 needs a multiple"):
        huggingface.from_state_dict(config, state(config, mxfp4=True))


def directory(tmp_path, **options):
    write_huggingface(tmp_path / "m", CONFIGS["llama"], state(CONFIGS["llama"]), **options)
    return tmp_path / "m"


def test_directories_that_are_refused(tmp_path):
    def refused(sentence):
        with pytest.raises(ModelError, match=sentence) as error:
            huggingface.load(path)
        assert len(str(error.value).splitlines()) == 1

    path = directory(tmp_path, shards=2)
    (path / "model-00002-of-00002.safetensors").unlink()
    refused("m: model-00002-of-00002.safetensors is missing, which model.safetensors.index.json n")
    (path / "model.safetensors.index.json").write_text("[]")
    refused(r"index\.json is not a JSON object")
    for text in ('{"weight_map": []}', '{"weight_map": {"x": 3}}', "{}"):
        (path / "model.safetensors.index.json").write_text(text)
        refused(r"model\.safetensors\.index\.json has no weight_map from tensors to files\.")
    (path / "model.safetensors.index.json").unlink()
    (path / "model-00001-of-00002.safetensors").unlink()
    refused("m: there is no .safetensors file.")

    path = directory(tmp_path)
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[:-10])
    refused("m: model.safetensors is damaged: ")
    (path / "model.safetensors").write_bytes(whole)
    (path / "generation_config.json").write_text('{"eos_token_id": "end"}')
    refused(r'generation_config\.json: eos_token_id is "end"; it must be token numbers\.')
    (path / "config.json").write_text("{")
    refused(r"config\.json is not JSON: ")
    (path / "config.json").unlink()
    refused(r"config\.json is missing; every Hugging Face model has one\.")


def test_types_that_numpy_does_not_have_are_refused(tmp_path):
    path = directory(tmp_path)
    data = np.zeros(64, np.uint8)
    safetensors.serialize_file(
        {
            "model.embed_tokens.weight": safetensors.TensorSpec(
                dtype="float8_e4m3fn", shape=[64], data_ptr=data.ctypes.data, data_len=64
            )
        },
        path / "model.safetensors",
    )
    with pytest.raises(ModelError, match=r"weight has the type F8_E4M3; it must be F32, F16, BF16"):
        huggingface.load(path)


def test_configurations_are_as_json_gives_them():
    """The samples survive JSON, so what the tests say holds for files."""
    assert json.loads(json.dumps(CONFIGS)) == CONFIGS
