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
from sim.golden import fp32
from tb.mac import Job


class Bin(NamedTuple):
    """What a job did; the cross of all values is the functional coverage.

    Attributes
    ----------
    activation, weight
        Element formats.
    rows
        ``"one"``, ``"some"``, or ``"all"`` the engine takes at a time.
    tail
        N is not whole groups, or K not whole blocks; for V, N is not 32.
    nan
        A result is NaN.
    paired
        Spare lanes took second rows.
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


def observed(config: TileConfig, job: Job, paired: bool) -> Bin:
    """Return the bin of a job that was run; `paired` says whether the engine paired rows."""
    fmt = job.activations.format
    most = MacGeometry(config).most_rows(fmt)
    whole = BLOCK if job.transpose else config.group_outputs
    return Bin(
        fmt,
        job.weights.format,
        "all" if job.rows == most else "one" if job.rows == 1 else "some",
        bool(job.outputs % whole or job.activations.length % BLOCK),
        fp32.NAN_BITS in job.expected(config).values(),
        paired,
        job.transpose,
    )


def row_counts(config: TileConfig, bin_: Bin) -> list[int]:
    """Return the numbers of rows that hit a bin."""
    geometry = MacGeometry(config)
    most = geometry.most_rows(bin_.activation)
    named = {"all": [most]} | ({"one": [1], "some": list(range(2, most))} if most > 1 else {})
    most_paired = geometry.most_paired_rows(bin_.activation)
    return [n for n in named.get(bin_.rows, []) if not bin_.paired or n <= most_paired]


def bins(config: TileConfig) -> list[Bin]:
    """Return every bin that `config` can hit."""
    formats = config.element_formats
    flags = (False, True)
    cross = itertools.product(formats, formats, ("one", "some", "all"), flags, flags, flags, flags)
    return [
        bin_
        for bin_ in map(Bin._make, cross)
        if row_counts(config, bin_)
        and (config.transposer or not bin_.transpose)
        and (config.acc_depth > 1 or not bin_.paired)
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
        """Return a job that is likely to hit `bin_`."""
        rng, config = self.rng, self.config
        rows = rng.choice(row_counts(config, bin_))
        heads = rng.choice([n for n in range(1, rows + 1) if rows % n == 0])
        if bin_.transpose:
            return self._attention_values(bin_, rows, heads)
        group = config.group_outputs
        length = self._length(bin_)
        outputs = group * rng.randint(1, self.outputs)
        if bin_.tail and group > 1:
            outputs -= rng.randint(1, group - 1)
        job = Job(
            self.tensor((rows, length), bin_.activation, bin_.nan),
            self.tensor((outputs, length), bin_.weight, bin_.nan),
            heads,
            pair=bin_.paired,
        )
        self._dress(job)
        return job

    def _attention_values(self, bin_: Bin, rows: int, heads: int) -> Job:
        """Return a job as attention makes it: p' times V, causal along positions."""
        rng = self.rng
        length = max(self._length(bin_), rows // heads)
        last = length - rows // heads  # the position of token 0
        activations = self.tensor((rows, length), bin_.activation, bin_.nan)
        codes = activations.codes.reshape(rows, -1).copy()
        for row in range(rows):
            codes[row, last + row // heads + 1 :] = 0
        width = rng.randint(1, BLOCK - 1) if bin_.tail else BLOCK
        job = Job(
            MXTensor(
                codes.reshape(activations.codes.shape), activations.scales, bin_.activation, length
            ),
            self.tensor((length, width), bin_.weight, False),
            heads,
            last=last,
            last_step=True,
            transpose=True,
            pair=bin_.paired,
        )
        self._dress(job)
        return job

    def _length(self, bin_: Bin) -> int:
        blocks = self.rng.randint(1, self.blocks)
        return blocks * BLOCK - (self.rng.randint(1, BLOCK - 1) if bin_.tail else 0)

    def _dress(self, job: Job) -> None:
        """Add chunks, a mask, ranges and views."""
        rng, outputs = self.rng, job.outputs
        if job.blocks > self.config.act_blocks or rng.random() < 0.3:
            job.chunk = rng.randint(1, min(job.blocks, self.config.act_blocks))
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
            job.result_pitch = rng.randint(0, 500)

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
