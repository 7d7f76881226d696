"""A sweep from beginning to end, as the command line and Python start it."""

from __future__ import annotations

from sim.progress import Advance, NoProgress, ProgressReporter
from sim.sweep import execute
from sim.sweep.measure import measure
from sim.sweep.points import Point, expand
from sim.sweep.search import search
from sim.sweep.spec import Spec
from sim.sweep.store import Row, Store
from sim.sweep.versions import tools_hash


def sweep(
    spec: Spec,
    store: Store,
    progress: ProgressReporter | None = None,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    retry: bool = False,
    with_measure: execute.Measure = measure,
) -> list[Row]:
    """Measure every point of a sweep that has no result yet, and return the results of all.

    Parameters
    ----------
    spec
        What to measure.
    store
        Where results are, and go.
    progress
        Where to show how far it is.
    scheduler, workers
        See `sim.sweep.execute.connect`.
    retry
        Whether points that failed are measured again.
    with_measure
        What measures a point.

    Raises
    ------
    MissingPackage
        Something is not installed.
    ConnectionError
        There is no scheduler at the address.
    OtherTools
        A worker has other tools or sources.
    """
    progress = progress or NoProgress()
    if spec.search is None and not pending(expand(spec), store, spec, retry):
        return _finished(expand(spec), store)
    with execute.connect(scheduler, workers) as client:

        def run(points: list[Point], advance: Advance = lambda steps: None) -> list[Row]:
            return execute.run(
                points,
                store,
                spec.name,
                spec.table,
                client,
                retry=retry,
                measured=lambda row, fresh: advance(1),
                with_measure=with_measure,
            )

        if spec.search is not None:
            with progress.task(f"searching {spec.name}", spec.search.trials) as advance:
                return search(spec, store, run, lambda: advance(1))
        points = expand(spec)
        with progress.task(f"measuring {spec.name}", len(points)) as advance:
            return run(points, advance)


def pending(points: list[Point], store: Store, spec: Spec, retry: bool = False) -> list[Point]:
    """Return the points that a sweep would measure; energies of others are brought up to date."""
    tools, table = tools_hash(), spec.table
    return [p for p in points if execute.known(store, p, tools, table, retry) is None]


def _finished(points: list[Point], store: Store) -> list[Row]:
    tools = tools_hash()
    rows = [store.get(point.key(tools)) for point in points]
    return [row for row in rows if row is not None]
