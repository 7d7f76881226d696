"""Recorded answers of the transformers library, as the project's own objects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from gen.models.huggingface import from_state_dict
from gen.models.model import Expert, FeedForward, Linear, Model, Router, RouterKind
from gen.models.parts import linear
from tests.references.record import FOLDER


@dataclass(frozen=True)
class Fixture:
    """One file that `tests.references.record` wrote."""

    config: dict[str, Any]
    tensors: dict[str, np.ndarray]
    arrays: dict[str, np.ndarray]

    def model(self) -> Model:
        return from_state_dict(self.config, self.tensors)

    def network(self) -> FeedForward:
        """DeepSeek-V3's mixture of experts."""
        tensors = {name: tensor.astype(np.float32) for name, tensor in self.tensors.items()}

        def shared(name: str) -> Linear:
            return linear(tensors[f"shared_experts.{name}_proj.weight"])

        both, down = tensors["experts.gate_up_proj"], tensors["experts.down_proj"]
        hidden = both.shape[1] // 2
        return FeedForward(
            tuple(
                Expert(linear(b[:hidden]), linear(b[hidden:]), linear(d))
                for b, d in zip(both, down, strict=True)
            ),
            router=Router(
                linear(tensors["gate.weight"]),
                RouterKind.SIGMOID,
                self.config["num_experts_per_tok"],
                tensors["gate.e_score_correction_bias"],
                self.config["n_group"],
                self.config["topk_group"],
                np.float32(self.config["routed_scaling_factor"]),
            ),
            shared=Expert(shared("gate"), shared("up"), shared("down")),
        )


def load(name: str) -> Fixture:
    return parse(dict(np.load(FOLDER / f"{name}.npz")))


def parse(arrays: dict[str, np.ndarray]) -> Fixture:
    """The same from arrays that have not been through a file."""
    start = "tensor/"
    tensors = {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
    others = {k: v for k, v in arrays.items() if not k.startswith(start)}
    return Fixture(json.loads(str(others.pop("config"))), tensors, others)
