"""How a model is cut to the sizes of a tile: chunks, registers, passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gen.layout import ValueLayout, key_layout
from gen.memory_map import DoesNotFit
from gen.models.model import Attention, Linear, Model
from gen.mx import MXTensor
from rtl.config import ACCESS_BEATS, TileConfig
from rtl.core.isa import BLOCK_WORDS, MASK_ROWS, SLOT
from rtl.formats import BLOCK, Format

REGISTER_SLOTS = 128
"""Slots of a vector register that programs use; fields that count slots reach twice as far."""


def blocks_of(elements: int) -> int:
    """Return the blocks that hold so many elements."""
    return -(-elements // BLOCK)


@dataclass(frozen=True)
class Heads:
    """How the heads of an attention layer are cut.

    Attributes
    ----------
    blocks
        Blocks of a head, which is padded to whole ones.
    query_heads, kv_heads
        Heads per vector register.
    pass_heads, pass_tokens
        Heads and tokens that go through the matrix engine together; the heads share keys.
    step
        Positions that begin together: whole groups of keys and of values, from an even beat on.
    positions
        Positions whose scores fit a register; more go through memory.
    """

    blocks: int
    query_heads: int
    kv_heads: int
    pass_heads: int
    pass_tokens: int
    step: int
    positions: int

    @property
    def width(self) -> int:
        """Words of a head in a register."""
        return SLOT * self.blocks


@dataclass(frozen=True)
class Plan:
    """Sizes of a program.

    Parameters
    ----------
    config
        Of the tile.
    tokens
        Rows of a chunk.

    Raises
    ------
    DoesNotFit
        If the configuration is one that programs cannot run on.
    """

    config: TileConfig
    tokens: int

    def __post_init__(self) -> None:
        for name, value in (
            ("pseudo_channels", self.config.pseudo_channels),
            ("acc_depth", self.config.acc_depth),
        ):
            if value.bit_count() != 1:
                raise DoesNotFit(f"{name} is {value}; programs need a power of two.")

    @property
    def registers(self) -> int:
        """Words of a vector register, as far as they are used."""
        return min(self.config.vector_length, SLOT * REGISTER_SLOTS)

    @cached_property
    def columns(self) -> int:
        """Columns of a chunk that one vector register holds, whole slots."""
        slots = self.registers // SLOT // self.tokens
        if slots == 0:
            raise DoesNotFit(
                f"A chunk of {self.tokens} rows needs vector registers of "
                f"{SLOT * self.tokens} words, they have {self.registers}."
            )
        return SLOT * min(slots, self.config.act_blocks)

    def parts(self, width: int) -> list[tuple[int, int]]:
        """Return start and width of the runs of columns that registers hold."""
        return [
            (start, min(self.columns, width - start)) for start in range(0, width, self.columns)
        ]

    def block_parts(self, blocks: int, unit: int) -> list[tuple[int, int]]:
        """Return start and count of the runs of blocks that registers hold.

        Parameters
        ----------
        blocks
            Blocks of a row.
        unit
            Blocks that are written together and stay together.
        """
        most = min(self.config.act_blocks, self.registers // BLOCK_WORDS // self.tokens)
        if most < unit:
            raise DoesNotFit(
                f"{unit} blocks of {self.tokens} rows do not fit one vector register, which holds "
                f"{self.registers // BLOCK_WORDS}."
            )
        most = most // unit * unit
        return [(start, min(most, blocks - start)) for start in range(0, blocks, most)]

    def heads(self, attention: Attention) -> Heads:
        """Return how the heads of a layer are cut."""
        config, tokens = self.config, self.tokens
        blocks = blocks_of(attention.head)
        width = SLOT * blocks
        per_register = min(self.registers // (tokens * width), config.row_length // tokens)
        if tokens * width > self.registers:
            raise DoesNotFit(
                f"The rotation of {tokens} heads of {attention.head} needs vector registers of "
                f"{tokens * width} words, they have {self.registers}."
            )
        if blocks > config.act_blocks:
            raise DoesNotFit(
                f"act_blocks is {config.act_blocks}; a head of {attention.head} has {blocks} "
                "blocks, which stay together."
            )
        planes = max(attention.queries.format.planes, attention.probabilities.format.planes)
        rows = config.lanes // planes
        step = self._step(attention)
        if step > min(self.registers, BLOCK * config.act_blocks):
            raise DoesNotFit(
                f"acc_depth·pseudo_channels is {config.group_outputs}; scores need vector "
                f"registers of {step} words, they have {self.registers}, and as many positions "
                f"in act_blocks, which is {config.act_blocks}."
            )
        rows = min(rows, self.registers // step)
        # The outputs of a register's heads are activations that stay together.
        whole = min(per_register, config.act_blocks // blocks)
        pass_heads = max(
            n
            for n in range(1, attention.group + 1)
            if attention.group % n == 0 and n <= min(rows, whole)
        )
        pass_tokens = max(1, min(tokens, rows // pass_heads))
        positions = min(
            self.registers // (pass_heads * pass_tokens) // step * step,
            BLOCK * config.act_blocks // step * step,
        )
        return Heads(
            blocks,
            min(attention.heads, whole // pass_heads * pass_heads),
            min(attention.kv_heads, per_register),
            pass_heads,
            pass_tokens,
            step,
            positions,
        )

    def _step(self, attention: Attention) -> int:
        """Return `Heads.step`: a stream begins at an even beat, a group may have an odd number."""
        config = self.config
        group = config.group_outputs
        keys = key_layout(
            group,
            attention.head,
            attention.keys.format,
            pseudo_channels=config.pseudo_channels,
            acc_depth=config.acc_depth,
        ).group_beats(group)
        values = ValueLayout(BLOCK, attention.values.format, config.pseudo_channels).group_beats
        step = max(BLOCK, group)
        odd = step // group * keys.total % ACCESS_BEATS or step // BLOCK * values % ACCESS_BEATS
        return step * ACCESS_BEATS if odd else step


def check_engine(config: TileConfig, model: Model) -> None:
    """Raise `DoesNotFit` if the matrix engine lacks what a model's products need."""
    if model.layers and not config.transposer:
        raise DoesNotFit("transposer is false; attention needs one, for V.")
    for name, fmt in _operands(model):
        if fmt not in config.element_formats:
            raise DoesNotFit(f"formats is {config.formats}; {model.name} has {name} in {fmt}.")


def _operands(model: Model) -> Iterator[tuple[str, Format]]:
    """Yield every operand of the matrix engine, and its format."""
    for linear in linears(model):
        yield "inputs", linear.activation.format
        if isinstance(linear.weights, MXTensor):
            yield "weights", linear.weights.format
    for layer in model.layers:
        for name in ("queries", "keys", "values", "probabilities"):
            yield name, getattr(layer.attention, name).format


def most_tokens(config: TileConfig, model: Model) -> int:
    """Return the rows of a chunk that every matrix of a model takes."""
    planes = max(linear.activation.format.planes for linear in linears(model))
    return min(config.lanes // planes, MASK_ROWS)


def linears(model: Model) -> list[Linear]:
    """Return every matrix of a model, the head last."""
    found = []
    for layer in model.layers:
        attention, network = layer.attention, layer.feed_forward
        found += [attention.query, attention.key, attention.value, attention.output]
        if network.router is not None:
            found.append(network.router.linear)
        experts = [*network.experts, *([network.shared] if network.shared is not None else [])]
        for expert in experts:
            found += [expert.gate, expert.up, expert.down]
    return [*found, model.head]
