"""A model's matrices in MX formats."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gen.models.errors import ModelError
from gen.models.formats import FP32, ModelFormats
from gen.models.model import (
    Attention,
    Expert,
    FeedForward,
    Floats,
    Layer,
    Linear,
    Model,
    Precision,
    Router,
    Weights,
)
from gen.mx import MXTensor
from gen.quantise import quantise

__all__ = ["ModelFormats", "quantise_model"]


def quantise_model(model: Model, formats: ModelFormats) -> Model:
    """Return a model with every matrix and operand in the given formats.

    A matrix that is in the right MX format already keeps its codes and scales; one in the other
    format is dequantised and quantised again.

    Parameters
    ----------
    model
        As imported, or quantised before.
    formats
        What is wanted.

    Raises
    ------
    ModelError
        The embedding is wanted in FP32, and is stored in an MX format.
    """
    return dataclasses.replace(
        model,
        embedding=_embedding(model.embedding, formats.embedding),
        layers=tuple(_layer(layer, formats) for layer in model.layers),
        head=_linear(model.head, formats.head, formats.head_inputs),
    )


def _embedding(embedding: Weights, precision: Precision | None) -> Weights:
    if precision is not None:
        return _matrix(embedding, precision)
    if isinstance(embedding, MXTensor):
        raise ModelError(
            f'embedding is "{FP32}"; this model\'s is stored as {embedding.format}, so it must be '
            "mxfp4 or mxint8."
        )
    return embedding


def _layer(layer: Layer, formats: ModelFormats) -> Layer:
    return dataclasses.replace(
        layer,
        attention=_attention(layer.attention, formats),
        feed_forward=_feed_forward(layer.feed_forward, formats),
    )


def _attention(attention: Attention, formats: ModelFormats) -> Attention:
    projections: dict[str, Any] = {
        name: _linear(getattr(attention, name), formats.attention, formats.attention_inputs)
        for name in ("query", "key", "value", "output")
    }
    operands: dict[str, Any] = {
        name: getattr(formats, name) for name in ("queries", "keys", "values", "probabilities")
    }
    return dataclasses.replace(attention, **projections, **operands)


def _feed_forward(network: FeedForward, formats: ModelFormats) -> FeedForward:
    def expert(expert: Expert) -> Expert:
        matrices = (expert.gate, expert.up, expert.down)
        return Expert(*(_linear(m, formats.experts, formats.expert_inputs) for m in matrices))

    def router(router: Router) -> Router:
        linear = _linear(router.linear, formats.router, formats.router_inputs)
        return dataclasses.replace(router, linear=linear)

    return dataclasses.replace(
        network,
        experts=tuple(map(expert, network.experts)),
        router=network.router and router(network.router),
        shared=network.shared and expert(network.shared),
    )


def _linear(linear: Linear, weights: Precision, inputs: Precision) -> Linear:
    return Linear(_matrix(linear.weights, weights), inputs, linear.bias)


def _matrix(weights: Weights, precision: Precision) -> MXTensor:
    if isinstance(weights, MXTensor):
        if weights.format is precision.format:
            return weights
        weights = _values(weights)
    return quantise(weights, precision.format, precision.rule)


def _values(tensor: MXTensor) -> Floats:
    """Return what MX numbers are worth; signs of zeros do not outlive the change of format."""
    exact = np.ldexp(tensor.elements.astype(np.float64), tensor.exponents[..., None])
    exact[tensor.nan] = np.nan
    rows = exact.reshape(*tensor.shape[:-1], -1)[..., : tensor.length]
    with np.errstate(over="ignore"):  # beyond the range of FP32 is infinite, as it should be
        return rows.astype(np.float32)
