"""Every kind of tokenizer, for those who read one from a model image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from gen.lookup import lookup
from gen.models.glassllm import GlassTokenizer
from gen.models.huggingface_tokenizer import HuggingFaceTokenizer
from gen.models.llama2c_tokenizer import Llama2cTokenizer
from gen.models.tokenizer import Tokenizer

KINDS: Mapping[str, Callable[[dict[str, Any]], Tokenizer]] = MappingProxyType(
    {
        GlassTokenizer.kind: GlassTokenizer.from_state,
        HuggingFaceTokenizer.kind: HuggingFaceTokenizer.from_state,
        Llama2cTokenizer.kind: Llama2cTokenizer.from_state,
    }
)


def to_state(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return all there is to know about a tokenizer, its kind included, as JSON values."""
    return {"kind": tokenizer.kind, **tokenizer.state()}


def from_state(state: dict[str, Any]) -> Tokenizer:
    """Return the tokenizer that gave `state`.

    Raises
    ------
    UnknownName
        There is no such kind.
    """
    return lookup("kind of tokenizer", KINDS, state["kind"])(state)
