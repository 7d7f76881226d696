"""Everything there is to know about a model on a configuration, short of running it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gen.kernels.program import TileProgram
from gen.models.errors import ModelError
from gen.models.library import Opened
from gen.models.model import Model
from rtl.config import TileConfig
from sim.placement import placement
from sim.traffic import CLASSES, DecodeTraffic, array_bits, kv_bits_per_token, stored

CLOCK_HZ = 1e9
"""Clock that rates are quoted for."""


def model_info(opened: Opened, config: TileConfig, context: int | None = None) -> dict[str, Any]:
    """Return shapes, formats, sizes, roofline and placement as plain JSON values.

    Parameters
    ----------
    opened
        Model, tokenizer and formats.
    config
        What it would run on.
    context
        Positions that are read for a token; by default 64, or all there are if fewer.

    Raises
    ------
    ModelError
        The model has no so long a context.
    """
    model = opened.model
    context = min(64, model.context) if context is None else context
    check_context(model, context)
    return {
        "model": model.name,
        "shape": _shape(model),
        "formats": opened.formats.to_dict(),
        "stored": _stored(model),
        "kv_bytes_per_token": kv_bits_per_token(model) / 8,
        "decode": _decode(model, config, context),
        "placement": placement(model, config),
    }


def check_context(model: Model, context: int) -> None:
    """Raise `ModelError` unless a model has so many positions."""
    if not 1 <= context <= model.context:
        raise ModelError(f"context is {context}; for {model.name} it must be 1 to {model.context}.")


def _shape(model: Model) -> dict[str, Any]:
    attention, network = model.layers[0].attention, model.layers[0].feed_forward
    windows = sorted({layer.attention.window or model.context for layer in model.layers})
    return {
        "vocabulary": model.vocabulary,
        "width": model.width,
        "layers": len(model.layers),
        "heads": attention.heads,
        "kv_heads": attention.kv_heads,
        "head": attention.head,
        "feed_forward": network.experts[0].gate.shape[0],
        "experts": len(network.experts),
        "experts_per_token": network.router.top_k if network.router else 1,
        "shared_experts": int(network.shared is not None),
        "context": model.context,
        "window": windows,
    }


def _stored(model: Model) -> list[dict[str, Any]]:
    """Return numbers and bytes by class; a tied head is stored, and counted, on its own."""
    numbers: Counter[str] = Counter()
    bits: Counter[str] = Counter()
    for name, array in stored(model):
        size = 1
        for extent in array.shape:
            size *= extent
        numbers[name] += size
        bits[name] += array_bits(array)
    rows = [
        {"what": name, "parameters": numbers[name], "bytes": bits[name] / 8}
        for name in CLASSES
        if numbers[name]
    ]
    total = {"parameters": sum(numbers.values()), "bytes": sum(bits.values()) / 8}
    return [*rows, {"what": "all", **total}]


def _decode(model: Model, config: TileConfig, context: int) -> dict[str, Any]:
    traffic = DecodeTraffic(model, context)
    moved = [
        {"what": name, "bytes": bits / 8, "beats": bits / 8 / config.beat_bytes}
        for name, bits in traffic.bits.items()
        if bits
    ]
    beats = traffic.bytes / config.beat_bytes
    return {
        "context": context,
        "moved": [*moved, {"what": "all", "bytes": traffic.bytes, "beats": beats}],
        "roofline": [
            {
                "tiles": tiles,
                "cycles_per_token": beats / tiles,
                "tokens_per_second": CLOCK_HZ * tiles / beats,
            }
            for tiles in sorted({1, config.tiles})
        ],
    }


def program_facts(built: TileProgram) -> dict[str, Any]:
    """Return the sizes of a program and its memory map as plain JSON values.

    Parameters
    ----------
    built
        The program of a model.
    """
    program, stored = built.program, built.stored
    counts = Counter(line.instruction.opcode.engine for line in program.lines)
    return {
        "program": {
            "instructions": len(program.lines),
            **{f"{engine} instructions": count for engine, count in sorted(counts.items())},
            "bytes": 4 * len(program.words),
            "tokens of a chunk": stored.plan.tokens,
            "chunks in flight": built.chunks,
            "positions": stored.capacity,
        },
        "memory": stored.map.rows(),
    }
