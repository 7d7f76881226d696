"""Element formats of OCP Microscaling, as plain tables shared by hardware and golden model.

Nothing here is hardware: these are the numbers of the specification. A block is 32 elements with
one E8M0 scale byte ``X`` (value ``2**(X - 127)``, 0xFF is NaN). Every element is an integer ``q``
in the format's own unit; the exponent of that unit is ``e = X - unit_offset``, so an element is
worth ``q * 2**e``.
"""

from __future__ import annotations

import enum

BLOCK = 32
"""Elements that share one scale."""

SCALE_BIAS = 127
"""E8M0 exponent bias."""

SCALE_NAN = 0xFF
"""E8M0 code for not-a-number; the whole block is NaN."""

SCALE_MAX = 254
"""Largest finite E8M0 code."""

E2M1_HALF_UNITS = (0, 1, 2, 3, 4, 6, 8, 12)
"""Magnitude of the E2M1 codes 0 to 7, in half units (code 1 is the value 0.5)."""


class Format(enum.StrEnum):
    """An element format of the matrix engine."""

    MXFP4 = "mxfp4"
    MXINT8 = "mxint8"

    @property
    def planes(self) -> int:
        """Nibble planes of an element: 1 for MXFP4, 2 (high, then low) for MXINT8."""
        return 2 if self is Format.MXINT8 else 1

    @property
    def unit_offset(self) -> int:
        """``X - e``: 128 for MXFP4 (half units), 133 for MXINT8 (1/64 units)."""
        return SCALE_BIAS + (6 if self is Format.MXINT8 else 1)

    @property
    def emax(self) -> int:
        """Exponent of the largest power of two among the elements (OCP MX 6.3): 2 or 0."""
        return 0 if self is Format.MXINT8 else 2

    @property
    def largest_fraction(self) -> int:
        """FP32 fraction field of the largest element: 0x400000 (1.5) or 0x7E0000 (127/64).

        An ``amax`` with a greater fraction saturates under `ScaleRule.FLOOR`.
        """
        return 0x7E0000 if self is Format.MXINT8 else 0x400000


class ScaleRule(enum.StrEnum):
    """How the quantiser chooses a block's scale from its largest magnitude ``amax``.

    ``FLOOR`` is the rule of OCP MX 6.3: the exponent of ``amax`` less `Format.emax`; what lies
    above the largest element then saturates. ``CEIL`` is the smallest scale at which nothing does.
    """

    FLOOR = "floor"
    CEIL = "ceil"


def product_bits(activation: Format, weight: Format) -> int:
    """Return ``B``: a block dot product ``D`` of the two formats obeys ``abs(D) < 2**B``.

    13 for 4x4, 16 for 8x4 and 4x8, 20 for 8x8: 32 products of at most 12 and 128 in magnitude.
    """
    return {2: 13, 3: 16, 4: 20}[activation.planes + weight.planes]
