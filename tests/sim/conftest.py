"""What tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sim import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def jalapeno(capfd: pytest.CaptureFixture[str], monkeypatch, tmp_path: Path) -> Run:
    """Return a function that runs the command in an empty directory: status, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JALAPENO_DEBUG", raising=False)
    monkeypatch.setenv("JALAPENO_ENGINE", "golden")  # hardware only where a test is about it

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            cli.main(arguments)
        output = capfd.readouterr()
        return end.value.code, output.out, output.err

    return run
