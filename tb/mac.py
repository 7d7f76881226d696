"""Testbench of the matrix engine: jobs, their streams, and the scoreboard.

A `Job` is one matrix product as a user sees it. It knows the operations and beats that the engine
gets for it, and the results that the golden model expects of it.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Const
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from numpy.typing import NDArray

from gen.layout import ValueLayout, pack_values, pack_weights
from gen.mx import MXTensor, pack_nibbles
from rtl.config import TileConfig
from rtl.formats import BLOCK, Format
from rtl.mac import (
    ActivationLayout,
    ActivationRequestLayout,
    MacGeometry,
    MatrixEngine,
    OperationLayout,
    ResultLayout,
)
from sim.golden import window_matmul
from tb.registers import RegisterDriver
from tb.stream import StreamSink, StreamSource, any_pauses, never

PERIOD_NS = 10


@dataclass
class Job:
    """One matrix product.

    Parameters
    ----------
    activations : MXTensor [rows, K]
        Row ``token * heads + head``.
    weights : MXTensor [N, K], or V [positions, head dimension] with `transpose`
        For `transpose`, K is the number of positions and N the head dimension, up to 32.
    heads
        Rows that share a token.
    mask : bool [rows], optional
        Rows that take part, by default all.
    lo, hi
        Valid outputs of token 0, by default all.
    range_step
        Whether they move with the token.
    last
        Last element along K that counts for token 0, by default K - 1.
    last_step
        Whether it moves with the token.
    pair
        Let spare lanes work.
    chunk
        Blocks of K per operation; by default all of K in one, if the engine takes so many.
    activation_column, activation_stride, result_column, result_stride, result_pitch
        See `OperationLayout`; the strides default to just enough.
    """

    activations: MXTensor
    weights: MXTensor
    heads: int = 1
    mask: NDArray[np.bool_] | None = None
    lo: int = 0
    hi: int | None = None
    range_step: bool = False
    last: int | None = None
    last_step: bool = False
    pair: bool = True
    transpose: bool = False
    chunk: int | None = None
    activation_column: int = 0
    activation_stride: int | None = None
    result_column: int = 0
    result_stride: int | None = None
    result_pitch: int = 0

    @property
    def rows(self) -> int:
        """Rows, the masked ones included."""
        return self.activations.shape[0]

    @property
    def outputs(self) -> int:
        """Output neurons."""
        return self.weights.length if self.transpose else self.weights.shape[0]

    @property
    def blocks(self) -> int:
        """Blocks along K."""
        return self.activations.blocks

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which rows take part."""
        return np.ones(self.rows, bool) if self.mask is None else self.mask

    @property
    def strides(self) -> tuple[int, int]:
        """Activation and result stride."""
        return (
            self.blocks if self.activation_stride is None else self.activation_stride,
            self.outputs if self.result_stride is None else self.result_stride,
        )

    def beats(self, config: TileConfig) -> NDArray[np.uint8]:
        """Return the operand's beats, uint8 [beats, 16·P]."""
        if not self.transpose:
            return pack_weights(
                self.weights, pseudo_channels=config.pseudo_channels, acc_depth=config.acc_depth
            )
        capacity = self.blocks * BLOCK
        layout = ValueLayout(capacity, self.weights.format, config.pseudo_channels)
        beats, _ = pack_values(self.weights, layout)
        # V is read once for every group of neurons.
        groups = -(-self.outputs // config.group_outputs)
        return np.concatenate([beats[0]] * groups)

    def operations(self, config: TileConfig) -> list[dict[str, int]]:
        """Return the fields of the operations, in order."""
        whole = self._operation()
        chunk = self.chunk
        if self.blocks > config.act_blocks:
            chunk = min(chunk or config.act_blocks, config.act_blocks)
        if chunk is None:
            return [whole]
        group = config.group_outputs
        operations = []
        for base in range(0, self.outputs, group):
            first = {"tile_row": base // config.pseudo_channels} if self.transpose else {}
            for start in range(0, self.blocks, chunk):
                stop = min(start + chunk, self.blocks)
                operations.append(
                    whole
                    | {
                        "outputs": min(group, self.outputs - base),
                        "blocks": stop - start,
                        "clear": start == 0,
                        "drain": stop == self.blocks,
                        "lo": self.lo - base,
                        "hi": whole["hi"] - base,
                        "activation_column": self.activation_column + start,
                        "result_column": self.result_column + base,
                        **first,
                    }
                )
        return operations

    def _operation(self) -> dict[str, int]:
        activation_stride, result_stride = self.strides
        return {
            "outputs": self.outputs,
            "blocks": self.blocks,
            "last": self.activations.length - 1 if self.last is None else self.last,
            "last_step": self.last_step,
            "activation": self.activations.format is Format.MXINT8,
            "weight": self.weights.format is Format.MXINT8,
            "transpose": self.transpose,
            "tile_row": 0,
            "clear": 1,
            "drain": 1,
            "pair": self.pair,
            "rows": self.rows,
            "mask": sum(1 << int(i) for i in np.flatnonzero(self.active)),
            "heads": self.heads,
            "lo": self.lo,
            "hi": self.outputs if self.hi is None else self.hi,
            "range_step": self.range_step,
            "activation_column": self.activation_column,
            "activation_stride": activation_stride,
            "result_column": self.result_column,
            "result_stride": result_stride,
            "result_pitch": self.result_pitch,
        }

    def activation(self, config: TileConfig, token: int, column: int) -> int:
        """Return the payload for a request."""
        head, block = divmod(column - self.activation_column, self.strides[0])
        row = token * self.heads + head
        assert head < self.heads, "a request beyond the last head"
        codes = self.activations.codes[row, block]
        if self.activations.format is Format.MXFP4:
            codes = pack_nibbles(codes)
        value = int.from_bytes(codes.tobytes(), "little")
        layout = ActivationLayout(config)
        return pack(
            layout,
            codes=value,
            scale=int(self.activations.scales[row, block]),
            maximum=int(self.activations.maximum_scale[row]),
        )

    def expected(self, config: TileConfig) -> dict[tuple[int, int], int]:
        """Return the bits of every result, by row and column."""
        tokens = np.arange(self.rows) // self.heads
        last = self.activations.length - 1 if self.last is None else self.last
        blocks = (last + tokens * self.last_step) // BLOCK + 1
        weights = self.weights.column_operand(0) if self.transpose else self.weights
        activations = self.activations
        if self.transpose:
            weights = weights[: self.outputs]
        results = window_matmul(activations, weights, config.acc_bits, blocks)
        shift = tokens[:, None] * self.range_step
        output = np.arange(self.outputs)
        hi = self.outputs if self.hi is None else self.hi
        valid = (output >= self.lo + shift) & (output < hi + shift)
        bits = np.where(valid, results.view(np.uint32), 0)
        first = (
            self.result_column
            + self.result_pitch * tokens
            + self.strides[1] * (np.arange(self.rows) % self.heads)
        )
        return {
            (row, int(first[row]) + j): int(bits[row, j])
            for row in np.flatnonzero(self.active).tolist()
            for j in range(self.outputs)
        }


def pack(layout: Any, **fields: int) -> int:
    """Return a payload with these fields."""
    return int(Const(fields, layout).as_value().value)


class MacTestbench:
    """Drives the engine and compares every result with the golden model.

    Parameters
    ----------
    dut
        The design.
    config
        Its configuration.

    Attributes
    ----------
    OPERANDS
        Name of the stream that the operands come from: here, that of their beats.
    checked
        Results compared.
    """

    OPERANDS = "beats"

    def __init__(self, dut: Any, config: TileConfig) -> None:
        self.dut = dut
        self.config = config
        self.geometry = MacGeometry(config)
        self._operation = OperationLayout(config)
        self._request = ActivationRequestLayout(config)
        self._result = ResultLayout(config)
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        dut.rst.value = 1
        self.registers = self._open_registers()
        self.operations = StreamSource(dut, "operations")
        self.operands = StreamSource(dut, self.OPERANDS)
        self.activations = StreamSource(dut, "activations")
        self.requests = StreamSink(dut, "requests", self._answer)
        self.results = StreamSink(dut, "results", self._compare)
        self._sources = (self.operations, self.operands, self.activations)
        self._asked: deque[tuple[Job, int]] = deque()
        self._expected: deque[dict[tuple[int, int], int]] = deque()
        self._left: deque[int] = deque()  # results of each operation that delivers some
        self.checked = 0

    def _open_registers(self) -> RegisterDriver:
        """Return the way to the registers of the engine."""
        return RegisterDriver(self.dut, MatrixEngine(self.config).register_map)

    async def prepare(self, job: Job) -> None:
        """Put what a job needs where the design finds it; must come before `submit`."""

    def _supply(self, job: Job) -> None:
        """Queue the operand of a job."""
        beats = job.beats(self.config)
        self.operands.send(*(int.from_bytes(beat.tobytes(), "little") for beat in beats))

    async def taken(self) -> int:
        """Return how many beats the engine took since reset."""
        return (await self.registers.counters())["beats"]

    async def reset(self) -> None:
        """Reset the engine and forget everything under way."""
        self.dut.rst.value = 1
        # Transfers of the edge at which this was called still count.
        await RisingEdge(self.dut.clk)
        for source in self._sources:
            source.reset()
        self._asked.clear()
        self._expected.clear()
        self._left.clear()
        await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    def pause(self, rng: random.Random | None) -> None:
        """Choose new pauses for all streams at random, or none."""
        for stream in (*self._sources, self.requests, self.results):
            stream.pauses = any_pauses(rng) if rng else never()

    def submit(self, job: Job) -> None:
        """Queue a job."""
        expected = job.expected(self.config)
        operations = job.operations(self.config)
        for operation in operations:
            self.operations.send(pack(self._operation, **operation))
            blocks = int(job.active.sum()) * operation["blocks"]
            if blocks:
                self._asked.append((job, blocks))
                if operation["drain"]:
                    self._left.append(int(job.active.sum()) * operation["outputs"])
        if expected:
            self._expected.append(expected)
        self._supply(job)

    async def finish(self, cycles: int) -> int:
        """Wait until every result was checked; return the cycles this took.

        Parameters
        ----------
        cycles
            Give up after so many.
        """
        edge = RisingEdge(self.dut.clk)
        for cycle in range(cycles):
            if not (self._expected or self._asked) and all(s.idle for s in self._sources):
                return cycle
            await edge
        counters = await self.registers.counters()
        raise AssertionError(
            f"after {cycles} cycles {len(self._asked)} operations lack activations and "
            f"{len(self._expected)} jobs have results missing, "
            f"{sum(map(len, self._expected))} of them; the engine counts {counters}"
        )

    async def settle(self) -> None:
        """Check that the engine has come to rest: nothing more is asked for, taken or delivered."""
        before = self.requests.taken, self.results.taken, [s.sent for s in self._sources]
        for _ in range(100):
            await RisingEdge(self.dut.clk)
        after = self.requests.taken, self.results.taken, [s.sent for s in self._sources]
        assert before == after, "the engine went on after its last result"

    def _answer(self, payload: int) -> None:
        request = Const(payload, self._request.size)
        token, column = unpack(self._request, payload, "token", "column")
        assert self._asked, f"a request too many: token {token}, column {column}, {request}"
        job, left = self._asked.popleft()
        if left > 1:
            self._asked.appendleft((job, left - 1))
        self.activations.send(job.activation(self.config, token, column))

    def _compare(self, payload: int) -> None:
        row, column, keep, values, last = unpack(
            self._result, payload, "row", "column", "keep", "values", "last"
        )
        assert keep, "a result transfer without a result"
        for i in range(self.config.vec_lanes):
            if keep >> i & 1:
                assert self._expected, "a result too many"
                expected = self._expected[0]
                place = row, column + i
                assert place in expected, f"result {place} was not expected, or came twice"
                value = values >> 32 * i & 0xFFFF_FFFF
                want = expected.pop(place)
                assert value == want, f"result {place} is {value:08x}, golden {want:08x}"
                self.checked += 1
                if not expected:
                    self._expected.popleft()
        self._left[0] -= keep.bit_count()
        assert last == (self._left[0] == 0), f"result {row, column}: last is {last}"
        if last:
            self._left.popleft()


def unpack(layout: Any, payload: int, *names: str) -> list[int]:
    """Return fields of a payload, as unsigned numbers."""
    values = []
    for name in names:
        place = layout[name]
        values.append(payload >> place.offset & (1 << place.width) - 1)
    return values
