"""Random programs of `matrix`, of everything that the instruction set allows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gen.layout import ValueLayout, pack_values, pack_weights
from gen.mx import Bytes, MXTensor
from rtl.core.isa import BLOCK_WORDS, MatrixFormat
from rtl.formats import BLOCK, SCALE_NAN
from sim.interpreter.rows import Integers
from tb.mac import Job
from tb.matrix import MatrixInstruction, MatrixOracle, matrix
from tb.random_mac import JobMaker
from tb.random_vec import random_words

SOURCES = range(12)
"""Vector registers with activations."""

TARGETS = range(12, 24)
"""Vector registers with results."""

MAXIMA = range(8)
"""Row registers with greatest scales."""

BESTS = range(8, 16)
"""Row registers with what argmax finds."""


class Full(Exception):
    """There is no room for what is wanted."""


class Places(NamedTuple):
    """Where rows are.

    Attributes
    ----------
    start
        Place of token 0, head 0.
    head, token
        Distance from one to the next.
    extent
        Places from `start` to behind the last one.
    """

    start: int
    head: int
    token: int
    extent: int

    def of(self, job: Job) -> Integers:
        """Return the place of every row of a job."""
        token, head = np.divmod(np.arange(job.rows), job.heads)
        return self.start + self.token * token + self.head * head


class Maker:
    """Makes random legal instructions.

    Parameters
    ----------
    oracle
        What holds their activations and operands; it must not have executed anything.
    seed
        Seed of everything random.
    """

    def __init__(self, oracle: MatrixOracle, seed: int) -> None:
        self.oracle, self.config = oracle, oracle.config
        self.rng = np.random.default_rng(seed)
        self.jobs = JobMaker(self.config, seed, outputs=2, blocks=5)
        self._next = {("v", r): 0 for r in SOURCES} | {("r", r): 0 for r in MAXIMA}
        for register in TARGETS:
            oracle.set_words(register, random_words(self.rng, self.config.vector_length))
        for register in BESTS:
            oracle.set_row(register, random_words(self.rng, self.config.lanes))

    @property
    def blocks(self) -> int:
        """Blocks of a vector register."""
        return self.config.vector_length // BLOCK_WORDS

    def program(self, count: int) -> list[MatrixInstruction]:
        """Return about so many instructions, if there is room for what they read."""
        program: list[MatrixInstruction] = []
        while len(program) < count:
            try:
                program += self.instructions(self._job())
            except Full:
                break
        return program

    def instructions(self, job: Job, **fields: Any) -> list[MatrixInstruction]:
        """Return the instructions of a job.

        Raises
        ------
        Full
            There is no room for its activations.
        """
        rng, config = self.rng, self.config
        parts = self._parts(job)
        common = self._common(job) | self._maxima(job)
        sources = self._activations(job, parts)
        common |= self._results(job) | self._argmax() | fields
        first_result = common["result_offset"]
        made = []
        for part in parts:
            base, n = part["base"], part["outputs"]
            o = common | sources[part["start"]]
            o |= {name: part[name] for name in ("outputs", "blocks", "clear", "drain")}
            o["tile_row"] = part["tile_row"]
            if o["ranged"]:
                o["lo"], o["hi"] = job.lo - base, (job.outputs if job.hi is None else job.hi) - base
            o["result_offset"] = first_result + base
            o["into"] = common["into"] or base > 0
            o["argmax_base"] = (common["argmax_base"] + base) & 0xFFFFFFFF
            o["argmax_resume"] = common["argmax_resume"] or base > 0
            if part["clear"]:
                beats = self._beats(job, base, n)
                address, used = self.oracle.place(beats), 0
            bring = len(beats) - used
            if not part["drain"]:
                bring = 2 * int(rng.integers(0, bring // 2 + 1))
            # Where there are no beats, the address does not matter.
            offset = int(rng.integers(0, 1 << 32))
            at = address + used * config.beat_stride if bring else 0xFFFFFFF1
            used += bring
            o |= {"beats": bring, "address": at - offset & 0xFFFFFFFF, "address_offset": offset}
            made.append(matrix(**o))
        return made

    def _job(self) -> Job:
        """Return a job whose operations are legal instructions."""
        rng, config = self.rng, self.config
        while True:
            job = self.jobs.any_job()
            fits = self.blocks // job.rows
            if job.transpose and job.outputs > config.group_outputs:
                job.chunk = job.chunk or min(job.blocks, config.act_blocks)
            if job.blocks > fits:
                job.chunk = min(job.chunk or fits, fits)
            if job.chunk and job.chunk < job.blocks and config.group_outputs < job.outputs // 4:
                continue  # too many chains
            if not job.transpose and rng.random() < 0.4:
                # Equal neurons, for argmax to tell apart.
                job.weights = job.weights[rng.integers(0, job.outputs, job.outputs)]
            return job

    def _parts(self, job: Job) -> list[dict[str, Any]]:
        """Return the operations of a job, each with its first output and its first block."""
        parts, base, start = [], 0, 0
        for operation in job.operations(self.config):
            part = dict(operation, base=base, start=start)
            start += part["blocks"]
            if part["drain"]:
                base, start = base + part["outputs"], 0
            parts.append(part)
        return parts

    def _common(self, job: Job) -> dict[str, Any]:
        rng = self.rng
        ranged = job.lo != 0 or job.hi is not None or job.range_step
        return {
            "last": job.activations.length - 1 if job.last is None else job.last,
            "last_step": job.last_step,
            "activation": MatrixFormat[job.activations.format.name],
            "weight": MatrixFormat[job.weights.format.name],
            "transpose": job.transpose,
            "pair": job.pair,
            "rows": job.rows,
            "heads": job.heads,
            "masked": job.mask is not None,
            # Without a mask, and of rows that there are not, its bits do not matter.
            "mask": sum(1 << int(i) for i in np.flatnonzero(job.active))
            if job.mask is not None
            else int(rng.integers(0, 1 << 32)),
            "ranged": ranged,
            # Where there is no range, it does not matter what it would be.
            "lo": int(rng.integers(-50, 50)),
            "hi": int(rng.integers(-50, 50)),
            "range_step": job.range_step if ranged else bool(rng.random() < 0.5),
        }

    def _maxima(self, job: Job) -> dict[str, Any]:
        """Put the greatest scales of rows, or more, where the instruction finds them."""
        rng, oracle = self.rng, self.oracle
        register, at = self._take("r", MAXIMA, job.rows, self.config.row_length - 1)
        places = Places(at, 1, job.heads, job.rows).of(job)
        maxima = job.activations.maximum_scale.astype(np.int64)
        maxima = np.minimum(maxima + rng.choice([0, 0, 0, 1, 20]), SCALE_NAN)
        active = job.active
        oracle.rows.write(register, places[active], maxima[active])
        return {"maxima": register, "maxima_offset": at, "maxima_pitch": job.heads}

    def _activations(self, job: Job, parts: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
        """Put chunks of activations where instructions find them; return where, by first block."""
        a, rows = job.activations, np.flatnonzero(job.active)
        counts = {part["start"]: part["blocks"] for part in parts}
        # The distance of heads is the same all along a chain.
        shape = self._places(job, max(counts.values()), self.blocks)
        found: dict[int, dict[str, Any]] = {}
        for start, count in counts.items():
            register, at = self._take("v", SOURCES, shape.extent, self.blocks)
            part = slice(start, start + count)
            chunk = MXTensor(a.codes[rows, part], a.scales[rows, part], a.format, BLOCK * count)
            places = shape._replace(start=at).of(job)
            if rows.size:
                self.oracle.vectors.write_blocks(register, places[rows], chunk)
            found[start] = {
                "source": register,
                "offset": at,
                "stride": shape.head,
                "pitch": shape.token,
            }
        return found

    def _results(self, job: Job) -> dict[str, Any]:
        """Return where results go, if they fit."""
        rng, length = self.rng, self.config.vector_length
        try:
            shape = self._places(job, job.outputs, length)
        except Full:
            shape = None
        fits = shape is not None and rng.random() < 0.9
        o = {
            "results": fits,
            "to": int(rng.choice(TARGETS)),
            "into": bool(rng.random() < 0.5),
            "result_offset": 0,
        }
        if fits:
            assert shape is not None
            start = int(rng.integers(0, length - shape.extent + 1))
            o |= {
                "result_offset": start,
                "result_stride": shape.head,
                "result_pitch": shape.token,
            }
        return o

    def _argmax(self) -> dict[str, Any]:
        rng = self.rng
        best, index = rng.choice(BESTS, 2, replace=False)
        return {
            "argmax": bool(rng.random() < 0.5),
            "argmax_resume": bool(rng.random() < 0.5),
            "argmax_base": int(rng.integers(0, rng.choice([1, 1000, 1 << 32]))),
            "best": int(best),
            "best_index": int(index),
        }

    def _beats(self, job: Job, base: int, outputs: int) -> Bytes:
        """Return the operand of a chain."""
        config = self.config
        if job.transpose:
            layout = ValueLayout(BLOCK * job.blocks, job.weights.format, config.pseudo_channels)
            return pack_values(job.weights, layout)[0][0]
        return pack_weights(
            job.weights[base : base + outputs],
            pseudo_channels=config.pseudo_channels,
            acc_depth=config.acc_depth,
        )

    def _places(self, job: Job, width: int, most: int) -> Places:
        """Return places, from 0 on, of rows of a width that do not overlap: tokens or heads first.

        Raises
        ------
        Full
            If they do not fit.
        """
        rng = self.rng
        tokens = job.rows // job.heads
        if tokens * job.heads * width > most:
            raise Full
        spare = most - job.rows * width
        by_token = rng.random() < 0.7
        inner, outer = (job.heads, tokens) if by_token else (tokens, job.heads)
        near = width + int(rng.integers(0, min(5, spare // job.rows) + 1))
        spare = most - outer * inner * near
        far = inner * near + int(rng.integers(0, min(9, spare // outer) + 1))
        extent = (outer - 1) * far + (inner - 1) * near + width
        head, token = (near, far) if by_token else (far, near)
        return Places(0, head, token, extent)

    def _take(self, kind: str, registers: range, count: int, most: int) -> tuple[int, int]:
        """Return a register and the first of `count` neighbouring places of it that are free.

        Raises
        ------
        Full
            If there are none.
        """
        order = self.rng.permutation(registers)
        for register in order.tolist():
            start = self._next[kind, register] + int(self.rng.integers(0, 3))
            if start + count <= most:
                self._next[kind, register] = start + count
                return register, start
        raise Full
