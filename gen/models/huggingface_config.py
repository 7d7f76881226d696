"""What ``config.json`` of a Hugging Face model says, as far as it is supported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gen.models import rope
from gen.models.errors import ModelError
from gen.models.model import Pairing, Rope

_THETA = {"llama": 1e4, "mixtral": 1e6, "gpt_oss": 1.5e5}
"""Where a configuration does not say it."""

Count = Annotated[int, Field(strict=True, gt=0)]
Number = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Scaling(BaseModel):
    """How RoPE is stretched; names are those of the file."""

    model_config = ConfigDict(frozen=True)

    rope_type: Literal["default", "llama3", "yarn"] = "default"
    rope_theta: Number | None = None
    factor: Number | None = None
    low_freq_factor: Number = 1
    high_freq_factor: Number = 4
    original_max_position_embeddings: Count | None = None
    beta_fast: Number = 32
    beta_slow: Number = 1
    truncate: bool = True
    attention_factor: Number | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    partial_rotary_factor: Annotated[float, Field(ge=1, le=1)] = 1


class Config(BaseModel):
    """The fields that matter; names and meanings are those of the file, others are ignored."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    model_type: Literal["gpt_oss", "llama", "mixtral"]
    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    vocab_size: Count
    max_position_embeddings: Count
    rms_norm_eps: Number
    hidden_act: Literal["silu"] = "silu"
    tie_word_embeddings: bool = False
    rope_theta: Number | None = None
    rope_scaling: Scaling | None = None
    rope_parameters: Scaling | None = None
    partial_rotary_factor: Annotated[float, Field(ge=1, le=1)] = 1
    sliding_window: Count | None = None
    layer_types: list[Literal["full_attention", "sliding_attention"]] | None = None
    num_local_experts: Count | None = None
    num_experts_per_tok: Count | None = None
    swiglu_alpha: Number = 1.702
    swiglu_limit: Number = 7.0
    quantization_config: dict[str, Any] | None = None

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Config:
        """Return the configuration in `values`.

        Raises
        ------
        ModelError
            Something is missing, or not supported; the message names the field and its value.
        """
        values = dict(values)
        for name in ("rope_scaling", "rope_parameters"):
            scaling = values.get(name)
            if isinstance(scaling, Mapping):  # what was written before it was called rope_type
                old = {"rope_type": scaling["type"]} if "type" in scaling else {}
                given = {key: value for key, value in scaling.items() if value is not None}
                values[name] = old | given
        try:
            config = cls.model_validate(values)
        except ValidationError as error:
            raise ModelError(_sentence(error)) from None
        config._check()
        return config

    @property
    def head(self) -> int:
        """Elements of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def kv_heads(self) -> int:
        """Key/value heads."""
        return self.num_key_value_heads or self.num_attention_heads

    def window(self, layer: int) -> int | None:
        """Return how many positions a layer sees, ``None`` being all."""
        if self.model_type == "llama":
            return None
        types = self.layer_types
        if types is None and self.model_type == "gpt_oss":
            types = ["sliding_attention", "full_attention"] * self.num_hidden_layers
        return None if types and types[layer] == "full_attention" else self.sliding_window

    def rope(self) -> Rope:
        """Return the tables of RoPE."""
        scaling = self.rope_parameters or self.rope_scaling
        if scaling is None and self.model_type == "gpt_oss":
            raise ModelError("config.json has no rope_scaling; every gpt_oss model has one.")
        scaling = scaling or Scaling()
        theta = scaling.rope_theta or self.rope_theta or _THETA[self.model_type]
        frequency, amplitude = rope.frequencies(self.head, theta), 1.0
        if scaling.rope_type != "default":
            factor, trained = scaling.factor, scaling.original_max_position_embeddings
            if factor is None or trained is None:
                name = "factor" if factor is None else "original_max_position_embeddings"
                raise ModelError(
                    f"config.json has no {name} for RoPE; {scaling.rope_type} scaling needs it."
                )
            if scaling.rope_type == "llama3":
                frequency = rope.llama3(
                    frequency,
                    factor=factor,
                    low=scaling.low_freq_factor,
                    high=scaling.high_freq_factor,
                    trained=trained,
                )
            else:
                frequency = rope.yarn(
                    frequency,
                    theta=theta,
                    factor=factor,
                    fast=scaling.beta_fast,
                    slow=scaling.beta_slow,
                    trained=trained,
                    truncate=scaling.truncate,
                )
                amplitude = _amplitude(scaling, factor)
        return rope.table(frequency, self.max_position_embeddings, Pairing.HALVES, amplitude)

    def _check(self) -> None:
        """Refuse what single fields cannot tell."""
        if self.num_attention_heads % self.kv_heads:
            raise ModelError(
                f"config.json: num_key_value_heads is {self.kv_heads}; it must divide "
                f"num_attention_heads, {self.num_attention_heads}."
            )
        if self.head_dim is None and self.hidden_size % self.num_attention_heads:
            raise ModelError(
                f"config.json: hidden_size is {self.hidden_size}; without head_dim it must be a "
                f"multiple of num_attention_heads, {self.num_attention_heads}."
            )
        if self.head % 2:
            raise ModelError(f"config.json: head_dim is {self.head}; RoPE needs an even number.")
        if self.layer_types is not None and len(self.layer_types) != self.num_hidden_layers:
            raise ModelError(
                f"config.json: layer_types has {len(self.layer_types)} entries; it must have one "
                f"for each of the {self.num_hidden_layers} layers."
            )
        if self.model_type != "llama":
            experts, chosen = self.num_local_experts, self.num_experts_per_tok
            if experts is None or chosen is None or chosen > experts:
                raise ModelError(
                    f"config.json: num_experts_per_tok is {chosen}; it must be 1 to "
                    f"num_local_experts, which is {experts}."
                )
        method = (self.quantization_config or {}).get("quant_method", "mxfp4")
        if method != "mxfp4" or (self.quantization_config and self.model_type != "gpt_oss"):
            raise ModelError(
                f'config.json: quant_method is "{method}" in a {self.model_type} model; only '
                "mxfp4 in gpt_oss models, and weights that are not quantised, can be imported."
            )


def _amplitude(scaling: Scaling, factor: float) -> float:
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.mscale and scaling.mscale_all_dim:
        above, below = scaling.mscale, scaling.mscale_all_dim
        return rope.yarn_amplitude(factor, above) / rope.yarn_amplitude(factor, below)
    return rope.yarn_amplitude(factor)


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"config.json has no {name}."
    value = json.dumps(first["input"], ensure_ascii=False, default=str)
    must = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"config.json: {name} is {value}; it must be {must}."
