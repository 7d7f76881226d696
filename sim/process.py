"""Run a tool of somebody else: its log, its time limit, and the first thing it complains about."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ToolError", "complaint", "execute"]


class ToolError(RuntimeError):
    """A tool is missing, failed, or took too long."""


def execute(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    log: Path,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    pass_fds: Sequence[int] = (),
) -> int:
    """Run a command with its output appended to `log`, and return its exit status.

    The command and all its children end with this call, also when it is interrupted.

    Parameters
    ----------
    command : sequence of str or Path
        Program and arguments; no shell is involved.
    cwd, env : Path, mapping of str to str
        Working directory; environment, by default the present one.
    log : Path
        File that receives both output streams.
    timeout : float, optional
        Seconds after which the command is ended.
    pass_fds : sequence of int
        Open files that it gets, under the same numbers.

    Raises
    ------
    ToolError
        If the command took longer than `timeout`.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            name = Path(command[0]).name
            raise ToolError(f"{name} took longer than {timeout} s; log {log}") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def complaint(what: str, log: Path) -> ToolError:
    """Return an error that quotes the first complaint in a log, as later ones only follow from it.

    Parameters
    ----------
    what : str
        What failed; the first words of the message.
    log : Path
        Where the tool said why. The message names it.
    """
    lines = log.read_text(errors="replace").splitlines()
    words = re.compile(r"error\b|undefined reference|\*\*\*", re.IGNORECASE)
    first = (i for i, line in enumerate(lines) if words.search(line))
    start = next(first, max(0, len(lines) - 10))
    return ToolError("\n".join([f"{what}; log {log}", *lines[start : start + 10]]))
