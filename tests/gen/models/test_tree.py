"""Dataclasses as JSON values and arrays, and back."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

import numpy as np
import pytest

from gen.models import tree
from gen.models.model import Floats, Weights
from gen.quantise import quantise
from rtl.formats import Format


class Kind(enum.StrEnum):
    ONE = "one"


@dataclass(frozen=True, eq=False)
class Leaf:
    text: str
    scale: np.float32
    values: Floats | None = None


@dataclass(frozen=True, eq=False)
class Node:
    number: int
    kind: Kind
    leaves: tuple[Leaf, ...]
    weights: Weights
    leaf: Leaf | None = None


def node(weights) -> Node:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    leaves = (Leaf("float32", np.float32(0.1)), Leaf("b", np.float32(1e-40), values))
    return Node(3, Kind.ONE, leaves, weights, leaves[1])


@pytest.mark.parametrize("fmt", [None, *Format])
def test_there_and_back(fmt):
    weights = np.linspace(-2, 2, 80, dtype=np.float32).reshape(2, 40)
    before = node(quantise(weights, fmt) if fmt else weights)
    description, arrays = tree.flatten(before, "top")
    after = tree.build(Node, json.loads(json.dumps(description)), arrays, "top")
    assert (after.number, after.kind) == (3, Kind.ONE)
    assert isinstance(after.kind, Kind)
    assert (
        np.array_equal(after.weights, before.weights)
        if fmt is None
        else (after.weights == before.weights)
    )
    first, second = after.leaves
    assert (first.text, first.values) == ("float32", None)
    assert isinstance(first.scale, np.float32)
    assert (first.scale, second.scale) == (np.float32(0.1), np.float32(1e-40))
    np.testing.assert_array_equal(second.values, before.leaves[1].values)
    np.testing.assert_array_equal(after.leaf.values, before.leaf.values)


def test_arrays_are_named_by_their_place():
    _, arrays = tree.flatten(node(quantise(np.ones((2, 40), np.float32), Format.MXFP4)), "top")
    assert {name: array.shape for name, array in arrays.items()} == {
        "top.leaves.1.values": (2, 3),
        "top.weights.codes": (2, 2, 16),
        "top.weights.scales": (2, 2),
        "top.leaf.values": (2, 3),
    }
