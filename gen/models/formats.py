"""Which MX format and scale rule every class of operands of a model has."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gen.lookup import lookup
from gen.models.errors import ModelError
from gen.models.precision import Precision
from rtl.formats import Format, ScaleRule

FP32 = "fp32"
"""Says that the embedding stays as it is."""

_WEIGHTS = ("attention", "experts", "router", "head")


def best_rule(name: str, fmt: Format) -> ScaleRule:
    """Return the scale rule that costs least accuracy (measured; see docs/models.md).

    Parameters
    ----------
    name
        A field of `ModelFormats`.
    fmt
        Its format.
    """
    ceil = fmt is Format.MXFP4 and name in _WEIGHTS
    return ScaleRule.CEIL if ceil else ScaleRule.FLOOR


_WEIGHT = Precision(Format.MXFP4, ScaleRule.CEIL)
_OTHER = Precision(Format.MXINT8, ScaleRule.FLOOR)


@dataclass(frozen=True)
class ModelFormats:
    """Format and scale rule of every class of operands.

    Each is a `Precision`; `embedding` may be ``None`` instead, for FP32. The defaults are MXFP4 for
    the weights that are most of a model, and MXINT8 for all else.
    """

    embedding: Precision | None = field(
        default=_OTHER, metadata={"about": "rows of the embedding table, or fp32"}
    )
    attention: Precision = field(
        default=_WEIGHT, metadata={"about": "weights of the four attention projections"}
    )
    experts: Precision = field(
        default=_WEIGHT, metadata={"about": "weights of experts and dense feed-forward networks"}
    )
    router: Precision = field(default=_OTHER, metadata={"about": "weights of routers"})
    head: Precision = field(default=_WEIGHT, metadata={"about": "weights that give the logits"})
    attention_inputs: Precision = field(
        default=_OTHER, metadata={"about": "inputs of the attention projections"}
    )
    expert_inputs: Precision = field(
        default=_OTHER, metadata={"about": "inputs of the experts' matrices"}
    )
    router_inputs: Precision = field(default=_OTHER, metadata={"about": "inputs of routers"})
    head_inputs: Precision = field(default=_OTHER, metadata={"about": "input of the head"})
    queries: Precision = field(default=_OTHER, metadata={"about": "queries, per head"})
    keys: Precision = field(default=_OTHER, metadata={"about": "keys in the cache"})
    values: Precision = field(default=_OTHER, metadata={"about": "values in the cache"})
    probabilities: Precision = field(
        default=_OTHER, metadata={"about": "softmax results that meet the values"}
    )

    @classmethod
    def describe(cls) -> dict[str, str]:
        """Return what each field is about."""
        return {item.name: item.metadata["about"] for item in dataclasses.fields(cls)}

    @classmethod
    def from_dict(cls, values: Mapping[str, str]) -> ModelFormats:
        """Return the defaults with `values`, see `replace`."""
        return cls().replace(values)

    def replace(self, values: Mapping[str, str]) -> ModelFormats:
        """Return a copy with changes, given as text.

        Parameters
        ----------
        values
            By field: ``mxfp4`` or ``mxint8``, which may be followed by ``/floor`` or ``/ceil``; for
            `embedding` also ``fp32``.

        Raises
        ------
        UnknownName
            There is no such field.
        ModelError
            A value is not one of those.
        """
        changes: dict[str, Any] = {}
        for name, text in values.items():
            lookup("format field", self.describe(), name)
            changes[name] = _parse(name, text)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, str]:
        """Return every field as text; `from_dict` inverts it."""
        return {name: str(getattr(self, name) or FP32) for name in self.describe()}


def _parse(name: str, text: str) -> Precision | None:
    if name == "embedding" and text == FP32:
        return None
    fmt, slash, rule = text.partition("/") if isinstance(text, str) else ("", "", "")
    try:
        format = Format(fmt)
        return Precision(format, ScaleRule(rule) if slash else best_rule(name, format))
    except ValueError:
        also = f", or {FP32}" if name == "embedding" else ""
        raise ModelError(
            f"{name} is {json.dumps(text, ensure_ascii=False, default=str)}; it must be mxfp4 or "
            f"mxint8, with /floor or /ceil behind it or nothing{also}."
        ) from None
