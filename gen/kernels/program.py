"""The program of a whole model: a request of tokens in, logits or the next token out.

The host puts a request into the mailbox: the position of the first token, how many there are, and
the tokens themselves. The program takes them in chunks, two at a time where there are that many,
one's vector work under the other's weights; a single token is just a chunk of one row. So prefill
and decode are the same instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gen.assembler import Assembler, Program, RegistersExhausted
from gen.kernels.attention import self_attention
from gen.kernels.feed_forward import feed_forward
from gen.kernels.heads import load_rotation
from gen.kernels.linear import add_to_stream, multiply, norm, product, sum_squares
from gen.kernels.plan import Plan, check_engine, most_tokens
from gen.kernels.router import check_router
from gen.kernels.storage import store
from gen.kernels.stored import COUNT, POSITION, RESULT, TOKENS, Run, Stored, StoredLayer
from gen.kernels.values import Chunk, Columns, Kernel, Part, Phases
from gen.layout import BLOCK_BYTES
from gen.memory_map import DoesNotFit
from gen.models.model import Model
from gen.mx import MXTensor
from gen.table import scale_bytes
from rtl.config import TileConfig
from rtl.core.fields import S
from rtl.core.isa import LoadKind
from rtl.formats import BLOCK, Format

_TABLE = {Format.MXFP4: LoadKind.MXFP4, Format.MXINT8: LoadKind.MXINT8}


@dataclass(frozen=True)
class TileProgram:
    """A model on a tile: a program, and what is in memory before it runs.

    Attributes
    ----------
    program
        The program.
    stored
        Memory.
    chunks
        Chunks in flight, at most.
    logits
        Whether it writes logits of every token, or only the next token.
    residuals
        Where the last chunk's residual stream is when the program stops, if that chunk was alone
        and if it was not.
    """

    program: Program
    stored: Stored
    chunks: int
    logits: bool
    residuals: tuple[Columns, Columns]

    def last_chunk(self, count: int) -> tuple[int, Columns]:
        """Return the rows of the last chunk of a request, and where its residual stream is.

        Parameters
        ----------
        count
            Tokens of the request.
        """
        tokens = self.stored.plan.tokens
        left = (count - 1) % (tokens * self.chunks) + 1
        alone, together = self.residuals
        return (left - 1) % tokens + 1, alone if left <= tokens else together


def build(
    model: Model,
    config: TileConfig,
    *,
    capacity: int | None = None,
    logits: bool = False,
    tokens: int | None = None,
    chunks: int = 2,
    memory: int = 1 << 32,
) -> TileProgram:
    """Write the program of a model for one tile.

    Parameters
    ----------
    model
        A quantised model.
    config
        Of the tile.
    capacity
        Positions of the KV cache, 1 or more; by default, and at most, the model's context.
    logits
        Write logits of all tokens, not only the next token.
    tokens
        Rows of a chunk, at most; by default as many as matrix engine and registers take.
    chunks
        Chunks in flight, 1 or 2; fewer if registers do not suffice.
    memory
        Bytes of the tile's memory.

    Raises
    ------
    DoesNotFit
        If the model does not fit the tile.
    ValueError
        If capacity, tokens or chunks is out of range.
    """
    if capacity is not None and capacity < 1:
        raise ValueError(f"capacity is {capacity}, it must be at least 1.")
    if tokens is not None and tokens < 1:
        raise ValueError(f"tokens is {tokens}, it must be at least 1.")
    if chunks not in (1, 2):
        raise ValueError(f"chunks is {chunks}, it must be 1 or 2.")
    check_engine(config, model)
    most = most_tokens(config, model)
    if tokens is not None:
        most = min(most, tokens)
    failure: ValueError | None = None
    plan = Plan(config, most)
    for rows in range(most, 0, -1):
        for together in range(chunks, 0, -1):
            try:
                plan = Plan(config, rows)
                for layer in model.layers:
                    if layer.feed_forward.router is not None:
                        check_router(layer.feed_forward.router, plan)
                limit = min(capacity or model.context, model.context)
                stored = store(plan, model, capacity, memory, limit if logits else 0)
                writer = _Writer(stored, logits)
                program = writer.write(together)
                return TileProgram(program, stored, together, logits, writer.residuals)
            except (DoesNotFit, RegistersExhausted) as error:
                failure = error
    assert failure is not None
    if isinstance(failure, RegistersExhausted):
        failure = DoesNotFit(
            f"{failure} That is with one token at a time: {model.name} needs longer registers "
            f"than those of {plan.registers} words that vector_bytes {config.vector_bytes} gives."
        )
    raise failure


class _Writer:
    """Writes a program.

    Parameters
    ----------
    stored
        The model in memory.
    logits
        Whether logits are wanted.
    """

    def __init__(self, stored: Stored, logits: bool) -> None:
        self.stored, self.logits = stored, logits
        self.model, self.plan = stored.model, stored.plan
        self.a = a = Assembler()
        self.mailbox = stored.map["mailbox"].address
        parts = len(self.plan.parts(self.model.width))
        self.k = Kernel(
            a, self.plan, stored, a.scalar(), a.scalar(), a.vectors.take() if parts > 1 else 0
        )
        self.position, self.left, self.index = a.scalar(), a.scalar(), a.scalar()

    def write(self, chunks: int) -> Program:
        """Write everything, with so many chunks in flight."""
        a = self.a
        a.phase = "request"
        for to, word in ((self.position, POSITION), (self.left, COUNT)):
            a.emit("lw", to=to, address=self.mailbox + 4 * word)
        a.constant(self.index, 0)
        last, end = a.label("last"), a.label("end")
        again = a.here("chunks")
        a.emit("beq", a=self.left, b=0, target=end)
        if chunks > 1:
            with a.scalars(1) as (tokens,):
                a.constant(tokens, self.plan.tokens)
                a.emit("bge", a=tokens, b=self.left, target=last)
            together = self._chunks(chunks)
            a.jump(again)
            a.place(last)
        alone = self._chunks(1)
        self.residuals = alone, together if chunks > 1 else alone
        a.jump(again)
        a.place(end)
        a.emit("stop")
        return a.finish()

    def _chunks(self, count: int) -> Columns:
        """Write the way of some chunks through the model; return the last one's stream."""
        a = self.a
        chunks = [self._begin() for _ in range(count)]
        self._interleave(self._embed(c) for c in chunks)
        for run in self.stored.runs:
            self._layers(run, chunks)
        for c in chunks:
            self._finish(c)
            c.x.free(a)
            a.vectors.give(c.cos, c.sin)
            a.rows.give(c.squares)
            a.free(c.rows, c.position, c.index)
        return chunks[-1].x

    def _begin(self) -> Chunk:
        """Write what a chunk is about, and count it as taken."""
        a = self.a
        c = Chunk(
            a.scalar(),
            a.scalar(),
            a.scalar(),
            self.k.take_columns(self.model.width),
            a.rows.take(),
            a.vectors.take(),
            a.vectors.take(),
        )
        a.emit("add", to=c.position, a=self.position, b=0)
        a.emit("add", to=c.index, a=self.index, b=0)
        with a.scalars(1) as (tokens,):
            a.constant(tokens, self.plan.tokens)
            a.emit("min", to=c.rows, a=tokens, b=self.left)
        a.emit("add", to=self.position, a=self.position, b=c.rows)
        a.emit("add", to=self.index, a=self.index, b=c.rows)
        a.emit("sub", to=self.left, a=self.left, b=c.rows)
        return c

    def _embed(self, c: Chunk) -> Phases:
        """Write the lookup of a chunk's embeddings."""
        a, stored = self.a, self.stored
        a.phase = "embedding"
        table = self.model.embedding
        kind = _TABLE[table.format] if isinstance(table, MXTensor) else LoadKind.WORDS
        for token in range(self.plan.tokens):
            behind = a.label(f"embedded.{token}")
            with a.scalars(2) as (row, wanted):
                if token:
                    a.constant(wanted, token)
                    a.emit("bge", a=wanted, b=c.rows, target=behind)
                a.multiply(row, c.index, 4)
                a.emit(
                    "lw",
                    to=row,
                    address=row,
                    address_offset=self.mailbox + 4 * (TOKENS + token),
                )
                a.multiply(row, row, stored.embedding_bytes)
                for part in c.x.parts:
                    self._load_embedding(c, part, token, row, kind)
            a.place(behind)
        sum_squares(self.k, c)
        if stored.runs:
            load_rotation(self.k, c, stored.runs[0].layer.attention.shape.head)
        yield

    def _load_embedding(self, c: Chunk, part: Part, token: int, row: S, kind: LoadKind) -> None:
        """Write the load of one register's columns of an embedding."""
        table, region = self.model.embedding, self.stored.map["embedding"]
        where = {"address": row, "address_offset": region.address + 4 * part.start}
        if isinstance(table, MXTensor):
            first = part.start // BLOCK
            elements = scale_bytes(table) + first * table.format.planes * BLOCK_BYTES
            where |= {
                "address_offset": region.address + elements,
                "scales": row,
                "scales_offset": region.address + first,
            }
        self.a.emit(
            "load",
            to=part.register,
            into=token > 0,
            offset=token * part.stride,
            rows=1,
            columns=part.columns,
            kind=kind,
            **where,
        )

    def _layers(self, run: Run, chunks: list[Chunk]) -> None:
        """Write a loop over layers that are stored alike."""
        a, k = self.a, self.k
        with a.scalars(1) as (left,):
            a.phase = "layer"
            a.constant(k.weights, run.weights.address)
            a.constant(k.cache, run.caches.address)
            a.constant(left, run.count)
            loop = a.here("layer")
            self._interleave(self._layer(c, run.layer) for c in chunks)
            a.phase = "layer"
            a.add(k.weights, k.weights, run.layer.bytes)
            a.add(k.cache, k.cache, run.layer.cache.bytes)
            a.emit("loop", counter=left, target=loop)

    def _layer(self, c: Chunk, layer: StoredLayer) -> Phases:
        a, k = self.a, self.k
        a.phase = "norm"
        x = norm(k, c, layer.attention_norm, k.weights, layer.attention.query.activation)
        o = yield from self_attention(k, c, layer.attention, x)
        a.phase = "output projection"
        y = k.take_columns(self.model.width)
        for part in y.parts:
            multiply(k, {"rows": c.rows}, o, layer.attention.output, k.weights, part)
        o.free(a)
        yield
        a.phase = "norm"
        add_to_stream(k, c, y, layer.attention.output.bias, k.weights)
        y.free(a)
        precision = layer.feed_forward.expert.gate.activation
        x = norm(k, c, layer.feed_forward_norm, k.weights, precision)
        a.phase = "feed forward"
        yield from feed_forward(k, c, layer, x)

    def _interleave(self, kernels: Iterable[Phases]) -> None:
        """Write the phases of several chunks in turn."""
        running = [(kernel, "") for kernel in kernels]
        while running:
            still = []
            for kernel, phase in running:
                self.a.phase = phase or self.a.phase
                try:
                    next(kernel)
                except StopIteration:
                    continue
                still.append((kernel, self.a.phase))
            running = still

    def _finish(self, c: Chunk) -> None:
        """Write the last norm and the head."""
        a, stored = self.a, self.stored
        base = S(0)
        skip = a.label("no.head")
        a.phase = "head"
        if not self.logits:
            a.emit("bne", a=self.left, b=0, target=skip)
        x = norm(self.k, c, stored.map["norm"].address, base, stored.head.activation)
        best, index = a.rows.take(), a.rows.take()
        head = stored.map["head"].address
        for piece in stored.head.pieces:
            destination: dict[str, object] = {"results": False}
            register = None
            if self.logits:
                register = a.vectors.take()
                destination = {
                    "to": register,
                    "result_pitch": -(-piece.outputs // BLOCK) * BLOCK,
                }
            product(
                self.k,
                {"rows": c.rows},
                x,
                stored.head,
                replace(piece, offset=head + piece.offset),
                base,
                argmax=True,
                argmax_resume=piece.start > 0,
                argmax_base=piece.start,
                best=best,
                best_index=index,
                **destination,
            )
            if register is not None:
                self._store_logits(c, register, piece.start, piece.outputs)
                a.vectors.give(register)
        x.free(a)
        with a.scalars(2) as (row, token):
            a.add(row, c.rows, -1)
            a.emit("readr", to=token, source=index, row=row)
            a.emit("sw", value=token, address=self.mailbox + 4 * RESULT)
        a.rows.give(best, index)
        a.place(skip)

    def _store_logits(self, c: Chunk, register: int, start: int, outputs: int) -> None:
        a = self.a
        pitch = 4 * self.model.vocabulary
        with a.scalars(1) as (row,):
            a.multiply(row, c.index, pitch)
            a.emit(
                "store",
                source=register,
                stride=-(-outputs // BLOCK),
                rows=c.rows,
                columns=outputs,
                address=row,
                address_offset=self.stored.map["logits"].address + 4 * start,
                pitch=pitch,
            )
