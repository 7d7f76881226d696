"""A search for good configurations: Optuna proposes, the same points are measured and stored.

Optuna keeps its studies in the very file of the results, where `optuna-dashboard` shows them:
``optuna-dashboard sqlite:///results.sqlite``. A search that was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

from sim.sweep.execute import need
from sim.sweep.points import Point, points
from sim.sweep.spec import Search, Spec, domain
from sim.sweep.store import Row, Store

RunPoints = Callable[[list[Point]], list[Row]]
"""Measures points and returns their results in order."""


def search(spec: Spec, store: Store, run: RunPoints, told: Callable[[], None]) -> list[Row]:
    """Try configurations until there are as many as the specification says.

    Parameters
    ----------
    spec
        A sweep with a search.
    store
        Where results are; studies go there too.
    run
        Measures points.
    told
        Called when a trial has ended.

    Returns
    -------
    list of Row
        Results of all trials of the search, this time's and earlier ones'.

    Raises
    ------
    MissingPackage
        Optuna is not installed.
    """
    optuna = need("optuna", "a search")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    wanted = spec.search
    assert wanted is not None
    axes = {axis: domain(axis, values) for axis, values in wanted.axes.items()}
    study = _study(optuna, spec, wanted, store)
    state = optuna.trial.TrialState
    for trial in study.get_trials(states=(state.RUNNING,)):
        study.tell(trial.number, state=state.FAIL)  # of a search that was interrupted
    rows: list[Row] = []
    for trial in study.get_trials(states=(state.COMPLETE, state.FAIL)):
        if "axes" in trial.user_attrs:
            rows += run(points(spec, [trial.user_attrs["axes"]]))
            told()
    while (left := wanted.trials - len(study.get_trials(states=(state.COMPLETE, state.FAIL)))) > 0:
        trials = [study.ask() for _ in range(min(left, wanted.batch))]
        batches = []
        for trial in trials:
            values = {axis: _propose(trial, axis, choices) for axis, choices in axes.items()}
            trial.set_user_attr("axes", values)
            batches.append(points(spec, [values]))
        run([point for batch in batches for point in batch])
        for trial, batch in zip(trials, batches, strict=True):
            found = run(batch)
            rows += found
            _tell(study, trial, found, wanted, state)
            told()
    return list({row.key: row for row in rows}.values())


def _study(optuna: Any, spec: Spec, wanted: Search, store: Store) -> Any:
    samplers = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=wanted.seed, constant_liar=True),
        "nsga2": lambda: optuna.samplers.NSGAIISampler(seed=wanted.seed),
        "random": lambda: optuna.samplers.RandomSampler(seed=wanted.seed),
    }
    study = optuna.create_study(
        study_name=spec.name,
        storage=optuna.storages.RDBStorage(
            f"sqlite:///{store.path}", engine_kwargs={"connect_args": {"timeout": 120}}
        ),
        sampler=samplers[wanted.sampler](),
        directions=[
            "maximize" if objective.maximise else "minimize" for objective in wanted.objectives
        ],
        load_if_exists=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names([*wanted.maximise, *wanted.minimise])
    return study


def _propose(trial: Any, axis: str, choices: list[Any]) -> Any:
    """Return a value for an axis: numbers by rank, so that neighbours are alike."""
    if all(type(choice) in (int, float) for choice in choices):
        ordered = sorted(choices)
        return ordered[trial.suggest_int(axis, 0, len(ordered) - 1)]
    return json.loads(trial.suggest_categorical(axis, [json.dumps(choice) for choice in choices]))


def _tell(study: Any, trial: Any, rows: list[Row], wanted: Search, state: Any) -> None:
    """Tell what came out; without all numbers a trial has failed, and says why."""
    by_label = {row.label: row for row in rows}
    values: list[float] = []
    for objective in wanted.objectives:
        row = by_label.get(objective.workload)
        value = row.metrics.get(objective.metric) if row is not None and row.ok else None
        if row is None or value is None:
            reason = row.reason if row is not None and row.reason else "it was not measured"
            trial.set_user_attr("reason", f"{objective.workload}.{objective.metric}: {reason}")
            study.tell(trial, state=state.FAIL)
            return
        values.append(value)
    study.tell(trial, values)
