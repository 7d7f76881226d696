"""A model as JSON values and named arrays, and back: what `gen.models.image` puts into a file.

The dataclasses of `gen.models.model` say themselves what is in them, so nothing here knows them: a
field that is added there is stored here. Arrays are named by where they are
(``layers.0.attention.query.bias``); MX tensors become two, packed as gpt-oss checkpoints have them.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.mx import MXTensor, pack_nibbles, unpack_nibbles
from rtl.formats import Format

Arrays = dict[str, NDArray[Any]]

_FLOATS = "float32"
"""Stands for an array in the description."""


def flatten(value: Any, name: str = "") -> tuple[Any, Arrays]:
    """Return a description of `value` in JSON values, and the arrays in it.

    Parameters
    ----------
    value
        A dataclass of dataclasses, tuples, arrays, MX tensors and plain values.
    name
        Name of the value, with which those of its arrays begin.
    """
    match value:
        case MXTensor():
            codes = pack_nibbles(value.codes) if value.format is Format.MXFP4 else value.codes
            arrays = {f"{name}.codes": codes, f"{name}.scales": value.scales}
            return {"format": str(value.format), "length": value.length}, arrays
        case np.ndarray():
            return _FLOATS, {name: value}
        case np.floating():
            return float(value), {}
        case enum.Enum():
            return value.value, {}
        case tuple():
            parts = {str(index): part for index, part in enumerate(value)}
        case _ if dataclasses.is_dataclass(value):
            parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        case _:
            return value, {}
    description, arrays = {}, {}
    for key, part in parts.items():
        description[key], inner = flatten(part, f"{name}.{key}" if name else key)
        arrays |= inner
    return list(description.values()) if isinstance(value, tuple) else description, arrays


def build(kind: Any, description: Any, arrays: Mapping[str, NDArray[Any]], name: str = "") -> Any:
    """Return the value that `flatten` took apart.

    Parameters
    ----------
    kind
        Its type, such as a dataclass.
    description, arrays
        What `flatten` returned.
    name
        What `flatten` was given.
    """
    if description is None:
        return None
    if description == _FLOATS and kind is not str:
        return arrays[name]
    if isinstance(description, dict) and "length" in description:
        return _mx_tensor(description, arrays[f"{name}.codes"], arrays[f"{name}.scales"])
    if isinstance(kind, types.UnionType):  # of something and None, as arrays are dealt with
        (kind,) = set(typing.get_args(kind)) - {types.NoneType}
    if typing.get_origin(kind) is tuple:
        return tuple(
            build(typing.get_args(kind)[0], part, arrays, f"{name}.{index}")
            for index, part in enumerate(description)
        )
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        parts = {
            key: build(hints[key], part, arrays, f"{name}.{key}" if name else key)
            for key, part in description.items()
        }
        return typing.cast(Any, kind)(**parts)
    return kind(description)


def _mx_tensor(
    description: Mapping[str, Any], codes: NDArray[Any], scales: NDArray[Any]
) -> MXTensor:
    fmt = Format(description["format"])
    if fmt is Format.MXFP4:
        codes = unpack_nibbles(codes)
    return MXTensor(codes, scales, fmt, description["length"])
