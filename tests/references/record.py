"""Records what the transformers library computes, for tests that run without it.

``python -m tests.references.record`` builds tiny models with random weights (exact in float16, as
they are stored), runs them in float64 with eager attention and writes one ``.npz`` per model:

- ``config``: the contents of ``config.json``;
- ``tensor/<name>``: tensors, by the names they have in a checkpoint;
- ``tokens``, ``logits``, and ``hidden``: the residual stream before each layer;
- ``experts`` and ``weights``: the router's choices in each layer, by slot.

DeepSeek-V3 has no model here but its mixture of experts, whose ``input`` and ``output`` are kept.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "data"

TINY = {
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "attn_implementation": "eager",
    "experts_implementation": "eager",
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}

MODELS: dict[str, dict[str, Any]] = {
    "gpt_oss": TINY
    | EXPERTS
    | {
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention"],
        "swiglu_limit": 1.0,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 150000.0,
            "factor": 4.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 16,
        },
    },
    "mixtral": TINY | EXPERTS | {"sliding_window": 7},
    "llama": TINY | {"num_attention_heads": 8, "num_key_value_heads": 2},
}

DEEPSEEK = {
    "hidden_size": 32,
    "moe_intermediate_size": 24,
    "n_routed_experts": 12,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "n_shared_experts": 2,
    "routed_scaling_factor": 2.5,
}


def fill(parameters: Any, rng: np.random.Generator) -> None:
    """Overwrite parameters with random numbers of useful sizes, exact in float16."""
    import torch

    for name, parameter in parameters:
        values = rng.standard_normal(tuple(parameter.shape))
        if "norm" in name:
            values = 1 + 0.1 * values
        elif parameter.ndim > 1:
            # Experts of GPT-OSS are [inputs, outputs], everything else [outputs, inputs].
            transposed = parameter.ndim == 3 and parameter.shape[-2] in (24, 32)
            values *= parameter.shape[-2 if transposed else -1] ** -0.5
        parameter.data = torch.from_numpy(values.astype(np.float16).astype(np.float64))


def record_model(name: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the arrays of one fixture."""
    import safetensors.numpy
    import torch
    import transformers

    rng = np.random.default_rng(seed)
    configuration = transformers.AutoConfig.for_model(name, **MODELS[name])
    model = transformers.AutoModelForCausalLM.from_config(configuration).double().eval()
    fill(model.named_parameters(), rng)
    tokens = rng.integers(0, TINY["vocab_size"], 40)

    routes: list[tuple[Any, Any]] = []
    for module in model.modules():
        if type(module).__name__.endswith("TopKRouter"):
            module.register_forward_hook(lambda _m, _i, output: routes.append(output[1:]))
    with torch.no_grad():
        result = model(torch.from_numpy(tokens)[None], output_hidden_states=True)

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.loads((Path(folder) / "config.json").read_text())
        tensors = safetensors.numpy.load_file(Path(folder) / "model.safetensors")
    config.pop("transformers_version")
    arrays = {f"tensor/{key}": value.astype(np.float16) for key, value in tensors.items()}
    assert all(np.array_equal(arrays[f"tensor/{k}"], v) for k, v in tensors.items())
    # The library's last hidden state has been through the last norm; the logits stand for it.
    arrays["hidden"] = torch.cat(result.hidden_states[:-1]).numpy()
    arrays["logits"] = result.logits[0].numpy()
    if routes:
        arrays["weights"], arrays["experts"] = (
            torch.stack(part).numpy() for part in zip(*routes, strict=True)
        )
    return {"config": np.array(json.dumps(config)), "tokens": tokens, **arrays}


def record_deepseek(seed: int = 0) -> dict[str, np.ndarray]:
    """Return the arrays of the fixture for DeepSeek-V3's mixture of experts."""
    import torch
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as library

    rng = np.random.default_rng(seed)
    configuration = library.DeepseekV3Config(**DEEPSEEK)
    configuration._experts_implementation = "eager"
    network = library.DeepseekV3MoE(configuration).double().eval()
    fill(network.named_parameters(), rng)
    correction = (0.3 * rng.standard_normal(12)).astype(np.float16)
    network.gate.e_score_correction_bias = torch.from_numpy(correction.astype(np.float64))
    x = rng.standard_normal((50, 32)).astype(np.float16)
    with torch.no_grad():
        inputs = torch.from_numpy(x.astype(np.float64))
        _, weights, experts = network.gate(inputs)
        output = network(inputs[None])[0]
    state = {k: v.numpy().astype(np.float16) for k, v in network.state_dict().items()}
    return {
        "config": np.array(json.dumps(DEEPSEEK)),
        "input": x,
        "output": output.numpy(),
        "weights": weights.numpy(),
        "experts": experts.numpy(),
        **{f"tensor/{name}": value for name, value in state.items()},
    }


def record(name: str) -> dict[str, np.ndarray]:
    """Return the arrays of one fixture, by name."""
    return record_deepseek() if name == "deepseek_v3" else record_model(name)


NAMES = [*MODELS, "deepseek_v3"]
"""Of the fixtures."""


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for fixture in NAMES:
        np.savez_compressed(FOLDER / f"{fixture}.npz", **record(fixture))
