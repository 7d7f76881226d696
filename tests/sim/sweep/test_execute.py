"""Sweeps that are killed, interrupted, started twice, and spread over processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sim.sweep import execute
from sim.sweep.energy import DEFAULT
from sim.sweep.execute import MissingPackage, connect, need
from sim.sweep.run import sweep
from sim.sweep.store import Store
from tests.sim.sweep import fake
from tests.sim.sweep.test_store import intact

ROOT = Path(__file__).parents[3]
TEXT = """
name = "fake"
preset = "nano"
[grid]
lanes = [2, 4, 6, 8]
vec_lanes = [1, 2, 4, 8]
[[workload]]
name = "gemv"
kind = "mac"
"""


@pytest.fixture
def log(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def measured(log: Path) -> Counter[str]:
    return Counter(log.read_text().split()) if log.exists() else Counter()


def start(tmp_path: Path, seconds: float) -> subprocess.Popen[bytes]:
    (tmp_path / "spec.toml").write_text(TEXT)
    command = [sys.executable, "-m", "tests.sim.sweep.fake", str(tmp_path / "spec.toml")]
    return subprocess.Popen(
        [*command, str(tmp_path / "store")],
        cwd=ROOT,
        env=os.environ | {"FAKE_SECONDS": str(seconds)},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )


def wait_for(log: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while sum(measured(log).values()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=20)[1]


def test_a_killed_sweep_goes_on_where_it_was(tmp_path, log: Path) -> None:
    process = start(tmp_path, 0.5)
    wait_for(log, 6)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert gone(family)
    before = sum(measured(log).values())
    with Store(tmp_path / "store") as store:
        kept = len(store.rows())
        # Lost is what was in flight: one that each worker measured, one that waited for it.
        assert before - 4 <= kept < 16
        assert intact(store.path)
        rows = sweep(fake.spec(), store, workers=2, with_measure=fake.measure)
        assert sum(measured(log).values()) == before + 16 - kept
        assert [row.ok for row in rows] == [True] * 16
        # Nothing is left to do: not even workers are started.
        again = sweep(fake.spec(), store, scheduler="tcp://127.0.0.1:1", with_measure=fake.measure)
        assert again == rows


def test_an_interrupted_sweep_ends_what_it_started(tmp_path, log: Path) -> None:
    process = start(tmp_path, 2)
    wait_for(log, 1)
    with Store(tmp_path / "store") as store:
        while not store.rows():
            time.sleep(0.02)
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    assert process.wait(timeout=30) == 130
    assert gone(family)
    with Store(tmp_path / "store") as store:
        assert 1 <= len(store.rows()) < 16
    assert intact(tmp_path / "store")


def test_two_sweeps_on_one_store(tmp_path, log: Path) -> None:
    processes = [start(tmp_path, 0.05) for _ in range(2)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    with Store(tmp_path / "store") as store:
        assert len(store.rows()) == 16
    assert intact(tmp_path / "store")
    assert set(measured(log)) == {row.key[0] for row in Store(tmp_path / "store").rows()}


@pytest.fixture
def cluster(tmp_path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers, each a process of its own."""
    file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    quiet = {"cwd": ROOT, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options = ["--scheduler-file", str(file)]
    processes = [
        subprocess.Popen(
            [*dask, "scheduler", *options, "--host", "127.0.0.1", "--port", "0",
             "--no-dashboard"], **quiet)
    ]  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        processes += [
            subprocess.Popen(
                [*dask, "worker", *options, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                 "--local-directory", str(tmp_path / f"worker{number}")],
                **quiet,
                env=os.environ | {"FAKE_SECONDS": "0.2"})
            for number in range(2)
        ]  # fmt: skip
        yield json.loads(file.read_text())["address"], processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_cluster_that_loses_a_worker(tmp_path, log: Path, cluster) -> None:
    address, workers = cluster

    def kill() -> None:
        wait_for(log, 5)
        workers[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with Store(tmp_path / "store") as store:
        rows = sweep(fake.spec(), store, scheduler=address, with_measure=fake.measure)
    killer.join()
    assert workers[0].wait() == -signal.SIGKILL
    assert [row.ok for row in rows] == [True] * 16
    # What the dead worker had begun was begun again by the other, and nothing else.
    assert 16 <= sum(measured(log).values()) <= 18


def test_a_point_that_kills_workers_is_a_row(tmp_path, log: Path) -> None:
    with Store(tmp_path / "store") as store:
        rows = sweep(fake.spec(), store, workers=2, with_measure=fake.deadly)
    (dead,) = (row for row in rows if not row.ok)
    assert len(rows) == 16
    assert dead.reason == "Workers died while they measured it, one after the other."
    assert (dead.configuration["lanes"], dead.configuration["vec_lanes"]) == (4, 1)


def test_failures_are_kept_until_they_are_asked_for_again(tmp_path, log: Path) -> None:
    spec = fake.spec(grid={"lanes": [2, 3]})
    with Store(tmp_path / "store") as store:
        for retry, total in ((False, 2), (False, 2), (True, 3)):
            rows = sweep(spec, store, workers=1, retry=retry, with_measure=fake.measure)
            assert [row.status for row in rows] == ["ok", "failed"]
            assert sum(measured(log).values()) == total


def test_another_table_of_energies_measures_nothing(tmp_path, log: Path) -> None:
    table = tmp_path / "table.toml"
    table.write_text(DEFAULT.read_text().replace("pj = 0.025", "pj = 2.025"))
    with Store(tmp_path / "store") as store:
        (first,) = sweep(fake.spec(grid={}), store, workers=1, with_measure=fake.measure)
        other = fake.spec(grid={}, energy=str(table))
        (second,) = sweep(other, store, workers=1, with_measure=fake.measure)
    assert second.metrics["energy_pj"] == pytest.approx(first.metrics["energy_pj"] + 2000)
    assert sum(measured(log).values()) == 1


def test_what_is_missing_is_said_in_a_sentence(monkeypatch) -> None:
    monkeypatch.setattr(execute, "TIMEOUT", 1)
    with pytest.raises(MissingPackage) as refused:
        need("no_such_module", "a sweep")
    assert str(refused.value) == (
        "a sweep needs no_such_module, which is not installed; run pip install --group sweep in "
        "the checkout."
    )
    with pytest.raises(ConnectionError, match=r"there is no scheduler at tcp://127\.0\.0\.1:1"):
        connect("tcp://127.0.0.1:1").__enter__()
