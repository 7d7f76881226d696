"""The cache of everything that is slow to make: simulators, their run-time library, area reports.

An entry is a directory named by a hash of all that went into it. It is filled under another name
and renamed when it is complete: it is there whole or not at all, whoever is interrupted and when.
Deleting the cache costs nothing but time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

__all__ = ["content_key", "directory", "entry"]


def directory() -> Path:
    """Return the cache directory: ``$JALAPENO_CACHE``, or a folder of the user's cache."""
    chosen = os.environ.get("JALAPENO_CACHE")
    return Path(chosen).absolute() if chosen else platformdirs.user_cache_path("jalapeno-rtl")


def content_key(content: Any) -> str:
    """Return a name for `content`, a JSON value: 24 hex digits.

    The order of lists matters, that of dictionaries does not.
    """
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def entry(kind: str, key: str, product: str, make: Callable[[Path], None]) -> tuple[Path, bool]:
    """Return a cached product, and make it first if it is not there.

    Any number of processes may ask for the same entry: one makes it, the others wait.

    Parameters
    ----------
    kind : str
        Folder of the cache, one per kind of entry.
    key : str
        Name of the entry; see `content_key`.
    product : str
        Name of a file or folder in the entry, without which the entry does not count.
    make : callable
        Called with a new, empty directory to fill. It may leave more there than the product. If it
        raises, the directory stays, for its logs, until the same entry is asked for again.

    Returns
    -------
    path : Path
        Path of the product.
    cached : bool
        Whether the entry was there (or another process just made it).
    """
    folder = directory() / kind
    final = folder / key
    if (final / product).exists():
        return final / product, True
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{key}.lock"):
        if (final / product).exists():
            return final / product, True
        # A killed maker may leave child processes that still write. A new name each time keeps them
        # out of this attempt.
        for stale in [final, *folder.glob(f"{key}.*.partial")]:
            shutil.rmtree(stale, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(dir=folder, prefix=f"{key}.", suffix=".partial"))
        make(partial)
        partial.rename(final)
    return final / product, False
