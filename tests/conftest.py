"""Fixtures that tests of several packages share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def collect_refused() -> Iterator[None]:
    """Let go of refused components while the test's own warning filters still hold."""
    yield
    gc.collect()
