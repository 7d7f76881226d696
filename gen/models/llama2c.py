"""Checkpoints of llama2.c: a header of seven numbers and float32 matrices.

This is the file that ``run.c`` reads ("version 0"). A layer is ``x += attention(norm(x)); x +=
ffn(norm(x))`` with RMSNorm (eps 1e-5), RoPE on adjacent pairs (theta 10000), grouped queries and
SwiGLU ``w2(silu(w1 x) * w3 x)``; there are no biases. The file also holds RoPE tables, which are
not used: this project computes its own.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gen.models import rope
from gen.models.errors import ModelError
from gen.models.model import Expert, FeedForward, Floats, Layer, Model, Pairing
from gen.models.parts import attention, linear

EPS = 1e-5
THETA = 10000.0

_HEADER = struct.Struct("<7i")
_MAGIC = b"ak42"[::-1]
"""How the later versions of the format begin."""


class Header(NamedTuple):
    """The numbers at the start of a checkpoint.

    Attributes
    ----------
    dim, hidden_dim
        Elements of the residual stream and of the feed-forward network.
    n_layers, n_heads, n_kv_heads
        Layers, and heads of attention.
    vocab_size
        Tokens; negative where the head is a matrix of its own.
    seq_len
        Positions.
    """

    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    seq_len: int

    @property
    def head(self) -> int:
        """Elements of a head."""
        return self.dim // self.n_heads

    @property
    def plausible(self) -> bool:
        """Whether this can be a model at all."""
        return (
            min(self[:5]) > 0
            and self.vocab_size != 0
            and self.seq_len > 0
            and self.dim % (2 * self.n_heads) == 0
            and self.n_heads % self.n_kv_heads == 0
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the arrays of the file, in order."""
        layers, dim, hidden = self.n_layers, self.dim, self.hidden_dim
        vocabulary, kv_dim = abs(self.vocab_size), self.n_kv_heads * self.head
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (vocabulary, dim),
            "attention_norm": (layers, dim),
            "wq": (layers, dim, dim),
            "wk": (layers, kv_dim, dim),
            "wv": (layers, kv_dim, dim),
            "wo": (layers, dim, dim),
            "ffn_norm": (layers, dim),
            "w1": (layers, hidden, dim),
            "w2": (layers, dim, hidden),
            "w3": (layers, hidden, dim),
            "norm": (dim,),
            "cos": (self.seq_len, self.head // 2),
            "sin": (self.seq_len, self.head // 2),
        }
        return shapes | ({"head": (vocabulary, dim)} if self.vocab_size < 0 else {})


def load(path: Path) -> Model:
    """Read a checkpoint.

    Parameters
    ----------
    path
        The file, commonly called ``.bin``.

    Raises
    ------
    ModelError
        It is no checkpoint of that format, or not a whole one.
    """
    arrays, header = _read(path)
    return Model(
        name=path.stem,
        embedding=arrays["embedding"],
        layers=tuple(_layer(arrays, index, header.head) for index in range(header.n_layers)),
        norm=arrays["norm"],
        head=linear(arrays.get("head", arrays["embedding"])),
        rope=rope.table(rope.frequencies(header.head, THETA), header.seq_len, Pairing.ADJACENT),
        eps=np.float32(EPS),
    )


def _read(path: Path) -> tuple[dict[str, Floats], Header]:
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(_HEADER.size)
    if start[:4] == _MAGIC:
        version = int.from_bytes(start[4:8], "little")
        raise ModelError(
            f"{path} is version {version} of the llama2.c format; only version 0, which run.c "
            "reads, can be imported."
        )
    header = Header(*_HEADER.unpack(start)) if len(start) == _HEADER.size else None
    if header is None or not header.plausible:
        raise ModelError(f"{path} is not a llama2.c checkpoint: it does not begin like one.")
    shapes = header.shapes()
    expected = _HEADER.size + 4 * sum(math.prod(shape) for shape in shapes.values())
    if size != expected:
        numbers = ", ".join(f"{name} {value}" for name, value in header._asdict().items())
        raise ModelError(
            f"{path} has {size} bytes; a llama2.c checkpoint of {numbers} has {expected}."
        )
    data = np.fromfile(path, "<f4", offset=_HEADER.size).astype(np.float32, copy=False)
    arrays, offset = {}, 0
    for name, shape in shapes.items():
        arrays[name] = data[offset : offset + math.prod(shape)].reshape(shape)
        offset += math.prod(shape)
    return arrays, header


def _layer(arrays: dict[str, Floats], index: int, head: int) -> Layer:
    query, key, value, output, gate, down, up = (
        linear(arrays[name][index]) for name in ("wq", "wk", "wv", "wo", "w1", "w2", "w3")
    )
    return Layer(
        attention_norm=arrays["attention_norm"][index],
        attention=attention(query, key, value, output, head=head),
        feed_forward_norm=arrays["ffn_norm"][index],
        feed_forward=FeedForward((Expert(gate, up, down),)),
    )
