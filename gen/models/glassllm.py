"""The pretrained model of the PyPI package ``glassllm``, and what goes through it for a prompt.

The package (MIT licence, numpy only) carries a small model per language. Both have the same shape:

- 852,608 parameters, published as float16 (so exact in float32), no biases anywhere;
- vocabulary 1,024 (byte-pair encoding of characters, no token added to a prompt), 128 wide,
  4 layers, at most 128 positions;
- a layer is ``x += attention(norm1(x)); x += ffn(norm2(x))``;
- RMSNorm ``x / sqrt(mean(x**2) + 1e-6) * gamma``;
- attention: 4 query heads and 2 key/value heads of width 32; query head h reads key/value head
  h // 2; scores are divided by sqrt(32); causal, no window, no sink;
- RoPE on adjacent pairs (elements 2i and 2i+1 of a head) with angle ``position * 10000**(-2i/32)``;
- SwiGLU ``W2(silu(W1 x) * W3 x)``, 341 wide: W1 is the gate, W3 goes up, W2 down;
- a final RMSNorm, and logits with the embedding as head (tied), without scaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import glassllm
import numpy as np

from gen.models import rope
from gen.models.model import Expert, FeedForward, Layer, Linear, Model, Pairing
from gen.models.parts import attention, linear

__all__ = ["GlassLLM", "GlassTokenizer", "Product", "load"]

_PRODUCTS = {
    "attn.W_Q": ("norm.attn", "attn.q"),
    "attn.W_K": ("norm.attn", "attn.k"),
    "attn.W_V": ("norm.attn", "attn.v"),
    "attn.W_O": ("attn.mix", "attn.out"),
    "ffn.W1": ("norm.ffn", "ffn.gate"),
    "ffn.W3": ("norm.ffn", "ffn.up"),
    "ffn.W2": ("ffn.act", "ffn.down"),
}
"""Where the package's tracer sees the input and the output of a layer's matrices."""


class Product(NamedTuple):
    """What a matrix was multiplied with, and the result.

    Attributes
    ----------
    inputs : float32 array, [tokens, inputs]
    outputs : float32 array, [tokens, outputs]
        ``inputs @ weight.T``. The package computes in float64 after the embedding; what it saw is
        rounded to float32 here.
    """

    inputs: np.ndarray
    outputs: np.ndarray


@dataclass(frozen=True)
class GlassLLM:
    """A pretrained model.

    Attributes
    ----------
    weights : dict of str to float32 array
        By the package's names: ``E``, ``norm_f.gamma`` and, for each layer l,
        ``blocks.l.norm1.gamma``, ``blocks.l.attn.W_Q`` (``W_K``, ``W_V``, ``W_O``),
        ``blocks.l.norm2.gamma``, ``blocks.l.ffn.W1`` (``W3``, ``W2``). Matrices are [outputs,
        inputs], the transpose of the package's; ``E``, embedding and head alike, is
        [tokens, width].
    configuration : glassllm.Config
        Dimensions: ``vocab_size``, ``d_model``, ``n_layers``, ``n_heads``, ``n_kv_heads``,
        ``max_len``, ``rope_base``, ``eps``.
    tokenizer : glassllm.Tokenizer
        ``encode(text)`` gives token numbers, ``decode(tokens)`` text.
    """

    weights: dict[str, np.ndarray]
    configuration: Any
    tokenizer: Any
    _model: Any

    def capture(self, tokens: Sequence[int]) -> dict[str, Product]:
        """Run the package's own forward pass and return what went through each matrix.

        Parameters
        ----------
        tokens : sequence of int
            1 to ``configuration.max_len`` token numbers, the first at position 0.

        Returns
        -------
        dict of str to Product
            By the names of the matrices in `weights`; ``E`` is the head, and its outputs are the
            logits. Queries and keys are taken before RoPE; heads are concatenated.

        Raises
        ------
        ValueError
            If there are too many tokens.
        """
        tracer = glassllm.Tracer()
        with glassllm.no_grad():
            self._model.forward(list(tokens), trace=tracer)

        def seen(step: str, layer: int | None = None) -> np.ndarray:
            value = tracer.get(step, layer).value
            if value.ndim == 3:  # [heads, tokens, width of a head]
                value = value.transpose(1, 0, 2).reshape(value.shape[1], -1)
            return value.astype(np.float32)

        products = {"E": Product(seen("norm.final"), seen("logits"))}
        for layer in range(self.configuration.n_layers):
            for name, steps in _PRODUCTS.items():
                products[f"blocks.{layer}.{name}"] = Product(*(seen(step, layer) for step in steps))
        return products

    def to_model(self, name: str = "glassllm") -> Model:
        """Return weights and shapes as every importer does, without formats."""
        dimensions, weights = self.configuration, self.weights
        head = dimensions.d_model // dimensions.n_heads
        return Model(
            name=name,
            embedding=weights["E"],
            layers=tuple(self._layer(index, head) for index in range(dimensions.n_layers)),
            norm=weights["norm_f.gamma"],
            head=linear(weights["E"]),
            rope=rope.table(
                rope.frequencies(head, dimensions.rope_base), dimensions.max_len, Pairing.ADJACENT
            ),
            eps=np.float32(dimensions.eps),
        )

    def _layer(self, index: int, head: int) -> Layer:
        def matrix(name: str) -> Linear:
            return linear(self.weights[f"blocks.{index}.{name}"])

        projections = [matrix(f"attn.W_{letter}") for letter in "QKVO"]
        expert = Expert(*(matrix(f"ffn.W{number}") for number in (1, 3, 2)))
        return Layer(
            attention_norm=self.weights[f"blocks.{index}.norm1.gamma"],
            attention=attention(*projections, head=head),
            feed_forward_norm=self.weights[f"blocks.{index}.norm2.gamma"],
            feed_forward=FeedForward((expert,)),
        )


class GlassTokenizer:
    """The package's tokenizer, as `gen.models.tokenizer.Tokenizer` wants one.

    Parameters
    ----------
    tokenizer : glassllm.Tokenizer
        The package's own.
    """

    kind = "glassllm"
    begin = ()

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> GlassTokenizer:
        """Return the tokenizer that gave `state`."""
        return cls(glassllm.Tokenizer(state["alphabet"], state["merges"]))

    def state(self) -> dict[str, Any]:
        """Return characters and merges."""
        merges = [list(pair) for pair in self._tokenizer.merges]
        return {"alphabet": self._tokenizer.alphabet, "merges": merges}

    @property
    def vocabulary(self) -> int:
        """Tokens there are."""
        return self._tokenizer.vocab_size

    @property
    def end(self) -> frozenset[int]:
        """The token ``<eos>``."""
        return frozenset({self._tokenizer.token_to_id["<eos>"]})

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return self._tokenizer.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return self._tokenizer.decode(list(tokens))


def load(language: str = "en") -> GlassLLM:
    """Load a pretrained model from the installed package.

    Parameters
    ----------
    language : {"en", "pt"}
        English or Portuguese.

    Raises
    ------
    ValueError
        If there is no model of that language.
    """
    model, tokenizer = glassllm.load_pretrained(language)
    weights = {name: parameter.data for name, parameter in model.named_parameters().items()}
    weights |= {
        name: np.ascontiguousarray(weight.T) for name, weight in weights.items() if ".W" in name
    }
    return GlassLLM(weights, model.cfg, tokenizer, model)
