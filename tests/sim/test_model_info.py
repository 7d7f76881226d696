"""What is told about a model."""

from __future__ import annotations

import json

import pytest

from gen.models.errors import ModelError
from gen.models.library import open_model
from rtl.config import PRESETS, TileConfig
from sim.model_info import model_info
from tests.gen.models.samples import CONFIGS, state, write_huggingface


@pytest.fixture(scope="module")
def mixtral(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "mixtral"
    write_huggingface(directory, CONFIGS["mixtral"], state(CONFIGS["mixtral"]))
    return open_model(str(directory))


def test_shape_and_formats(mixtral):
    facts = json.loads(json.dumps(model_info(mixtral, TileConfig())))
    assert facts["model"] == "mixtral"
    assert facts["shape"] == {
        "vocabulary": 300,
        "width": 64,
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "head": 16,
        "feed_forward": 32,
        "experts": 3,
        "experts_per_token": 2,
        "shared_experts": 0,
        "context": 40,
        "window": [7],
    }
    assert facts["formats"] == mixtral.formats.to_dict()
    assert facts["stored"][-1]["parameters"] == sum(
        tensor.size for tensor in state(CONFIGS["mixtral"]).values()
    )
    assert facts["kv_bytes_per_token"] == 2 * 2 * 2 * 17  # layers, heads, keys and values


def test_roofline_is_bytes_over_beats(mixtral):
    config = PRESETS["base"]
    decode = model_info(mixtral, config, 5)["decode"]
    *parts, total = decode["moved"]
    assert total["bytes"] == sum(row["bytes"] for row in parts)
    assert total["beats"] == total["bytes"] / 32
    one, all_ = decode["roofline"]
    assert (one["tiles"], all_["tiles"]) == (1, 8)
    assert one["cycles_per_token"] == total["beats"] == 8 * all_["cycles_per_token"]
    assert one["tokens_per_second"] == pytest.approx(1e9 / total["beats"])


def test_context(mixtral):
    assert model_info(mixtral, TileConfig())["decode"]["context"] == 40
    assert model_info(open_model("glassllm"), TileConfig())["decode"]["context"] == 64
    for context in (0, 41):
        with pytest.raises(ModelError, match=f"context is {context}; for mixtral it must be 1 to"):
            model_info(mixtral, TileConfig(), context)
