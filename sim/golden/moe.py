"""Feed-forward networks: dense, and mixtures of experts with two families of routers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.models.model import Expert, FeedForward, Gate, Router, RouterKind
from sim.golden import fp32
from sim.golden.elementary import reciprocal
from sim.golden.formulas import combine, exp, gated, linear, sigmoid
from sim.golden.window import ACC_BITS

TINY = np.float32(1e-20)
"""What keeps the weights of vanishing sigmoids finite."""

Slots = NDArray[np.intp]
"""Experts by token and slot."""


def expert(network: Expert, gate: Gate, x: fp32.Floats, acc_bits: int = ACC_BITS) -> fp32.Floats:
    """Run one gated network over rows [rows, width]."""
    return linear(
        network.down,
        gated(linear(network.gate, x, acc_bits), linear(network.up, x, acc_bits), gate),
        acc_bits,
    )


def route(router: Router, x: fp32.Floats, acc_bits: int = ACC_BITS) -> tuple[Slots, fp32.Floats]:
    """Choose experts for rows, and their weights.

    Parameters
    ----------
    router : Router
        Router.
    x : float32 [rows, width]
        Normed residual stream.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    experts : integer [rows, top_k]
        In descending order of what was compared; the column is the slot.
    weights : float32 [rows, top_k]
        Of the chosen.
    """
    return choose(router, linear(router.linear, x, acc_bits))


def choose(router: Router, logits: fp32.Floats) -> tuple[Slots, fp32.Floats]:
    """Choose experts by their logits [rows, experts], and their weights, as `route` returns them.

    Raises
    ------
    ValueError
        If the router's groups do not divide the experts, or hold too few of them.
    """
    if RouterKind(router.kind) is RouterKind.SOFTMAX:
        experts = fp32.top_k(logits, router.top_k)
        chosen = np.take_along_axis(logits, experts, axis=-1)
        p = exp(fp32.sub(chosen, fp32.reduce_max(chosen)[:, None]))
        return experts, fp32.mul(p, reciprocal(fp32.reduce_sum(p))[:, None])

    sigmoids = sigmoid(logits)
    choice = sigmoids if router.correction is None else fp32.add(sigmoids, router.correction)
    allowed = np.repeat(best_groups(router, choice), logits.shape[-1] // router.groups, axis=-1)
    # Experts of other groups come after everything else, NaN included.
    key = np.where(allowed, -fp32.order_key(choice).astype(np.int64), np.int64(1) << 40)
    experts = np.argsort(key, axis=-1, kind="stable")[:, : router.top_k]
    chosen = np.take_along_axis(sigmoids, experts, axis=-1)
    shares = reciprocal(fp32.add(fp32.reduce_sum(chosen), TINY))
    return experts, fp32.mul(fp32.mul(chosen, shares[:, None]), router.scale)


def best_groups(router: Router, choice: fp32.Floats) -> NDArray[np.bool_]:
    """Return which groups' experts may be chosen.

    Parameters
    ----------
    router : Router
        With `groups` and `top_groups`.
    choice : float32 [rows, experts]
        What is compared. A group is as good as the sum of its two best (of its only one).

    Returns
    -------
    bool [rows, groups]

    Raises
    ------
    ValueError
        If the groups do not divide the experts, or the best of them hold fewer than `top_k`.
    """
    rows, experts = choice.shape
    size = experts // router.groups
    if size * router.groups != experts or not 1 <= router.top_k <= router.top_groups * size:
        raise ValueError(
            f"groups is {router.groups} and top_groups {router.top_groups}: they must divide "
            f"{experts} experts and leave at least top_k, {router.top_k}, which is at least 1."
        )
    grouped = choice.reshape(rows, router.groups, size)
    best = np.take_along_axis(grouped, fp32.top_k(grouped, min(2, size)), axis=-1)
    scores = best[..., 0] if size == 1 else fp32.add(best[..., 0], best[..., 1])
    allowed = np.zeros(scores.shape, np.bool_)
    np.put_along_axis(allowed, fp32.top_k(scores, router.top_groups), True, axis=-1)
    return allowed


def feed_forward(network: FeedForward, x: fp32.Floats, acc_bits: int = ACC_BITS) -> fp32.Floats:
    """Run the second half of a layer, between its norm and the residual sum.

    Every token gets all the experts it was given, however many others want the same one.

    Parameters
    ----------
    network : FeedForward
        One dense network, or experts with a router.
    x : float32 [rows, width]
        Normed residual stream.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    float32 [rows, width]

    Raises
    ------
    ValueError
        If there are several experts and no router.
    """
    if network.router is None:
        if len(network.experts) != 1:
            raise ValueError(f"There are {len(network.experts)} experts and no router.")
        y = expert(network.experts[0], network.gate, x, acc_bits)
    else:
        experts, weights = route(network.router, x, acc_bits)
        outputs: Any = np.empty((*experts.shape, x.shape[-1]), np.float32)
        for index in np.unique(experts):
            rows, slots = np.nonzero(experts == index)
            outputs[rows, slots] = expert(network.experts[index], network.gate, x[rows], acc_bits)
        y = combine(weights, outputs)
    if network.shared is not None:
        y = fp32.add(y, expert(network.shared, network.gate, x, acc_bits))
    return y
