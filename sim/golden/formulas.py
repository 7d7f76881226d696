"""What a layer computes between its matrices, each operation rounded once.

All functions take and return float32 arrays and broadcast like numpy, in the arithmetic of
`sim.golden.fp32` and `sim.golden.elementary`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.models.model import Gate, Linear, Pairing
from gen.models.precision import Precision
from gen.mx import Bytes, MXTensor
from gen.quantise import quantise
from rtl.formats import Format
from sim.golden import fp32
from sim.golden.elementary import exp2, reciprocal, rsqrt
from sim.golden.formats import fold_scale
from sim.golden.window import ACC_BITS, window_matmul

LOG2E = fp32.from_bits(0x3FB8AA3B)
"""log2 e as FP32."""

ONE = np.float32(1)
ZERO = np.float32(0)


def exp(values: fp32.Floats) -> fp32.Floats:
    """Return ``exp2(x * LOG2E)``."""
    return exp2(fp32.mul(values, LOG2E))


def sigmoid(values: fp32.Floats) -> fp32.Floats:
    """Return ``reciprocal(1 + exp2(x * -LOG2E))``."""
    return reciprocal(fp32.add(ONE, exp2(fp32.mul(values, -LOG2E))))


def silu(values: fp32.Floats) -> fp32.Floats:
    """Return ``x * sigmoid(x)``."""
    return fp32.mul(values, sigmoid(values))


def gated(gate: fp32.Floats, up: fp32.Floats, form: Gate) -> fp32.Floats:
    """Return the input of a feed-forward network's last matrix, in either form of SwiGLU.

    Parameters
    ----------
    gate, up : float32 arrays
        Results of the first two matrices.
    form : Gate
        Without a limit ``(g * sigmoid(g)) * u``, with one ``(g * sigmoid(alpha * g)) * (u + 1)``
        after clamping.

    Returns
    -------
    float32 array

    Raises
    ------
    ValueError
        If `form` has only one of limit and alpha.
    """
    if (form.limit is None) != (form.alpha is None):
        raise ValueError(f"limit is {form.limit} and alpha {form.alpha}: both or neither.")
    if form.limit is None or form.alpha is None:
        return fp32.mul(silu(gate), up)
    gate = fp32.minimum(gate, form.limit)
    up = fp32.clamp(up, -form.limit, form.limit)
    return fp32.mul(fp32.mul(gate, sigmoid(fp32.mul(form.alpha, gate))), fp32.add(up, ONE))


def linear(matrix: Linear, x: fp32.Floats, acc_bits: int = ACC_BITS) -> fp32.Floats:
    """Return ``x @ weights.T + bias`` with `x` quantised as the matrix asks for.

    Parameters
    ----------
    matrix : Linear [outputs, inputs]
        With quantised weights.
    x : float32 [rows, inputs]
        Input.
    acc_bits : int
        Width of an accumulator, 32 to 52.

    Returns
    -------
    float32 [rows, outputs]

    Raises
    ------
    ValueError
        If the weights are not quantised.
    """
    if not isinstance(matrix.weights, MXTensor):
        raise ValueError("weights are float32, the golden model multiplies quantised ones.")
    result = window_matmul(quantised(x, matrix.activation), matrix.weights, acc_bits)
    return result if matrix.bias is None else fp32.add(result, matrix.bias)


def quantised(x: fp32.Floats, precision: Precision) -> MXTensor:
    """Return `x` [..., K] as an MX operand of the given precision."""
    return quantise(x, precision.format, precision.rule)


def rms_norm(x: fp32.Floats, weight: fp32.Floats, eps: np.float32) -> fp32.Floats:
    """Return ``(x * r) * weight`` with ``r = rsqrt(sum(x * x) * (1 / D) + eps)``.

    Parameters
    ----------
    x : float32 [..., D]
        Rows.
    weight : float32 [D]
        Weight.
    eps : float32
        Keeps rows of zeros finite.

    Returns
    -------
    float32 [..., D]
    """
    share = fp32.rounded(1 / x.shape[-1])
    mean = fp32.mul(fp32.reduce_sum(fp32.mul(x, x)), share)
    return fp32.mul(fp32.mul(x, rsqrt(fp32.add(mean, eps))[..., None]), weight)


def rope(x: fp32.Floats, cos: fp32.Floats, sin: fp32.Floats, pairing: Pairing) -> fp32.Floats:
    """Rotate pairs (a, b) of elements: ``(a * cos) - (b * sin)``, ``(b * cos) + (a * sin)``.

    Parameters
    ----------
    x : float32 [..., head]
        Heads; `head` is even.
    cos, sin : float32 [..., head / 2]
        Of each pair.
    pairing : Pairing
        Which elements are pairs.

    Returns
    -------
    float32 [..., head]

    Raises
    ------
    ValueError
        If `head` is odd.
    """
    head = x.shape[-1]
    if head % 2:
        raise ValueError(f"x has heads of {head} elements, RoPE takes pairs.")
    adjacent = Pairing(pairing) is Pairing.ADJACENT
    first, second = (
        (slice(0, None, 2), slice(1, None, 2))
        if adjacent
        else (slice(head // 2), slice(head // 2, None))
    )
    a, b = x[..., first], x[..., second]
    rotated = np.empty_like(x)
    rotated[..., first] = fp32.sub(fp32.mul(a, cos), fp32.mul(b, sin))
    rotated[..., second] = fp32.add(fp32.mul(b, cos), fp32.mul(a, sin))
    return rotated


def probabilities(
    scores: fp32.Floats, visible: NDArray[np.bool_], sinks: fp32.Floats | None = None
) -> tuple[fp32.Floats, fp32.Floats]:
    """Return the softmax of scaled scores before its division: ``exp(s - m)``, and their sum.

    Parameters
    ----------
    scores : float32 [rows, positions]
        From position 0.
    visible : bool [rows, positions]
        Where not, the score is never looked at. Rows without any give no meaningful sum.
    sinks : float32 [rows], optional
        A further score of each row: it takes part in the maximum, and is added to the sum last.

    Returns
    -------
    p : float32 [rows, positions]
        +0 where not visible.
    total : float32 [rows]
        Summed by absolute position.
    """
    greatest = fp32.reduce_max(np.where(visible, scores, np.float32(-np.inf)))
    if sinks is not None:
        greatest = fp32.maximum(greatest, sinks)
    p = np.where(visible, exp(fp32.sub(scores, greatest[:, None])), ZERO)
    total = fp32.reduce_sum(p)
    if sinks is not None:
        total = fp32.add(total, exp(fp32.sub(sinks, greatest)))
    return p, total


def scaled_probabilities(
    p: fp32.Floats, visible: NDArray[np.bool_], scales: Bytes, fmt: Format
) -> fp32.Floats:
    """Return probabilities with the scales of one chunk of V folded in.

    Parameters
    ----------
    p : float32 [rows, positions]
        From `probabilities`.
    visible : bool [rows, positions]
        Where not, the result is +0 whatever V's scale.
    scales : uint8 [positions]
        Scales of V's chunk; 255 gives NaN.
    fmt : Format
        Of V.

    Returns
    -------
    float32 [rows, positions]
    """
    return np.where(visible, fold_scale(p, scales, fmt), ZERO)


def combine(weights: fp32.Floats, outputs: fp32.Floats) -> fp32.Floats:
    """Return ``w_0 * o_0``, then ``y + w_i * o_i`` in the order of slots.

    Parameters
    ----------
    weights : float32 [rows, slots]
        Of the chosen experts.
    outputs : float32 [rows, slots, width]
        What they gave.

    Returns
    -------
    float32 [rows, width]
    """
    terms: Any = np.moveaxis(fp32.mul(weights[..., None], outputs), 1, 0)
    total = terms[0]
    for term in terms[1:]:
        total = fp32.add(total, term)
    return total
