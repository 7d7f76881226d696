"""How far a block's scale lies below the anchor of its row or neuron."""

from __future__ import annotations

from amaranth.hdl import Mux, Value

from rtl.mac.geometry import SHIFT_BITS


def saturating_drop(maximum: Value, scale: Value) -> Value:
    """Return ``maximum - scale``, limited to 0 to 63.

    A scale above the maximum has no meaning in an operand; it counts as the maximum.
    """
    limit = (1 << SHIFT_BITS) - 1
    drop = maximum - scale
    return Mux(scale > maximum, 0, Mux(drop > limit, limit, drop))[:SHIFT_BITS]
