"""The descriptor of one matrix operation, and the streams around the engine."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, Value, signed, unsigned
from amaranth.lib import data

from rtl.config import TileConfig
from rtl.formats import BLOCK, Format
from rtl.mac.geometry import DEPTH_BITS, MAX_PLANES, OUTPUT_BITS, MacGeometry, index


class OperationLayout(data.StructLayout):
    """One operation: ``results[row, j] = sum over k of activations[row, k] * weights[j, k]``.

    A row is one (token, head): ``row = token * heads + head``. Per-row ranges move with the token,
    which is how causal masks are made.

    Parameters
    ----------
    config
        The configuration of the tile.

    Members
    -------
    outputs : unsigned
        Output neurons N, 1 or more. With `transpose` at most 32.
    blocks : unsigned
        Blocks of 32 along K in this operation, 1 to `act_blocks`.
    last : unsigned
        Index of the last element along K that counts for token 0, over *all* operations of a
        chunked K: K - 1, or the position of the query where K runs along positions. Row's anchors
        use ``n = last // 32 + 1``.
    last_step : unsigned(1)
        `last` grows by one per token.
    activation, weight : unsigned(1)
        Element format: 0 MXFP4, 1 MXINT8.
    transpose : unsigned(1)
        The weights are V: position-major tiles of 32 x 32 without scale or maximum beats.
    tile_row : unsigned
        With `transpose`, the first head dimension that is an output, in units of P.
    clear : unsigned(1)
        Start at zero. Without it the accumulators of the last operation go on (K in chunks), which
        must not have drained, and from which this one may differ only in `blocks`, `drain` and
        columns; then `outputs` must be at most one group.
    drain : unsigned(1)
        Deliver the results. Without it they stay for the next operation, which must not clear.
    pair : unsigned(1)
        Let spare lanes take the next block row.
    rows : unsigned
        Rows, 1 to `lanes` (`lanes / 2` for MXINT8 activations); a multiple of `heads`.
    mask : unsigned(lanes)
        Rows that take part; the others cost no work and give no result.
    heads : unsigned
        Rows that share a token, 1 or more.
    lo, hi : signed
        Outputs ``lo <= j < hi`` of token 0 are valid, the others deliver +0, whatever the weights
        hold.
    range_step : unsigned(1)
        `lo` and `hi` grow by one per token.
    activation_column, activation_stride : unsigned
        Block column of head 0's first block in a token's activations, and the distance in blocks
        from one head to the next.
    result_column, result_stride, result_pitch : unsigned
        Column of the first result of token 0, head 0, and the distances from one head and from one
        token to the next.
    """

    def __init__(self, config: TileConfig) -> None:
        rows = range(config.lanes + 1)
        column = unsigned(OUTPUT_BITS)
        super().__init__(
            {
                "outputs": unsigned(OUTPUT_BITS),
                "blocks": range(config.act_blocks + 1),
                "last": unsigned(DEPTH_BITS),
                "last_step": 1,
                "activation": 1,
                "weight": 1,
                "transpose": 1,
                "tile_row": index(MacGeometry(config).tile_rows),
                "clear": 1,
                "drain": 1,
                "pair": 1,
                "rows": rows,
                "mask": unsigned(config.lanes),
                "heads": rows,
                "lo": signed(OUTPUT_BITS + 1),
                "hi": signed(OUTPUT_BITS + 1),
                "range_step": 1,
                "activation_column": column,
                "activation_stride": column,
                "result_column": column,
                "result_stride": column,
                "result_pitch": column,
            }
        )


class FetchLayout(data.StructLayout):
    """What the operand of an operation looks like: all that the fetch side must know.

    It has these members of `OperationLayout`.
    """

    NAMES = ("outputs", "blocks", "last", "weight", "transpose", "tile_row", "drain")

    def __init__(self, config: TileConfig) -> None:
        operation = OperationLayout(config)
        super().__init__({name: operation[name].shape for name in self.NAMES})


def fetched(target: Any, operation: Any) -> list[Any]:
    """Return assignments of an operation to what has the members of `FetchLayout`."""
    return [target[name].eq(operation[name]) for name in FetchLayout.NAMES]


def is_legal(geometry: MacGeometry, operation: Any) -> Value:
    """Return whether an operation keeps to what `OperationLayout` says of its members."""
    config = geometry.config
    one_group = operation.outputs <= config.group_outputs
    most = [geometry.most_rows(fmt) for fmt in (Format.MXFP4, Format.MXINT8)]
    legal = (
        (operation.outputs >= 1)
        & (operation.blocks >= 1)
        & (operation.rows >= 1)
        & (operation.rows <= Mux(operation.activation, most[1], most[0]))
        & (operation.heads >= 1)
        & ((operation.clear & operation.drain) | one_group)
        # A row of one block has no maximum beats, and only V's rows differ in length.
        & (operation.transpose | (operation.blocks == 1) | (operation.last >= BLOCK))
        & (operation.transpose | ~operation.last_step)
    )
    if config.act_blocks + 1 < 1 << len(operation.blocks):
        legal &= operation.blocks <= config.act_blocks
    if config.transposer:
        legal &= ~operation.transpose | (operation.outputs <= BLOCK)
    else:
        legal &= ~operation.transpose
    if not geometry.int8:
        legal &= ~(operation.activation | operation.weight)
    return legal


def continues(operation: Any, previous: Any) -> Value:
    """Return whether an operation may go on with the accumulators of the previous one."""
    free = {"blocks", "clear", "drain", "activation_column", "result_column"}
    same = [operation[name] == previous[name] for name, _ in operation.shape() if name not in free]
    return Cat(same).all()


class ActivationRequestLayout(data.StructLayout):
    """Which activation block comes next.

    Members
    -------
    token : unsigned
        Row of the activations.
    column : unsigned
        Block along that row.
    """

    def __init__(self, config: TileConfig) -> None:
        super().__init__({"token": range(config.lanes), "column": unsigned(OUTPUT_BITS)})


class ActivationLayout(data.StructLayout):
    """One block of quantised activations.

    Members
    -------
    codes : unsigned
        32 element codes, element 0 lowest: bytes for MXINT8, nibbles in the low half for MXFP4.
    scale : unsigned(8)
        E8M0 byte of the block.
    maximum : unsigned(8)
        Largest E8M0 byte of the row, over all its blocks that are not NaN; 0 where there is none.
    """

    def __init__(self, config: TileConfig) -> None:
        planes = MAX_PLANES if MacGeometry(config).int8 else 1
        super().__init__({"codes": 4 * BLOCK * planes, "scale": 8, "maximum": 8})


class ResultLayout(data.StructLayout):
    """Up to `vec_lanes` neighbouring results of one row.

    Members
    -------
    row : unsigned
        Row of the operation.
    output : unsigned
        Output neuron of the first value.
    column : unsigned
        Column of the first value.
    keep : unsigned(vec_lanes)
        Which values there are; the others are beyond the last output.
    values : array of 32 bits
        IEEE binary32.
    last : unsigned(1)
        Nothing of the operation follows. One without rows has no results at all.
    """

    def __init__(self, config: TileConfig) -> None:
        super().__init__(
            {
                "row": range(config.lanes),
                "output": unsigned(OUTPUT_BITS),
                "column": unsigned(OUTPUT_BITS),
                "keep": unsigned(config.vec_lanes),
                "values": data.ArrayLayout(32, config.vec_lanes),
                "last": 1,
            }
        )
