"""How numbers become an MX operand: format and scale rule."""

from __future__ import annotations

from dataclasses import dataclass

from rtl.formats import Format, ScaleRule


@dataclass(frozen=True)
class Precision:
    """How FP32 numbers become an MX operand.

    Attributes
    ----------
    format
        Element format.
    rule
        Scale rule.
    """

    format: Format
    rule: ScaleRule = ScaleRule.FLOOR

    def __str__(self) -> str:
        return f"{self.format}/{self.rule}"
