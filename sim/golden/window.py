"""The matrix engine's dot product: exact integers in a window, rounded once at the end.

Each block pair contributes the exact integer ``D = sum(qa * qw)``, worth ``D * 2**(ea + ew)``. It
is shifted to the weight of the accumulator's lowest bit, ``lsb``, and added. The anchor ``A = lsb +
acc_bits`` is known before the first block and high enough that nothing can overflow, so the sum of
the integers, unlike a sum of floats, is the same in any order and over any split.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.mx import MXTensor
from rtl.formats import product_bits
from sim.golden import fp32

ACC_BITS = 48
"""Width of the accumulators in every preset."""


def anchor(
    activations: MXTensor, weights: MXTensor, blocks: NDArray[Any] | int | None = None
) -> NDArray[np.int64]:
    """Return the anchors ``A = max ea + max ew + B + clog2(n) + 1``.

    Parameters
    ----------
    activations : MXTensor [rows, K]
        Left operand. NaN blocks take no part in the maximum; zero blocks do, with the scale they
        carry. A row of NaN blocks only counts as scale 0.
    weights : MXTensor [neurons, K]
        Right operand, likewise.
    blocks : int or integer [rows], optional
        n of each row, by default the number of blocks of `activations`.

    Returns
    -------
    int64 [rows, neurons]

    Raises
    ------
    ValueError
        If the operands do not fit each other, or a row has more blocks than it was said to have.
    """
    _check_operands(activations, weights)
    counts = _block_counts(activations, blocks)
    growth = np.array([int(n - 1).bit_length() for n in counts]) + 1
    rows = activations.maximum_scale.astype(np.int64) - activations.format.unit_offset
    neurons = weights.maximum_scale.astype(np.int64) - weights.format.unit_offset
    bits = product_bits(activations.format, weights.format)
    return (rows + growth)[:, None] + neurons + bits


def block_dots(activations: MXTensor, weights: MXTensor, block: int) -> NDArray[np.int64]:
    """Return the exact integers D of one block pair, in units of ``2**(ea + ew)``.

    Parameters
    ----------
    activations, weights : MXTensor
        [rows, K] and [neurons, K].
    block : int
        Block index along K.

    Returns
    -------
    int64 [rows, neurons]
        ``abs(D) < 2**B`` with B from `rtl.formats.product_bits`.
    """
    # Sums of 32 products of at most 2^14 are exact in float32, in any order, and BLAS is fast.
    left = activations.elements[:, block].astype(np.float32)
    right = weights.elements[:, block].astype(np.float32)
    return (left @ right.T).astype(np.int64)


class Window:
    """Open accumulators of one matrix product.

    Parameters
    ----------
    activations : MXTensor [rows, K]
        Left operand, whole: the anchor depends on all of it.
    weights : MXTensor [neurons, K]
        Right operand.
    acc_bits : int
        Width of an accumulator, 32 to 52.
    blocks : int or integer [rows], optional
        n of each row, see `anchor`.

    Attributes
    ----------
    lsb : int64 [rows, neurons]
        Exponent of the accumulators' lowest bit.
    acc : int64 [rows, neurons]
        Accumulators, in units of ``2**lsb``.
    nan : bool [rows, neurons]
        Whether a NaN block has been met.

    Raises
    ------
    ValueError
        If `acc_bits` is out of range, or the operands are refused by `anchor`.
    """

    def __init__(
        self,
        activations: MXTensor,
        weights: MXTensor,
        acc_bits: int = ACC_BITS,
        blocks: NDArray[Any] | int | None = None,
    ) -> None:
        if not 32 <= acc_bits <= 52:
            raise ValueError(f"acc_bits is {acc_bits}, it must be 32 to 52.")
        self.activations, self.weights, self.acc_bits = activations, weights, acc_bits
        self.lsb = anchor(activations, weights, blocks) - acc_bits
        self.acc = np.zeros(self.lsb.shape, np.int64)
        self.nan = np.zeros(self.lsb.shape, np.bool_)

    def add(self, blocks: Iterable[int] | None = None) -> Window:
        """Accumulate block pairs, by default all of them, in the order given.

        Parameters
        ----------
        blocks : iterable of int, optional
            Block indices along K. Each belongs in exactly one call.

        Returns
        -------
        Window
            This one, so that calls can be chained.

        Raises
        ------
        ValueError
            If a block index is out of range.
        """
        a, w = self.activations, self.weights
        for block in range(a.blocks) if blocks is None else blocks:
            if not 0 <= block < a.blocks:
                raise ValueError(f"block is {block}, it must be 0 to {a.blocks - 1}.")
            nan = a.nan[:, block, None] | w.nan[:, block]
            shift = a.exponents[:, block, None] + w.exponents[:, block] - self.lsb
            dots = np.where(nan, 0, block_dots(a, w, block))
            # One of the two shifts is by zero. The right one floors; 63 stands for anything wider.
            self.acc += dots << shift.clip(0, self.acc_bits) >> (-shift).clip(0, 63)
            self.nan |= nan
        return self

    def merge(self, other: Window) -> Window:
        """Add the accumulators of another window over the same operands and other blocks."""
        if not np.array_equal(self.lsb, other.lsb):
            raise ValueError("lsb differs between the windows, they must share their operands.")
        self.acc += other.acc
        self.nan |= other.nan
        return self

    def drain(self) -> fp32.Floats:
        """Return the results, ``acc * 2**lsb`` rounded once to FP32.

        Returns
        -------
        float32 [rows, neurons]
            NaN where a NaN block was met; +0 where the accumulator is 0; ±Inf on overflow.
        """
        limit = 1 << (self.acc_bits - 1)
        assert ((-limit <= self.acc) & (self.acc < limit)).all(), "the anchor excludes overflow"
        # |acc| <= 2^51 and -297 <= lsb < 900, so float64 holds the product exactly.
        exact = np.ldexp(self.acc.astype(np.float64), self.lsb)
        return fp32.rounded(np.where(self.nan, np.nan, exact))


def window_matmul(
    activations: MXTensor,
    weights: MXTensor,
    acc_bits: int = ACC_BITS,
    blocks: NDArray[Any] | int | None = None,
) -> fp32.Floats:
    """Return ``activations @ weights.T`` as the matrix engine computes it.

    Parameters
    ----------
    activations : MXTensor [rows, K]
        Left operand.
    weights : MXTensor [neurons, K]
        Right operand. For P·V these are V's integers, see `MXTensor.column_operand`.
    acc_bits : int
        Width of an accumulator, 32 to 52.
    blocks : int or integer [rows], optional
        n of each row where it is not ``ceil(K / 32)``: ``p // 32 + 1`` for P·V, p being the row's
        own position.

    Returns
    -------
    float32 [rows, neurons]

    Raises
    ------
    ValueError
        As for `Window`.
    """
    return Window(activations, weights, acc_bits, blocks).add().drain()


def _check_operands(activations: MXTensor, weights: MXTensor) -> None:
    for name, tensor in (("activations", activations), ("weights", weights)):
        if len(tensor.shape) != 2:
            raise ValueError(f"{name} has shape {tensor.shape}, it must have two axes.")
    if activations.length != weights.length:
        raise ValueError(
            f"weights has rows of {weights.length} elements, "
            f"those of activations have {activations.length}: they must be equal."
        )


def _block_counts(activations: MXTensor, blocks: NDArray[Any] | int | None) -> NDArray[np.int64]:
    rows = activations.shape[0]
    if blocks is None:
        blocks = activations.blocks
    counts = np.broadcast_to(np.asarray(blocks, np.int64), (rows,))
    # More blocks than announced could overflow the window; zero blocks cannot.
    used = activations.elements.any(-1).sum(-1)
    for row in np.flatnonzero(counts < np.maximum(used, 1))[:1]:
        raise ValueError(
            f"blocks is {counts[row]} for row {row}, which has {used[row]} nonzero blocks: "
            "it must be at least that, and at least 1."
        )
    return counts
