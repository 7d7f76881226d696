"""Row-major tables in memory: embeddings, in FP32 or in MX blocks.

A quantised row is its scale bytes, zero-padded to a multiple of 16, and then its blocks, 16 bytes
per nibble plane, high plane first: a reader meets the scale before what it scales. Rows are padded
to whole pairs of beats, so that a row is fetched in whole accesses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gen.layout import BLOCK_BYTES
from gen.memory_map import align
from gen.mx import Bytes, MXTensor, nibble_planes, pack_nibbles
from rtl.config import TileConfig


def row_bytes(config: TileConfig, table: MXTensor | NDArray[np.float32]) -> int:
    """Return the bytes from one row of a table to the next."""
    if isinstance(table, MXTensor):
        return align(config, scale_bytes(table) + table.blocks * table.format.planes * BLOCK_BYTES)
    return align(config, 4 * table.shape[-1])


def scale_bytes(table: MXTensor) -> int:
    """Return the bytes of a row's scales, padding included."""
    return -(-table.blocks // BLOCK_BYTES) * BLOCK_BYTES


def pack_table(config: TileConfig, table: MXTensor | NDArray[np.float32]) -> Bytes:
    """Return a table's bytes.

    Parameters
    ----------
    config
        Of the tile.
    table : MXTensor or float32 [rows, columns]
        What to pack.

    Returns
    -------
    uint8 [rows, row_bytes]
    """
    packed = np.zeros((table.shape[0], row_bytes(config, table)), np.uint8)
    if isinstance(table, MXTensor):
        packed[:, : table.blocks] = table.scales
        planes = pack_nibbles(nibble_planes(table.codes, table.format))
        start = scale_bytes(table)
        data = planes.reshape(table.shape[0], -1)
        packed[:, start : start + data.shape[1]] = data
    else:
        data = np.ascontiguousarray(table, np.float32).view(np.uint8)
        packed[:, : data.shape[1]] = data
    return packed
