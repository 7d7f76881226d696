"""The table of results, under everything that can happen to those who write it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sim.sweep.energy import default_table
from sim.sweep.measure import failure
from sim.sweep.points import expand
from sim.sweep.store import Store, StoreError
from tests.sim.sweep.fake import row, spec

ROOT = Path(__file__).parents[3]

WRITER = """
import sys
from dataclasses import replace
from sim.sweep.points import expand
from sim.sweep.store import Store
from tests.sim.sweep.fake import row, spec
point = expand(spec())[0]
first = row(point, cycles=1)
with Store(sys.argv[1]) as store:
    for number in range(int(sys.argv[3])):
        store.put(replace(first, key=(sys.argv[2], str(number), "t")))
        print(number, flush=True)
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def intact(path: Path) -> bool:
    with sqlite3.connect(path) as database:
        return database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_what_is_put_is_there_again(tmp_path) -> None:
    point = expand(spec())[3]
    wanted = row(point, cycles=12, roofline=0.5).priced(default_table())
    with Store(tmp_path / "a" / "s.sqlite") as store:
        assert store.get(wanted.key) is None
        store.put(wanted)
        assert store.get(wanted.key) == wanted
    with Store(tmp_path / "a" / "s.sqlite", existing=True) as store:
        assert store.rows() == [wanted]
    assert "cycles" in wanted.to_dict()["metrics"]


def test_a_failure_never_replaces_a_result(tmp_path) -> None:
    point = expand(spec())[0]
    good = row(point, cycles=12)
    bad = replace(failure(point, "fake", "it broke"), key=good.key)
    with Store(tmp_path / "s") as store:
        store.put(bad)
        assert store.get(good.key).reason == "it broke"
        store.put(good)
        store.put(bad)
        assert store.get(good.key) == good


def test_two_writers_at_once(tmp_path) -> None:
    path = tmp_path / "s"
    writers = [writer(path, name, 100) for name in ("a", "b")]
    assert [process.wait() for process in writers if process.communicate()] == [0, 0]
    with Store(path) as store:
        assert len(store.rows()) == 200
    assert intact(path)


def test_a_killed_writer_loses_nothing_that_it_had_written(tmp_path) -> None:
    path = tmp_path / "s"
    process = writer(path, "a", 100_000)
    assert process.stdout
    for _ in range(30):
        process.stdout.readline()
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    said = 30 + len(process.stdout.read().splitlines())
    process.wait()
    assert intact(path)
    with Store(path) as store:
        assert said <= len(store.rows()) <= said + 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "does not exist; it must be a file that a sweep made."),
        (b"not a database, however long it may be" * 100, "cannot be used as a store"),
        (b"", "holds no results of a sweep."),
    ],
)
def test_what_is_no_store_is_refused(tmp_path, content: bytes | None, sentence: str) -> None:
    path = tmp_path / "s"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError, match=sentence):
        Store(path, existing=True)


def test_another_version_is_refused(tmp_path) -> None:
    path = tmp_path / "s"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 7")
    with pytest.raises(StoreError, match="is of version 7; this release reads and writes 1"):
        Store(path)
