"""A search: it finds what is best, keeps what it measured, and goes on where it was."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from sim.sweep.run import sweep
from sim.sweep.store import Store
from tests.sim.sweep import fake

SEARCH = {
    "trials": 12,
    "batch": 4,
    "sampler": "tpe",
    "maximise": ["gemv.throughput"],
    "minimise": ["gemv.cells"],
    "axes": {"lanes": {"low": 2, "high": 16, "step": 2}, "vec_lanes": [1, 2, 4, 8]},
}


@pytest.fixture
def log(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def study(path: Path) -> optuna.Study:
    return optuna.load_study(study_name="fake", storage=f"sqlite:///{path}")


def test_a_search_goes_on_and_measures_nothing_twice(tmp_path, log: Path) -> None:
    path = tmp_path / "store"
    with Store(path) as store:
        few = sweep(
            fake.spec(grid={}, search=SEARCH | {"trials": 4}),
            store,
            workers=2,
            with_measure=fake.measure,
        )
        study(path).ask()  # of a search that was killed
        rows = sweep(fake.spec(grid={}, search=SEARCH), store, workers=2, with_measure=fake.measure)
        measured = log.read_text().split()
        assert len(measured) == len(set(measured)) == len(rows) == len(store.rows())
        assert {row.key for row in few} <= {row.key for row in rows}
    trials = study(path).get_trials()
    done = [trial for trial in trials if trial.state.name == "COMPLETE"]
    assert len(done) == 11  # twelve with the one that never ended
    found = {(row.metrics["throughput"], row.metrics["cells"]) for row in rows}
    for trial in done:
        assert tuple(trial.values) in found
        assert trial.user_attrs["axes"].keys() == {"lanes", "vec_lanes"}


def test_what_fails_is_a_trial_with_its_reason(tmp_path, log: Path) -> None:
    wanted = SEARCH | {"trials": 3, "axes": {"lanes": [3, 5, 7]}}
    with Store(tmp_path / "store") as store:
        rows = sweep(fake.spec(grid={}, search=wanted), store, workers=1, with_measure=fake.measure)
    assert not any(row.ok for row in rows)
    trials = study(tmp_path / "store").get_trials()
    assert [trial.state.name for trial in trials] == ["FAIL"] * 3
    assert "it must be an even number from 2 to 512." in trials[0].user_attrs["reason"]
