"""Models in the form of the ``transformers`` library: GPT-OSS, Mixtral and Llama.

A model is a directory with ``config.json``, one or more ``.safetensors`` files and, where there is
text to work on, ``tokenizer.json``. Numbers in bfloat16 and float16 become float32, exactly.
Experts that a GPT-OSS checkpoint stores as MXFP4 keep their codes and scales. What is not supported
is refused; nothing is left out in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (lets safetensors return bfloat16)
import numpy as np
import safetensors
from numpy.typing import NDArray

from gen.models.errors import ModelError
from gen.models.huggingface_config import Config
from gen.models.huggingface_tokenizer import HuggingFaceTokenizer
from gen.models.model import (
    Attention,
    Expert,
    FeedForward,
    Floats,
    Gate,
    Layer,
    Linear,
    Model,
    Router,
    RouterKind,
    Weights,
)
from gen.models.parts import attention, linear
from gen.mx import from_gptoss
from rtl.formats import BLOCK

Tensors = Mapping[str, NDArray[Any]]


def from_state_dict(config: Mapping[str, Any], tensors: Tensors, name: str = "model") -> Model:
    """Return a model from what ``config.json`` says and the tensors of the checkpoint.

    Parameters
    ----------
    config
        Contents of ``config.json``.
    tensors
        By the names that the ``transformers`` library gives them. Those of MXFP4 blocks and scales
        are uint8, all others of a floating-point type of at most 32 bits.
    name
        Of the model.

    Raises
    ------
    ModelError
        The architecture is not supported; or a tensor is missing, is not known, or has a type or a
        shape that it cannot have.
    """
    parsed = Config.parse(config)
    weights = _Weights(tensors)
    width, vocabulary = parsed.hidden_size, parsed.vocab_size
    embedding = weights.floats("model.embed_tokens.weight", vocabulary, width)
    if parsed.tie_word_embeddings:
        weights.ignore("lm_head.weight")
        head = embedding
    else:
        head = weights.floats("lm_head.weight", vocabulary, width)
    model = Model(
        name=name,
        embedding=embedding,
        layers=tuple(_layer(weights, parsed, index) for index in range(parsed.num_hidden_layers)),
        norm=weights.floats("model.norm.weight", width),
        head=linear(head),
        rope=parsed.rope(),
        eps=np.float32(parsed.rms_norm_eps),
    )
    weights.finish(parsed.model_type)
    return model


def load(
    directory: Path, tokenizer: Path | None = None
) -> tuple[Model, HuggingFaceTokenizer | None]:
    """Read a model and, if there is one, its tokenizer.

    Parameters
    ----------
    directory
        With ``config.json`` and ``.safetensors`` files.
    tokenizer
        A ``tokenizer.json`` elsewhere.

    Raises
    ------
    ModelError
        A file is missing or cannot be read, or `from_state_dict` refuses what is in it.
    """
    config = _json(directory / "config.json")
    try:
        model = from_state_dict(config, _Shards(directory), directory.resolve().name)
    except ModelError as error:
        raise ModelError(f"{directory}: {error}") from None
    file = tokenizer or directory / "tokenizer.json"
    if tokenizer is None and not file.exists():
        return model, None
    end = _end_tokens(directory / "config.json") | _end_tokens(directory / "generation_config.json")
    return model, HuggingFaceTokenizer.load(file, end)


def _layer(weights: _Weights, config: Config, index: int) -> Layer:
    prefix = f"model.layers.{index}"
    width = config.hidden_size
    feed_forward = _FEED_FORWARDS[config.model_type]
    return Layer(
        attention_norm=weights.floats(f"{prefix}.input_layernorm.weight", width),
        attention=_attention(weights, config, index, f"{prefix}.self_attn"),
        feed_forward_norm=weights.floats(f"{prefix}.post_attention_layernorm.weight", width),
        feed_forward=feed_forward(weights, config, prefix),
    )


def _attention(weights: _Weights, config: Config, index: int, prefix: str) -> Attention:
    width, queries = config.hidden_size, config.num_attention_heads * config.head
    keys = config.kv_heads * config.head
    sinks = None
    if config.model_type == "gpt_oss":
        sinks = weights.floats(f"{prefix}.sinks", config.num_attention_heads)
    return attention(
        weights.linear(f"{prefix}.q_proj", queries, width),
        weights.linear(f"{prefix}.k_proj", keys, width),
        weights.linear(f"{prefix}.v_proj", keys, width),
        weights.linear(f"{prefix}.o_proj", width, queries),
        head=config.head,
        window=config.window(index),
        sinks=sinks,
    )


def _llama(weights: _Weights, config: Config, prefix: str) -> FeedForward:
    width, inner = config.hidden_size, config.intermediate_size
    expert = Expert(
        gate=weights.linear(f"{prefix}.mlp.gate_proj", inner, width),
        up=weights.linear(f"{prefix}.mlp.up_proj", inner, width),
        down=weights.linear(f"{prefix}.mlp.down_proj", width, inner),
    )
    return FeedForward((expert,))


def _mixtral(weights: _Weights, config: Config, prefix: str) -> FeedForward:
    width, inner = config.hidden_size, config.intermediate_size
    count = config.num_local_experts or 0
    # Published files hold one matrix per expert; the library's own state has them fused.
    place = f"{prefix}.block_sparse_moe"
    place = place if f"{place}.gate.weight" in weights else f"{prefix}.mlp"
    if f"{place}.experts.gate_up_proj" in weights:
        both = weights.floats(f"{place}.experts.gate_up_proj", count, 2 * inner, width)
        down = weights.floats(f"{place}.experts.down_proj", count, width, inner)
        experts = [
            Expert(linear(both[e, :inner]), linear(both[e, inner:]), linear(down[e]))
            for e in range(count)
        ]
    else:
        experts = [
            Expert(
                gate=weights.linear(f"{place}.experts.{e}.w1", inner, width),
                up=weights.linear(f"{place}.experts.{e}.w3", inner, width),
                down=weights.linear(f"{place}.experts.{e}.w2", width, inner),
            )
            for e in range(count)
        ]
    router = weights.linear(f"{place}.gate", count, width)
    return FeedForward(tuple(experts), router=_router(router, config))


def _gpt_oss(weights: _Weights, config: Config, prefix: str) -> FeedForward:
    width, inner = config.hidden_size, config.intermediate_size
    count = config.num_local_experts or 0
    place = f"{prefix}.mlp.experts"
    both = weights.expert_matrices(f"{place}.gate_up_proj", count, 2 * inner, width)
    down = weights.expert_matrices(f"{place}.down_proj", count, width, inner)
    both_bias = weights.floats(f"{place}.gate_up_proj_bias", count, 2 * inner)
    down_bias = weights.floats(f"{place}.down_proj_bias", count, width)
    # Rows of gate and up alternate, beginning with gate.
    experts = tuple(
        Expert(
            gate=linear(both[e][0::2], both_bias[e, 0::2]),
            up=linear(both[e][1::2], both_bias[e, 1::2]),
            down=linear(down[e], down_bias[e]),
        )
        for e in range(count)
    )
    router = weights.linear(f"{prefix}.mlp.router", count, width)
    gate = Gate(limit=np.float32(config.swiglu_limit), alpha=np.float32(config.swiglu_alpha))
    return FeedForward(experts, gate=gate, router=_router(router, config))


def _router(router: Linear, config: Config) -> Router:
    return Router(router, RouterKind.SOFTMAX, top_k=config.num_experts_per_tok or 0)


_FEED_FORWARDS = {"gpt_oss": _gpt_oss, "llama": _llama, "mixtral": _mixtral}


class _Weights:
    """Takes tensors out of a checkpoint, each checked, and knows at the end which are left.

    Parameters
    ----------
    tensors
        All there are.
    """

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def ignore(self, name: str) -> None:
        """Do without a tensor that may be there."""
        self._taken.add(name)

    def take(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a tensor as it is."""
        if name not in self._tensors:
            raise ModelError(f"the checkpoint has no tensor {name}.")
        self._taken.add(name)
        tensor = np.asarray(self._tensors[name])
        if tensor.shape != shape:
            raise ModelError(
                f"{name} has shape {list(tensor.shape)}; by config.json it must be {list(shape)}."
            )
        return tensor

    def floats(self, name: str, *shape: int) -> Floats:
        """Return a tensor of numbers as float32."""
        tensor = self.take(name, shape)
        if tensor.dtype.name not in ("float32", "float16", "bfloat16"):
            raise ModelError(
                f"{name} has the type {tensor.dtype.name}; it must be float32, float16 or bfloat16."
            )
        return tensor.astype(np.float32)

    def linear(self, name: str, outputs: int, inputs: int) -> Linear:
        """Return a matrix, with a bias if the checkpoint has one."""
        weights = self.floats(f"{name}.weight", outputs, inputs)
        bias = f"{name}.bias"
        return linear(weights, self.floats(bias, outputs) if bias in self else None)

    def expert_matrices(self, name: str, count: int, outputs: int, inputs: int) -> list[Weights]:
        """Return a matrix for each expert of GPT-OSS; MXFP4 ones stay what they are."""
        if f"{name}_blocks" not in self:
            # [inputs, outputs] in this form only.
            matrices = self.floats(name, count, inputs, outputs)
            return [np.ascontiguousarray(matrix.T) for matrix in matrices]
        if inputs % BLOCK:
            raise ModelError(
                f"{name} sums over {inputs} inputs; MXFP4 needs a multiple of {BLOCK}."
            )
        blocks = self.take(f"{name}_blocks", (count, outputs, inputs // BLOCK, BLOCK // 2))
        scales = self.take(f"{name}_scales", (count, outputs, inputs // BLOCK))
        for part, tensor in (("blocks", blocks), ("scales", scales)):
            if tensor.dtype != np.uint8:
                raise ModelError(f"{name}_{part} has the type {tensor.dtype}; it must be uint8.")
        return [from_gptoss(*pair) for pair in zip(blocks, scales, strict=True)]

    def finish(self, model_type: str) -> None:
        """Refuse a checkpoint with tensors that nobody took."""
        for name in self._tensors:
            # Old checkpoints hold RoPE's frequencies, which follow from config.json.
            if name not in self._taken and not name.endswith("rotary_emb.inv_freq"):
                raise ModelError(f"{name} is a tensor that {model_type} models do not have.")


class _Shards(Mapping[str, NDArray[Any]]):
    """The tensors of all ``.safetensors`` files of a directory, each read when it is asked for."""

    def __init__(self, directory: Path) -> None:
        index = directory / "model.safetensors.index.json"
        if index.exists():
            files = _json(index).get("weight_map")
            if not isinstance(files, dict) or not all(isinstance(f, str) for f in files.values()):
                raise ModelError(f"{index.name} has no weight_map from tensors to files.")
            names = set(files.values())
            paths = [directory / name for name in sorted(names)]
        else:
            paths = sorted(directory.glob("*.safetensors"))
        if not paths:
            raise ModelError("there is no .safetensors file.")
        self._files: dict[str, Any] = {}
        for path in paths:
            if not path.exists():
                raise ModelError(f"{path.name} is missing, which {index.name} names.")
            try:
                file = safetensors.safe_open(path, framework="np")
            except safetensors.SafetensorError as error:
                raise ModelError(f"{path.name} is damaged: {error}.") from None
            self._files |= dict.fromkeys(file.keys(), file)

    def __getitem__(self, name: str) -> NDArray[Any]:
        file = self._files[name]
        dtype = file.get_slice(name).get_dtype()
        if dtype not in ("F32", "F16", "BF16", "U8"):
            raise ModelError(f"{name} has the type {dtype}; it must be F32, F16, BF16 or U8.")
        return file.get_tensor(name)

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is missing; every Hugging Face model has one.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelError(f"{path} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object.")
    return value


def _end_tokens(path: Path) -> set[int]:
    value = _json(path).get("eos_token_id") if path.exists() else None
    tokens = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(token, int) for token in tokens):
        raise ModelError(f"{path}: eos_token_id is {json.dumps(value)}; it must be token numbers.")
    return set(tokens)
