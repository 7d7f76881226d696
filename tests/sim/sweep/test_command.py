"""`jalapeno sweep` and `jalapeno bench --all` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim import bench
from sim.bench.page import PROMISED, page
from sim.figures import Figure
from sim.sweep import execute
from sim.sweep.store import Store
from tests.sim.conftest import Run

SPEC = """\
name = "two"
title = "Two lanes or three"
preset = "nano"
grid.lanes = [2, 3]
measure.area = false
[[workload]]
name = "gemv"
kind = "mac"
outputs = 64
inputs = 64
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    (tmp_path / "two.toml").write_text(SPEC)
    return "two.toml"


def test_a_sweep_and_again(jalapeno: Run, spec: str) -> None:
    status, out, _ = jalapeno("sweep", spec, "--workers", "1", "--json")
    assert status == 0
    found = json.loads(out)
    assert (found["sweep"], found["store"], found["failed"]) == (
        "two",
        "build/sweeps/two.sqlite",
        1,
    )
    good, bad = found["points"]
    assert good["status"] == "ok"
    assert good["metrics"]["cycles"] > 140
    assert bad["reason"] == "lanes is 3; it must be an even number from 2 to 512."
    with Store(found["store"], existing=True) as store:
        assert len(store.rows()) == 2
    # Again: from the store, as a table.
    status, out, err = jalapeno("sweep", spec)
    assert status == 0
    assert "Two lanes or three" in out
    assert "1 points measured and checked, 1 failed; see jalapeno report" in err


def test_a_plan_measures_nothing(jalapeno: Run, spec: str, tmp_path: Path) -> None:
    status, out, err = jalapeno("sweep", spec, "--dry-run")
    assert (status, err) == (0, "")
    assert "to measure" in out
    assert "refused: lanes is 3" in out
    assert not (tmp_path / "build").exists()
    status, out, _ = jalapeno("sweep", spec, "--dry-run", "--json")
    assert [point["lanes"] for point in json.loads(out)["points"]] == [2, 3]


def test_what_is_missing(jalapeno: Run, spec: str, monkeypatch) -> None:
    def missing(module: str, what: str) -> None:
        raise execute.MissingPackage(f"{what} needs {module}.")

    monkeypatch.setattr(execute, "need", missing)
    assert jalapeno("sweep", spec) == (2, "", "jalapeno: a sweep needs distributed.\n")


def test_refusals(jalapeno: Run, spec: str, tmp_path: Path) -> None:
    status, _, err = jalapeno("sweep", "none.toml")
    assert (status, err) == (2, "jalapeno: none.toml cannot be read: No such file or directory.\n")
    (tmp_path / spec).write_text(SPEC.replace("gemv", ""))
    status, _, err = jalapeno("sweep", spec)
    assert status == 2
    assert err.startswith('jalapeno: two.toml: workload.0.mac.name is "";')
    assert not (tmp_path / "build").exists()


# --- every bench --------------------------------------------------------------------------------


@pytest.fixture
def benches(monkeypatch) -> None:
    def good(config, progress):
        return [Figure("mac.gemm", 0.998, "beats/cycle", "512 × 512", 1.0, 0.97)]

    def bad(config, progress):
        raise OSError("the disk\nis full")

    found = {"mac": bench.Bench("mac", "", good), "hbm": bench.Bench("hbm", "", bad)}
    monkeypatch.setattr(bench, "BENCHES", found)


@pytest.mark.usefixtures("benches")
def test_all_benches(jalapeno: Run) -> None:
    status, out, _ = jalapeno("bench", "--all", "--json", "--preset", "nano")
    assert status == 0
    found = json.loads(out)
    assert found["benches"][0]["figures"][0]["name"] == "mac.gemm"
    assert found["benches"][1] == {"bench": "hbm", "error": "OSError: the disk is full"}
    assert found["tools"]["verilator"]
    status, out, _ = jalapeno("bench", "--all", "--check")
    assert status == 1
    assert "hbm did not run: OSError: the disk is full" in out
    # The page of them.
    lines = "\n".join(page(found))
    assert "| `mac.gemm` | 0.998 beats/cycle | ≥ 0.97 | yes | 0.97 to 0.99" in lines
    assert "| `mac.gemv` | not measured | ≥ 0.97 |  |" in lines
    assert "- `hbm` did not run: OSError: the disk is full" in lines


def test_one_block_or_all(jalapeno: Run) -> None:
    sentence = "jalapeno: --all measures mac too; give one or the other.\n"
    assert jalapeno("bench", "mac", "--all") == (2, "", sentence)


def test_every_promised_figure_is_once_on_the_page() -> None:
    names = [name for name, *_ in PROMISED]
    assert len(names) == len(set(names)) == 25
    assert {name.partition(".")[0] for name in names} == {*bench.BENCHES, "chip", "model"}
