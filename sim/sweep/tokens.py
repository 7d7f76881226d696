"""Layers and whole models as workloads: a decoded token, or a prompt, on the tile's RTL."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gen.models.model import Linear, Model
from gen.mx import MXTensor
from gen.quantise import quantise
from rtl.config import ACCESS_BEATS, TileConfig
from rtl.formats import BLOCK
from rtl.mac import MacGeometry
from sim.activity import Counters
from sim.estimate.report import useful_planes
from sim.products import Product
from sim.sweep import workloads
from sim.sweep.blocks import run_products
from sim.sweep.outcome import Outcome
from sim.sweep.request import identity_of, model_of, request, running, simulation_of
from sim.sweep.workloads import Layer
from sim.traffic import DecodeTraffic, array_bits, kv_bits_per_token, stored

Tokens = Layer | workloads.Model
"""Workloads of this module."""


class LimitError(ValueError):
    """A limit is beyond what was built; the message is one sentence."""


def run_tokens(config: TileConfig, workload: Tokens) -> Outcome:
    """Run a layer or a model on the tile, or its products on the matrix engine alone.

    Raises
    ------
    HardwareError
        If a byte of memory, a result or the next token is wrong, or the hardware stops.
    DoesNotFit, LimitError
        If the model does not fit the tile, or a limit not what was built.
    """
    identity = identity_of(workload)
    model = model_of(identity)
    if workload.engine == "mac":
        rows = workload.context if workload.phase == "prefill" else 1
        pair = workload.limits.pairing is not False
        return run_products(config, _products(model, rows, pair), rows, "tokens")
    _check_limits(config, workload)
    asked = request(identity, workload.phase, workload.context, config.to_json())
    simulation = simulation_of(config.to_json(), asked.program.stored.map.end)
    with running(simulation, workload.limits.given()) as tile:
        cycles, counted = asked.run(tile)
    compared = asked.after.size + 1  # every byte of memory, and the next token
    return _outcome(config, workload, model, cycles, counted, compared)


def _check_limits(config: TileConfig, workload: Tokens) -> None:
    limits, rows = workload.limits, MacGeometry(config).buffer_rows
    if limits.window is not None and limits.window > config.issue_window:
        raise LimitError(
            f"limits.window is {limits.window}; it must be at most issue_window, "
            f"{config.issue_window}."
        )
    if limits.stream_rows is not None and limits.stream_rows > rows:
        raise LimitError(
            f"limits.stream_rows is {limits.stream_rows}; with stream_bytes {config.stream_bytes} "
            f"it must be at most {rows}."
        )


def _outcome(
    config: TileConfig,
    workload: Tokens,
    model: Model,
    cycles: int,
    counted: Counters,
    compared: int,
) -> Outcome:
    context = workload.context
    if workload.phase == "decode":
        needed = DecodeTraffic(model, context).bytes
        head = useful_planes(model, 0)
        operations = useful_planes(model, context) - useful_planes(model, context - 1) + head
        least, limit, work = needed / config.beat_bytes, "memory", 1
    else:
        needed = _prompt_bytes(model, context)
        operations = useful_planes(model, context)
        least, limit, work = operations / config.macs_per_cycle, "array", context
    return Outcome(
        cycles=cycles,
        least_cycles=least,
        limit=limit,
        work=work,
        work_unit="tokens",
        compared=compared,
        operations=operations,
        needed_bytes=needed,
        events=_events(config, operations, counted),
        figures=_figures(counted),
    )


def _prompt_bytes(model: Model, tokens: int) -> float:
    """Return the bytes of a prompt: weights and KV once, a row of the embedding per token."""
    bits = sum(array_bits(array) for name, array in stored(model) if name != "embedding")
    bits += array_bits(model.embedding[:1]) * tokens + kv_bits_per_token(model) * tokens
    return bits / 8


def _events(config: TileConfig, operations: int, counted: Counters) -> dict[str, float]:
    hbm = counted["hbm"]
    accesses = hbm["reads"] + hbm["writes"]
    return {
        "hbm_byte": accesses * ACCESS_BEATS * config.beat_bytes / config.pseudo_channels,
        "mac44": operations,
        "window_add": operations / BLOCK,
        "stream_byte": counted["mac"]["beats"] * config.beat_bytes,
        "vector_element": counted["vec"]["transfers"] * config.vec_lanes,
        "l1_access": counted["l1"]["reads"] + counted["l1"]["writes"],
        "instruction": counted["core"]["instructions"],
    }


def _figures(counted: Counters) -> dict[str, float]:
    wanted = {
        "hbm": ("reads", "writes", "activations", "conflicts", "refreshes", "turns"),
        "mac": ("beats", "steps", "paired_steps", "beats_waiting", "stalls_weights",
                "stalls_activations", "stalls_drain"),
        "vec": ("transfers",),
        "core": ("instructions", "matrix_dark", "vector_dark", "memory_dark"),
    }  # fmt: skip
    return {
        f"{window}.{name}": counted[window][name]
        for window, names in wanted.items()
        for name in names
    }


def _products(model: Model, rows: int, pair: bool) -> list[Product]:
    """Return every matrix product of so many tokens, with random activations."""
    rng = np.random.default_rng(0)

    def product(name: str, linear: Linear) -> Product:
        assert isinstance(linear.weights, MXTensor)
        values = rng.standard_normal((rows, linear.shape[1]), np.float32)
        return Product(name, quantise(values, linear.activation.format), linear.weights, pair=pair)

    found = []
    for number, layer in enumerate(model.layers):
        attention, network = layer.attention, layer.feed_forward
        linears: Mapping[str, Linear] = {
            "query": attention.query,
            "key": attention.key,
            "value": attention.value,
            "output": attention.output,
        }
        if network.router is not None:
            linears = {**linears, "router": network.router.linear}
        chosen = network.experts[: network.router.top_k if network.router else 1]
        found += [product(f"layer {number} {name}", linear) for name, linear in linears.items()]
        for index, expert in enumerate(chosen):
            for name in ("gate", "up", "down"):
                found.append(
                    product(f"layer {number} expert {index} {name}", getattr(expert, name))
                )
    return [*found, product("head", model.head)]
