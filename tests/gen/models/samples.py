"""Small model files of every form, with random numbers in them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors.numpy
import tokenizers

LLAMA2C_HEADER = (24, 20, 2, 4, 2, 270, 16)
"""Width, inner width, layers, heads, KV heads, vocabulary and positions."""

PIECES = {" ": -9.0, "a": -9.0, "b": -9.0, "c": -9.0, "é": -9.0, " a": -3.0, "bc": -4.0,
          "ab": -5.0, "abc": -1.0, " x": -8.0, "aa": -6.0}  # fmt: skip
"""What the llama2.c tokenizer knows beside bytes, with scores."""


def write_llama2c(path: Path, header=LLAMA2C_HEADER, seed=0) -> dict[str, np.ndarray]:
    """Write a checkpoint and return its arrays, in order."""
    dim, hidden, layers, heads, kv_heads, vocabulary, positions = header
    head = dim // heads
    shapes = {
        "embedding": (abs(vocabulary), dim),
        "attention_norm": (layers, dim),
        "wq": (layers, dim, dim),
        "wk": (layers, kv_heads * head, dim),
        "wv": (layers, kv_heads * head, dim),
        "wo": (layers, dim, dim),
        "ffn_norm": (layers, dim),
        "w1": (layers, hidden, dim),
        "w2": (layers, dim, hidden),
        "w3": (layers, hidden, dim),
        "norm": (dim,),
        "real": (positions, head // 2),
        "imaginary": (positions, head // 2),
    }
    if vocabulary < 0:
        shapes["head"] = (-vocabulary, dim)
    rng = np.random.default_rng(seed)
    arrays = {name: rng.standard_normal(shape).astype("<f4") for name, shape in shapes.items()}
    path.write_bytes(
        struct.pack("<7i", *header) + b"".join(array.tobytes() for array in arrays.values())
    )
    return arrays


def write_llama2c_tokenizer(path: Path, vocabulary=LLAMA2C_HEADER[5]) -> None:
    """Write the tokenizer of that checkpoint."""
    pieces = [(b"<unk>", 0.0), (b"\n<s>\n", 0.0), (b"\n</s>\n", 0.0)]
    pieces += [(f"<0x{byte:02X}>".encode(), 0.0) for byte in range(256)]
    pieces += [(text.encode(), score) for text, score in PIECES.items()]
    assert len(pieces) == vocabulary
    path.write_bytes(
        struct.pack("<i", max(len(piece) for piece, _ in pieces))
        + b"".join(struct.pack("<fi", score, len(piece)) + piece for piece, score in pieces)
    )


COMMON = {
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 40,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}

CONFIGS = {
    "llama": COMMON | {"model_type": "llama", "tie_word_embeddings": True, "rope_theta": 5e5},
    "mixtral": COMMON
    | {
        "model_type": "mixtral",
        "num_local_experts": 3,
        "num_experts_per_tok": 2,
        "sliding_window": 7,
    },
    "gpt_oss": COMMON
    | {
        "model_type": "gpt_oss",
        "head_dim": 32,
        "num_local_experts": 3,
        "num_experts_per_tok": 2,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_theta": 150000,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 16,
        },
    },
}
"""What ``config.json`` says, by architecture."""


def state(config: dict, *, mxfp4: bool = False, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random tensors, exact in bfloat16, under the names of published checkpoints."""
    rng = np.random.default_rng(seed)

    def floats(*shape):
        values = rng.standard_normal(shape).astype(np.float32) / 4
        return values.astype(ml_dtypes.bfloat16).astype(np.float32)

    width, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim", width // config["num_attention_heads"])
    queries, keys = (config[f"num_{name}_heads"] * head for name in ("attention", "key_value"))
    kind, count = config["model_type"], config.get("num_local_experts", 0)
    tensors = {
        "model.embed_tokens.weight": floats(config["vocab_size"], width),
        "model.norm.weight": floats(width),
    }
    if not config.get("tie_word_embeddings"):
        tensors["lm_head.weight"] = floats(config["vocab_size"], width)
    for layer in range(config["num_hidden_layers"]):
        place = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{place}.{norm}.weight"] = floats(width)
        for name, outputs, inputs in (
            ("q", queries, width),
            ("k", keys, width),
            ("v", keys, width),
            ("o", width, queries),
        ):
            tensors[f"{place}.self_attn.{name}_proj.weight"] = floats(outputs, inputs)
            if kind == "gpt_oss":
                tensors[f"{place}.self_attn.{name}_proj.bias"] = floats(outputs)
        if kind == "llama":
            tensors[f"{place}.mlp.gate_proj.weight"] = floats(inner, width)
            tensors[f"{place}.mlp.up_proj.weight"] = floats(inner, width)
            tensors[f"{place}.mlp.down_proj.weight"] = floats(width, inner)
        elif kind == "mixtral":
            tensors[f"{place}.block_sparse_moe.gate.weight"] = floats(count, width)
            for e in range(count):
                expert = f"{place}.block_sparse_moe.experts.{e}"
                tensors[f"{expert}.w1.weight"] = floats(inner, width)
                tensors[f"{expert}.w2.weight"] = floats(width, inner)
                tensors[f"{expert}.w3.weight"] = floats(inner, width)
        else:
            tensors[f"{place}.self_attn.sinks"] = floats(config["num_attention_heads"])
            tensors[f"{place}.mlp.router.weight"] = floats(count, width)
            tensors[f"{place}.mlp.router.bias"] = floats(count)
            experts = f"{place}.mlp.experts"
            for name, outputs, inputs in (
                ("gate_up_proj", 2 * inner, width),
                ("down_proj", width, inner),
            ):
                tensors[f"{experts}.{name}_bias"] = floats(count, outputs)
                if mxfp4:
                    shape = (count, outputs, inputs // 32)
                    tensors[f"{experts}.{name}_blocks"] = rng.integers(
                        0, 256, (*shape, 16), np.uint8
                    )
                    tensors[f"{experts}.{name}_scales"] = rng.integers(115, 125, shape, np.uint8)
                else:
                    tensors[f"{experts}.{name}"] = floats(count, inputs, outputs)
    return tensors


def write_huggingface(
    directory: Path,
    config: dict,
    tensors: dict[str, np.ndarray],
    *,
    dtype=np.float32,
    shards: int = 1,
    tokenizer: bool = True,
) -> None:
    """Write the directory of a model."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    cast = {
        name: tensor if tensor.dtype == np.uint8 else tensor.astype(dtype)
        for name, tensor in tensors.items()
    }
    if shards == 1:
        safetensors.numpy.save_file(cast, directory / "model.safetensors")
    else:
        place = {}
        for shard in range(shards):
            file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
            part = dict(list(cast.items())[shard::shards])
            safetensors.numpy.save_file(part, directory / file)
            place |= dict.fromkeys(part, file)
        index = {"metadata": {}, "weight_map": place}
        (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    if tokenizer:
        write_huggingface_tokenizer(directory / "tokenizer.json")


def write_huggingface_tokenizer(path: Path, begin: bool = True) -> None:
    """Write a byte-level tokenizer of 260 tokens: 256 bytes, a merge, ``<s>`` and ``</s>``."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: number for number, piece in enumerate([*alphabet, "th", "the"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [("t", "h"), ("th", "e")]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    if begin:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
        )
    tokenizer.save(str(path))


BEGIN, END = 258, 259
"""Tokens of that tokenizer."""
