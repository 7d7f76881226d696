"""What a test needs that makes components which are refused, and so never elaborated."""

from __future__ import annotations

import pytest

REFUSALS = [
    pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable"),
    pytest.mark.usefixtures("collect_refused"),
]
"""Marks for such a module or test: Amaranth's warning about unused components is not for it."""
