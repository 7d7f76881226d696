"""Random jobs for the matrix engine, each made to hit a given coverage bin."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gen.mx import MXTensor
from rtl.config import TileConfig
from rtl.formats import BLOCK, E2M1_HALF_UNITS, SCALE_NAN, Format
from rtl.mac import MacGeometry
from tb.mac import Job


class Bin(NamedTuple):
    """What a job exercises; the cross of all values is the functional coverage.

    Attributes
    ----------
    activation, weight
        Element formats.
    rows
        ``"one"``, ``"some"``, or ``"all"`` the engine takes at a time.
    tail
        N is not whole groups, and K not whole blocks.
    nan
        Some scales are NaN.
    paired
        Spare lanes take the second row.
    transpose
        The weights are V.
    """

    activation: Format
    weight: Format
    rows: str
    tail: bool
    nan: bool
    paired: bool
    transpose: bool


def most_rows(config: TileConfig, activation: Format) -> int:
    """Return the rows that the engine takes at a time."""
    return config.lanes // activation.planes


def most_paired(config: TileConfig, activation: Format) -> int:
    """Return the rows that leave room for copies of all of them."""
    geometry = MacGeometry(config)
    return geometry.pairs if activation is Format.MXFP4 else geometry.pairs - geometry.upper


def row_counts(config: TileConfig, bin_: Bin) -> list[int]:
    """Return the numbers of rows that hit a bin."""
    most = most_rows(config, bin_.activation)
    named = {"one": range(1, 2), "some": range(2, most), "all": range(most, most + 1)}
    pairable = most_paired(config, bin_.activation)
    return [n for n in named[bin_.rows] if not bin_.paired or n <= pairable]


def bins(config: TileConfig) -> list[Bin]:
    """Return every bin that `config` can hit."""
    formats = config.element_formats
    flags = (False, True)
    cross = itertools.product(formats, formats, ("one", "some", "all"), flags, flags, flags, flags)
    return [
        bin_
        for bin_ in map(Bin._make, cross)
        if row_counts(config, bin_) and (config.transposer or not bin_.transpose)
    ]


@dataclass
class JobMaker:
    """Makes random jobs.

    Parameters
    ----------
    config
        What the engine was built from.
    seed
        Seed of everything random.
    outputs, blocks
        About the largest N, in groups, and K, in blocks.
    """

    config: TileConfig
    seed: int
    outputs: int = 3
    blocks: int = 6

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.np_rng = np.random.default_rng(self.seed)

    def any_job(self) -> Job:
        """Return a job from any bin."""
        return self.job(self.rng.choice(bins(self.config)))

    def job(self, bin_: Bin) -> Job:
        """Return a job that hits `bin_`."""
        rng, config = self.rng, self.config
        rows = rng.choice(row_counts(config, bin_))
        heads = rng.choice([n for n in range(1, rows + 1) if rows % n == 0])
        if bin_.transpose:
            return self._attention_values(bin_, rows, heads)
        group = config.group_outputs
        blocks = rng.randint(1, self.blocks)
        length = blocks * BLOCK - (rng.randint(1, BLOCK - 1) if bin_.tail else 0)
        outputs = group * rng.randint(1, self.outputs)
        if bin_.tail and group > 1:
            outputs -= rng.randint(1, group - 1)
        chunk = rng.randint(1, min(blocks, config.act_blocks))
        if blocks <= config.act_blocks and rng.random() < 0.7:
            chunk = 0
        activations = self.tensor((rows, length), bin_.activation, bin_.nan)
        weights = self.tensor((outputs, length), bin_.weight, bin_.nan)
        if bin_.nan and not (activations.nan.any() or weights.nan.any()):
            activations.scales.flags.writeable = True
            activations.scales[0, 0] = SCALE_NAN
        job = Job(activations, weights, heads, chunk=chunk or None, pair=bin_.paired)
        self._dress(job, outputs)
        return job

    def _attention_values(self, bin_: Bin, rows: int, heads: int) -> Job:
        """Return a job as attention makes it: p' times V, causal along positions."""
        rng, config = self.rng, self.config
        blocks = rng.randint(1, min(self.blocks, config.act_blocks))
        tokens = rows // heads
        last = rng.randint(max(0, blocks * BLOCK - BLOCK - tokens), blocks * BLOCK - tokens)
        last = max(0, last)
        length = (last + tokens - 1) // BLOCK * BLOCK + BLOCK
        if bin_.tail:
            length -= (
                rng.randint(0, length - 1 - last - (tokens - 1))
                if length - 1 > last + tokens - 1
                else 0
            )
        activations = self.tensor((rows, length), bin_.activation, bin_.nan)
        codes = activations.codes.reshape(rows, -1).copy()
        for row in range(rows):
            codes[row, last + row // heads + 1 :] = 0
        activations = MXTensor(
            codes.reshape(activations.codes.shape), activations.scales, bin_.activation, length
        )
        width = rng.randint(1, BLOCK - 1) if bin_.tail else BLOCK
        values = self.tensor((length, width), bin_.weight, False)
        job = Job(
            activations,
            values,
            heads,
            last=last,
            last_step=True,
            transpose=True,
            pair=bin_.paired,
        )
        self._dress(job, width)
        return job

    def _dress(self, job: Job, outputs: int) -> None:
        """Add a mask, ranges and views."""
        rng = self.rng
        if rng.random() < 0.3:
            job.mask = self.np_rng.random(job.rows) < 0.6
        if rng.random() < 0.4:
            job.lo = rng.randint(-outputs, outputs)
            job.hi = rng.randint(job.lo, 2 * outputs)
            job.range_step = rng.random() < 0.5
        if rng.random() < 0.5:
            job.activation_column = rng.randint(0, 50)
            job.activation_stride = job.blocks + rng.randint(0, 3)
            job.result_column = rng.randint(0, 500)
            job.result_stride = outputs + rng.randint(0, 9)

    def tensor(self, shape: tuple[int, int], fmt: Format, nan: bool) -> MXTensor:
        """Return random codes with random scales of some spread; sometimes all at the limit."""
        rng = self.np_rng
        rows, length = shape
        blocks = -(-length // BLOCK)
        codes = self._codes((rows, blocks, BLOCK), fmt)
        codes.reshape(rows, -1)[:, length:] = 0
        spread = int(rng.choice([0, 0, 3, 20, 100, 254]))
        centre = int(rng.integers(0, 255 - spread))
        if rng.random() < 0.6:
            centre = max(0, 127 - spread // 2)
        scales = rng.integers(centre, min(254, centre + spread) + 1, (rows, blocks)).astype(
            np.uint8
        )
        if rng.random() < 0.2:
            codes[rng.random((rows, blocks)) < 0.3] = 0
        if nan:
            scales[rng.random((rows, blocks)) < 0.2] = SCALE_NAN
            scales[rng.integers(rows), rng.integers(blocks)] = SCALE_NAN
        return MXTensor(codes, scales, fmt, length)

    def _codes(self, shape: tuple[int, ...], fmt: Format) -> NDArray[np.uint8]:
        rng = self.np_rng
        kind = rng.random()
        if fmt is Format.MXFP4:
            most = len(E2M1_HALF_UNITS) - 1
            codes: NDArray[Any] = rng.integers(0, 16, shape)
            if kind < 0.2:
                codes = np.full(shape, most)
            elif kind < 0.3:
                codes = np.full(shape, most) | rng.integers(0, 2, shape) << 3
        else:
            codes = rng.integers(0, 256, shape)
            if kind < 0.1:
                codes = np.full(shape, 0x80)
            elif kind < 0.2:
                codes = np.full(shape, 0x7F)
            elif kind < 0.3:
                codes = rng.choice(np.array([0x80, 0x7F, 0x00, 0xFF]), shape)
        return codes.astype(np.uint8)
