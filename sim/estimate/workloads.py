"""What is estimated: the models of the figures, and how much of each is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gen.models import glassllm, rope
from gen.models.formats import ModelFormats
from gen.models.model import (
    Expert,
    FeedForward,
    Floats,
    Gate,
    Layer,
    Linear,
    Model,
    Pairing,
    Router,
    RouterKind,
)
from gen.models.parts import attention, linear
from gen.models.quantised import quantise_model


class _Random:
    """Random matrices of a model; values do not matter to the time, routes hardly."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def floats(self, *shape: int, scale: float = 1.0) -> Floats:
        """Return normally distributed numbers."""
        return (scale * self.rng.standard_normal(shape)).astype(np.float32)

    def linear(self, outputs: int, inputs: int, bias: bool = False) -> Linear:
        """Return a matrix."""
        return linear(
            self.floats(outputs, inputs, scale=inputs**-0.5),
            self.floats(outputs, scale=0.3) if bias else None,
        )

    def expert(self, width: int, hidden: int, bias: bool = False) -> Expert:
        """Return an expert."""
        gate, up = (self.linear(hidden, width, bias) for _ in range(2))
        return Expert(gate, up, self.linear(width, hidden, bias))

    def layer(
        self, width: int, heads: int, kv_heads: int, head: int, network: FeedForward, **more: Any
    ) -> Layer:
        """Return a layer; biases wherever there are sinks."""
        bias = "sinks" in more
        sizes = (heads * head, width), (kv_heads * head, width), (kv_heads * head, width)
        projections = [self.linear(*size, bias) for size in (*sizes, (width, heads * head))]
        return Layer(
            self.floats(width),
            attention(*projections, head=head, **more),
            self.floats(width),
            network,
        )

    def model(
        self, name: str, vocabulary: int, head: int, layers: list[Layer], **more: Any
    ) -> Model:
        """Return a model."""
        width = layers[0].attention_norm.size
        pairing = more.get("pairing", Pairing.HALVES)
        return quantise_model(
            Model(
                name,
                self.floats(vocabulary, width),
                tuple(layers),
                self.floats(width),
                self.linear(vocabulary, width),
                rope.table(rope.frequencies(head, 10000.0), 128, pairing),
                np.float32(1e-5),
            ),
            ModelFormats(),
        )


def pretrained() -> Model:
    """Return glassllm, as it was published."""
    return quantise_model(glassllm.load().to_model(), ModelFormats())


def stories() -> Model:
    """Return a model of the shape of stories260K: heads of 8, rows of 64."""
    r = _Random()
    layers = [r.layer(64, 8, 4, 8, FeedForward((r.expert(64, 172),))) for _ in range(5)]
    return r.model("stories260K-shaped", 512, 8, layers, pairing=Pairing.ADJACENT)


def gptoss(width: int = 256, layers: int = 1) -> Model:
    """Return a gpt-oss-shaped layer: biases, sinks, a window, experts; and a head of 1,024.

    Parameters
    ----------
    width
        Of the residual stream, and of experts.
    layers
        How many of them.
    """
    r = _Random()
    gate = Gate(np.float32(7), np.float32(1.702))

    def layer() -> Layer:
        router = Router(r.linear(8, width, True), RouterKind.SOFTMAX, 2)
        experts = tuple(r.expert(width, width, True) for _ in range(8))
        network = FeedForward(experts, gate, router)
        return r.layer(width, 8, 2, 32, network, window=128, sinks=r.floats(8))

    return r.model("gpt-oss-shaped layer", 1024, 32, [layer() for _ in range(layers)])


WORKLOADS: Mapping[str, Callable[[], Model]] = MappingProxyType(
    {"glassllm": pretrained, "stories260K-shaped": stories, "gpt-oss-shaped layer": gptoss}
)
"""Models by name."""
