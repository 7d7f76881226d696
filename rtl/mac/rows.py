"""Block rows: what the fetch side makes of beats."""

from __future__ import annotations

from amaranth.lib import data

from rtl.formats import BLOCK
from rtl.mac.geometry import SHIFT_BITS, MacGeometry


class BlockRowLayout(data.StructLayout):
    """One nibble plane of P blocks, one per column.

    Members
    -------
    odd : unsigned(1)
        Parity of the row in its group.
    blocks : array
        For each column, ``nibbles`` (element 0 lowest), ``drop`` (binades of the block's scale
        below its neuron's maximum, saturating), ``nan`` (the scale is NaN) and ``maximum`` (E8M0
        byte of the neuron; for V, whose scales are folded into the activations, the byte of a
        unit of 1).
    """

    def __init__(self, geometry: MacGeometry) -> None:
        block = data.StructLayout(
            {"nibbles": 4 * BLOCK, "drop": SHIFT_BITS, "nan": 1, "maximum": 8}
        )
        super().__init__({"odd": 1, "blocks": data.ArrayLayout(block, geometry.columns)})
