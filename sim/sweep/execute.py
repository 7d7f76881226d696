"""Points measured in parallel by Dask: on this machine, or on a cluster.

Only this process writes results, each as it comes; workers hold nothing that is not lost with them.
A worker that dies has its points measured by others; a point that kills several workers is a row.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sim.sweep.energy import EnergyTable
from sim.sweep.measure import OtherTools, explain, failure, measure
from sim.sweep.points import Point
from sim.sweep.store import Row, Store
from sim.sweep.versions import tools_hash

if TYPE_CHECKING:
    from distributed import Client

Measure = Callable[[Point, str, EnergyTable, str], Row]
"""Measures a point: see `sim.sweep.measure.measure`."""

TIMEOUT = 10
"""Seconds in which a scheduler must answer."""

AHEAD = 2
"""Points that each worker has at a time: one it measures, the rest wait for it."""


class MissingPackage(Exception):
    """Something that is installed on demand is missing; the message is one sentence."""


def need(module: str, what: str) -> Any:
    """Return a module of the group `sweep`.

    Raises
    ------
    MissingPackage
        It is not installed.
    """
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingPackage(
            f"{what} needs {module}, which is not installed; run pip install --group sweep in the "
            "checkout."
        ) from None


@contextlib.contextmanager
def connect(scheduler: str | None = None, workers: int | None = None) -> Iterator[Client]:
    """Connect to a cluster; without an address, start one on this machine.

    Parameters
    ----------
    scheduler
        Address of a Dask scheduler, such as ``tcp://host:8786``.
    workers
        Processes on this machine, by default as many as it has cores.

    Raises
    ------
    MissingPackage
        Dask is not installed.
    ConnectionError
        There is no scheduler at the address.
    """
    distributed = need("distributed", "a sweep")
    if scheduler is not None:
        try:
            client = distributed.Client(scheduler, timeout=TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConnectionError(f"there is no scheduler at {scheduler}: {error}") from None
        with client:
            yield client
        return
    count = workers or os.cpu_count() or 1
    with (
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            memory_limit=0,  # simulators are other processes, which it would not see
            dashboard_address=None,
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        try:
            yield client
        except BaseException:
            _end_jobs([worker.pid for worker in cluster.workers.values()])
            raise


def run(
    points: Sequence[Point],
    store: Store,
    sweep: str,
    table: EnergyTable,
    client: Client,
    *,
    retry: bool = False,
    measured: Callable[[Row, bool], None] = lambda row, fresh: None,
    with_measure: Measure = measure,
) -> list[Row]:
    """Measure points that have no result yet, and return the results of all, in their order.

    Parameters
    ----------
    points
        What to measure.
    store
        Where results are, and go.
    sweep
        Name of the sweep.
    table
        Energies; results that are there are estimated anew with it.
    client
        From `connect`.
    retry
        Whether points that failed are measured again.
    measured
        Called with each result, and whether it is a new one.
    with_measure
        What measures a point.

    Raises
    ------
    OtherTools
        A worker has other tools or sources.
    """
    from distributed import as_completed

    tools = tools_hash()
    waiting = list({point.key(tools): point for point in points}.values())
    running: dict[Any, Point] = {}
    built: set[tuple[str, str]] = set()
    futures = as_completed(loop=client.loop)
    try:
        while waiting or running:
            room = AHEAD * max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
            while waiting and len(running) < room:
                point = _next(waiting, running.values(), built)
                if (row := known(store, point, tools, table, retry)) is not None:
                    measured(row, False)
                    continue
                future = client.submit(
                    with_measure, point, sweep, table, tools, pure=False, key=_name(point)
                )
                running[future] = point
                futures.add(future)
            if running:
                future = next(futures)
                point = running.pop(future)
                row = _result(future, point, sweep)
                built.add(point.build)
                store.put(row)
                measured(row, True)
    finally:
        client.cancel(list(running))
    rows = [store.get(point.key(tools)) for point in points]
    return [row for row in rows if row is not None]


def _next(waiting: list[Point], running: Any, built: set[tuple[str, str]]) -> Point:
    """Take the first point that need not wait for what another is building, or the first."""
    busy = {point.build for point in running} - built
    index = next((i for i, point in enumerate(waiting) if point.build not in busy), 0)
    return waiting.pop(index)


def known(
    store: Store, point: Point, tools: str, table: EnergyTable, retry: bool = False
) -> Row | None:
    """Return the result that is there, if it need not be measured, with the energy of a table."""
    row = store.get(point.key(tools))
    if row is None or (retry and not row.ok):
        return None
    if row.ok and row.energy_table != table.hash:
        row = row.priced(table)
        store.put(row)
    return row


def _result(future: Any, point: Point, sweep: str) -> Row:
    error = future.exception()
    if error is None:
        row: Row = future.result()
        return row
    if isinstance(error, OtherTools):
        raise error
    if type(error).__name__ == "KilledWorker":
        return failure(point, sweep, "Workers died while they measured it, one after the other.")
    return failure(point, sweep, explain(error))


def _name(point: Point) -> str:
    import uuid

    return f"{point.workload.name}-{point.config_hash}-{uuid.uuid4().hex[:8]}"


def _end_jobs(workers: Sequence[int]) -> None:
    """End what workers have started, such as compilers."""
    psutil = need("psutil", "a sweep")  # Dask depends on it
    for worker in workers:
        with contextlib.suppress(psutil.Error):
            for job in psutil.Process(worker).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    job.kill()
